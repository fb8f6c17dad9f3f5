"""What each transition costs: to build its map once in a forward pass, and to apply it to tokens at every step."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torsor.bench.harness import Case, compare, growths
from torsor.bench.limits import Limits
from torsor.maps import Dense, Diagonal, LinearMap, ScaledRotation
from torsor.maps import Householder as Reflections
from torsor.training.memory import keep_freed_memory
from torsor.transitions import BlockConformal, BlockDecay, Cayley, Exponential, Free, Householder, Transition

BASELINE = "conformal, 2 groups"
REFLECTIONS, ONE_BY_ONE = "dim reflections", "apply one by one"
STEPS = 8
PASS = f"{STEPS} steps"
GROWING = ("build", PASS, ONE_BY_ONE)

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


def measure(
    limits: Limits, rounds: int = 12, dims: tuple[int, ...] = (32, 64, 128, 256, 512), tokens: int = 4096
) -> dict[str, Any]:
    """Time building and applying every transition: each alone, and a whole pass with its gradient.

    Args:
        limits: of this machine.
        rounds: of the turns that the cases take.
        dims: widths of the state, positive multiples of 8.
        tokens: how many states one application carries.

    Returns:
        For each width and transition a row to build the map, to build it and take the gradient through that, to
        apply it once, and of a pass of 8 steps (build, apply, take the gradient of parameters and state); each beside
        the conformal map's; and how building and that pass grow with the width.

    Raises:
        ValueError: when a width is not a positive multiple of 8, or a count is below 1.
    """
    for dim in dims:
        if dim < 8 or dim % 8:
            raise ValueError(f"dims must be positive multiples of 8, got {dim}")
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, got {tokens}")
    keep_freed_memory()
    rows, seconds = [], defaultdict[str, dict[int, float]](dict)
    for dim in dims:
        found = compare({f"dim {dim}, {name}": case for name, case in _cases(dim, tokens).items()}, limits, rounds)
        rows += found
        for row in found:
            seconds[row["case"].removeprefix(f"dim {dim}, ")][dim] = row["seconds"]
    grow = [each for name, costs in seconds.items() if name.endswith(GROWING) for each in growths(name, "dim", costs)]
    return {"settings": {"tokens": tokens}, "rows": rows, "growth": grow}


def _cases(dim: int, tokens: int) -> dict[str, Case]:
    state = torch.randn(tokens, dim, requires_grad=True)
    builders: dict[str, tuple[Build, list[Tensor]]] = {
        name: (transition, list(transition.parameters())) for name, transition in transitions(dim).items()
    }
    for name, count in {"dim / 8 reflections": dim // 8, REFLECTIONS: dim}.items():
        builders[name] = reflections(dim, count)
    cases = {}
    for name, (build, parameters) in builders.items():
        for use, case in _uses(build, parameters, state).items():
            reference = None if name == BASELINE else f"dim {dim}, {BASELINE}: {use}"
            cases[f"{name}: {use}"] = replace(case, reference=reference)
    vectors = builders[REFLECTIONS][1][0]
    one = torch.no_grad()(lambda: one_by_one(state, vectors))
    cases[f"{REFLECTIONS}: {ONE_BY_ONE}"] = Case(one, reference=f"dim {dim}, {REFLECTIONS}: apply")
    return cases


def _uses(build: Build, parameters: list[Tensor], state: Tensor) -> dict[str, Case]:
    carry = build()
    some = torch.randn(1, carry.dim)  # one state needs the whole map
    applied = operations(carry) * len(state)

    def pass_through() -> None:
        built, x = build(), state
        for _ in range(STEPS):
            x = built(x)
        _gradient(x, [state, *parameters])

    # In a loop a block stands between two steps. So no power of the map takes their place, and each step reads a
    # state and writes one; on the way back it reads that and the cotangent, writes one, and has two such products.
    given = [state, *parameters]
    return {
        "build": Case(build),
        "build and gradient": Case(lambda: _gradient(build()(some), parameters)),
        "apply": Case(lambda: carry(state), applied, 2 * state.nbytes),
        PASS: Case(pass_through, 3 * STEPS * applied, 5 * STEPS * state.nbytes, given=given),
    }


def operations(carry: LinearMap) -> int:
    """What carrying one state takes at least: two for each multiply-add, six for each product of complex numbers."""
    match carry:
        case Diagonal():
            return carry.dim
        case ScaledRotation():
            return 3 * carry.dim
        case Reflections():  # of many, the whole matrix is the cheaper
            return min(4 * carry.vectors.shape[-2] * carry.dim, 2 * carry.dim**2)
        case Dense():
            return 2 * carry.dim**2 // carry.groups
        case _:
            return 0


def _gradient(output: Tensor, inputs: list[Tensor]) -> None:
    inputs = [each for each in inputs if each.requires_grad]
    torch.autograd.grad(output, inputs, torch.ones_like(output), allow_unused=True)  # the input gain is not used
