"""Coverage-guided fuzzing of all that reads a file or an argument: a mistake is an error of one line, and nothing else.

Not among the tests. It needs the package atheris. Run: ``python tests/fuzz/harness.py TARGET [libFuzzer's options]
[corpus folders]``, for example ``python tests/fuzz/harness.py run_json -max_total_time=60 tests/fuzz/corpus/run_json``.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["torsor"]):
    from torsor.cli import main
    from torsor.report import write_report
    from torsor.report.json_values import json_lines
    from torsor.text import CharacterTokenizer, JsonLines, PreparedText, TextFiles, load_tokenizer
    from torsor.training import read_run

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

PLACE = Path(tempfile.mkdtemp(prefix="torsor-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
SOUND = save({"a": torch.arange(3), "b": torch.ones(2, 2)})
REFUSALS = (ValueError,)  # what a command turns into one line


def written(name: str, data: bytes) -> Path:
    path = PLACE / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(data)
    return path


def run_json(data: bytes) -> None:
    read_run(written("run/run.json", data).parent)


def report_of_run_json(data: bytes) -> None:
    write_report([written("reported/run.json", data).parent], PLACE / "page.html", "torsor report run")


def metrics(data: bytes) -> None:
    json_lines(written("metrics.jsonl", data))


def tokenizer(data: bytes) -> None:
    made = load_tokenizer(written("tokenizer.json", data))
    made.decode(made.encode_all([""])[0])


def safetensors_header(data: bytes) -> None:
    """Edits of a sound file, three bytes each: two for the place, one to be there.

    The code that reads it is no Python, and cannot guide a search.
    """
    edited = bytearray(SOUND)
    for first in range(0, len(data) - 2, 3):
        edited[int.from_bytes(data[first : first + 2]) % len(edited)] = data[first + 2]
    with contextlib.suppress(SafetensorError):  # a checkpoint is checked by its SHA-256 before this reads it
        load(bytes(edited))


def shards(data: bytes) -> None:
    """An index, a zero byte, and a shard."""
    index, _, shard = data.partition(b"\0")
    written("out/index.json", index)
    written("out/training-00000.bin", shard)
    if not (PLACE / "out" / "tokenizer.json").exists():
        CharacterTokenizer("ab").save(PLACE / "out" / "tokenizer.json")
    PreparedText.open(PLACE / "out")


def documents(data: bytes) -> None:
    list(JsonLines(written("documents.jsonl", data)).documents())
    list(TextFiles(written("documents.txt", data), separator="\n\n").documents())


def command_line(data: bytes) -> None:
    """Words of a command that writes nothing: whatever they are, the program ends with 0, 1 or 2 and says why."""
    words = data.decode(errors="replace").replace("\x00", " ").split()[:8]
    if not words or words[0] in {"demo", "train", "table", "bench", "doctor", "generate", "track", "explore", "data"}:
        return  # these compute, or read folders of the machine
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            main(words)
        except SystemExit as ending:
            if ending.code not in {0, 1, 2}:
                raise RuntimeError(f"ended with {ending.code!r}") from None
            if ending.code and said.getvalue().count("\n") != 1:
                raise RuntimeError(f"said {said.getvalue()!r}") from None


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (
        run_json,
        report_of_run_json,
        metrics,
        tokenizer,
        safetensors_header,
        shards,
        documents,
        command_line,
    )
}


def examined(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    def once(data: bytes) -> None:
        try:
            target(data)
        except REFUSALS as error:
            if "\n" in str(error):
                raise RuntimeError(f"more than one line: {error}") from error

    return once


def seed_corpus(folder: Path) -> None:
    """Write the small corpus that lies in the repository."""
    import json

    index = {"format": 1, "request": {}, "tokenizer": {"sha256": "0"}, "width": "uint16", "parts": {}}
    run = {"format": 1, "experiment": "a/b", "arguments": {"width": 8}, "seed": 0, "versions": {"torch": "2"}}
    run |= {"threads": 1, "dtype": "float32", "resumed_with": [], "status": "running", "about": {"label": "a"}}
    digest = {"update": 1, "files": dict.fromkeys(("model.safetensors", "training.safetensors", "state.json"), "0")}
    contents = {
        "run_json": json.dumps(run | {"checkpoint": digest}).encode(),
        "report_of_run_json": json.dumps(run | {"checkpoint": None}).encode(),
        "metrics": b'{"update": 1, "loss": 1.5}\n{"update": 2, "loss": 1e-9}\n',
        "tokenizer": b'{"kind": "characters", "symbols": "ab"}',
        "safetensors_header": b"\0\0\x08\0\x20\x31",
        "shards": json.dumps(index).encode() + b"\0\1\0\2\0",
        "documents": b'{"text": "to be"}\n\n{"text": "or not"}\n',
        "command_line": b"report run --out page.html",
    }
    for name, content in contents.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "seed").write_bytes(content)


if __name__ == "__main__":
    if sys.argv[1] == "corpus":
        seed_corpus(Path(sys.argv[2]))
        sys.exit()
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, examined(target))
    atheris.Fuzz()
