"""A run folder that was typed: refused at once where it is none, before torch is imported."""

from pathlib import Path

from torsor.advice import no_run


def require_run(run: Path) -> None:
    """Refuse what is no run folder; whether it can be read is seen when it is.

    Args:
        run: as typed.

    Raises:
        ValueError: when it has no ``run.json``.
    """
    if not (run / "run.json").is_file():
        raise ValueError(no_run(run))
