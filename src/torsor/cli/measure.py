"""``torsor measure``: the geometry of a trained transition, and what a model of texts writes."""

import json
from pathlib import Path

from torsor.cli.patience import shown_waiting
from torsor.cli.run_folder import require_run
from torsor.cli.tables import JsonFlag, label, print_geometry


def measure(run: Path | None = None, /, *, as_json: JsonFlag = False) -> None:
    """Measure the transition of a run as its last checkpoint has it; of a model of texts, draw what it writes.

    Args:
        run: run folder; the run may be going on.
        as_json: print JSON for programs.

    Raises:
        ValueError: when no run is named.
    """
    if run is None:
        raise ValueError("name a run folder: torsor measure RUN")
    require_run(run)
    from torsor.experiments.run import measure as measured

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
