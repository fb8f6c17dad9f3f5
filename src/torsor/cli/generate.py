"""``torsor generate``: text from a trained model, as it is drawn, and how fast it was."""

import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from torsor.cli.run_folder import require_run
from torsor.cli.whole import WHOLE, MaybeWhole, Whole

if TYPE_CHECKING:
    from torsor.generation import CachePolicy, ExitRule

Count = Annotated[int, Parameter(name=("--characters", "--tokens")), WHOLE]
Top = Annotated[int | None, Parameter(name=("--top", "--top-k")), WHOLE]
Nucleus = Annotated[float | None, Parameter(name=("--nucleus", "--top-p"))]


def generate(
    run: Path | None = None,
    /,
    *,
    prompt: str = "\n",
    characters: Count = 500,
    temperature: float = 1.0,
    top: Top = None,
    nucleus: Nucleus = None,
    seed: Whole = 0,
    steps: str = "",
    cache: str = "",
    residual: float | None = None,
    divergence: float | None = None,
    warm: bool = False,
    threads: MaybeWhole = None,
) -> None:
    """Continue a prompt with the model of a run, token by token; tokens per second go to stderr.

    Args:
        run: run folder of a model of texts; the run may be going on.
        prompt: what is read first.
        characters: how many tokens to draw, which are characters for a model of characters.
        temperature: of the draws; 0 takes the most probable token.
        top: draw among so many most probable tokens; all by default.
        nucleus: draw among the fewest most probable tokens that have this probability together; all by default.
        seed: of the draws.
        steps: loops of a looped model, one text for each: 1,4,8; the mean of its training by default.
        cache: which loops of earlier tokens a looped model keeps: full, last, or a number of them; full by default.
        residual: end a token's loops once its state changes by less than this fraction.
        divergence: end a token's loops once its distribution changes by less, in nats.
        warm: start a token's loops from the last state of the token before.
        threads: threads of PyTorch; those of the machine by default.

    Raises:
        ValueError: when no run is named, or an option does not go with its model.
    """
    if run is None:
        raise ValueError("name a run folder: torsor generate RUN")
    require_run(run)
    depths = _depths(steps)
    from torsor.experiments.generated_text import Loops, generated_text
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.text_model import text_model
    from torsor.generation import Sampling

    sampling = Sampling(temperature, top, nucleus)
    rule = _rule(residual, divergence)
    prepare_machine(threads, run)
    text = text_model(run)
    if not text.trained_steps:
        if depths or cache or rule is not None or warm:
            raise ValueError(
                "steps, cache, residual, divergence and warm go with a looped model, this one has no loops"
            )
        _print(prompt, generated_text(text, prompt, characters, sampling, seed), "")
        return
    for depth in depths or (text.trained_steps,):
        loops = Loops(depth, _policy(cache or "full", depth), rule, warm)
        drawn = generated_text(text, prompt, characters, sampling, seed, loops)
        _print(prompt, drawn, f"{'at most ' * (rule is not None)}{depth} loop{'s' * (depth != 1)}: ")


def _print(prompt: str, drawn: Iterator[str], label: str) -> None:
    """Stream a text to stdout, then say how fast it came on stderr, so that the same seed prints the same."""
    print(prompt, end="", flush=True)
    times = [perf_counter()]
    for piece in drawn:
        print(piece, end="", flush=True)
        times.append(perf_counter())
    print()
    count, first = len(times) - 1, times[1] - times[0]
    rate = f", then {(count - 1) / (times[-1] - times[1]):.1f} tokens/s" if count > 1 else ""
    print(f"{label}first token after {first:.2f} s{rate}", file=sys.stderr)


def _depths(steps: str) -> tuple[int, ...]:
    try:
        depths = tuple(int(each) for each in steps.split(",")) if steps else ()
    except ValueError:
        depths = (0,)
    if any(depth < 1 for depth in depths):
        raise ValueError(f"steps must be whole numbers of at least 1 with commas between them, got {steps!r}")
    return depths


def _policy(name: str, steps: int) -> "CachePolicy":
    from torsor.generation import Budget, Full, LastLoop

    match name:
        case "full":
            return Full(steps)
        case "last":
            return LastLoop()
        case _ if name.isdecimal() and int(name) > 0:
            return Budget(int(name))
    raise ValueError(f"cache must be full, last, or how many loops are kept, got {name!r}")


def _rule(residual: float | None, divergence: float | None) -> "ExitRule | None":
    from torsor.generation import LogitDivergence, RelativeResidual

    if residual is not None and divergence is not None:
        raise ValueError("residual and divergence are two rules, name one of them")
    if residual is not None:
        return RelativeResidual(residual)
    return None if divergence is None else LogitDivergence(divergence)
