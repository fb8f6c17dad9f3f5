"""``torsor bench streaming``: how long an examination to a million letters takes."""

import json

from rich.table import Table

from torsor.cli.consoles import wide_console
from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole


def streaming(
    *,
    words: Whole = 100,
    length: Whole = 2048,
    rounds: Whole = 3,
    group: str = "A5",
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
) -> None:
    """Words read on by recurrent models of width 64: tokens in a second, and the time of 100 words of 1,048,576.

    Args:
        words: that are read together.
        length: letters of each.
        rounds: turns that each model takes.
        group: of the word problem, read from all its elements.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
    """
    from torsor.bench.streaming import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(words, length, rounds, group)
    if as_json:
        print(json.dumps(content))
        return
    heads = ("width 64", "tokens/s", "CPU µs a token", "100 words of 1,048,576", "CPU time")
    table = Table(*heads, box=None, pad_edge=False)
    for row in content["rows"]:
        table.add_row(
            row["model"],
            f"{1 / row['seconds_per_token']:,.0f}",
            f"{1e6 * row['cpu_seconds_per_token']:.2f}",
            f"{row['minutes']:.1f} min",
            f"{row['cpu_minutes']:.1f} min",
        )
    console = wide_console()
    sizes = f"{words} words of {length} letters of {group}"
    console.print(f"{sizes}, float32, {content['threads']} threads; medians of {rounds} rounds")
    console.print(table)
