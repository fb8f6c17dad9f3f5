"""What a folder of prepared text is on its way to be, and how far it is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

from torsor.text.prepared_text import DIGEST, FORMAT, INDEX, JOURNAL, digest_of
from torsor.text.shard_writer import ShardWriter
from torsor.text.storage import DataError, disk_errors
from torsor.text.writing import read_json, remove_leftovers, sync_folder, write_json


@final
@dataclass(frozen=True)
class Journal:
    """What is on the disk for good.

    Args:
        request: what was asked for; a folder takes no other.
        source: the number of the source that is read.
        documents: of that source that are done.
        earlier: documents of the sources before.
        parts: the states of the writers.
    """

    request: dict[str, Any]
    source: int = 0
    documents: int = 0
    earlier: int = 0
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def keep(self, folder: Path, source: int, documents: int, earlier: int, writers: Mapping[str, ShardWriter]) -> None:
        """Put all that was written on the disk, and only then write down that it is there.

        Raises:
            ValueError: when the operating system refuses.
        """
        for writer in writers.values():
            writer.sync()
        parts = {part: writer.state() for part, writer in writers.items()}
        done = replace(self, source=source, documents=documents, earlier=earlier, parts=parts)
        write_json(folder / JOURNAL, asdict(done))


def begin(folder: Path, request: dict[str, Any]) -> Journal | None:
    """The journal of a folder, a new one where it is empty; None where nothing is left to do.

    Raises:
        ValueError: when the folder holds something else than what this request began.
    """
    with disk_errors(f"write {folder}"):
        remove_leftovers(folder)
        held = {path.name for path in folder.iterdir()}
    if INDEX in held:
        _require_same(folder, read_json(folder / INDEX), request)
        _forget(folder)
        return None
    if JOURNAL in held:
        found = read_json(folder / JOURNAL)
        _require_same(folder, found, request)
        return Journal(**found)
    if held:
        raise DataError(f"{folder} must be empty or begun by torsor data prepare, it holds {min(held)}")
    journal = Journal(request)
    write_json(folder / JOURNAL, asdict(journal))
    return journal


def finish(folder: Path, index: dict[str, Any]) -> None:
    """Write the index, which makes the folder complete.

    Raises:
        ValueError: when the operating system refuses.
    """
    content = {"format": FORMAT, **index}
    write_json(folder / INDEX, {**content, DIGEST: digest_of(content)})
    _forget(folder)


def _forget(folder: Path) -> None:
    with disk_errors(f"write {folder}"):
        (folder / JOURNAL).unlink(missing_ok=True)
        sync_folder(folder)


def _require_same(folder: Path, found: dict[str, Any], request: dict[str, Any]) -> None:
    before = found.get("request", {})
    other = [name for name, value in request.items() if before.get(name) != value]
    if other:
        raise DataError(
            f"{folder} was begun with another {', '.join(other)}: take the same, or another folder for this one"
        )
