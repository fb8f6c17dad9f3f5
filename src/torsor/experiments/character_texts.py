"""The texts that a character model can be trained on: two named ones, or a file of one's own."""

from pathlib import Path

from torsor.experiments.experiment import nearest

NAMED = ("tiny-shakespeare", "penn-treebank")


def require_text(text: str) -> None:
    """Refuse what is neither the name of a text nor a file, without reading it.

    Raises:
        ValueError: when it is none; the nearest right name is told.
    """
    if text in NAMED or Path(text).is_file():
        return
    if Path(text).is_dir():
        raise ValueError(f"text must be {' or '.join(NAMED)} or one UTF-8 file, got the folder {text!r}")
    raise ValueError(f"text must be {' or '.join(NAMED)} or a UTF-8 file, got {text!r}{_hint(text)}")


def character_texts(text: str) -> tuple[str, ...]:
    """The text, in three parts where it comes in three files; otherwise one, which is to be cut.

    Args:
        text: the name of a data set, or the path of a UTF-8 file, of which no character is changed.

    Raises:
        ValueError: when there is no such text, its checksum is not right, or it is not UTF-8.
    """
    from torsor.text import read_text, texts_of

    require_text(text)
    if text in NAMED:
        return texts_of(text)
    return (read_text(Path(text)),)


def _hint(text: str) -> str:
    return nearest(text, NAMED) if "/" not in text and "." not in text else ", which is not there"
