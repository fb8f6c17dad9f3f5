"""Several trainings on two processes, each compared with one process by whoever reads the folder they leave.

A program of its own: it loads torch and Fabric once and forks for every pair of processes.
"""

import json
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import final

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

import cases
from tiny_training import Echo
from torsor.cli import main
from torsor.groups import MatrixGroup
from torsor.models import GroupRNN, GroupTransformer
from torsor.tasks import IGNORED, Batch, Task
from torsor.training import Engine, LengthCurriculum, Plan, RunFolder, Schedule, SingleProcess, TrainState, adamw, muon
from torsor.training import train as train_on
from torsor.training.processes import Processes
from torsor.training.replicated import Replicated
from torsor.training.sharded import Sharded
from torsor.training.shared_run import SharedRun
from torsor.transitions import Transition

LAYOUTS = {"ddp": Replicated, "fsdp": Sharded}
UPDATES = 8


@final
class Ragged(Task):
    """Echo in which most of the labels of the first rows are not scored, so that processes have unequal shares."""

    vocabulary, classes = 3, 2

    def __init__(self) -> None:
        self.inner = Echo()

    def evaluation(self, size: int) -> Batch:
        return self.batch(-1, size)

    def batch(self, update: int, size: int) -> Batch:
        batch = self.inner.batch(update, size)
        return Batch(
            batch.tokens, batch.targets.where(torch.arange(size)[:, None] * 2 + 1 > torch.arange(7) * 1.5, IGNORED)
        )


def tiny(optimizer: str = "adamw") -> TrainState:
    """A model with a tied matrix, a point and a parameter that nothing reads."""
    torch.manual_seed(0)
    model = Tiny()
    if optimizer == "muon":
        return TrainState(model, muon(model, 0.03, by_adamw=[model.readout]))
    return TrainState(model, adamw(model, 0.03, betas=(0.9, 0.98), weight_decay=0.1))


