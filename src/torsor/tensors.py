"""What must be a tensor, and an array or a list is not."""

from torch import Tensor

from torsor.kinds import kind_of


def require_tensor(name: str, value: Tensor) -> None:
    """Refuse what is no tensor.

    Raises:
        ValueError: when ``value`` is none, such as an array or a list.
    """
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor, got {kind_of(value)}: torch.as_tensor makes one of numbers")
