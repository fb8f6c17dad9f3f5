"""The run folder of many processes: the main one writes it, and all take part in what needs all of them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, final

from safetensors.torch import load, save

from torsor.training.checkpoint import SHARED_DISK, Part, write_part
from torsor.training.durable import RunFolderError, disk_errors
from torsor.training.engine import Engine
from torsor.training.record import Record
from torsor.training.run_folder import RunFolder
from torsor.training.state import Snapshot, TrainState

Result = TypeVar("Result")


class ToldByMainError(RunFolderError):
    """What kept the main process from using the run folder, on the others; the main one raises it as it was."""


@final
class SharedRun:
    """A ``RunFolder`` on the main process and a stand-in on every other, called in the same order by all.

    Only the main process touches the disk, but for a model in shards, of which each process writes its own to a
    checkpoint: without shards the others may be on machines that do not see the folder. What one of them is
    refused there, all are told, so that nobody waits for a process that has left. With a single process it is
    that process's folder and nothing else.

    Args:
        engine: of these processes.
        opening: opens the folder; called on the main process alone.

    Raises:
        RunFolderError: when the main process cannot use the folder; on the others, ``ToldByMainError``.
    """

    def __init__(self, engine: Engine, opening: Callable[[], RunFolder]) -> None:
        self._engine = engine
        self._folder: RunFolder | None = self._on_main(opening)

    @property
    def finished(self) -> bool:
        """Whether the run reached its end and was evaluated."""
        return self._tell(None if self._folder is None else self._folder.description.finished)

    def restore(self, state: TrainState) -> None:
        """Give every process the state of the checkpoint; before the first one, that of the main process.

        Args:
            state: freshly built with the run's arguments, before the engine is set up with it.
        """
        self._on_main(lambda: None if self._folder is None else self._folder.restore(state))
        if self._engine.processes == 1:
            return
        progress = self._tell(state.progress())
        weights, moments = (
            self._engine.spread(save(tensors) if self._engine.is_main else b"")
            for tensors in (state.weights(), state.moments())
        )
        if not self._engine.is_main:
            state.load(load(weights), load(moments), progress)

    def log(self, record: Record, scores: Mapping[str, Any] | None = None) -> None:
        """``RunFolder.log``, on the main process."""
        if self._folder is not None:
            self._folder.log(record, scores)

    def save(self, state: TrainState) -> None:
        """``RunFolder.save``, of what all processes hold: where they hold shards, each writes its own."""
        snapshot = state.snapshot(self._engine)
        if self._engine.shard[1] == 1:
            self._on_main(lambda: None if self._folder is None else self._folder.write(snapshot, self._engine))
            return
        begun = self._on_main(lambda: None if self._folder is None else str(self._folder.begin().resolve()))
        part = self._written(Path(self._tell(begun)), snapshot)
        parts = [Part(**json.loads(each)) for each in self._engine.collect(json.dumps(asdict(part)).encode())]
        self._on_main(lambda: None if self._folder is None else self._folder.complete(snapshot, parts))

    def replace_json(self, name: str, value: Any) -> None:
        """``RunFolder.replace_json``, on the main process."""
        if self._folder is not None:
            self._folder.replace_json(name, value)

    def finish(self) -> None:
        """``RunFolder.finish``, on the main process."""
        if self._folder is not None:
            self._folder.finish()

    def stop(self, reason: str) -> None:
        """``RunFolder.stop``, on the main process."""
        if self._folder is not None:
            self._folder.stop(reason)

    def __enter__(self) -> "SharedRun":
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.close()

    def _written(self, new: Path, snapshot: Snapshot) -> Part:
        """What this process wrote; a refusal is told to the main process, which refuses for all."""
        try:
            with disk_errors(f"write its part of the checkpoint in {new}"):
                if not new.is_dir():
                    return Part({}, {}, f"{new} must be seen by every process that writes a part of it: {SHARED_DISK}")
                return write_part(new, snapshot, self._engine)
        except RunFolderError as error:
            return Part({}, {}, str(error))

    def _on_main(self, action: Callable[[], Result]) -> Result | None:
        """Do it on the main process; where that is refused there, raise on all."""
        result = None
        if self._engine.is_main:
            try:
                result = action()
            except ValueError as error:
                self._tell(str(error))
                raise
        refusal = self._tell(None)
        if refusal is not None:
            raise ToldByMainError(refusal)
        return result

    def _tell(self, value: Any) -> Any:
        """What the main process says, as JSON, on all processes."""
        if self._engine.processes == 1:
            return value
        return json.loads(self._engine.spread(json.dumps(value).encode()))
