"""Rotate the Loop: language models, diagonal against blockwise conformal transitions."""

from typing import TYPE_CHECKING, Literal

from torsor.experiments.experiment import Experiment
from torsor.experiments.transition_kinds import TransitionKind, transition_of

if TYPE_CHECKING:
    from torsor.experiments.study import Study
    from torsor.models import LoopedTransformer
    from torsor.tasks import LastWords
    from torsor.text import Tokenizer

Size = Literal["60M", "140M", "370M"]
# width, blocks of prelude, core and coda each, heads: 60.30, 144.32 and 388.00 million parameters
SIZES: dict[Size, tuple[int, int, int]] = {"60M": (512, 1, 4), "140M": (768, 2, 6), "370M": (1024, 4, 8)}
TOKENS_PER_PARAMETER = 80  # as published at every size


def language(
    *,
    size: Size = "60M",
    shrink: int = 4,
    text: str = "tiny-shakespeare",
    entries: int = 2048,
    transition: TransitionKind = "conformal",
    groups: int = 2,
    frequency_base: float = 10_000.0,
    values: Literal["aligned", "published", "none"] = "aligned",
    mean_steps: float = 8.0,
    largest_steps: int = 24,
    grad_steps: int = 4,
    context: int = 256,
    batch: int = 16,
    parts: int = 1,
    updates: int | None = None,
    optimizer: Literal["muon", "adamw"] = "muon",
    learning_rate: float = 8e-3,
    weight_decay: float = 0.0,
    warmup: int = 0,
    decay: float = 0.5,
    clip: float = 1.0,
    precision: Literal["float32", "bfloat16"] = "float32",
    recompute: bool = False,
    positions: int = 780_288,
    lambada: bool = False,
    seed: int = 0,
) -> "Study":
    """Train a looped language model and score it at every depth.

    Args:
        size: the published layout: width, blocks and heads.
        shrink: the width is the published one over this.
        text: a data set, a text file, or a folder made by torsor data prepare.
        entries: of the byte pairs that are learned from a data set or a text file.
        transition: what carries the residual between loops; untied rotates with a rate for every plane.
        groups: groups of coordinates that share one rate, for tied, conformal and the charts.
        frequency_base: base of the geometric frequencies, for conformal and untied.
        values: layers that read value embeddings: every second one, the published code's own, or none.
        mean_steps: mean of the Poisson number of loops of each sequence.
        largest_steps: most loops of a sequence.
        grad_steps: loops that the gradient passes through, the last ones.
        context: tokens of a row.
        batch: rows per update.
        parts: into how many parts a batch is cut that are computed one after another.
        updates: optimizer updates; by default as many as 80 tokens per parameter take.
        optimizer: muon for hidden matrices and AdamW for all else, or AdamW alone.
        learning_rate: peak rate of both.
        weight_decay: decay of matrices.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        precision: of the layers' matrix products; the state, rates and maps are always in float32.
        recompute: compute each loop again in the backward pass, for less memory.
        positions: of held-out text that are scored, at most.
        lambada: score the last words of LAMBADA too.
        seed: seed of weights, batches and depths.
    """
    import torch

    from torsor.experiments.language_data import bytes_of, language_data
    from torsor.experiments.language_examination import LanguageExamination
    from torsor.experiments.sampled_depth import SampledDepth
    from torsor.experiments.study import Study
    from torsor.models import AlignedValues, PublishedValues, parcae_transformer
    from torsor.recurrence.depth import Poisson
    from torsor.tasks import HeldOutText, PackedTokens
    from torsor.training import Plan, Schedule, SingleProcess

    width, layers, heads = SIZES[size]
    if shrink < 1 or width % (2 * heads * shrink):
        raise ValueError(f"shrink must divide {width // (2 * heads)}, got {shrink}")
    if not 1 <= mean_steps <= largest_steps:
        raise ValueError(f"mean_steps must be in 1 .. largest_steps = {largest_steps}, got {mean_steps}")
    data = language_data(text, entries)
    tokenizer = data.tokenizer
    task = PackedTokens(data.training, data.validation, context, tokenizer.vocabulary, tokenizer.special, seed)
    carry, label = transition_of(transition, width // shrink, groups, frequency_base, seed)
    model = parcae_transformer(
        carry,
        vocabulary=tokenizer.vocabulary,
        heads=heads,
        layers=(layers, layers, layers),
        value_embeddings={"aligned": AlignedValues(), "published": PublishedValues(), "none": None}[values],
        grad_steps=grad_steps,
        recompute=recompute,
        seed=seed,
    )
    if updates is None:
        parameters = sum(p.numel() for p in model.parameters())
        updates = -(-TOKENS_PER_PARAMETER * parameters // (batch * context))
    held_out, few = (
        HeldOutText(data.validation, context, tokenizer.special, bytes_of(tokenizer), min(positions, most))
        for most in (positions, 16 * context)
    )
    return Study(
        label=f"{size}{f' / {shrink}' if shrink > 1 else ''}, {label}",
        model=model,
        transition=carry,
        optimizer=_optimizer(optimizer, model, learning_rate, weight_decay),
        task=task,
        plan=Plan(updates=updates, batch=batch, clip=clip, schedule=Schedule(warmup=warmup, decay=decay), parts=parts),
        examination=LanguageExamination(
            data.record,
            held_out,
            few,
            _last_words(tokenizer) if lambada else None,
            depths=DEPTHS,
            trained_steps=round(mean_steps),
        ),
        step=SampledDepth(Poisson(mean_steps, largest_steps), seed, per_sequence=True),
        engine=SingleProcess(torch.bfloat16 if precision == "bfloat16" else None),
        seed=seed,
        data={name: value for name, value in data.record.items() if name.endswith("sha256")},
    )


DEPTHS = (1, 4, 8, 16, 32, 48)


def _optimizer(kind: Literal["muon", "adamw"], model: "LoopedTransformer", learning_rate: float, weight_decay: float):
    from torsor.training import adamw, muon

    match kind:
        case "muon":
            # what enters and leaves the loop is moved by AdamW, as published
            apart = (model.inject, model.coda.enter)
            return muon(model, learning_rate, by_adamw=apart, weight_decay=weight_decay, scale="published")
        case "adamw":
            return adamw(model, learning_rate, betas=(0.8, 0.95), weight_decay=weight_decay)


def _last_words(tokenizer: "Tokenizer") -> "LastWords":
    from torsor.tasks import LastWords, passages_of
    from torsor.text import path_of, read_text

    (path,) = path_of("lambada")
    return LastWords(passages_of(read_text(path)), tokenizer.encode, tokenizer.begin)


LANGUAGE = (
    Experiment(
        "rotate-the-loop/language",
        "Language modelling at the published sizes: perplexity and LAMBADA at 1 to 48 loops.",
        language,
        presets={
            "laptop": {"updates": 500},
            "paper": {
                "shrink": 1,
                "text": "",
                "entries": 32_768,
                "context": 2048,
                "batch": 256,
                "parts": 8,
                "precision": "bfloat16",
                "recompute": True,
                "lambada": True,
            },
        },
    ),
)
