"""What a checkpoint holds: weights, moments, the number of the update, the curriculum's state."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torsor.training.curriculum import CurriculumState
from torsor.training.engine import Engine, SingleProcess
from torsor.training.shards import Piece


@final
@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint is written from: a state at one update, and of its tensors what this process writes.

    Args:
        update: how many updates the parameters have had.
        weights: rows of what ``TrainState.weights`` gives.
        moments: rows of what ``TrainState.moments`` gives.
        progress: what ``TrainState.progress`` gave.
    """

    update: int
    weights: dict[str, Piece]
    moments: dict[str, Piece]
    progress: dict[str, Any]


@final
@dataclass
class TrainState:
    """A model in training; everything that decides how it goes on, apart from the plan and the task.

    Nothing is kept of a random generator: a batch is a function of its update's number, and a forward
    pass that draws numbers takes them from a generator seeded with that number.

    Guarantees, each a test in ``tests/laws/test_training_laws.py``:

    * ten updates equal five, saved, loaded and followed by five, to the last bit;
    * what does not fit changes nothing and is named in one line.

    Args:
        model: the module in training.
        optimizer: over parameters of ``model`` and no others; only tensors in its state are stored.
        update: how many updates the parameters have had.
        curriculum: where the curriculum stands.

    Raises:
        ValueError: when the optimizer holds a parameter that the model does not.
    """

    model: nn.Module
    optimizer: Optimizer
    update: int = 0
    curriculum: CurriculumState = field(default_factory=CurriculumState)

    def __post_init__(self) -> None:
        held = set(self.model.parameters())
        strangers = sum(p not in held for group in self.optimizer.param_groups for p in group["params"])
        if strangers:
            raise ValueError(f"optimizer must hold parameters of model only, {strangers} of its own are not in it")

    def snapshot(self, engine: Engine | None = None) -> Snapshot:
        """Everything, to be written; with an engine of several processes, all of them take it at the same update.

        Args:
            engine: whose parameters these are since it was set up; a single process by default.
        """
        engine = engine or SingleProcess()
        weights, moments = (_pieces(engine, tensors) for tensors in (_model_tensors(self.model), self._moved()))
        return Snapshot(self.update, weights, moments, self.progress())

    def weights(self, engine: Engine | None = None) -> dict[str, Tensor]:
        """Every parameter and persistent buffer once, under its first name, sharing memory with nothing stored.

        Args:
            engine: as for ``snapshot``; on other processes than the main one there is nothing.
        """
        return _apart((engine or SingleProcess()).gather(_model_tensors(self.model)))

    def moments(self, engine: Engine | None = None) -> dict[str, Tensor]:
        """The optimizer's tensors: ``exp_avg/layer.weight`` belongs to the parameter ``layer.weight``.

        Args:
            engine: as for ``weights``.

        Raises:
            ValueError: when the optimizer keeps something that is not a tensor.
        """
        return _apart((engine or SingleProcess()).gather(self._moved()))

    def progress(self) -> dict[str, Any]:
        """The rest, as JSON: the update's number, the curriculum's state, the kind of optimizer."""
        return {
            "update": self.update,
            "optimizer": type(self.optimizer).__name__,
            "curriculum": asdict(self.curriculum),
        }

    def load(self, weights: Mapping[str, Tensor], moments: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Take over what ``weights``, ``moments`` and ``progress`` gave; all of it, or nothing.

        Args:
            weights: tensors for exactly the names, shapes and types of this model.
            moments: the optimizer's tensors, equally many for each parameter that has any.
            progress: the JSON part; entries that are not of this class are left alone.

        Raises:
            ValueError: naming what is missing, unexpected or of another shape or type.
        """
        kind = type(self.optimizer).__name__
        if progress["optimizer"] != kind:
            raise ValueError(f"optimizer must be {progress['optimizer']} as in the checkpoint, got {kind}")
        slots = self._slots(moments)
        load_weights_into(self.model, weights)
        index = {p: i for i, p in enumerate(p for group in self.optimizer.param_groups for p in group["params"])}
        trained = self._trained()
        values = {index[trained[name]]: _laid_out(trained[name], named) for name, named in slots.items()}
        # The rates and betas are those of the constructor, which the run's arguments decide.
        self.optimizer.load_state_dict({"state": values, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self.update = progress["update"]
        self.curriculum = CurriculumState(**progress["curriculum"])

    def _trained(self) -> dict[str, nn.Parameter]:
        """The parameters that the optimizer moves, by their names in the model."""
        moved = {p for group in self.optimizer.param_groups for p in group["params"]}
        return {name: p for name, p in self.model.named_parameters() if p in moved}

    def _moved(self) -> dict[str, Tensor]:
        """The optimizer's tensors as they lie, under their names in a checkpoint."""
        tensors = {}
        for name, parameter in self._trained().items():
            for slot, value in self.optimizer.state.get(parameter, {}).items():
                if not isinstance(value, Tensor):
                    raise ValueError(f"optimizer must keep tensors only, {slot} of {name} is {value!r}")
                tensors[f"{slot}/{name}"] = value
        return tensors

    def _slots(self, moments: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """The moments by parameter and slot, checked against the parameters."""
        slots: dict[str, dict[str, Tensor]] = {}
        for key, tensor in moments.items():
            slot, _, name = key.partition("/")
            slots.setdefault(name, {})[slot] = tensor
        trained = self._trained()
        expected = {}
        for group in self.optimizer.param_groups:  # the parameters of one group have the same slots
            members = set(group["params"])
            names = [name for name, parameter in trained.items() if parameter in members and name in slots]
            kinds = {slot for name in names for slot in slots[name]}
            expected |= {
                f"{slot}/{name}": moments[f"{slot}/{name}"]
                if _is_count(moments.get(f"{slot}/{name}"))
                else trained[name]
                for name in names
                for slot in kinds
            }
        problem = _misfit(expected, moments)
        if problem:
            raise ValueError(f"checkpoint does not fit the optimizer: {problem}")
        return slots


def load_weights_into(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy ``weights`` into the parameters and persistent buffers of ``model``; all of them, or none.

    Args:
        model: the module to fill.
        weights: what ``TrainState.weights`` gave: exactly the model's names, shapes and types.

    Raises:
        ValueError: naming what is missing, unexpected or of another shape or type.
    """
    own = _model_tensors(model)
    problem = _misfit(own, weights)
    if problem:
        raise ValueError(f"checkpoint does not fit the model: {problem}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers, a tied one under its first name only."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"model must keep tensors only, {name} is a {type(tensor).__name__}")
        if tensor.dtype == torch.complex128:
            raise ValueError(f"model must not keep complex128, which safetensors does not know: {name}")
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    return tensors


def _pieces(engine: Engine, tensors: Mapping[str, Tensor]) -> dict[str, Piece]:
    """What a process writes of the tensors, sharing memory with nothing that is written."""
    pieces = engine.pieces(tensors)
    rows = _apart({name: piece.rows for name, piece in pieces.items()})
    return {name: replace(piece, rows=rows[name]) for name, piece in pieces.items()}


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors that share no memory with each other, copied only where they must be."""
    result: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        value = tensor.detach().contiguous()
        storage = value.untyped_storage()
        if storage.data_ptr() in storages or storage.nbytes() != value.nbytes:
            value = value.clone()
        storages.add(value.untyped_storage().data_ptr())
        result[name] = value
    return result


def _laid_out(parameter: nn.Parameter, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Own memory for each slot, with the strides of its parameter as the optimizer would have made them."""
    return {
        slot: tensor.clone() if _is_count(tensor) else torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)
        for slot, tensor in named.items()
    }


def _is_count(tensor: Tensor | None) -> bool:
    # PyTorch's optimizers keep their step as a tensor without axes, in float32 whatever the parameter's type.
    return tensor is not None and tensor.ndim == 0


def _misfit(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """In one line, what differs in names, shapes and types; nothing where all is equal."""
    problems = [f"missing {name}" for name in own if name not in given]
    problems += [f"unexpected {name}" for name in given if name not in own]
    problems += [
        f"{name} has {_form(given[name])} instead of {_form(tensor)}"
        for name, tensor in own.items()
        if name in given and _form(given[name]) != _form(tensor)
    ]
    more = [f"and {len(problems) - 5} more"] if len(problems) > 5 else []
    return ", ".join(problems[:5] + more)


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
