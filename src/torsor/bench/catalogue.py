"""Every case of ``torsor bench`` by its name, with what it measures and sizes at which it runs in a moment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from torsor.experiments.experiment import nearest

if TYPE_CHECKING:
    from torsor.bench.limits import Limits

Measure = Callable[..., dict[str, Any]]


@final
@dataclass(frozen=True)
class Listed:
    """A case that can be named.

    Args:
        summary: what it measures, in a line.
        find: gives the function that measures; here, so that a list costs no import of torch.
        quick: sizes at which it ends in a moment and says nothing.
    """

    summary: str
    find: Callable[[], Measure]
    quick: Mapping[str, Any] = field(default_factory=dict)

    def measured(
        self, limits: "Limits", rounds: int | None = None, quick: bool = False, own: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What the case finds.

        Args:
            limits: of this machine, measured in this process.
            rounds: turns of each case; its own number by default, and 1 where it is quick.
            quick: at the sizes that say nothing.
            own: arguments of the case's function, which go before those sizes.
        """
        given = dict(self.quick) if quick else {}
        if rounds is not None or quick:
            given["rounds"] = 1 if rounds is None else rounds
        return self.find()(limits, **given | dict(own or {}))


def _looped() -> Measure:
    from torsor.bench.looped import measure

    return measure


def _looped_depths() -> Measure:
    from torsor.bench.looped_depths import measure

    return measure


def _looped_processes() -> Measure:
    from torsor.bench.looped_processes import measure

    return measure


def _depth_sampling() -> Measure:
    from torsor.bench.depth_sampling import measure

    return measure


def _read_out() -> Measure:
    from torsor.bench.read_out import measure

    return measure


def _training_memory() -> Measure:
    from torsor.bench.training_memory import measure

    return measure


def _conformal_growth() -> Measure:
    from torsor.bench.conformal_growth import measure

    return measure


def _transitions() -> Measure:
    from torsor.bench.transitions import measure

    return measure


def _exponential() -> Measure:
    from torsor.bench.exponential import measure

    return measure


def _group_models() -> Measure:
    from torsor.bench.group_models import measure

    return measure


def _drift() -> Measure:
    from torsor.bench.drift import measure

    return measure


def _linear_scan() -> Measure:
    from torsor.bench.linear_scan import measure

    return measure


def _m2rnn() -> Measure:
    from torsor.bench.m2rnn import measure

    return measure


def _delta_rule() -> Measure:
    from torsor.bench.delta_rule import measure

    return measure


def _generation() -> Measure:
    from torsor.bench.generation import measure

    return measure


def _streaming() -> Measure:
    from torsor.bench.streaming import measure

    return measure


def _checkpoints() -> Measure:
    from torsor.bench.checkpoints import measure

    return measure


def _data_pipeline() -> Measure:
    from torsor.bench.data_pipeline import measure

    return measure


def _start() -> Measure:
    from torsor.bench.start import measure

    return measure


def _floors() -> Measure:
    from torsor.bench.floors import measure

    return measure


