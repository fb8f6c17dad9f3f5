"""Documents from parquet files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torsor.text.source import Source, describe_files, find_files
from torsor.text.storage import DataError, disk_errors

SUFFIXES = (".parquet",)
MISSING = "reading parquet needs the package pyarrow: pip install 'torsor[hub]'"
_ROWS = 1024  # that are held in memory at once


@final
@dataclass(frozen=True)
class ParquetFiles(Source):
    """One document a row: a column of text.

    Args:
        path: a file, or a folder of files that end in .parquet.
        field: the name of the column that holds the text.
    """

    path: Path
    field: str = "text"

    def description(self) -> dict[str, Any]:
        files = describe_files(find_files(self.path, SUFFIXES))
        return {"kind": "parquet", "field": self.field, "files": files}

    def documents(self, start: int = 0) -> Iterator[str]:
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise ImportError(MISSING) from error
        left = start
        for path in find_files(self.path, SUFFIXES):
            with disk_errors(f"read {path}"):
                try:
                    with ParquetFile(path) as opened:
                        yield from self._documents(opened, path, left)
                        left = max(0, left - opened.metadata.num_rows)
                except ArrowException as error:
                    raise DataError(f"{path} is not a whole parquet file: {' '.join(str(error).split())}") from error

    def _documents(self, opened: Any, path: Path, start: int) -> Iterator[str]:
        names = opened.schema_arrow.names
        if self.field not in names:
            raise DataError(f"{path} has no column {self.field!r}; it has {', '.join(map(repr, names))}")
        if start >= opened.metadata.num_rows:
            return
        row = 0
        for batch in opened.iter_batches(batch_size=_ROWS, columns=[self.field]):
            wanted = batch.column(0)[max(0, start - row) :].to_pylist() if start < row + len(batch) else []
            for number, text in enumerate(wanted, start=max(row, start)):
                if not isinstance(text, str):
                    raise DataError(
                        f"the column {self.field!r} of row {number} of {path} must be a text, got {text!r:.40}"
                    )
                yield text
            row += len(batch)
