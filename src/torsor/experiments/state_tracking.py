"""Recurrences that carry a state: word problems learned at one length, read at four times it and streamed beyond."""

from typing import TYPE_CHECKING, Literal

from torsor.experiments.experiment import Experiment, with_defaults
from torsor.experiments.group_names import require_group
from torsor.experiments.recurrent_kinds import RecurrentKind
from torsor.experiments.word_lengths import word_lengths

if TYPE_CHECKING:
    from torsor.experiments.study import Study


def state_tracking(
    *,
    group: str = "S3",
    alphabet: Literal["generators", "all"] = "all",
    length: int = 128,
    model: RecurrentKind = "m2rnn",
    width: int = 32,
    layers: int = 2,
    heads: int = 4,
    key_dim: int = 16,
    value_dim: int = 16,
    hidden: int = 64,
    std: float = 0.3,
    lowest_timestep: float = 0.5,
    highest_timestep: float = 5.0,
    updates: int = 16_000,
    batch: int = 32,
    learning_rate: float = 5e-3,
    weight_decay: float = 0.0,
    warmup: int = 50,
    decay: float = 0.6,
    clip: float = 1.0,
    shortest: int = 16,
    threshold: float = 0.25,
    words: int = 2000,
    stream_length: int = 65_536,
    stream_words: int = 64,
    seed: int = 0,
) -> "Study":
    """Multiply in a finite group with a recurrent model, at the trained length, twice and four times it, and streamed.

    The protocol is ours where the paper's is not known; ``docs/recurrent.md`` says which is which.

    Args:
        group: the finite group: S3, A5, S5, D4, C6, S3xS3, ...
        alphabet: letters: the standard generators, or all elements.
        length: letters of a word in training.
        model: what carries the state; those of group-rnn and group-rnn-from-token are orthogonal matrices.
        width: of the residual stream of m2rnn and rotrnn; of the state of the others.
        layers: of m2rnn and rotrnn.
        heads: states of an m2rnn layer, rates of a rotrnn layer.
        key_dim: rows of a state of m2rnn.
        value_dim: columns of a state of m2rnn.
        hidden: of the position-wise layers of m2rnn; 0 for 8/3 of the width, up to a multiple of 64.
        std: size of the initial matrices of m2rnn.
        lowest_timestep: of the forget gates of m2rnn at the start, 0.001 as published; large ones forget.
        highest_timestep: of the same, 0.1 as published.
        updates: optimizer updates.
        batch: words per update.
        learning_rate: peak rate of AdamW.
        weight_decay: decay of matrices.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        shortest: letters at first, more of them as the loss falls; from the whole length on there is no curriculum.
        threshold: running loss in nats under which words become longer.
        words: held-out words that the trained model is scored on.
        stream_length: letters of each streamed word.
        stream_words: words that are streamed.
        seed: seed of weights and batches.
    """
    from torsor.experiments.recurrent_kinds import RecurrentSizes, recurrent_model
    from torsor.experiments.state_examination import StateExamination
    from torsor.experiments.study import Study
    from torsor.groups import named
    from torsor.tasks import WordProblem
    from torsor.training import LengthCurriculum, Plan, Schedule, adamw

    task = WordProblem(named(group), length, alphabet=alphabet, seed=seed)
    sizes = RecurrentSizes(width, layers, heads, key_dim, value_dim, hidden, std, (lowest_timestep, highest_timestep))
    built, label = recurrent_model(model, sizes, task.vocabulary, task.classes, seed)
    return Study(
        label=label,
        model=built,
        optimizer=adamw(built, learning_rate, weight_decay=weight_decay),
        task=task,
        plan=Plan(
            updates=updates,
            batch=batch,
            clip=clip,
            schedule=Schedule(warmup=warmup, decay=decay),
            curriculum=LengthCurriculum(word_lengths(length, shortest), threshold=threshold),
        ),
        examination=StateExamination(task, words, stream_length, stream_words),
        seed=seed,
    )


STATE_TRACKING = (
    Experiment(
        "recurrent/s3",
        "Word problem in S3 by a recurrent model, learned at length 128, read at 512 and streamed to 65,536.",
        with_defaults(state_tracking, group="S3"),
        presets={"paper": {"updates": 40_000, "batch": 256, "words": 10_000, "stream_words": 256}},
        checks={"group": require_group},
    ),
)
