"""What to install where a package that another program brings is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

MISSING = "models for Hugging Face need the packages transformers and tokenizers: pip install 'torsor[hf]'"


@contextmanager
def hugging_face_needed() -> Iterator[None]:
    """Turn a missing package of the extra ``hf`` into one line that says what to install.

    Raises:
        ImportError: in place of the one inside.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in {"transformers", "tokenizers"}:
            raise
        raise ImportError(MISSING) from error


def require_hugging_face() -> None:
    """Ask for the packages of the extra ``hf`` before anything else is done.

    Raises:
        ImportError: when one is missing.
    """
    with hugging_face_needed():
        import tokenizers
        import transformers

        del tokenizers, transformers
