"""Pages know their own kind: a file that is no page of torsor's is never written over."""

from pathlib import Path

# the second is the explorer's title, by which its pages of before they had the mark are known
_MARKS = (b'<meta name="generator" content="torsor">', b"<title>torsor: geometry explorer</title>")
_HEAD = 4096  # bytes in which the mark stands


def replaces_page(path: Path) -> bool:
    """Whether a page that is written to ``path`` takes the place of an earlier one.

    Args:
        path: where a page is to be written.

    Raises:
        ValueError: when something else is there.
    """
    try:
        if path.is_dir():
            raise ValueError(f"cannot write {path}: it is a folder, name a file in it, such as {path / 'page.html'}")
        if not path.exists():
            return False
        head = b""
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(_HEAD)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from error
    if not (head.lstrip().lower().startswith(b"<!doctype html>") and any(mark in head for mark in _MARKS)):
        raise ValueError(
            f"out must be a new file or a page that torsor wrote, {path} is neither: name another file, or move it away"
        )
    return True
