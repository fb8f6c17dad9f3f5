"""What each transition costs: to build its map once in a forward pass, and to apply it to tokens at every step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torsor.bench.clock import take_turns
from torsor.maps import Householder as Reflections
from torsor.maps import LinearMap
from torsor.training.memory import keep_freed_memory
from torsor.transitions import BlockConformal, BlockDecay, Cayley, Exponential, Free, Householder, Transition

BASELINE = "conformal, 2 groups"
STEPS = 8

Build = Callable[[], LinearMap]


def transitions(dim: int) -> dict[str, Transition]:
    """Every kind of transition of one width, by the name of its row."""
    return {
        "diagonal": BlockDecay(dim, groups=dim),
        BASELINE: BlockConformal(dim, groups=2),
        "Cayley, 1 group": Cayley(dim),
        "Cayley, 2 groups": Cayley(dim, groups=2),
        "Householder, 1 group": Householder(dim),
        "Householder, 2 groups": Householder(dim, groups=2),
        "exponential, 1 group": Exponential(dim),
        "exponential, 2 groups": Exponential(dim, groups=2),
        "free matrix": Free(dim),
    }


def reflections(dim: int, count: int) -> tuple[Build, list[Tensor]]:
    """Build the map that never forms its matrix, of that many reflections; and what it is built of."""
    vectors, scale = torch.randn(count, dim, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    return lambda: Reflections(vectors, scale), [vectors, scale]


def one_by_one(x: Tensor, vectors: Tensor) -> Tensor:
    """The reflections of the rows of ``vectors``, the last one first, each applied to all states."""
    for v in vectors.flip(0):
        x = torch.addr(x, x @ v, v, alpha=-2 / float(v @ v))
    return x


def measure(dims: tuple[int, ...] = (64, 256, 512), tokens: int = 4096, rounds: int = 12) -> dict[str, Any]:
    """Time building and applying every transition: each alone, and a whole pass with its gradient.

    Args:
        dims: widths of the state, positive multiples of 8.
        tokens: how many states one application carries.
        rounds: of the turns that the cases take.

    Returns:
        A plain dictionary: for each width and transition the median seconds to build the map, to build it
        and take the gradient through that, to apply it once, and of a pass of 8 steps (build, apply, take
        the gradient of parameters and state); and that pass over the conformal map's in the same round,
        with quartiles.

    Raises:
        ValueError: when a width is not a positive multiple of 8, or a count is below 1.
    """
    for dim in dims:
        if dim < 8 or dim % 8:
            raise ValueError(f"dims must be positive multiples of 8, got {dim}")
    if tokens < 1 or rounds < 1:
        raise ValueError(f"tokens and rounds must be at least 1, got {tokens} and {rounds}")
    keep_freed_memory()
    rows = [row for dim in dims for row in _rows(dim, tokens, rounds)]
    return {"threads": torch.get_num_threads(), "torch": torch.__version__, "tokens": tokens, "rows": rows}


def _rows(dim: int, tokens: int, rounds: int) -> list[dict[str, Any]]:
    builders: dict[str, tuple[Build, list[Tensor]]] = {
        name: (transition, list(transition.parameters())) for name, transition in transitions(dim).items()
    }
    for count in (dim // 8, dim):
        builders[f"as {count} reflections, jointly"] = reflections(dim, count)
    state = torch.randn(tokens, dim, requires_grad=True)
    uses: dict[str, Callable[[], object]] = {}
    for name, (build, parameters) in builders.items():
        uses |= {f"{name}: {use}": call for use, call in _uses(build, parameters, state).items()}
    timings = take_turns(uses, rounds)
    rows = []
    for name in builders:
        ratio, low, high = timings.ratio(f"{name}: pass", f"{BASELINE}: pass")
        seconds = {use: timings.median(f"{name}: {use}") for use in ("build", "build_gradient", "apply", "pass")}
        row = {"dim": dim, "transition": name, **seconds, "over_conformal": ratio, "quartiles": [low, high]}
        rows.append(row | timings.spread(f"{name}: pass", f"{BASELINE}: pass"))
    with torch.no_grad():
        vectors = torch.randn(dim, dim)
        slow = take_turns({"": lambda: one_by_one(state, vectors)}, min(rounds, 3)).median("")
    return [*rows, {"dim": dim, "transition": f"as {dim} reflections, one by one", "apply": slow}]


def _uses(build: Build, parameters: list[Tensor], state: Tensor) -> dict[str, Callable[[], object]]:
    carry = build()
    some = torch.randn(1, carry.dim)  # one state needs the whole map

    def pass_through() -> None:
        built, x = build(), state
        for _ in range(STEPS):
            x = built(x)
        _gradient(x, [state, *parameters])

    return {
        "build": build,
        "build_gradient": lambda: _gradient(build()(some), parameters),
        "apply": lambda: carry(state),
        "pass": pass_through,
    }


def _gradient(output: Tensor, inputs: list[Tensor]) -> None:
    inputs = [each for each in inputs if each.requires_grad]
    torch.autograd.grad(output, inputs, torch.ones_like(output), allow_unused=True)  # the input gain is not used
