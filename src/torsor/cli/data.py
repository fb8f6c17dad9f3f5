"""``torsor data``: list, fetch and verify the data sets, and prepare text as tokens."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from torsor.cli.patience import shown_waiting
from torsor.cli.prepare import prepare
from torsor.cli.tables import JsonFlag
from torsor.experiments.listening import tell
from torsor.text.datasets import DATASETS, DataSet
from torsor.text.fetching import fetch
from torsor.text.prepared_text import INDEX, PreparedText
from torsor.text.storage import DataError, MissingDataError, data_folder, path_of

app: App = App(name="data", help="Data: what there is, fetch it, check what lies here, and turn text into tokens.")
app.command(prepare)


@app.command(name="list")
def list_datasets(*, as_json: JsonFlag = False) -> None:
    """List the data sets, their licences, and which of them lie here with the right checksums.

    Args:
        as_json: print JSON for programs.
    """
    rows = [
        {
            "name": each.name,
            "summary": each.summary,
            "bytes": sum(file.bytes for file in each.files),
            "licence": each.licence,
            "origin": each.origin,
            "here": state(each),
            "files": [
                {"path": file.path, "bytes": file.bytes, "sha256": file.sha256, "urls": list(file.urls)}
                for file in each.files
            ],
        }
        for each in DATASETS.values()
    ]
    if as_json:
        print(json.dumps({"folder": str(data_folder()), "datasets": rows}))
        return
    grid = Table("data set", "what it is", "size", "here", "licence", box=None, pad_edge=False)
    for row in rows:
        grid.add_row(row["name"], row["summary"], f"{row['bytes'] / 1e6:.1f} MB", row["here"], row["licence"])
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 190)
    console.print(grid)
    console.print(f"\nThey lie in {data_folder()} (another folder: TORSOR_DATA).", soft_wrap=True)
    console.print("Get one with: torsor data fetch NAME", soft_wrap=True)


@app.command(name="fetch")
def fetch_dataset(
    name: str = "",
    *,
    from_path: Annotated[Path | None, Parameter(name="--from")] = None,
    offline: Annotated[bool, Parameter(negative=())] = False,
    as_json: JsonFlag = False,
) -> None:
    """Fetch a data set from its public address, or take your own copy; nothing wrong ever gets its name.

    Args:
        name: the data set, as torsor data list prints it.
        from_path: your own copy: the file, or the folder that holds the files.
        offline: touch no network; TORSOR_OFFLINE=1 and HF_HUB_OFFLINE=1 do the same.
        as_json: print JSON for programs.

    Raises:
        ValueError: when no data set is named, or it cannot be had.
    """
    if not name:
        raise ValueError(f"name a data set: torsor data fetch NAME; there are: {', '.join(DATASETS)}")
    with shown_waiting(f"fetching {name}"):
        paths = fetch(name, from_path, offline, partial(tell, f"fetching {name}"))
    if as_json:
        print(json.dumps({"verified": [str(path) for path in paths], "licence": DATASETS[name].licence}))
        return
    _print_verified(paths, as_json)
    print(f"licence: {DATASETS[name].licence}")


@app.command
def verify(name: str = "", *, as_json: JsonFlag = False) -> None:
    """Check size and SHA-256 of a data set's files, of all data sets of which a file lies here, or of prepared text.

    Args:
        name: the data set, as torsor data list prints it, or a folder that torsor data prepare filled; all data sets
            that lie here by default.
        as_json: print JSON for programs.

    Raises:
        ValueError: when a file is missing or wrong, or nothing lies here.
    """
    if name and (Path(name) / INDEX).exists():
        with shown_waiting(f"reading {name}"):
            prepared = PreparedText.open(Path(name))
        shards = [Path(name) / shard.file for part in prepared.parts.values() for shard in part.shards]
        _print_verified(shards, as_json)
        return
    names = [name] if name else [each.name for each in DATASETS.values() if _begun(each)]
    if not names:
        raise ValueError(f"no data set lies in {data_folder()}; get one with: torsor data fetch NAME")
    right, wrong = [], []
    for each in names:
        try:
            with shown_waiting(f"reading {each}"):
                right += path_of(each)
        except DataError as error:
            wrong.append(str(error))
    _print_verified(right, as_json)
    if wrong:
        raise ValueError("; ".join(wrong))


def _print_verified(paths: Sequence[Path], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"verified": [str(path) for path in paths]}))
        return
    for path in paths:
        print(f"verified {path}")


def _begun(dataset: DataSet) -> bool:
    return any((data_folder() / file.path).exists() for file in dataset.files)


def state(dataset: DataSet) -> str:
    """Whether a data set lies here: "yes", "no", or "wrong" where a file is not the right one."""
    try:
        path_of(dataset.name)
    except MissingDataError:
        return "no"
    except DataError:
        return "wrong"
    return "yes"
