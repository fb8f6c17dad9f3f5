"""The benches of models whose states lie on a group: how fast a training step is, and how far states drift."""

import json
from pathlib import Path

from cyclopts import App
from rich.console import Console
from rich.table import Table

from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole


def register(app: App) -> None:
    """Put these benches among the sub-commands of ``torsor bench``."""
    app.command(group_transformer)
    app.command(drift)


def group_transformer(
    *,
    rounds: Whole = 3,
    batch: Whole = 64,
    context: Whole = 128,
    width: Whole = 16,
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
) -> None:
    """A training step of both models on O(d), attention and recurrence, beside the same models written plainly.

    Args:
        rounds: turns that each form takes.
        batch: sequences of a step.
        context: tokens of each.
        width: of the matrices.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
    """
    from torsor.bench.group_models import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(rounds, batch, context, width)
    if as_json:
        print(json.dumps(content))
        return
    heads = ("model", "parameters", "plain", "ours", "times as fast", "losses apart")
    table = Table(*heads, box=None, pad_edge=False)
    for row in content["rows"]:
        low, high = row["quartiles"]
        table.add_row(
            *(row["model"], f"{row['parameters']:,}"),
            *(f"{row[each] * 1e3:.0f} ms" for each in ("plain_seconds", "seconds")),
            *(f"{row['ratio']:.1f} ({low:.1f} to {high:.1f})", f"{row['difference']:.1e}"),
        )
    console = Console(highlight=False, width=120)
    sizes = ", ".join(f"{name} {content[name]}" for name in ("batch", "context", "width"))
    console.print(f"training step: {sizes}, float32, {content['threads']} threads; medians of {rounds} rounds")
    console.print(table)


def drift(
    run: Path | None = None,
    *,
    tokens: Whole = 100_000,
    rounds: Whole = 5,
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
) -> None:
    """How far a recurrent state leaves its group over many tokens, with and without a polish, and what one costs.

    Args:
        run: a finished run of a recurrent group model, read on its validation text; fresh models on random tokens
            otherwise.
        tokens: of the sequence.
        rounds: turns that a token and a polish take.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
    """
    from torsor.bench.drift import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(tokens, rounds, run)
    if as_json:
        print(
            json.dumps(
                content | {"rows": [row | {"polish_beyond": str(row["polish_beyond"])} for row in content["rows"]]}
            )
        )
        return
    bits = ("bits",) if content["of_a_run"] else ()
    heads = ("group", "polished beyond", "largest |H*H - I|", "last", *bits, "a token", "a polish", "a look")
    table = Table(*heads, box=None, pad_edge=False)
    for row in content["rows"]:
        table.add_row(
            row["group"],
            "never" if row["polish_beyond"] == float("inf") else f"{row['polish_beyond']:.0e}",
            *(f"{row[each]:.1e}" for each in ("largest", "last")),
            *(f"{row[each]:.5f}" for each in bits),
            *(f"{row[each] * 1e6:.0f} µs" for each in ("token_seconds", "polish_seconds", "look_seconds")),
        )
    console = Console(highlight=False, width=130)
    console.print(
        f"{tokens:,} tokens, float32, {content['threads']} threads; times of a batch of 64, medians of {rounds}"
    )
    console.print(table)
