"""``torsor bench``: timings, as ratios within one run."""

from typing import Any

from cyclopts import App
from rich.console import Console
from rich.table import Table

from torsor.cli import bench_cases, bench_generation, bench_groups, bench_streaming
from torsor.cli.bench_content import OutFile, hand_out, ratio_words
from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole

app: App = App(name="bench", help="Time parts of torsor, beside the machine's own limits measured in the same run.")
bench_cases.register(app)
bench_groups.register(app)
app.command(bench_generation.generation)
app.command(bench_streaming.streaming)


@app.command
def looped(
    *,
    widths: tuple[int, ...] = (128, 512),
    rounds: Whole = 12,
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
    out: OutFile = None,
) -> None:
    """A looped transformer's training step as a share of the matrix peak, and the conformal map against the diagonal.

    Args:
        widths: of the residual stream; batch 64, length 64, 8 loops, 1/1/1 layers.
        rounds: turns that each case takes.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
        out: a file for the JSON.
    """
    from torsor.bench.looped import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(widths, rounds)
    if hand_out(content, as_json, out):
        return
    table = Table("width", "step", "useful", "matrix peak", "share of it", "turn by turn", box=None, pad_edge=False)
    for row in content["training_step"]:
        table.add_row(
            str(row["width"]),
            f"{row['step_seconds'] * 1e3:.0f} ms",
            f"{row['useful_gflop']:.1f} GFLOP",
            f"{row['gemm_gflops']:.0f} GFLOP/s",
            f"{row['share_of_peak']:.2f}",
            ratio_words(row["paired"]["median"], row["paired"]["interval"], row["paired"]["hidden"]),
        )
    console = Console(highlight=False)
    console.print(f"training step: batch 64, length 64, 8 loops, 1/1/1 layers, float32, {content['threads']} threads")
    console.print(table)
    pair = content["conformal_over_diagonal"]
    words = ratio_words(pair["ratio"], pair["interval"], pair["hidden"])
    console.print(f"conformal map over diagonal, forward, (64, 128, 512): {words}")


@app.command
def transitions(
    *,
    dims: tuple[int, ...] = (64, 256, 512),
    tokens: Whole = 4096,
    rounds: Whole = 12,
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
    out: OutFile = None,
) -> None:
    """What each transition costs: to build its map, to apply it once, and a pass of 8 steps with its gradient.

    Args:
        dims: widths of the state, multiples of 8.
        tokens: states that one application carries.
        rounds: turns that each case takes.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
        out: a file for the JSON.
    """
    from torsor.bench.transitions import STEPS, measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(dims, tokens, rounds)
    if hand_out(content, as_json, out):
        return
    heads = ("dim", "transition", "build", "with gradient", "apply", f"{STEPS} steps", "over conformal")
    table = Table(*heads, box=None, pad_edge=False)
    for row in content["rows"]:
        columns = ("build", "build_gradient", "apply", "pass")
        times = [f"{row[use] * 1e3:.2f} ms" if use in row else "" for use in columns]
        table.add_row(str(row["dim"]), row["transition"], *times, *_ratio(row))
    console = Console(highlight=False, width=120)
    console.print(f"{content['tokens']} tokens, float32, {content['threads']} threads; medians of {rounds} rounds")
    console.print(table)


@app.command
def exponential(
    *,
    rounds: Whole = 5,
    norm: float = 4.0,
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
    out: OutFile = None,
) -> None:
    """The exponential of skew matrices beside PyTorch's: time of value and gradient, and the errors of both.

    Args:
        rounds: turns that each case takes.
        norm: of the largest matrix in each batch.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
        out: a file for the JSON.
    """
    from torsor.bench.exponential import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(rounds, norm)
    if hand_out(content, as_json, out):
        return
    heads = ("dim", "batch", "numbers", "PyTorch", "ours", "times as fast", "error", "PyTorch's", "of gradient", "its")
    table = Table(*heads, box=None, pad_edge=False)
    for row in content["rows"]:
        table.add_row(
            *(str(row[each]) for each in ("dim", "batch", "numbers")),
            *(f"{row[each] * 1e3:.1f} ms" for each in ("reference_seconds", "seconds")),
            ratio_words(row["ratio"], row["interval"], row["hidden"], 1),
            *(f"{row[each]:.1f}" for each in ("error", "reference_error")),
            *(f"{row[each]:.1e}" for each in ("gradient_error", "reference_gradient_error")),
        )
    console = Console(highlight=False, width=130)
    console.print(
        f"exponential and its gradient, norms up to {norm:g}, {content['threads']} threads; medians of {rounds} rounds;"
        " errors in epsilon max(1, norm), and relative"
    )
    console.print(table)


