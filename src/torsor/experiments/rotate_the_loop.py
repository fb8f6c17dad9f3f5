"""Rotate the Loop: word problems in finite groups, diagonal against blockwise conformal transitions."""

from typing import TYPE_CHECKING, Literal

from torsor.experiments.experiment import Experiment, with_defaults
from torsor.experiments.group_names import require_group
from torsor.experiments.transition_kinds import TransitionKind, transition_of
from torsor.experiments.word_lengths import word_lengths

if TYPE_CHECKING:
    from torsor.experiments.study import Study


def word_problem(
    *,
    group: str = "S3",
    alphabet: Literal["generators", "all"] = "generators",
    length: int = 16,
    transition: TransitionKind = "conformal",
    groups: int = 2,
    frequency_base: float = 10_000.0,
    width: int = 64,
    heads: int = 4,
    core_layers: int = 1,
    smallest_steps: int = 6,
    largest_steps: int = 8,
    mean_steps: float | None = None,
    depth_per: Literal["batch", "sequence"] = "batch",
    grad_steps: int | None = None,
    updates: int = 1000,
    batch: int = 128,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.01,
    warmup: int = 50,
    decay: float = 0.3,
    clip: float = 1.0,
    threshold: float = 0.25,
    words: int = 2000,
    seed: int = 0,
) -> "Study":
    """Multiply in a finite group: read letters, name the product so far at every position.

    The protocol is ours where the paper's is not known; ``docs/papers.md`` says which is which.

    Args:
        group: the finite group: S3, A5, S5, D4, C6, S3xS3, ...
        alphabet: letters: the standard generators, or all elements.
        length: letters of a word.
        transition: what carries the residual between loops; untied rotates with a rate for every plane.
        groups: groups of coordinates that share one rate, for tied, conformal and the charts.
        frequency_base: base of the geometric frequencies, for conformal and untied.
        width: width of the residual stream.
        heads: heads of every attention.
        core_layers: blocks in the loop; prelude and coda have one each.
        smallest_steps: fewest loops of a training batch.
        largest_steps: most loops of a training batch; scored at half of it, at it and at one and a half times it.
        mean_steps: mean of a Poisson number of loops, cut at 1 and at largest_steps, in place of a uniform one.
        depth_per: who draws a number of loops: the batch, or every sequence of it.
        grad_steps: loops that the gradient passes through, the last ones; all by default.
        updates: optimizer updates.
        batch: words per update.
        learning_rate: peak rate of AdamW.
        weight_decay: decay of matrices.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        threshold: running loss in nats under which words become longer.
        words: held-out words that the trained model is scored on.
        seed: seed of weights, batches and depths.
    """
    from torsor.experiments.sampled_depth import SampledDepth
    from torsor.experiments.study import Study
    from torsor.experiments.word_examination import WordExamination, require_tokens
    from torsor.groups import named
    from torsor.models import parcae_transformer
    from torsor.recurrence.depth import Poisson, Uniform
    from torsor.tasks import WordProblem
    from torsor.training import LengthCurriculum, Plan, Schedule, adamw

    task = WordProblem(named(group), length, alphabet=alphabet, seed=seed)
    require_tokens("batch", batch, task)
    depth = Uniform(smallest_steps, largest_steps) if mean_steps is None else Poisson(mean_steps, largest_steps)
    carry, label = transition_of(transition, width, groups, frequency_base, seed)
    model = parcae_transformer(
        carry,
        vocabulary=task.vocabulary,
        classes=task.classes,
        heads=heads,
        layers=(1, core_layers, 1),
        grad_steps=grad_steps,
        seed=seed,
    )
    return Study(
        label=label,
        model=model,
        transition=carry,
        optimizer=adamw(model, learning_rate, betas=(0.9, 0.98), weight_decay=weight_decay),
        task=task,
        plan=Plan(
            updates=updates,
            batch=batch,
            clip=clip,
            schedule=Schedule(warmup=warmup, decay=decay),
            curriculum=LengthCurriculum(word_lengths(length), threshold=threshold),
        ),
        examination=WordExamination(
            task,
            depths=tuple(sorted({max(1, largest_steps // 2), largest_steps, largest_steps * 3 // 2})),
            trained_steps=largest_steps,
            words=words,
        ),
        step=SampledDepth(depth, seed, per_sequence=depth_per == "sequence"),
        seed=seed,
    )


_PAPER = {
    "length": 128,
    "width": 512,
    "smallest_steps": 1,
    "largest_steps": 32,
    "updates": 10_000,
    "batch": 256,
    "learning_rate": 1e-3,
    "warmup": 200,
    "words": 10_000,
}

WORD_PROBLEMS = (
    Experiment(
        "rotate-the-loop/s3",
        "Word problem in S3, the smallest non-abelian group: the demonstration.",
        with_defaults(word_problem, group="S3"),
        presets={"paper": _PAPER},
        checks={"group": require_group},
    ),
    Experiment(
        "rotate-the-loop/a5",
        "Word problem in A5, the smallest non-solvable group: the paper's first table.",
        with_defaults(word_problem, group="A5", width=128, updates=3000, smallest_steps=1),
        presets={"paper": _PAPER},
        checks={"group": require_group},
    ),
    Experiment(
        "rotate-the-loop/s5",
        "Word problem in S5: the paper's harder group.",
        with_defaults(word_problem, group="S5", width=128, updates=3000, smallest_steps=1),
        presets={"paper": _PAPER},
        checks={"group": require_group},
    ),
)
