"""``torsor explore``: a page on which a map's directions can be watched."""

import json
from pathlib import Path

from torsor.cli.patience import shown_waiting
from torsor.cli.run_folder import require_run
from torsor.cli.tables import JsonFlag


def explore(run: Path | None = None, /, *, out: Path = Path("explore.html"), as_json: JsonFlag = False) -> None:
    """Write a page that shows live how a map moves directions: sphere, Gram matrix, defects, drift of groups.

    Args:
        run: a run folder whose trained transition is put beside the maps that can be made on the page.
        out: the HTML file to write.
        as_json: print JSON for programs.

    Raises:
        ValueError: when the run has no transition, or a file is in the page's place that is no page of torsor's.
    """
    if run is not None:
        require_run(run)
    from torsor.report.own_page import replaces_page

    replaced = replaces_page(out)  # before the run is read
    from torsor.cli.train import typed_command
    from torsor.report import write_explorer

    carry = None
    if run is not None:
        from torsor.experiments.run import load

        with shown_waiting(f"reading {run}"):
            transition = load(run).transition
        if transition is None:
            raise ValueError(f"{run} must hold a model with a transition to explore, it has none")
        carry = transition()
    page = write_explorer(out, carry, name=str(run), command=typed_command()).resolve()
    told = {"explorer": str(page), "replaced": replaced}
    print(json.dumps(told) if as_json else f"explorer: {page}{' (replaced)' * replaced}")
