"""Learned trackers: word problems learned on short words first, and proven at every length where that is possible."""

from typing import TYPE_CHECKING, Literal

from torsor.experiments.experiment import Experiment, with_defaults
from torsor.experiments.group_names import require_group
from torsor.experiments.tracker_kinds import DEFAULTS, TrackerKind

if TYPE_CHECKING:
    from torsor.experiments.study import Study


def tracking(
    *,
    group: str = "A5",
    alphabet: Literal["generators", "all"] = "all",
    length: int = 128,
    held_out: float = 0.05,
    model: TrackerKind = "codes",
    width: int | None = None,
    layers: int | None = None,
    updates: int = 1000,
    batch: int = 256,
    learning_rate: float | None = None,
    weight_decay: float = 0.0,
    warmup: int = 20,
    decay: float = 0.3,
    clip: float = 1.0,
    threshold: float = 0.15,
    words: int = 1000,
    stream_length: int = 65_536,
    stream_words: int = 100,
    seed: int = 0,
) -> "Study":
    """Learn to multiply in a finite group, with nothing set by hand, and ask whether what was learned is exact.

    Args:
        group: the finite group: S3, A5, S5, D4, C6, S3xS3, ...
        alphabet: letters: the standard generators, or all elements.
        length: letters of a word in training: 1 at first, and 2, 3, 4, 6, 8, 12, ... as the loss falls.
        held_out: share of the ordered pairs of letters that training never sees side by side; 0 for none.
        model: what carries the state. codes and group-codes snap it to the nearest of a learned finite set.
        width: of vectors, or of the matrices of group-codes, group-rnn and rotations; by default the model's own.
        layers: of m2rnn, delta-product and transformer; by default the model's own.
        updates: optimizer updates.
        batch: words per update.
        learning_rate: peak rate of AdamW; by default the model's own.
        weight_decay: decay of matrices.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        threshold: running loss in nats under which words become longer; a large one leaves no curriculum.
        words: held-out words that the trained model is scored on.
        stream_length: letters of each streamed word.
        stream_words: words that are streamed.
        seed: seed of weights and batches; the held-out pairs are the same for all seeds.
    """
    from torsor.experiments.study import Study
    from torsor.experiments.tracker_kinds import tracker
    from torsor.experiments.tracking_examination import TrackingExamination
    from torsor.groups import named
    from torsor.tasks import WordProblem
    from torsor.tracking import HeldOutPairs, choose_pairs
    from torsor.training import LengthCurriculum, Plan, Schedule, adamw

    own = DEFAULTS[model]
    width, layers = (usual if given is None else given for given, usual in ((width, own.width), (layers, own.layers)))
    rate = own.learning_rate if learning_rate is None else learning_rate
    task = WordProblem(named(group), length, alphabet=alphabet, seed=seed)
    pairs = HeldOutPairs(task, choose_pairs(task, held_out)) if held_out else None
    built, label = tracker(model, len(task.letters), task.classes, width, layers, seed)
    return Study(
        label=label,
        model=built,
        optimizer=adamw(built, rate, betas=(0.9, 0.98), weight_decay=weight_decay),
        task=pairs or task,
        plan=Plan(
            updates=updates,
            batch=batch,
            clip=clip,
            schedule=Schedule(warmup=warmup, decay=decay),
            curriculum=LengthCurriculum(_lengths(length), threshold=threshold),
        ),
        examination=TrackingExamination(
            task, pairs, words, stream_length, stream_words, carries_state=model != "transformer"
        ),
        seed=seed,
    )


def _lengths(length: int) -> tuple[int, ...]:
    """One to four letters, then half as many more and twice as many in turn up to 96, then the whole word."""
    stages = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
    return (*(each for each in stages if each < length), length)


_AT_ONCE = 100.0  # nats, under which every loss is: the whole word from the first updates on

TRACKING = (
    Experiment(
        "tracking/a5",
        "Learned trackers of A5, the smallest non-solvable group, proven at every length where that is possible.",
        tracking,
        presets={"paper": {"words": 10_000, "stream_length": 2**20}},
        checks={"group": require_group},
    ),
    Experiment(
        "tracking/s5",
        "Learned trackers of S5.",
        with_defaults(tracking, group="S5"),
        presets={"paper": {"words": 10_000, "stream_length": 2**20}},
        checks={"group": require_group},
    ),
    Experiment(
        "cosets/plateau",
        "A small transformer tells the cosets of the commutator subgroup apart and nothing inside them.",
        with_defaults(
            tracking,
            group="A4",
            model="transformer",
            length=32,
            held_out=0.0,
            updates=4000,
            batch=64,
            threshold=_AT_ONCE,
        ),
        presets={
            "paper": {"length": 100, "width": 256, "learning_rate": 5e-5, "updates": 74_219, "batch": 256, "decay": 1.0}
        },
        checks={"group": require_group},
    ),
    Experiment(
        "cosets/passage",
        "A GRU that solves A5 after it has passed stages at which it knows cosets, of subgroups not normal too.",
        with_defaults(
            tracking,
            model="gru",
            length=32,
            held_out=0.0,
            updates=6000,
            batch=256,
            threshold=2.0,
            stream_length=4096,
        ),
        presets={
            "paper": {
                "length": 100,
                "width": 512,
                "learning_rate": 3e-4,
                "updates": 16_000,
                "batch": 256,
                "threshold": _AT_ONCE,
            }
        },
        checks={"group": require_group},
    ),
)
