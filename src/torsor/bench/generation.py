"""Generation of a looped transformer: a token from the cache against the whole sequence again, by policy and depth."""

from collections.abc import Callable
from typing import Any

import torch

from torsor.bench.harness import Case, compare, growths
from torsor.bench.jobs import FLOAT
from torsor.bench.limits import Limits
from torsor.bench.looped import matrices, useful_flops
from torsor.generation import Budget, CachePolicy, Full, LastLoop, LoopedCache, LoopedReader, Prompts
from torsor.models import LoopedTransformer, parcae_transformer
from torsor.transitions import BlockConformal

VOCABULARY = 2048
BUDGET = 2


def policies(steps: int) -> dict[str, CachePolicy]:
    """The cache policies at a depth, by name."""
    return {"full": Full(steps), "last loop": LastLoop(), f"budget {BUDGET}": Budget(BUDGET)}


def one_token(
    reader: LoopedReader, policy: CachePolicy, steps: int, context: int
) -> tuple[Callable[[], object], LoopedCache]:
    """A call that reads one token after ``context - 1`` others, the same again at every call; and the cache."""
    cache = reader.cache(1, context, policy)
    cache.keys_values.normal_(generator=torch.Generator(cache.keys_values.device).manual_seed(0))
    token = Prompts(torch.zeros(1, dtype=torch.int64, device=cache.keys_values.device), (1,))

    def call() -> None:
        cache.lengths[0] = context - 1  # made-up keys and values stand for the tokens before: time does not tell
        reader.read(token, cache, steps)

    return call, cache


def whole_sequence(model: LoopedTransformer, steps: int, context: int) -> Callable[[], object]:
    """A call that gives the logits after ``context`` tokens without a cache."""
    tokens = torch.randint(VOCABULARY, (1, context), generator=torch.Generator().manual_seed(0))

    def call() -> None:
        with torch.no_grad():
            model(tokens, steps=steps)

    return call


def measure(
    limits: Limits,
    rounds: int = 5,
    width: int = 128,
    contexts: tuple[int, ...] = (128, 256, 1024, 2048, 4096),
    steps: tuple[int, ...] = (1, 4, 8),
    recomputed: int = 1024,
) -> dict[str, Any]:
    """Time one token at every context under every policy, and once more without a cache.

    Args:
        limits: of this machine.
        rounds: turns that each case takes.
        width: of the residual stream of a 1/1/1 model with 4 heads.
        contexts: tokens before and with the one that is read.
        steps: loops; the policies are compared at the most of them, the depths under ``LastLoop``.
        recomputed: the largest context at which the whole sequence is computed, too.

    Returns:
        A row for each context and policy, with the bytes of its cache, beside the whole sequence where that was
        computed; one for each smaller depth at the last context; and how a token's time grows with the context.

    Raises:
        ValueError: when a number is below 1, there is no context or no depth, or the width is not a multiple of 8.
    """
    for name, numbers in (("contexts", contexts), ("steps", steps), ("rounds", (rounds,))):
        if not numbers or min(numbers) < 1 or (name == "contexts" and min(numbers) < 2):
            least = 2 if name == "contexts" else 1
            raise ValueError(f"{name} must be at least {least}, got {', '.join(map(str, numbers)) or 'none'}")
    deepest = max(steps)
    model = parcae_transformer(BlockConformal(width, groups=2), vocabulary=VOCABULARY, heads=4).eval()
    reader = LoopedReader(model)
    cases: dict[str, Case] = {}
    held: dict[str, dict[str, int]] = {}

    def add(name: str, policy: CachePolicy, depth: int, context: int, reference: str | None) -> None:
        call, cache = one_token(reader, policy, depth, context)
        # keys, values and matrices are read at least once
        read = cache.keys_values.nbytes + FLOAT * matrices(model)
        cases[name] = Case(call, token_flops(model, context, depth), read, 1, "tokens", reference)
        held[name] = {"cache_bytes": cache.bytes}

    for context in contexts:
        whole = f"context {context}, whole sequence" if context <= recomputed else None
        if whole is not None:
            useful = useful_flops(model, 1, context, deepest, training=False)
            cases[whole] = Case(whole_sequence(model, deepest, context), useful, items=1, unit="tokens")
        for name, policy in policies(deepest).items():
            add(f"context {context}, {name}", policy, deepest, context, whole)
    last = f"context {contexts[-1]}, last loop"
    for depth in steps:
        if depth != deepest:
            add(f"{last}, {depth} loops", LastLoop(), depth, contexts[-1], last)
    rows = [row | held.get(row["case"], {}) for row in compare(cases, limits, rounds)]
    seconds = {row["case"]: row["seconds"] for row in rows}
    growth = []
    for name in policies(deepest):
        costs = {context: seconds[f"context {context}, {name}"] for context in contexts}
        growth += growths(f"seconds of a token, {name}", "context", costs)
    settings = {"width": width, "loops": deepest, "layers": "1/1/1"}
    return {"settings": settings, "rows": rows, "growth": growth}


def token_flops(model: LoopedTransformer, context: int, steps: int) -> int:
    """Floating-point operations of one token after the others of a context, which attends to all of it."""
    with_it, without = (useful_flops(model, 1, length, steps, training=False) for length in (context, context - 1))
    return with_it - without
