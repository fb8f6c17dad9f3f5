"""How far from the identity a chart starts."""

import math

INITIAL_SPREAD = 0.2  # radians per step: as much as the planes of BlockConformal turn at base 10,000, root mean square


def require_spread(spread: float, largest: float = math.inf) -> None:
    """Refuse what is not an initial spread.

    Raises:
        ValueError: when ``spread`` is negative, not finite, or larger than ``largest``.
    """
    if not (0 <= spread <= largest and math.isfinite(spread)):
        rule = "finite and at least 0" if largest == math.inf else f"from 0 to {largest:.4f}"
        raise ValueError(f"spread must be {rule}, got {spread}")
