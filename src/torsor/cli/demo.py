"""``torsor demo``: two looped transformers on one task, compared, and a page that shows it."""

import json
from pathlib import Path

from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole

EXPERIMENT = "rotate-the-loop/s3"
ROWS = (("diagonal", 1), ("conformal", 2))


def demo(
    *,
    seeds: Whole = 2,
    updates: Whole = 1000,
    out: Path = Path("runs/demo"),
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a diagonal and a conformal looped transformer on a word problem, compare them, and draw what happened.

    The same command again goes on where it stood.

    Args:
        seeds: runs of each of the two.
        updates: optimizer updates of each run.
        out: folder of the runs and the report.
        threads: threads of PyTorch; those of the machine by default.
        as_json: print JSON for programs.

    Raises:
        ValueError: when ``seeds`` is below 1, or a file is in the page's place that is no page of torsor's.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    from torsor.cli.progress import follow
    from torsor.cli.tables import label, print_geometry, print_scores
    from torsor.cli.train import typed_command
    from torsor.experiments.catalogue import find
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.reading import trained_geometry
    from torsor.experiments.run import carry_out
    from torsor.report import write_report
    from torsor.report.own_page import replaces_page

    replaced = replaces_page(out / "report.html")
    experiment = find(EXPERIMENT)
    runs = []
    for transition, groups in ROWS:
        for seed in range(seeds):
            path = out / f"{transition}-{seed}"
            prepare_machine(threads, path)
            arguments = experiment.arguments(transition=transition, groups=groups, updates=updates, seed=seed)
            follow(carry_out(experiment, arguments, path, command=typed_command()), path)
            runs.append(path)
    page = write_report(runs, out / "report.html", command=typed_command())
    if as_json:
        print(json.dumps({"runs": [str(run) for run in runs], "report": str(page.resolve()), "replaced": replaced}))
        return
    print_scores(runs)
    print()
    print_geometry([(label(run), trained_geometry(run)) for run in runs])
    print(f"\nreport: {page.resolve()}{' (replaced)' * replaced}")
