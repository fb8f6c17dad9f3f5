"""``torsor measure``: the geometry of a trained transition, what a model of texts writes, and scores made again."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from torsor.cli.patience import shown_waiting
from torsor.cli.run_folder import require_run
from torsor.cli.tables import JsonFlag, label, print_geometry
from torsor.cli.verify import verify_runs
from torsor.cli.whole import MaybeWhole


def measure(
    *runs: Path,
    verify: Annotated[bool, Parameter(negative=())] = False,
    threads: MaybeWhole = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure the transition of a run as its last checkpoint has it; of a model of texts, draw what it writes.

    Args:
        runs: the run folder, of a run that may be going on; with --verify one or several, of runs that are finished.
        verify: measure nothing; compute the scores of each run again from its checkpoint, and compare every digit.
        threads: threads of PyTorch; those of the run by default.
        as_json: print JSON for programs.

    Raises:
        ArithmeticError: when a score that is verified differs.
        ValueError: when no run is named, or several that are not to be verified.
    """
    if not runs:
        raise ValueError("name a run folder: torsor measure RUN")
    for run in runs:
        require_run(run)
    if verify:
        verify_runs(runs, threads, as_json)
        return
    run, *others = runs
    if others:
        raise ValueError(f"torsor measure takes one run folder, or several with --verify, got {len(runs)}")
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.run import measure as measured

    prepare_machine(threads, run)
    with shown_waiting(f"measuring {run}"):
        content = measured(run)
    if as_json:
        print(json.dumps(content))
        return
    if "spectral" in content:
        print_geometry([(label(run), content), ("the same, untrained", content["initial"])])
        spectral = content["spectral"]
        print(
            f"spectral radius {spectral['radius']:.4f}; spread of the moduli, own blocks {spectral['own']:.1e}, "
            f"whole vector {spectral['whole']:.1e}"
        )
    if "generated" in content:
        sample = content["generated"]
        print(
            f"{label(run)}, at temperature {sample['temperature']:g}, after {sample['prompt']!r}:\n\n{sample['text']}"
        )