@final
class Tiny(nn.Module):
    """Some of every shape."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 8)
        self.hidden = nn.Linear(8, 7)
        self.back = nn.Linear(7, 8, bias=False)
        self.norm = nn.LayerNorm(8)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.idle = nn.Parameter(torch.ones(3))
        self.readout = nn.Linear(8, 3, bias=False)
        self.readout.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.readout(self.norm(x + self.scale * self.back(torch.tanh(self.hidden(x)))))


def plan(parts: int, updates: int = UPDATES) -> Plan:
    """Warm-up, a curriculum, a gradient that is clipped."""
    return Plan(
        updates=updates,
        batch=8,
        clip=0.5,
        schedule=Schedule(warmup=3, decay=0.5),
        curriculum=LengthCurriculum(lengths=(2, 4, 6), threshold=1.0, smoothing=0.5),
        parts=parts,
    )


def run(engine: Engine, folder: Path, parts: int, optimizer: str = "adamw", until: int = UPDATES) -> None:
    """A run in a folder, from its checkpoint to ``until``."""
    state = tiny(optimizer)
    opening = lambda: RunFolder(folder, "tests/ragged", {}, 0, circumstances={"processes": engine.processes})  # noqa: E731
    with SharedRun(engine, opening) as shared:
        shared.restore(state)
        for record in train_on(state, Ragged(), plan(parts), engine=engine):
            shared.log(record)
            if record.update == until:
                break
        with gathering_nothing():
            shared.save(state)


@contextmanager
def gathering_nothing():
    """Nobody puts the shards of a tensor together."""
    sound = DTensor.full_tensor
    DTensor.full_tensor = lambda tensor, **_: sys.exit(f"failed: {tuple(tensor.shape)} was gathered")
    try:
        yield
    finally:
        DTensor.full_tensor = sound


@final
class Carrying(nn.Module):
    """A transition that carries a state twice."""

    def __init__(self, transition: Transition) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, transition.dim)
        self.transition = transition
        self.readout = nn.Linear(transition.dim, 7)

    def forward(self, tokens: Tensor) -> Tensor:
        carry, write = self.transition(), self.transition.input_map()(self.embedding(tokens))
        return self.readout(carry(carry(write) + write) + write)


@final
class Random(Task):
    """Tokens and labels without a rule."""

    vocabulary, classes = 7, 7

    def evaluation(self, size: int) -> Batch:
        return self.batch(-1, size)

    def batch(self, update: int, size: int) -> Batch:
        generator = torch.Generator().manual_seed(update + 1)
        shape = (size, 5)
        return Batch(torch.randint(7, shape, generator=generator), torch.randint(5, shape, generator=generator))


def of_group(group: MatrixGroup) -> nn.Module:
    """Both models of a group."""
    return nn.ModuleDict(
        {
            "rnn": cases.stirred(GroupRNN(group, vocabulary=7)),
            "transformer": cases.stirred(GroupTransformer(group, vocabulary=7)),
        }
    )


@final
class Both(nn.Module):
    """The sum of the logits of two models."""

    def __init__(self, models: nn.ModuleDict) -> None:
        super().__init__()
        self.models = models

    def forward(self, tokens: Tensor) -> Tensor:
        outputs = [model(tokens) for model in self.models.values()]
        return sum(each[0] if isinstance(each, tuple) else each for each in outputs)


MODELS = {
    **{f"transition: {name}": lambda make=make: Carrying(make()) for name, make in cases.TRANSITIONS.items()},
    **{f"group: {name}": lambda make=make: Both(of_group(make())) for name, make in cases.MATRIX_GROUPS.items()},
    **{f"layers: {name}": make for name, make in cases.LAYERED_MODELS.items()},
    "unread parameters": cases.SEQUENCE_MODELS["group RNN, move by drive"],
    "blocks of every kind": cases.SEQUENCE_MODELS["group transformer, tangent network"],
}


def call(model: nn.Module, tokens: Tensor, update: int, rows: slice) -> Tensor:
    """The logits alone."""
    outputs = model(tokens)
    return outputs[0] if isinstance(outputs, tuple) else outputs


def looped(model: nn.Module, tokens: Tensor, update: int, rows: slice) -> Tensor:
    """The logits after a number of loops that the update decides."""
    return model(tokens, steps=2 + update)


def two_updates(engine: Engine, make, task: Task, forward=call) -> dict[str, Tensor]:
    """Loss, gradient norm, and the weights before and after two updates of plain descent."""
    torch.manual_seed(0)
    model = make()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    state = TrainState(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    parts = 1 if engine.processes == 2 else 2
    records = list(train_on(state, task, Plan(updates=2, batch=4, parts=parts), forward=forward, engine=engine))
    after = state.weights(engine)
    with engine.whole(model):
        seen = {name: p.detach().clone() for name, p in model.named_parameters()}
    result = {f"after/{name}": tensor for name, tensor in after.items()}
    result |= {f"seen/{name}": tensor for name, tensor in seen.items()}
    result |= {f"moved/{name}": seen[name] - before[name] for name in seen}
    result |= {f"moment/{name}": tensor for name, tensor in state.moments(engine).items()}
    numbers = [[record.loss, record.gradient_norm] for record in records]
    return result | {"numbers": torch.tensor(numbers)}


def every_model(engine: Engine, folder: Path) -> None:
    """One file for each model."""
    torch.set_default_dtype(torch.float64)
    folder.mkdir(exist_ok=True)
    for number, make in enumerate(MODELS.values()):
        keep(engine, two_updates(engine, make, Random()), folder / str(number))


def narrow(engine: Engine, path: Path) -> None:
    """A looped model in float32 whose matrix products the engine computes in bfloat16."""
    torch.set_default_dtype(torch.float32)
    keep(engine, two_updates(engine, cases.MODELS["looped, conformal"], Echo(), looped), path)


def keep(engine: Engine, results: dict[str, Tensor], path: Path) -> None:
    """Write them on the main process."""
    if engine.is_main:
        save_file({name: tensor.contiguous().clone() for name, tensor in results.items()}, path)


def both(job, kill_when=None) -> list[int]:
    """Run ``job(process number)`` on two processes of torchrun's environment; return how they ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for number in range(2):
        child = os.fork()
        if not child:
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
            os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "TORCHELASTIC_RUN_ID": "tests"}
            code = 99
            try:
                job(number)
                code = 0
            except SystemExit as ending:
                code = ending.code
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    if kill_when is not None:
        deadline = time.monotonic() + 60
        while not kill_when() and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(children[1], signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def on_two(layout: str, folder: Path, *jobs) -> None:
    """Each job with the engine of two processes, and a model in bfloat16."""

    def all_of_them(number: int) -> None:
        processes = Processes(LAYOUTS[layout](), devices=2)
        for job in jobs:
            job(processes.engine())
        narrow(processes.engine(torch.bfloat16), folder / f"{layout}, bfloat16")

    require(both(all_of_them) == [0, 0], layout)


def require(held: bool, what: str) -> None:
    """End with what did not hold."""
    if not held:
        sys.exit(f"failed: {what}")


COMMAND = (
    "train rotate-the-loop/s3 --width 16 --heads 2 --length 6 --smallest-steps 1 --largest-steps 3 --updates 40 "
    "--words 40 --checkpoint-every 7 --threads 1 --threshold 1.5 --device cpu"
)


def command(folder: Path, more: str = "--batch 8 --devices 2", name: str = ""):
    """The job of one process: the command, its output in a file beside the folder."""

    def job(number: int) -> None:
        output = os.open(f"{folder}{name}.{number}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        main([*COMMAND.split(), "--out", str(folder), *more.split()])

    return job


def lines(folder: Path) -> int:
    """How many updates are logged."""
    log = folder / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def alone(job) -> list[int]:
    """Run ``job`` on one process."""
    child = os.fork()
    if not child:
        try:
            job(0)
        except SystemExit as ending:
            os._exit(ending.code)
        os._exit(99)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def without_scores(run: Path) -> Path:
    """A copy of a finished run whose scores are gone."""
    copy = run.with_name(f"{run.name}, scored again")
    shutil.copytree(run, copy)
    (copy / "evaluation.json").unlink()
    return copy


def killed_and_resumed(here: Path) -> dict[str, list[int]]:
    """A command undisturbed, and two runs of it that lose a process: two go on with one, one with the other.

    All of it with a copy of the model on each process, and with shards.
    """
    whole, two, one = (here / name for name in ("undisturbed", "two", "one"))
    shards, cut, rest = (here / name for name in ("shards", "shards, two", "shards, one"))
    fsdp = "--batch 8 --devices 2 --strategy fsdp"
    return {
        "shards": both(command(shards, fsdp)),
        "shards, two, killed": both(command(cut, fsdp, name=", killed"), kill_when=lambda: lines(cut) >= 16),
        "shards, two": both(command(cut, fsdp)),
        "shards, one, killed": both(command(rest, fsdp, name=", killed"), kill_when=lambda: lines(rest) >= 16),
        "shards, one": alone(command(rest, "--batch 8")),
        "undisturbed": both(command(whole)),
        "two, killed": both(command(two, name=", killed"), kill_when=lambda: lines(two) >= 16),
        "two": both(command(two)),
        "one, killed": both(command(one, name=", killed"), kill_when=lambda: lines(one) >= 16),
        "one": alone(command(one, "--batch 8")),
        "scored again": both(command(without_scores(whole))),
        "shards, scored again": both(command(without_scores(shards), fsdp)),
        "another seed": both(command(whole, "--batch 8 --devices 2 --seed 5", name=", another seed")),
        "a batch of 7": both(command(here / "odd", "--batch 7 --devices 2")),
    }


def trained_alike(here: Path) -> None:
    """Every run and model with the engine of two processes, and with that of one."""
    for layout in LAYOUTS:
        on_two(
            layout,
            here,
            lambda engine, layout=layout: run(engine, here / f"{layout}, whole", parts=1),
            lambda engine, layout=layout: run(engine, here / f"{layout}, whole, muon", 1, "muon"),
            lambda engine, layout=layout: run(engine, here / f"{layout}, four parts", parts=2),
            lambda engine, layout=layout: run(engine, here / f"{layout}, pieces", parts=1, until=5),
            lambda engine, layout=layout: run(engine, here / f"{layout}, pieces", parts=1),
            lambda engine, layout=layout: run(engine, here / f"{layout}, to one", parts=1, until=5),
            lambda engine, layout=layout: every_model(engine, here / f"{layout}, models"),
        )
        run(SingleProcess(), here / f"{layout}, to one", parts=2)
    run(SingleProcess(), here / "whole", parts=2)
    run(SingleProcess(), here / "whole, muon", 2, "muon")
    run(SingleProcess(), here / "four parts", parts=4)
    every_model(SingleProcess(), here / "models")
    narrow(SingleProcess(torch.bfloat16), here / "bfloat16")
    narrow(SingleProcess(), here / "float32")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)]).step()  # loads what torch loads late, once for all
    folder = Path(sys.argv[1])
    endings = killed_and_resumed(folder)
    trained_alike(folder)
    (folder / "endings.json").write_text(json.dumps(endings))