@app.command
def m2rnn(
    *,
    batch: Whole = 4,
    length: Whole = 1024,
    heads: Whole = 8,
    rounds: Whole = 5,
    written_length: Whole = 128,
    threads: MaybeWhole = 1,
    as_json: JsonFlag = False,
    out: OutFile = None,
) -> None:
    """The M²RNN recurrence in chunks against loops: time of a pass with its gradient, peak memory, differences.

    Args:
        batch: sequences.
        length: elements of each sequence.
        heads: states of 64 x 16 of each sequence.
        rounds: turns that each case takes.
        written_length: length at which a loop that writes its states by index is timed, too; 0 for none.
        threads: threads of PyTorch.
        as_json: print JSON for programs.
        out: a file for the JSON.
    """
    from torsor.bench.m2rnn import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(batch, length, heads, rounds=rounds, written_length=written_length)
    if hand_out(content, as_json, out):
        return
    heads_of_table = (
        "length",
        "clip",
        "",
        "forward",
        "with gradient",
        "over chunks",
        "peak",
        "over chunks",
    )
    table = Table(*heads_of_table, box=None, pad_edge=False)
    for row in content["rows"]:
        for name, case in row["cases"].items():
            table.add_row(
                *(str(row["length"]), str(row["gradient_clip"] or "none"), name),
                *(f"{case[seconds] * 1e3:.0f} ms" for seconds in ("forward_seconds", "seconds")),
                ratio_words(case["over_chunks"], case["interval"], case["hidden"]),
                *(f"{case['peak_bytes'] / 1e6:.1f} MB", f"{case['memory_over_chunks']:.2f}"),
            )
    console = Console(highlight=False, width=120)
    sizes = ", ".join(f"{name} {content[name]}" for name in ("batch", "heads", "key_dim", "value_dim"))
    console.print(f"{sizes}, float32, {content['threads']} threads; medians of {rounds} rounds")
    console.print(table)
    largest = max(max(row["differences"].values()) for row in content["rows"])
    console.print(f"largest difference from the careful loop, of outputs, states and gradients: {largest:.1e}")


@app.command
def linear_scan(
    *,
    batch: Whole = 4,
    length: Whole = 4096,
    heads: Whole = 8,
    head_dim: Whole = 32,
    rounds: Whole = 5,
    lengths: tuple[int, ...] = (1024, 4096, 16384, 65536, 262144),
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
    out: OutFile = None,
) -> None:
    """The scan of planes against loops over the tokens: time of a pass with its gradient, memory, differences.

    Args:
        batch: sequences.
        length: tokens of each sequence.
        heads: of the state.
        head_dim: coordinates of a head, even.
        rounds: turns that each case takes.
        lengths: of one sequence each, at which the scan alone is timed too.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.
        out: a file for the JSON.
    """
    from torsor.bench.linear_scan import measure
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    content = measure(batch, length, heads, head_dim, rounds, lengths)
    if hand_out(content, as_json, out):
        return
    console = Console(highlight=False, width=120)
    sizes = ", ".join(f"{name} {content[name]}" for name in ("batch", "length", "heads", "head_dim"))
    console.print(f"{sizes}, float32, {content['threads']} threads; medians of {rounds} rounds")
    for title, key in (("one map", "one_map"), ("a map for each token", "a_map_for_each_token")):
        table = Table(title, "with gradient", "over scan", "peak", "kept", box=None, pad_edge=False)
        for name, case in content[key].items():
            table.add_row(
                *(name, f"{case['seconds'] * 1e3:.1f} ms"),
                ratio_words(case["over_scan"], case["interval"], case["hidden"]),
                *(f"{case[each] / 1e6:.1f} MB" for each in ("peak_bytes", "kept_bytes")),
            )
        console.print(table)
    largest = max(value for each in content["differences"].values() for value in each.values())
    console.print(f"largest difference from the loop in float64, of states and gradients: {largest:.1e}")
    table = Table("length", "for a token", "over the first", box=None, pad_edge=False)
    for row in content["lengths"]:
        table.add_row(str(row["length"]), f"{row['seconds_per_token'] * 1e6:.2f} µs", f"{row['over_shortest']:.2f}")
    console.print(table)


def _ratio(row: dict[str, Any]) -> list[str]:
    if "over_conformal" not in row:
        return []
    return [ratio_words(row["over_conformal"], row["interval"], row["hidden"])]
