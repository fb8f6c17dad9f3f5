"""A run small enough to be made hundreds of times; as a program, a run that is killed again and again."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from torsor.tasks import IGNORED, Batch, Task
from torsor.training import (
    LengthCurriculum,
    Plan,
    RunFolder,
    Schedule,
    TrainState,
    adamw,
    train,
)

ARGUMENTS = {"width": 8, "lengths": (2, 4, 6)}


@final
class Echo(Task):
    """Say each bit again: learned in a few dozen updates."""

    def __init__(self, length: int = 6) -> None:
        self.length = length

    vocabulary, classes = 3, 2

    def evaluation(self, size: int) -> Batch:
        return self.batch(-1, size)

    def batch(self, update: int, size: int) -> Batch:
        generator = torch.Generator().manual_seed(update + 1)
        bits = torch.randint(2, (size, self.length), generator=generator)
        begin = torch.full((size, 1), 2)
        return Batch(torch.cat([begin, bits], dim=1), torch.cat([torch.full((size, 1), IGNORED), bits], dim=1))


def model(dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Embedding(3, 8, dtype=dtype),
        nn.Linear(8, 7, dtype=dtype),
        nn.LayerNorm(7, dtype=dtype),
        nn.Linear(7, 2, dtype=dtype),
    )


def state(dtype: torch.dtype = torch.float32, seed: int = 0) -> TrainState:
    built = model(dtype, seed)
    return TrainState(built, adamw(built, 0.03, betas=(0.9, 0.98), weight_decay=0.1))


def plan(updates: int) -> Plan:
    return Plan(
        updates=updates,
        batch=5,
        clip=0.5,
        schedule=Schedule(warmup=3, decay=0.5),
        curriculum=LengthCurriculum(lengths=(2, 4, 6), threshold=0.6, smoothing=0.8),
    )


def tensors(state: TrainState) -> dict[str, Tensor]:
    """Copies of all that moves."""
    return {name: tensor.clone() for name, tensor in (state.weights() | state.moments()).items()}


def equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Equal to the last bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Everything in a folder but its lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def open_run(folder: Path) -> RunFolder:
    return RunFolder(folder, "tests/echo", ARGUMENTS, seed=0)


def complete(folder: Path, updates: int, every: int) -> TrainState:
    """A whole run, or the rest of one: a checkpoint every few updates, an evaluation, the end."""
    current = state()
    with open_run(folder) as run:
        run.restore(current)
        for record in train(current, Echo(), plan(updates)):
            run.log(record)
            if record.update % every == 0:
                run.save(current)
        run.save(current)
        run.replace_json("evaluation.json", {"bits": float(current.model[-1].bias.detach().sum())})
        run.finish()
    return current


def main(folder: Path, updates: int, every: int, kills: int) -> None:
    """Kill the run ``kills`` times at moments of no plan, then let it finish; print how many kills met it running."""
    import torch._dynamo  # noqa: F401 - an optimizer's first step would, a second or two in every child

    moments = random.Random(0)
    met = 0
    for kill in range(kills):
        child = os.fork()
        if child == 0:
            complete(folder, updates, every)
            os._exit(0)
        wanted = updates * (kill + moments.random()) / (kills + 1)
        log = folder / "metrics.jsonl"
        while not log.exists() or log.read_bytes().count(b"\n") < wanted:
            if os.waitpid(child, os.WNOHANG) != (0, 0):
                raise SystemExit("the run ended before it was killed")
        time.sleep(moments.uniform(0, 0.003))
        os.kill(child, signal.SIGKILL)
        met += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    complete(folder, updates, every)
    print(json.dumps({"met": met}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
