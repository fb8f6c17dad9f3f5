"""How a test damages a file: one bit, or its end."""

from pathlib import Path


def flip(path: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    """Leave the last byte away."""
    path.write_bytes(path.read_bytes()[:-1])
