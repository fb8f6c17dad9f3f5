"""Documents that stream from the Hugging Face hub."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Any, final

from torsor.text.fetching import OFFLINE, is_set
from torsor.text.source import Source
from torsor.text.storage import DataError

MISSING = "streaming from the hub needs the package datasets: pip install 'torsor[hub]'"
FINEWEB = "HuggingFaceFW/fineweb"
FINEWEB_EDU = "HuggingFaceFW/fineweb-edu"
_AHEAD = 256  # documents that are fetched before they are asked for
_POLL = 0.2  # seconds between two looks at whether the reader has gone


@final
@dataclass(frozen=True)
class HubDocuments(Source):
    """Documents of a data set on the Hugging Face hub, streamed: nothing is kept on the disk.

    All of it runs in a thread of its own, and whoever waits for a document waits ``patience``
    seconds and no longer: a hub that does not answer is an error of one line, never a hang.

    The description holds the commit of the revision, so that the same description means the same
    documents. To pass over documents they are streamed again.

    Args:
        repository: such as ``HuggingFaceFW/fineweb-edu``.
        subset: the configuration, such as ``sample-10BT``; the data set's default where it is None.
        split: the part of the data set.
        field: the name of the field that holds the text.
        revision: a branch, a tag or a commit.
        patience: seconds to wait for the hub at a time.

    Raises:
        ValueError: when ``patience`` is not positive.
    """

    repository: str
    subset: str | None = None
    split: str = "train"
    field: str = "text"
    revision: str = "main"
    patience: float = 60.0

    def __post_init__(self) -> None:
        if not self.patience > 0:
            raise ValueError(f"patience must be positive, got {self.patience}")

    @cached_property
    def commit(self) -> str:
        """The commit of the revision, asked of the hub once.

        Raises:
            ValueError: when the hub does not answer or knows no such data set.
        """
        forbidding = next((name for name in OFFLINE if is_set(name)), None)
        if forbidding:
            raise DataError(f"{self._what} is on the network, which {forbidding} forbids")
        return next(_Waiting(self._ask, self.patience, self._what))

    def description(self) -> dict[str, Any]:
        return {
            "kind": "hub",
            "repository": self.repository,
            "subset": self.subset,
            "split": self.split,
            "field": self.field,
            "commit": self.commit,
        }

    def documents(self, start: int = 0) -> Iterator[str]:
        commit, waiting = self.commit, None
        try:
            waiting = _Waiting(lambda: self._stream(commit, start), self.patience, self._what)
            yield from waiting
        finally:
            if waiting is not None:
                waiting.leave()

    @property
    def _what(self) -> str:
        return f"the hub's {self.repository}"

    def _ask(self) -> Iterator[str]:
        try:
            from huggingface_hub import HfApi
        except ImportError as error:
            raise ImportError(MISSING) from error
        yield str(HfApi().dataset_info(self.repository, revision=self.revision, timeout=self.patience).sha)

    def _stream(self, commit: str, start: int) -> Iterator[str]:
        try:
            from datasets import load_dataset  # pyright: ignore[reportMissingImports] - an extra
        except ImportError as error:
            raise ImportError(MISSING) from error
        rows = load_dataset(self.repository, self.subset, split=self.split, revision=commit, streaming=True)
        for number, row in enumerate(rows.skip(start) if start else rows, start=start):
            if self.field not in row:
                fields = ", ".join(map(repr, row))
                raise DataError(f"document {number} of {self._what} has no field {self.field!r}; it has {fields}")
            if not isinstance(row[self.field], str):
                raise DataError(
                    f"the field {self.field!r} of document {number} of {self._what} must be a text, "
                    f"got {row[self.field]!r:.40}"
                )
            yield row[self.field]


@final
class _Waiting(Iterator[str]):
    """What a thread of its own yields, waited for with patience.

    Args:
        source: called in the thread.
        patience: seconds to wait for each of its texts.
        what: its name in messages.
    """

    def __init__(self, source: Callable[[], Iterator[str]], patience: float, what: str) -> None:
        self._queue: Queue[str | _End] = Queue(_AHEAD)
        self._gone = threading.Event()
        self._patience = patience
        self._what = what
        # a daemon: a thread that waits for ever must not keep the program from ending
        threading.Thread(target=self._run, args=(source,), daemon=True).start()

    def __next__(self) -> str:
        try:
            found = self._queue.get(timeout=self._patience)
        except Empty:
            self.leave()
            raise DataError(f"{self._what} has not answered for {self._patience:g} s") from None
        if isinstance(found, str):
            return found
        self._queue.put(found)  # there is no text after the last, however often it is asked for
        if found.error is None:
            raise StopIteration
        if isinstance(found.error, DataError | ImportError):
            raise found.error
        reason = " ".join(str(found.error).split())
        raise DataError(
            f"{self._what} cannot be read: {type(found.error).__name__}{f': {reason}' if reason else ''}"
        ) from found.error

    def leave(self) -> None:
        """Let the thread end: nobody reads on."""
        self._gone.set()

    def _run(self, source: Callable[[], Iterator[str]]) -> None:
        with _Handed(self._put):
            for text in source():
                if not self._put(text):
                    return

    def _put(self, item: "str | _End") -> bool:
        while not self._gone.is_set():
            try:
                self._queue.put(item, timeout=_POLL)
            except Full:
                continue
            return True
        return False


@final
@dataclass(frozen=True)
class _End:
    """There are no more texts, and why."""

    error: BaseException | None


@final
class _Handed:
    """Hand whatever goes wrong in one thread to the thread that reads, which raises it."""

    def __init__(self, put: Callable[[_End], bool]) -> None:
        self._put = put

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._put(_End(error))
        return True
