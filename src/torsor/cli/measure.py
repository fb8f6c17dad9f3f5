"""``torsor measure``: the geometry of a trained transition."""

import json
from pathlib import Path

from torsor.cli.tables import JsonFlag, label, print_geometry


def measure(run: Path, *, as_json: JsonFlag = False) -> None:
    """Measure the transition of a run as its last checkpoint has it, beside the untrained one.

    Args:
        run: run folder; the run may be going on.
        as_json: print JSON for programs.
    """
    from torsor.experiments.run import measure as measured

    content = measured(run)
    if as_json:
        print(json.dumps(content))
        return
    print_geometry([(label(run), content), ("the same, untrained", content["initial"])])
    print(f"spectrum: {content['spectral']}")
