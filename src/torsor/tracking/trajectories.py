"""States of known class at several horizons, collected from a model: over time, and over depth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.tasks import WordProblem
from torsor.tracking.reading import Chunked, Step, asked_to_read, read
from torsor.tracking.requirements import require_at_least, require_finite
from torsor.tracking.words import word_pieces


@final
@dataclass(frozen=True, eq=False)
class Trajectory:
    """States and their classes at several horizons.

    Args:
        horizons: letters read, or loops made, ascending.
        states: at each horizon.
        labels: the class of each state.

    Raises:
        ValueError: when sizes differ, or the horizons do not ascend from at least 1.
    """

    horizons: tuple[int, ...]
    states: Float[Tensor, "horizons count width"]
    labels: Int[Tensor, "horizons count"]

    def __post_init__(self) -> None:
        require_horizons(self.horizons)
        if (
            self.states.ndim != 3
            or self.labels.shape != self.states.shape[:2]
            or len(self.labels) != len(self.horizons)
        ):
            raise ValueError(
                f"states and labels must be of {len(self.horizons)} horizons and one count, "
                f"got {tuple(self.states.shape)} and {tuple(self.labels.shape)}"
            )


@torch.no_grad()
def over_time(
    model: Step | Chunked, task: WordProblem, horizons: Sequence[int], words: int = 500, window: int = 1
) -> Trajectory:
    """Read words once and keep the states at some positions, whatever lies between.

    Args:
        model: ``(tokens, state) -> (states, state)``, as in ``Stream``; what it returns first is not
            the logits but the state of the model as a vector, "batch width" or "batch length width".
        task: the word problem, whose evaluation words are read.
        horizons: positions, ascending.
        words: how many words; every state of the group must occur among them at every horizon.
        window: how many positions up to each horizon count as it. More than one where a position
            does not see every state: words in one generator are all in the same state.

    Raises:
        ValueError: when horizons do not ascend, a window reaches before the first letter or into
            another, or the model does not return finite states.
    """
    require_at_least(1, words=words, window=window)
    require_horizons(horizons)
    if any(later - earlier < window for earlier, later in zip((0, *horizons), horizons, strict=False)):
        raise ValueError(f"horizons must be at least window = {window} apart and from 0, got {list(horizons)}")
    wanted = sorted(position for horizon in horizons for position in range(horizon - window + 1, horizon + 1))
    piece = model.length if isinstance(model, Chunked) else 256
    kept, labels, state, start = [], [], None, 0
    with asked_to_read(model):
        for batch in word_pieces(task, words, horizons[-1], piece):
            states, state = read(model, batch.tokens, state, task.vocabulary)
            if states.ndim != 3 or states.shape[:2] != batch.tokens.shape:
                raise ValueError(
                    f"the model must return a vector for each of the tokens, {tuple(batch.tokens.shape)}, "
                    f"got {tuple(states.shape)}"
                )
            places = torch.tensor(
                [at - start for at in wanted if start <= at < start + states.shape[1]], dtype=torch.long
            )
            require_finite("states", states[:, places])
            kept.append(states[:, places].clone())  # not a view: it would keep the whole piece
            labels.append(batch.targets[:, places])
            start += states.shape[1]
    together = torch.cat(kept, dim=1).unflatten(1, (len(horizons), window))
    truth = torch.cat(labels, dim=1).unflatten(1, (len(horizons), window))
    return Trajectory(tuple(horizons), together.transpose(0, 1).flatten(1, 2), truth.transpose(0, 1).flatten(1, 2))


@torch.no_grad()
def over_depth(
    states_of: Callable[[Tensor, int], Tensor], task: WordProblem, horizons: Sequence[int], words: int = 500
) -> Trajectory:
    """Keep the states of a looped model at the last position of words, after some numbers of loops.

    Args:
        states_of: ``(tokens, steps) -> states "batch length width"``.
        task: the word problem, whose evaluation words are read.
        horizons: numbers of loops, ascending.
        words: how many words; every state of the group must occur among them.

    Raises:
        ValueError: when horizons do not ascend, or the model does not return finite states.
    """
    require_at_least(1, words=words)
    require_horizons(horizons)
    batch = task.evaluation(words)
    kept = []
    for steps in horizons:
        states = states_of(batch.tokens.clone(), steps)
        if states.ndim != 3 or states.shape[:2] != batch.tokens.shape:
            raise ValueError(
                f"states_of must return a vector for each of the tokens, {tuple(batch.tokens.shape)}, "
                f"got {tuple(states.shape)}"
            )
        require_finite("states", states[:, -1])
        kept.append(states[:, -1].clone())
    return Trajectory(tuple(horizons), torch.stack(kept), batch.targets[:, -1].expand(len(kept), -1))


def require_horizons(horizons: Sequence[int]) -> None:
    """Refuse horizons that do not ascend from at least 1.

    Raises:
        ValueError: with the rule and the values.
    """
    if not horizons or list(horizons) != sorted(set(horizons)) or horizons[0] < 1:
        raise ValueError(f"horizons must ascend from at least 1, got {list(horizons)}")
