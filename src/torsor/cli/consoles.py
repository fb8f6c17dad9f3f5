"""Where tables are printed."""

from rich.console import Console


def wide_console() -> Console:
    """A terminal at its own width; a pipe, which has none, at one that folds no row. Brackets are brackets."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=160)
