"""When two tensors count as equal."""

import torch

from conftest import TOLERANCE


def assert_close(actual, expected, tolerance=TOLERANCE[torch.float64]):
    """Equal up to a tolerance relative to the largest number that is expected."""
    size = max(1e-300, expected.abs().max().item())
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance * size)
