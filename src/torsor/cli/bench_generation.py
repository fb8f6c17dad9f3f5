"""``torsor bench generation``: what a token costs with a cache, and without one."""

import json

from rich.console import Console
from rich.table import Table

from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole


def generation(
    *,
    width: Whole = 128,
    contexts: tuple[int, ...] = (128, 1024, 4096),
    steps: tuple[int, ...] = (1, 4, 8),
    rounds: Whole = 5,
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
) -> None:
    """A token of a looped transformer from its cache, by context, policy and depth, against the whole sequence again.

    Args:
        width: of the residual stream; 1/1/1 layers, 4 heads, one sequence.
        contexts: tokens with the one that is read.
        steps: loops; the policies are compared at the most of them.
        rounds: turns that each case takes.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
    """
    from torsor.bench.generation import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(width, contexts, steps, rounds)
    if as_json:
        print(json.dumps(content))
        return
    table = Table("context", "cache", "tokens/s", "over the first", "whole over token", "quartiles", "memory", box=None)
    for row in content["rows"]:
        low, high = row.get("quartiles", (0, 0))
        whole = [f"{row['whole_over_token']:.1f}", f"{low:.1f} to {high:.1f}"] if high else ["", ""]
        rate, longer = f"{row['tokens_per_second']:.0f}", f"{row['over_first']:.2f}"
        table.add_row(str(row["context"]), row["policy"], rate, longer, *whole, f"{row['cache_bytes'] / 1e6:.1f} MB")
    console = Console(highlight=False, width=120)
    console.print(f"width {width}, {content['steps']} loops, float32, {content['threads']} threads; {rounds} rounds")
    console.print(table)
    rates = ", ".join(f"{each['steps']}: {each['tokens_per_second']:.0f}" for each in content["depths"])
    console.print(f"tokens/s by loops at {contexts[-1]} tokens, last loop kept: {rates}")
