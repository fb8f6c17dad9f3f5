"""The depth of every row: one number for all, or one for each."""

from jaxtyping import Int
from torch import Tensor


def depths_of(steps: int | Int[Tensor, "batch"], batch: int) -> list[int]:
    """Loops of each of ``batch`` rows.

    Raises:
        ValueError: when there is not one integer of at least 1 for each row.
    """
    depths = steps.tolist() if isinstance(steps, Tensor) else [steps] * batch
    if isinstance(steps, Tensor) and (steps.shape != (batch,) or steps.is_floating_point()):
        raise ValueError(f"steps as a tensor must hold one integer for each of {batch} rows, got {tuple(steps.shape)}")
    for each in depths:
        if isinstance(each, bool) or not isinstance(each, int) or each < 1:
            raise ValueError(f"steps must be an integer of at least 1, got {each!r}")
    return depths
