"""The tensors of a checkpoint over the files of several processes, and the index that puts them together again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from torsor.training.durable import RunFolderError, read_json

INDEX = "shards.json"
KINDS = ("model", "training")


@final
@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a tensor, along its first axis, that one process holds.

    Args:
        rows: of the tensor; all of it where it is whole.
        start: the first of them.
        shape: of the whole tensor.
    """

    rows: Tensor
    start: int
    shape: tuple[int, ...]

    @staticmethod
    def whole(tensor: Tensor) -> "Piece":
        """A tensor that one process holds alone."""
        return Piece(tensor, 0, tuple(tensor.shape))

    def place(self, file: str) -> dict[str, Any]:
        """Where the rows lie once they are in a file, as JSON."""
        return {"file": file, "start": self.start, "shape": list(self.shape)}


def shard_name(kind: str, number: int, count: int) -> str:
    """The file of one process: ``model-1-of-4.safetensors`` is that of the first of four."""
    return f"{kind}.safetensors" if count == 1 else f"{kind}-{number + 1}-of-{count}.safetensors"


def shard_names(count: int) -> set[str]:
    """The files of tensors of a checkpoint that so many processes wrote."""
    return {shard_name(kind, number, count) for kind in KINDS for number in range(count)}


def index_of(places: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The index of one kind of tensors, as JSON: for each name, where its rows lie.

    Args:
        places: of each process, what ``Piece.place`` says of each of its tensors.
    """
    names = sorted({name for each in places for name in each})
    return {name: [dict(each[name]) for each in places if name in each] for name in names}


def read_shards(folder: Path, kind: str) -> dict[str, Tensor]:
    """The tensors of one kind, whole, from the files that an index names; they are read one after the other.

    Args:
        folder: of the checkpoint, its digest already checked.
        kind: ``model`` or ``training``.

    Raises:
        RunFolderError: when the index does not fit the files.
    """
    path = folder / INDEX
    index = read_json(path)
    try:
        wanted = {name: [_Place(**each) for each in places] for name, places in index[kind].items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} was altered: it must say under {kind!r} where every tensor lies") from error
    files = sorted({place.file for places in wanted.values() for place in places})
    pieces: dict[str, list[tuple[_Place, Tensor]]] = {}
    for name in files:
        if Path(name).name != name:
            raise RunFolderError(f"{path} was altered: it must name files of its folder, got {name!r}")
        for tensor, place, rows in _rows(folder / name, wanted):
            pieces.setdefault(tensor, []).append((place, rows))
    return {name: _joined(name, pieces[name], path) for name in wanted}


@final
@dataclass(frozen=True)
class _Place:
    file: str
    start: int
    shape: list[int]


def _rows(path: Path, wanted: Mapping[str, list[_Place]]) -> Iterable[tuple[str, _Place, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            held = set(file.keys())
            for name, places in wanted.items():
                for place in places:
                    if place.file == path.name:
                        if name not in held:
                            raise RunFolderError(f"{path} must hold rows of {name}, it does not")
                        yield name, place, file.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def _joined(name: str, pieces: Sequence[tuple[_Place, Tensor]], index: Path) -> Tensor:
    ordered = sorted(pieces, key=lambda each: (each[0].start, each[1].numel()))
    shape = ordered[0][0].shape
    filled = 0
    fits = True
    for place, rows in ordered:
        fits &= place.start == filled and place.shape == shape and list(rows.shape[1:]) == shape[1:]
        filled += len(rows) if rows.ndim else 1
    if not fits or filled != (shape[0] if shape else 1):
        raise RunFolderError(f"{index} must name every row of {name} once, it does not")
    return ordered[0][1] if len(ordered) == 1 else torch.cat([rows for _, rows in ordered])
