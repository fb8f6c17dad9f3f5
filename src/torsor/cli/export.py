"""``torsor export``: a finished run's model in the form that another program loads."""

import json
from functools import partial
from pathlib import Path
from typing import Literal

from torsor.cli.patience import shown_waiting
from torsor.cli.run_folder import require_run
from torsor.cli.tables import JsonFlag


def export(
    run: Path | None = None,
    /,
    *,
    to: Literal["hf"] = "hf",
    out: Path | None = None,
    self_contained: bool = False,
    as_json: JsonFlag = False,
) -> None:
    """Write the model of a finished run for another program.

    Args:
        run: run folder; the run must be finished.
        to: the program: hf for transformers, Hugging Face's.
        out: folder to write, a new or empty one; hf in the run's folder by default.
        self_contained: write the code too, so that the folder is loaded without torsor.
        as_json: print JSON for programs.

    Raises:
        ValueError: when no run is named, or something is in the folder's place.
    """
    if run is None:
        raise ValueError("name a run folder: torsor export RUN")
    require_run(run)
    from torsor.experiments.finished_run import finished_run
    from torsor.experiments.listening import tell
    from torsor.interop import PlainCharacters, to_hugging_face
    from torsor.interop.missing import require_hugging_face
    from torsor.interop.model_card import model_card

    require_hugging_face()
    folder = run / to if out is None else out
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):  # before the run is read
        raise ValueError(f"{folder} must be a new or empty folder: name another with --out, or move it away")
    with shown_waiting(f"reading {run}"):
        found = finished_run(run)
    auto = "AutoModelForTokenClassification" if found.labels else "AutoModelForCausalLM"
    with shown_waiting(f"writing {folder}"):
        to_hugging_face(
            found.model,
            folder,
            tokenizer=found.tokenizer if found.symbols is None else PlainCharacters(found.symbols),
            steps=found.steps,
            labels=found.labels,
            self_contained=self_contained,
            card=model_card(
                run.resolve().name, auto, self_contained=self_contained, about=found.about, scores=found.scores
            ),
            watch=partial(tell, "writing the weights"),
        )
    how = "trust_remote_code=True" if self_contained else "import torsor.interop.hugging_face"
    if as_json:
        print(json.dumps({"export": str(folder), "class": auto, "self_contained": self_contained}))
        return
    print(f"export: {folder}\nload:   {auto}.from_pretrained({str(folder)!r}), with {how}")
