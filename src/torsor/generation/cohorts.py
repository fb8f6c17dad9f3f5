"""Prompts of different lengths through a model that knows one length: rows of one length travel together."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.generation.prompt_reader import PromptReader
from torsor.generation.prompts import Prompts
from torsor.generation.stepwise import Stepwise, read_piece


@final
@dataclass(frozen=True)
class Cohort:
    """Rows whose states lie in one batch.

    Args:
        rows: their places among the prompts.
        state: of the model, for them.
    """

    rows: Int[Tensor, "rows"]
    state: Any


@final
@dataclass(frozen=True)
class InCohorts(PromptReader):
    """Read every prompt by itself, together with those of its length; padding never reaches the model.

    After the prompts, rows whose states have one shape are joined: all of them for a recurrent model, those of
    one length for a model whose state grows.

    Args:
        model: its states are tensors, or tuples of such, whose first axis is the batch.
    """

    model: Stepwise

    @torch.no_grad()
    def begin(self, prompts: Prompts) -> tuple[Float[Tensor, "batch classes"], tuple[Cohort, ...]]:
        by_length: dict[int, list[int]] = defaultdict(list)
        for row, length in enumerate(prompts.lengths):
            by_length[length].append(row)
        each = prompts.rows()
        cohorts, logits = [], []
        for rows in by_length.values():
            last, state = read_piece(
                self.model, torch.stack([each[row] for row in rows]), self.model.initial_state(len(rows))
            )
            cohorts.append(Cohort(torch.tensor(rows, device=last.device), state))
            logits.append(last)
        return _in_order(cohorts, logits), _joined(cohorts)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch"], state: tuple[Cohort, ...]
    ) -> tuple[Float[Tensor, "batch classes"], tuple[Cohort, ...]]:
        count = sum(len(cohort.rows) for cohort in state)
        if tokens.shape != (count,):
            raise ValueError(f"tokens must be one for each of the state's {count} rows, got {tuple(tokens.shape)}")
        cohorts, logits = [], []
        for cohort in state:
            now, after = self.model.step(tokens[cohort.rows], cohort.state)
            cohorts.append(Cohort(cohort.rows, after))
            logits.append(now)
        return _in_order(cohorts, logits), tuple(cohorts)


def _in_order(cohorts: list[Cohort], logits: list[Tensor]) -> Tensor:
    return torch.cat(logits)[torch.cat([cohort.rows for cohort in cohorts]).argsort()]


def _joined(cohorts: Iterable[Cohort]) -> tuple[Cohort, ...]:
    alike: dict[Any, list[Cohort]] = defaultdict(list)
    for cohort in cohorts:
        alike[_shape_of(cohort.state)].append(cohort)
    return tuple(
        Cohort(torch.cat([each.rows for each in group]), _cat([each.state for each in group]))
        for group in alike.values()
    )


def _shape_of(state: Any) -> Any:
    """The shapes of a row's part of a state."""
    return tuple(state.shape[1:]) if isinstance(state, Tensor) else tuple(_shape_of(part) for part in state)


def _cat(states: list[Any]) -> Any:
    if isinstance(states[0], Tensor):
        return torch.cat(states)
    return tuple(_cat(list(parts)) for parts in zip(*states, strict=True))
