"""Where numbers first stopped being finite: a parameter, what a module gave, or a gradient."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn


def non_finite_parameter(model: nn.Module) -> str:
    """The first parameter or buffer that is not finite, in words; nothing where all are."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if not _finite(tensor):
            kind = "parameter" if isinstance(tensor, nn.Parameter) else "buffer"
            module, _, own = name.rpartition(".")
            return f"the {kind} {own} of the module {module or 'at the top'}"
    return ""


def first_non_finite(model: nn.Module, loss: Callable[[], Tensor]) -> str:
    """The first thing that is not finite, in words: among parameters, then forward, then backward.

    The forward and backward pass are made once more, watched; they draw what they drew before. Gradients
    are left as the watched pass leaves them, and parameters as they were.

    Args:
        model: whose modules are watched.
        loss: computes the loss that was not finite, or whose gradient was not.

    Returns:
        Such as "the output of the module core.0.attention"; nothing where the second pass is finite.
    """
    if found := non_finite_parameter(model):
        return found
    forward: list[str] = []
    backward: list[str] = []

    def look(name: str, module: nn.Module, inputs: object, output: object) -> None:
        tensors = _tensors(output)
        if not all(_finite(each) for each in tensors):
            forward.append(f"the output of the module {name or 'at the top'}, a {type(module).__name__}")
        for each in tensors:
            if each.requires_grad:
                each.register_hook(partial(look_back, name, module))

    def look_back(name: str, module: nn.Module, gradient: Tensor) -> None:
        if not _finite(gradient):
            where = f"the module {name or 'at the top'}, a {type(module).__name__}"
            backward.append(f"the gradient that reaches the output of {where}")

    hooks = [module.register_forward_hook(partial(look, name)) for name, module in model.named_modules()]
    try:
        value = loss()
        if forward:  # the hooks of inner modules are called first
            return forward[0]
        if not _finite(value):
            return "the loss, while the outputs of all modules are finite"
        model.zero_grad()
        value.backward()
    finally:
        for hook in hooks:
            hook.remove()
    if backward:
        return backward[0]
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not _finite(parameter.grad):
            return f"the gradient of the parameter {name}"
    return ""


def _tensors(output: object) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, tuple | list):
        return [tensor for each in output for tensor in _tensors(each)]
    return []


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
