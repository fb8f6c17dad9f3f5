"""The folder that a run lives in: opened by one process, and resumable after a kill at any instant."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from torsor.advice import has_lost_run_file, no_run
from torsor.training.checkpoint import (
    CURRENT,
    NEW,
    PREVIOUS,
    Part,
    Watch,
    begin_checkpoint,
    complete_checkpoint,
    install,
    locate,
    log_lengths,
    read_checkpoint,
    write_part,
)
from torsor.training.durable import DamagedFileError, RunFolderError, disk_errors, replace_json
from torsor.training.engine import Engine, SingleProcess
from torsor.training.lock import LOCK_FILE, FolderLock
from torsor.training.log import Log
from torsor.training.record import Record
from torsor.training.run_description import (
    ALONE,
    FINISHED,
    RUN_FILE,
    RUNNING,
    STOPPED,
    RunDescription,
    as_json,
    describe_environment,
    read_run,
)
from torsor.training.state import Snapshot, TrainState

METRICS, TIMING = "metrics.jsonl", "timing.jsonl"


def default_path(experiment: str, seed: int) -> Path:
    """``runs/NAME-SEED`` for the experiment ``paper/NAME``, under the working folder."""
    return Path("runs") / f"{experiment.rpartition('/')[2]}-{seed}"


@final
class RunFolder:
    """A run's folder, locked for this process and in the state of its last checkpoint.

    ``run.json`` says what the run is and which checkpoint counts, ``metrics.jsonl`` holds what a
    repeated run reproduces to the last byte, ``timing.jsonl`` what it does not, ``checkpoint/`` the
    weights and all that is needed to go on. It is a context manager; leaving it gives the lock back.

    Guarantees, tests in ``tests/test_run_folder.py`` and ``tests/test_checkpoint.py``:

    * a kill at any instant leaves the last checkpoint or the new one, whole; opening the folder again
      cuts both logs to it, and the finished run equals one that nobody killed;
    * a folder of another experiment, other arguments or a newer format is refused and left as it was;
    * a truncated or altered checkpoint is refused, never loaded, and left as it was;
    * one process at a time.

    Args:
        path: the folder; made with its parents where it is missing.
        experiment: name of the experiment, ``paper/name``.
        arguments: every argument of it that JSON can hold; a run is resumed only with the same.
        seed: the seed of the run.
        about: what a reader wants to know of a new run and no code relies on.
        circumstances: what else than versions and threads may change the last bit, with ``ALONE``'s names;
            ``run.json`` keeps it, and every change of it.
        watch: is told how many bytes of the checkpoint have been checked, and how many there are.

    Raises:
        RunFolderError: in one line, for whatever keeps the folder from being used.

    Example:
        >>> with RunFolder(path, "rotate-the-loop/a5", {"width": 64}, seed=0) as run:  # doctest: +SKIP
        ...     run.restore(state)
        ...     for record in train(state, task, plan):
        ...         run.log(record)
        ...         if state.update % 500 == 0:
        ...             run.save(state)
        ...     run.save(state)
        ...     run.replace_json("evaluation.json", {"accuracy": 0.9})
        ...     run.finish()
    """

    def __init__(
        self,
        path: Path,
        experiment: str,
        arguments: Mapping[str, Any],
        seed: int,
        about: Mapping[str, Any] | None = None,
        circumstances: Mapping[str, Any] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.path = path
        self._circumstances = dict(circumstances or {})
        arguments = as_json(arguments)
        with disk_errors(f"use {path} as a run folder"):
            self._refuse_other_folders()
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(path)
            try:
                if (path / RUN_FILE).exists():
                    self._description = read_run(path)
                    self._description.check_same_run(path, experiment, arguments, seed)
                else:
                    environment = describe_environment()
                    self._description = RunDescription(
                        experiment, arguments, seed, **environment, about=as_json(about or {})
                    )
                self._logs = self._settle(watch)
            except BaseException:
                self._lock.release()
                raise

    @property
    def description(self) -> RunDescription:
        """What ``run.json`` says now."""
        return self._description

    @property
    def update(self) -> int:
        """The update of the checkpoint, 0 before the first."""
        checkpoint = self._description.checkpoint
        return 0 if checkpoint is None else checkpoint.update

    def restore(self, state: TrainState, engine: Engine | None = None) -> None:
        """Load the checkpoint into ``state``; before the first one, leave it as it is.

        Args:
            state: freshly built with the run's arguments.
            engine: reads the tensors; a single process by default.
        """
        if self._description.checkpoint is not None:
            read_checkpoint(self.path / CURRENT, state, engine or SingleProcess())

    def log(self, record: Record, scores: Mapping[str, Any] | None = None) -> None:
        """Append one line to ``metrics.jsonl`` and one to ``timing.jsonl``.

        Args:
            record: of the update.
            scores: more numbers that a repeated run reproduces, for the metrics' line.
        """
        with disk_errors(f"write the logs of {self.path}"):
            self._logs[METRICS].append(record.metrics() | dict(scores or {}))
            self._logs[TIMING].append(record.timing())

    def save(self, state: TrainState, engine: Engine | None = None) -> None:
        """Replace the checkpoint by ``state``; the logs as they are now belong to it.

        Args:
            state: what to keep.
            engine: writes the tensors; a single process by default.
        """
        self.write(state.snapshot(engine), engine)

    def write(self, snapshot: Snapshot, engine: Engine | None = None) -> None:
        """As ``save``, for whoever has taken the snapshot.

        Args:
            snapshot: what to keep.
            engine: writes the tensors; a single process by default.
        """
        with disk_errors(f"write the checkpoint of {self.path}"):
            part = write_part(self.begin(), snapshot, engine or SingleProcess())
            self.complete(snapshot, [part])

    def begin(self) -> Path:
        """The first step of a ``write`` that several processes share: the folder in which each writes its part."""
        with disk_errors(f"write the checkpoint of {self.path}"):
            if (self.path / NEW).exists() or (self.path / PREVIOUS).exists():
                # An earlier save failed half-way. The disk knows which folder counts, this object may not: the
                # failure can have come between the renaming of run.json and the end of waiting for it.
                self._description = read_run(self.path)
                known = self._description.checkpoint
                install(self.path, self.path / CURRENT if known is None else locate(self.path, known))
            return begin_checkpoint(self.path)

    def complete(self, snapshot: Snapshot, parts: Sequence[Part]) -> None:
        """The last step of it: let what they wrote be the checkpoint; the logs as they are now belong to it.

        Args:
            snapshot: of the main process.
            parts: what every process wrote, in order.

        Raises:
            RunFolderError: when one could not write its part; the checkpoint before then stays.
        """
        with disk_errors(f"write the checkpoint of {self.path}"):
            lengths = {name: log.sync() for name, log in self._logs.items()}
            digest = complete_checkpoint(self.path / NEW, snapshot, parts, lengths)
            self._describe(checkpoint=digest)
            install(self.path, self.path / NEW)

    def replace_json(self, name: str, value: Any) -> None:
        """Write ``evaluation.json``, ``geometry.json`` or the like, as a whole or not at all.

        Args:
            name: of a file in this folder other than those the folder keeps itself.
            value: anything JSON holds, without infinities and NaN.

        Raises:
            RunFolderError: when the name is the folder's own, or not the name of a JSON file.
        """
        if Path(name).name != name or not name.endswith(".json") or name == RUN_FILE:
            raise RunFolderError(f"name must be a JSON file's other than {RUN_FILE}, without a folder, got {name!r}")
        with disk_errors(f"write {self.path / name}"):
            replace_json(self.path / name, value)

    def finish(self) -> None:
        """Mark the run as finished; save the last update first.

        Raises:
            RunFolderError: when the logs hold updates that the checkpoint does not.
        """
        if any(log.unsaved for log in self._logs.values()):
            raise RunFolderError(f"{self.path} has updates after its checkpoint: save before finish")
        with disk_errors(f"write {self.path / RUN_FILE}"):
            self._describe(status=FINISHED)

    def stop(self, reason: str) -> None:
        """Mark the run as stopped, its last checkpoint and all lines of its logs kept; it can be resumed.

        Args:
            reason: one line.
        """
        with disk_errors(f"write {self.path / RUN_FILE}"):
            self._describe(status=STOPPED + reason)

    def close(self) -> None:
        """Close the logs and give the lock back; a second call does nothing."""
        for log in self._logs.values():
            log.close()
        self._lock.release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_other_folders(self) -> None:
        if self.path.exists() and not (self.path / RUN_FILE).exists():
            # A process that was killed before its first run.json leaves a lock and a half-written file.
            others = sorted({entry.name for entry in self.path.iterdir()} - {LOCK_FILE, RUN_FILE + ".tmp"})
            if has_lost_run_file(self.path):
                raise RunFolderError(no_run(self.path))
            if others:
                raise RunFolderError(
                    f"{self.path} has no {RUN_FILE} but holds {others[0]}: choose an empty or new folder with --out"
                )

    def _settle(self, watch: Watch | None) -> dict[str, Log]:
        """Bring the folder into the state of the checkpoint that counts; what cannot be used is refused before."""
        try:
            logs, checkpoint = self._sound(watch)
        except DamagedFileError as error:
            raise RunFolderError(f"{error}; nothing was changed; {self._description.anew(self.path)}") from error
        install(self.path, checkpoint)
        for leftover in self.path.glob("*.json.tmp"):
            leftover.unlink()
        if not self._description.finished:
            # Before the logs: a folder that holds anything must say what it is.
            self._describe(status=RUNNING, resumed_with=self._environments())
        for log in logs.values():
            log.open()
        return logs

    def _sound(self, watch: Watch | None) -> tuple[dict[str, Log], Path]:
        """Both logs, not opened yet, and the checkpoint, where they are what they must be."""
        lengths, found = {METRICS: 0, TIMING: 0}, self.path / CURRENT
        checkpoint = self._description.checkpoint
        if checkpoint is not None:
            found = locate(self.path, checkpoint, watch)
            lengths |= log_lengths(found)
        elif found.exists():
            raise DamagedFileError(f"{found} is not known to {RUN_FILE}")
        return {name: Log(self.path / name, length) for name, length in lengths.items()}, found

    def _environments(self) -> list[dict[str, Any]]:
        """Those of the processes that went on with the run in other circumstances, this one included."""
        described = self._description
        last = {"versions": described.versions, "threads": described.threads, "dtype": described.dtype} | ALONE
        for changed in described.resumed_with:
            last |= changed
        now = describe_environment() | self._circumstances
        changed = any(last[name] != value for name, value in now.items())
        return described.resumed_with + ([{"update": self.update} | now] if changed else [])

    def _describe(self, **changes: Any) -> None:
        """Change ``run.json`` on the disk, then here."""
        changed = replace(self._description, **changes)
        replace_json(self.path / RUN_FILE, changed.to_json())
        self._description = changed
