"""The name of a finite group, refused before torch is imported."""


def require_group(name: str) -> None:
    """Refuse what is not the name of a finite group.

    Raises:
        ValueError: when it is none; the nearest right name is told.
    """
    from torsor.groups.names import named

    named(name)