_SMALL_STEP = {"widths": (8,), "batch": 2, "length": 3}
CASES: dict[str, Listed] = {
    "looped": Listed(
        "a looped transformer's training step as a share of the matrix peak, and the conformal map",
        _looped,
        _SMALL_STEP | {"product": 16, "carried": (2, 3, 8)},
    ),
    "looped-depths": Listed(
        "the same step at 1 to 32 loops: growth of time and memory",
        _looped_depths,
        _SMALL_STEP | {"depths": (1, 2, 3, 4, 5)},
    ),
    "looped-processes": Listed(
        "the same step by one process of many threads and by many of one, compiled or not",
        _looped_processes,
        _SMALL_STEP | {"steps": 2, "compiled": (False,)},
    ),
    "depth-sampling": Listed(
        "a depth for each sequence with compaction, against all to the largest", _depth_sampling, _SMALL_STEP
    ),
    "read-out": Listed(
        "evaluation at 1, 8, 16, 32 and 48 loops in one pass, against five",
        _read_out,
        {"depths": (1, 2), "words": (8, 2, 3), "text": (8, 1, 3), "vocabulary": 16},
    ),
    "training-memory": Listed(
        "memory of a training step by loops in the gradient and loops executed",
        _training_memory,
        {"width": 8, "batch": 2, "length": 3, "gradients": (1, 2, 3, 4, 5), "executed": (2, 3, 4, 5, 6), "held": 2},
    ),
    "conformal-growth": Listed(
        "a conformal step by width, beside a free matrix",
        _conformal_growth,
        {"widths": (8, 16, 24, 32, 40), "dense_widths": (8, 16, 24, 32, 40), "tokens": 4},
    ),
    "transitions": Listed(
        "building and applying every transition, by width", _transitions, {"dims": (8, 16, 24, 32, 40), "tokens": 4}
    ),
    "exponential": Listed(
        "the exponential of skew matrices beside PyTorch's: time and error of value and gradient",
        _exponential,
        {"cases": ((4, 8, "float32"), (4, 2, "complex64"))},
    ),
    "group-transformer": Listed(
        "a training step of both models on a group, against the same written plainly",
        _group_models,
        {"batch": 2, "context": 3, "width": 3},
    ),
    "drift": Listed("how far a state leaves its group, and what a polish costs", _drift, {"tokens": 20}),
    "linear-scan": Listed(
        "the scan of planes against loops over the tokens, and by length",
        _linear_scan,
        {"batch": 1, "length": 8, "heads": 1, "head_dim": 2, "lengths": (4, 8, 12, 16, 20)},
    ),
    "m2rnn": Listed(
        "the M²RNN recurrence in chunks against loops: time and peak memory",
        _m2rnn,
        {"batch": 1, "length": 8, "heads": 1, "key_dim": 4, "value_dim": 2, "written_length": 4},
    ),
    "delta-rule": Listed(
        "the delta rule in chunks against the loop over its maps",
        _delta_rule,
        {"batch": 1, "length": 4, "heads": 1, "maps": 2, "size": 2},
    ),
    "generation": Listed(
        "tokens per second from each cache, by context and depth, against the whole sequence again",
        _generation,
        {"width": 16, "contexts": (4, 6, 8, 10, 12), "steps": (1, 2)},
    ),
    "streaming": Listed(
        "words read on by recurrent models to a million letters", _streaming, {"words": 2, "length": 8}
    ),
    "data-pipeline": Listed(
        "batches of words and of packed text, in tokens per second",
        _data_pipeline,
        {"words": (2, 4), "rows": (2, 8), "stream": 256, "repeats": 1},
    ),
    "checkpoints": Listed(
        "writing and loading a checkpoint, and its share of training",
        _checkpoints,
        {"widths": (8,), "batch": 2, "length": 3, "steps": 2},
    ),
    "start": Listed(
        "import and --help, each in a process of its own", _start, {"programs": {"import torsor": "import torsor"}}
    ),
    "floors": Listed(
        "the three main jobs beside the operations and bytes that they cannot do without",
        _floors,
        {
            "sizes": {
                "looped": {"width": 8, "batch": 2, "length": 3, "steps": 2},
                "osmformer": {"width": 3, "batch": 2, "context": 3},
                "streaming": {"words": 2, "length": 8, "hidden": 4, "chunk": 4},
            }
        },
    ),
}


def named_cases(names: tuple[str, ...]) -> dict[str, Listed]:
    """The cases of these names in the order of the catalogue; all for none.

    Raises:
        ValueError: when there is no case of a name.
    """
    for name in names:
        if name not in CASES:
            raise ValueError(f"there is no case {name!r}{nearest(name, CASES)}")
    return {name: case for name, case in CASES.items() if not names or name in names}
