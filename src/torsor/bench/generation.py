"""Generation of a looped transformer: a token from the cache against the whole sequence again, by policy and depth."""

from collections.abc import Callable
from itertools import product
from typing import Any

import torch

from torsor.bench.clock import take_turns
from torsor.generation import Budget, CachePolicy, Full, LastLoop, LoopedReader, Prompts
from torsor.models import LoopedTransformer, parcae_transformer
from torsor.transitions import BlockConformal

VOCABULARY = 2048
BUDGET = 2


def policies(steps: int) -> dict[str, CachePolicy]:
    """The cache policies at a depth, by name."""
    return {"full": Full(steps), "last loop": LastLoop(), f"budget {BUDGET}": Budget(BUDGET)}


def one_token(reader: LoopedReader, policy: CachePolicy, steps: int, context: int) -> tuple[Callable[[], object], int]:
    """A call that reads one token after ``context - 1`` others, the same again at every call; and the cache's bytes."""
    cache = reader.cache(1, context, policy)
    cache.keys_values.normal_(generator=torch.Generator(cache.keys_values.device).manual_seed(0))
    token = Prompts(torch.zeros(1, dtype=torch.int64, device=cache.keys_values.device), (1,))

    def call() -> None:
        cache.lengths[0] = context - 1  # made-up keys and values stand for the tokens before: time does not tell
        reader.read(token, cache, steps)

    return call, cache.bytes


def whole_sequence(model: LoopedTransformer, steps: int, context: int) -> Callable[[], object]:
    """A call that gives the logits after ``context`` tokens without a cache."""
    tokens = torch.randint(VOCABULARY, (1, context), generator=torch.Generator().manual_seed(0))

    def call() -> None:
        with torch.no_grad():
            model(tokens, steps=steps)

    return call


def measure(
    width: int = 128,
    contexts: tuple[int, ...] = (128, 1024, 4096),
    steps: tuple[int, ...] = (1, 4, 8),
    rounds: int = 5,
    recomputed: int = 1024,
) -> dict[str, Any]:
    """Time one token at every context under every policy, and once more without a cache.

    Args:
        width: of the residual stream of a 1/1/1 model with 4 heads.
        contexts: tokens before and with the one that is read.
        steps: loops; the policies are compared at the most of them, the depths under ``LastLoop``.
        rounds: turns that each case takes.
        recomputed: the largest context at which the whole sequence is computed, too.

    Returns:
        A plain dictionary. For each context and policy: tokens per second, bytes of the cache, the time over that at
        the first context, and where it was measured the time of the whole sequence over that of a token, with its
        quartiles. For each depth: tokens per second at the last context.

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
    named, held, rows = {}, {}, []
    for context, (name, policy) in product(contexts, policies(deepest).items()):
        case = f"{name} {context}"
        named[case], held[case] = one_token(reader, policy, deepest, context)
    named |= {f"depth {each}": one_token(reader, LastLoop(), each, contexts[-1])[0] for each in steps}
    named |= {f"whole {each}": whole_sequence(model, deepest, each) for each in contexts if each <= recomputed}
    timings = take_turns(named, rounds)
    for context, name in product(contexts, policies(deepest)):
        case = f"{name} {context}"
        row: dict[str, Any] = {
            "context": context,
            "policy": name,
            "tokens_per_second": 1 / timings.median(case),
            "cache_bytes": held[case],
            "over_first": timings.ratio(case, f"{name} {contexts[0]}")[0],
        }
        if context <= recomputed:
            ratio, low, high = timings.ratio(f"whole {context}", case)
            row |= {"whole_over_token": ratio, "quartiles": [low, high]}
        rows.append(row)
    depths = [{"steps": each, "tokens_per_second": 1 / timings.median(f"depth {each}")} for each in steps]
    return {
        "width": width,
        "steps": deepest,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rows": rows,
        "depths": depths,
    }
