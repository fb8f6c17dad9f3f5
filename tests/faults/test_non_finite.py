"""Numbers that are not finite are found at the update where they arise, and named."""

import math
from typing import final

import pytest
import torch
from torch import Tensor, nn

from tiny_training import Echo, equal, plan, state, tensors
from torsor.training import NonFiniteLoss, Plan, TrainState, adamw, train
from torsor.training.non_finite import first_non_finite


@final
class Root(nn.Module):
    """Finite forward at 0, and not finite backward."""

    def forward(self, x: Tensor) -> Tensor:
        return x + (x - x.detach()).abs().sqrt()


@final
class Overflow(nn.Module):
    """Not finite from its third call in training on."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.training
        return x * (math.inf if self.calls > 2 else 1.0)


def trained(model: nn.Module, plan: Plan = plan(8)) -> NonFiniteLoss:  # noqa: B008 - a frozen value
    current = TrainState(model, adamw(model, 0.03))
    before = tensors(current)

    def go_on() -> None:
        nonlocal before
        for _ in train(current, Echo(), plan):
            before = tensors(current)

    with pytest.raises(NonFiniteLoss) as caught:
        go_on()
    assert equal(*({name: each.nan_to_num(7.0) for name, each in held.items()} for held in (tensors(current), before)))
    assert "\n" not in str(caught.value)
    return caught.value


def of(*middle: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(3, 8), nn.Sequential(nn.Linear(8, 8), *middle), nn.Linear(8, 2))


def test_the_module_whose_output_is_not_finite_first_is_named_at_its_update():
    error = trained(of(Overflow(), nn.Tanh(), nn.LayerNorm(8)))
    assert error.update == 3
    assert error.where == "the output of the module 1.1, a Overflow"
    assert str(error).endswith(
        ", not finite first in the output of the module 1.1, a Overflow; the parameters are those before it"
    )


def test_of_a_gradient_that_is_not_finite_the_last_module_that_it_is_right_behind_is_named():
    error = trained(of(Root(), nn.LayerNorm(8)))
    assert error.update == 1
    assert error.where == "the gradient that reaches the output of the module 1.0, a Linear"


def test_a_parameter_that_is_not_finite_is_named_before_all_that_it_spoils():
    model = of(nn.Tanh())
    with torch.no_grad():
        model[1][0].bias[3] = math.nan
    assert trained(model).where == "the parameter bias of the module 1.0"


def test_a_batch_in_parts_is_searched_in_all_of_its_parts():
    parts = Plan(updates=8, batch=5, clip=0.5, parts=5)

    @final
    class OneRow(nn.Module):
        """Spoils the rows of one word."""

        def forward(self, x: Tensor) -> Tensor:
            worst = x.flatten(1).sum(1)
            return x * torch.where(worst > self.limit, math.inf, 1.0)[:, None, None]

    model = of(OneRow())
    model[1][1].limit = math.inf
    words = Echo().batch(0, 5).tokens
    with torch.no_grad():
        model[1][1].limit = float(model[1][0](model[0](words)).flatten(1).sum(1).sort().values[-2])
    assert trained(model, parts).where == "the output of the module 1.1, a OneRow"


def test_where_all_is_finite_nothing_is_named():
    current = state()
    batch = Echo().batch(0, 5)
    assert first_non_finite(current.model, lambda: current.model(batch.tokens).sum()) == ""
