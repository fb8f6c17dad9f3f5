"""Words read on to a million letters: tokens in a second of recurrent models of width 64, checks and words included."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, final

import torch
from torch import Tensor, nn

from torsor.experiments.listening import tell
from torsor.groups import SpecialOrthogonal, named
from torsor.layers import MatrixHeads
from torsor.models import GRU, LSTM, M2RNN, GroupRNN, RotRNN
from torsor.tasks import IGNORED, WordProblem
from torsor.tracking import Chunked, Stream, evaluate, word_pieces

WIDTH, CHUNK = 64, 256
WANTED = 100 * 2**20  # tokens of a whole examination


@final
@dataclass
class _AlwaysRight:
    """A model that is read on as it is and whose answers are put right, so that no word ends early."""

    model: nn.Module
    stream: Stream

    def __post_init__(self) -> None:
        self.pieces = word_pieces(self.stream.task, self.stream.words, self.stream.length, CHUNK)

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = self.model(tokens, state)
        targets = next(self.pieces).targets
        return logits.scatter(-1, targets.where(targets != IGNORED, 0)[..., None], 1e9), state


def measure(words: int = 100, length: int = 2048, rounds: int = 3, group: str = "A5") -> dict[str, Any]:
    """Follow words of a group, read from all its elements, by each model in turn.

    Args:
        words: at least 1.
        length: letters of each.
        rounds: turns that each model takes.
        group: of the word problem.

    Returns:
        For each model the median seconds and CPU seconds per token, and the time of 100 words of 1,048,576.

    Raises:
        ValueError: when a number is below 1 or there is no such group.
    """
    task = WordProblem(named(group), length, "all")
    vocabulary, classes = task.vocabulary, task.classes
    kinds: dict[str, Callable[[], nn.Module]] = {
        "LSTM": lambda: LSTM(vocabulary, WIDTH, classes=classes),
        "GRU": lambda: GRU(vocabulary, WIDTH, classes=classes),
        "RotRNN, 2 blocks": lambda: RotRNN(vocabulary, WIDTH, classes=classes),
        "GroupRNN on SO(8)": lambda: GroupRNN(SpecialOrthogonal(8), vocabulary, classes=classes),
        "M²RNN, 4 states of 16 x 16": lambda: M2RNN(
            vocabulary, WIDTH, 1, MatrixHeads(4, 4, 4, 4, 4, 16, 16), classes=classes
        ),
    }
    models = {name: make().eval() for name, make in kinds.items()}
    stream = Stream(task, length, words)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
    for round_number in range(rounds):
        for place, (name, model) in enumerate(models.items()):
            tell("streaming", round_number * len(models) + place, rounds * len(models))
            started, busy = perf_counter(), process_time()
            found = evaluate(Chunked(_AlwaysRight(model, stream).read, CHUNK), stream)
            seconds[name].append((perf_counter() - started, process_time() - busy))
            if found.joint.hits != words:
                raise ArithmeticError(f"every word must be read to its end, got {found.joint.hits} of {words}")
    rows = []
    for name, taken in seconds.items():
        wall, busy = (sorted(each)[rounds // 2] / (words * (length + 1)) for each in zip(*taken, strict=True))
        rows.append(
            {
                "model": name,
                "seconds_per_token": wall,
                "cpu_seconds_per_token": busy,
                "minutes": wall * WANTED / 60,
                "cpu_minutes": busy * WANTED / 60,
            }
        )
    return {"words": words, "length": length, "rounds": rounds, "threads": torch.get_num_threads(), "rows": rows}
