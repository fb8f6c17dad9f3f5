"""Arguments of the M²RNN recurrence, and what comes of them with a gradient."""

import torch

NAMES = ("q", "k", "v", "weight", "forget", "state")
CLIPS = {"none": {}, "total": {"gradient_clip": 0.2}, "carry": {"gradient_clip": 0.2, "clip_mode": "carry"}}
# how many heads q, k, v, weight and forget have
HEADS = {
    "all equal": (3, 3, 3, 3, 3),
    "one": (1, 1, 1, 1, 1),
    "multi-value, as published": (1, 1, 6, 6, 6),
    "multi-query": (6, 1, 1, 1, 1),
    "multi-key": (1, 6, 1, 1, 1),
    "one weight and one gate": (2, 4, 4, 1, 1),
    "most weights": (1, 2, 3, 6, 2),
    "most gates": (2, 1, 1, 3, 6),
}


def arguments(length, heads=(2, 2, 2, 2, 2), batch=2, key_dim=3, value_dim=4, dtype=torch.float64, sequences=None):
    q, k, v, w, f = heads
    made = (
        torch.randn(batch, length, q, key_dim),
        torch.randn(batch, length, k, key_dim),
        torch.randn(batch, length, v, value_dim),
        torch.randn(w, value_dim, value_dim) / 2,
        torch.rand(batch, length, f),
        torch.rand(sequences or batch, max(heads), key_dim, value_dim) * 2 - 1,
    )
    return [each.to(dtype).requires_grad_() for each in made]


def results(function, given, **options):
    """Outputs, last state, and the gradient of some weighing of both."""
    outputs, state = function(*given, **options)
    generator = torch.Generator().manual_seed(1)
    weighed = [(each * torch.randn(each.shape, generator=generator)).sum() for each in (outputs, state)]
    return outputs, state, *torch.autograd.grad(sum(weighed), given)
