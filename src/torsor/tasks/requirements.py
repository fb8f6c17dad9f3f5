"""What tasks accept as numbers."""

from torsor.kinds import shown


def require_at_least_one(**values: int) -> None:
    """Refuse what is not an integer of at least 1.

    Raises:
        ValueError: with the name, the rule and the value.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be an integer of at least 1, got {shown(value)}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def require_64_bits(**values: int) -> None:
    """Refuse what is not an integer of 64 bits without a sign.

    Raises:
        ValueError: with the name, the rule and the value.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
            raise ValueError(f"{name} must be an integer in 0 .. 2**64 - 1, got {shown(value)}")
