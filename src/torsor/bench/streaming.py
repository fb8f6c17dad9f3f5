"""Words read on to a million letters: tokens in a second of recurrent models of width 64, checks and words included."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any, final

from torch import Tensor, nn

from torsor.bench.harness import Case, compare
from torsor.bench.jobs import streaming_tracking
from torsor.bench.limits import Limits
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


def measure(limits: Limits, rounds: int = 3, words: int = 100, length: int = 2048, group: str = "A5") -> dict[str, Any]:
    """Follow words of a group, read from all its elements, by each model in turn.

    Args:
        limits: of this machine.
        rounds: turns that each model takes.
        words: at least 1.
        length: letters of each.
        group: of the word problem.

    Returns:
        A row for each model with the CPU seconds of a token, and the minutes of 100 words of 1,048,576 letters.

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
    job, stream = streaming_tracking(words, length, WIDTH, CHUNK, group), Stream(task, length, words)
    busy: dict[str, list[float]] = {name: [] for name in kinds}
    cases = {}
    for name, make in kinds.items():
        call = _reading(make().eval(), stream, busy[name])
        # tokens, answers and logits are of all; the operations were counted of the LSTM
        cases[name] = Case(call, job.operations if name == "LSTM" else 0, job.moved, items=job.tokens, unit="tokens")
    rows = compare(cases, limits, rounds)
    for row in rows:
        seconds = median(busy[row["case"]][1:]) / job.tokens  # without the warm-up
        row |= {"minutes": row["seconds"] / job.tokens * WANTED / 60}
        row |= {"cpu_seconds": seconds, "cpu_minutes": seconds * WANTED / 60}
    settings = {"words": words, "length": length, "group": group, "width": WIDTH}
    settings |= {"CPU seconds": "of a token", "minutes": "of 100 words of 1,048,576 letters"}
    return {"settings": settings, "rows": rows}


def _reading(model: nn.Module, stream: Stream, busy: list[float]) -> Callable[[], None]:
    """A call that reads all words to their end, and adds its CPU seconds."""

    def call() -> None:
        started = process_time()
        found = evaluate(Chunked(_AlwaysRight(model, stream).read, CHUNK), stream)
        busy.append(process_time() - started)
        if found.joint.hits != stream.words:
            raise ArithmeticError(f"every word must be read to its end, got {found.joint.hits} of {stream.words}")

    return call
