"""Training updates that processes make together, each told from outside when to begin the next one."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from queue import Queue
from threading import Thread
from types import TracebackType
from typing import Any, final

import torch

from torsor.bench.looped import word_model
from torsor.experiments.compiled import CompiledBlocks
from torsor.groups import alternating
from torsor.tasks import WordProblem
from torsor.training.engine import Engine
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw
from torsor.training.plan import Plan
from torsor.training.record import Record
from torsor.training.state import TrainState
from torsor.training.train import train

_NEVER = 10**9  # updates: the processes are ended before
_MADE = "made"


@final
@dataclass(frozen=True)
class Sizes:
    """What one update computes.

    Args:
        width: of the 1/1/1 looped model, a multiple of 8.
        batch: sequences, a multiple of the number of processes.
        length: tokens of each, at least 2.
        steps: loops.
    """

    width: int
    batch: int
    length: int
    steps: int


@final
class SharedUpdates:
    """Processes that train one looped model together; to call this is to make the next update.

    They are joined as those of ``torsor train --devices``; a single one is not joined to anything. ``with`` starts
    them, waits until the first update is made, and ends them.

    Args:
        sizes: of an update.
        processes: at least 1.
        threads: of PyTorch, in each.
        compiled: whether they compile the model's blocks.

    Raises:
        RuntimeError: from ``with`` and from a call, as soon as one of them has ended.
    """

    def __init__(self, sizes: Sizes, processes: int, threads: int, compiled: bool) -> None:
        self._given = json.dumps({"sizes": asdict(sizes), "threads": threads, "compiled": compiled})
        self._count = processes
        self._processes: list[subprocess.Popen[str]] = []
        self._listening: list[Thread] = []
        self._heard: Queue[tuple[int, str | None]] = Queue()  # the number of a process and a line, None for its end
        self._errors: dict[int, str] = {}

    def __enter__(self) -> "SharedUpdates":
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(self._count)}
        try:
            for number in range(self._count):
                own = {"RANK": str(number), "LOCAL_RANK": str(number), "TORCHELASTIC_RUN_ID": "bench"}
                self._start(number, os.environ | shared | own)
            self()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self, number: int, environment: dict[str, str]) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self._processes.append(process)

        def hear() -> None:
            for line in process.stdout or ():
                self._heard.put((number, line.strip()))
            self._heard.put((number, None))

        self._listening.append(Thread(target=hear, daemon=True))
        self._listening[-1].start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
        for process, listening in zip(self._processes, self._listening, strict=True):
            with process, suppress(BrokenPipeError):  # which waits for it and closes its pipes
                listening.join()
        self._processes.clear()
        self._listening.clear()

    def __call__(self) -> None:
        for process in self._processes:
            if process.stdin is not None:
                with suppress(BrokenPipeError):  # one that has ended is told below
                    process.stdin.write("\n")
                    process.stdin.flush()
        waiting = self._count
        while waiting:
            number, line = self._heard.get()
            if line is None:
                code = self._processes[number].wait()
                said = f": {self._errors[number]}" if number in self._errors else ""
                raise RuntimeError(f"process {number} of those that train together ended with status {code}{said}")
            if "Error: " in line:
                self._errors[number] = line
            waiting -= line == _MADE


def updates(sizes: Sizes, compiled: bool, engine: Engine | None = None) -> Iterator[Record]:
    """The updates of a looped model on words of A5: see ``torsor.training.train``.

    Args:
        sizes: of each.
        compiled: whether the model's blocks are compiled.
        engine: the machine; a single process by default.
    """
    torch.manual_seed(0)
    model = word_model(sizes.width)
    if compiled:
        CompiledBlocks(model)
    plan = Plan(updates=_NEVER, batch=sizes.batch)
    task = WordProblem(alternating(5), length=sizes.length - 1)  # and the begin token
    state = TrainState(model, adamw(model, 1e-3))
    return train(state, task, plan, forward=lambda model, tokens, *_: model(tokens, steps=sizes.steps), engine=engine)


def _main(given: dict[str, Any]) -> None:
    torch.set_num_threads(given["threads"])
    keep_freed_memory()
    engine = None
    if int(os.environ["WORLD_SIZE"]) > 1:
        from torsor.experiments.together import join

        joined = join(int(os.environ["WORLD_SIZE"]), None, "ddp", "cpu")
        engine = None if joined is None else joined.engine()
    made = updates(Sizes(**given["sizes"]), given["compiled"], engine)
    for _ in sys.stdin:
        next(made)
        print(_MADE, flush=True)


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
