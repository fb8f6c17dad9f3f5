"""What is let in and what gets out: no pickle in what a run leaves, no way out of a folder, no unchecked download."""

import io
import json
import re
from pathlib import Path
from urllib.parse import urlparse

import pytest
import torch

from campaign_order import order
from refusal import refused
from tiny_training import open_run
from torsor.report import write_report
from torsor.text import CharacterTokenizer, PreparedText
from torsor.text.datasets import DATASETS
from torsor.text.fetching import fetch
from torsor.training import read_run

PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")  # its protocols, and torch.save's archive


def kind(path: Path) -> str:
    """What a file is by its content."""
    content = path.read_bytes()
    if path.name == ".lock":
        return "lock" if re.fullmatch(rb"\d*\n?", content) else "other"
    if content.startswith(PICKLE):
        return "pickle"
    if content.startswith(b"<!doctype html") or content.startswith(b"<!DOCTYPE html"):
        return "html"
    length = int.from_bytes(content[:8], "little")
    if 2 <= length <= len(content) - 8 and content[8:9] == b"{":
        header = json.loads(content[8 : 8 + length])
        ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
        return "safetensors" if len(content) == 8 + length + max(ends, default=0) else "other"
    try:
        json.loads(content)
    except ValueError:
        pass
    else:
        return "json"
    try:
        return "json lines" if [json.loads(line) for line in content.splitlines()] else "other"
    except ValueError:
        return "other"


def test_every_file_that_a_run_and_its_report_leave_is_text_or_tensors_by_its_content(tmp_path):
    torch.set_default_dtype(torch.float32)
    _, complete = order(tmp_path / "tables")
    complete()
    runs = [path.parent for path in tmp_path.rglob("run.json")]
    write_report(runs, tmp_path / "page.html", "torsor report")
    found = {path.relative_to(tmp_path): kind(path) for path in tmp_path.rglob("*") if path.is_file()}
    expected = {
        ".lock": "lock",
        ".json": "json",
        ".jsonl": "json lines",
        ".safetensors": "safetensors",
        ".html": "html",
    }
    assert found
    assert set(found.values()) == set(expected.values())
    for path, content in found.items():
        assert content == expected[path.suffix or path.name], path


def test_pickle_would_be_known_by_its_content(tmp_path):
    path = tmp_path / "weights.json"
    torch.save({"a": torch.zeros(2)}, buffer := io.BytesIO())
    path.write_bytes(buffer.getvalue())
    assert kind(path) == "pickle"
    torch.save({"a": 1}, buffer := io.BytesIO(), _use_new_zipfile_serialization=False)
    path.write_bytes(buffer.getvalue())
    assert kind(path) == "pickle"


# Names


@pytest.mark.parametrize("file", ["../outside.bin", "/etc/passwd", "a/b.bin", "..", "", ".", "a\0b"])
def test_an_index_cannot_name_a_shard_outside_of_its_folder(file, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(b"\0\0")
    tokenizer = CharacterTokenizer("ab")
    tokenizer.save(folder / "tokenizer.json")
    shard = {"file": file, "tokens": 1, "sha256": "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"}
    part = {"tokens": 1, "documents": 1, "bytes": 1, "shards": [shard]}
    index = {"format": 1, "request": {}, "tokenizer": {"sha256": tokenizer.sha256}, "width": "uint16"}
    (folder / "index.json").write_text(json.dumps(index | {"parts": {"training": part}}))
    with refused("must be the name of a file, without a folder, got "):
        PreparedText.open(folder)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "other.bin"])
def test_a_run_file_cannot_name_a_file_outside_of_its_checkpoint(name, tmp_path):
    open_run(tmp_path / "run").close()
    content = json.loads((tmp_path / "run" / "run.json").read_bytes())
    content["checkpoint"] = {"update": 1, "files": {name: "0", "training.safetensors": "0", "state.json": "0"}}
    content["about"] = {}
    (tmp_path / "run" / "run.json").write_text(json.dumps(content))
    with refused("run.json was altered: missing or unexpected "):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("name", ["../evaluation.json", "/tmp/x.json", "a/b.json", "run.json", "..json/../x.json"])
def test_a_result_cannot_be_written_outside_of_its_run(name, tmp_path):
    with open_run(tmp_path / "run") as run, refused("name must be a JSON file's other than run.json"):
        run.replace_json(name, {})


@pytest.mark.parametrize("name", ["../lambada", "/etc/passwd", "lambada/../gpt2-bpe", "."])
def test_a_data_set_is_one_of_those_listed_and_no_path(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TORSOR_DATA", str(tmp_path))
    with refused("there is no data set"):
        fetch(name)
    assert list(tmp_path.iterdir()) == []


# Downloads


def test_every_download_is_https_with_a_size_and_a_checksum_and_stays_in_its_folder():
    for dataset in DATASETS.values():
        for file in dataset.files:
            assert not Path(file.path).is_absolute()
            assert ".." not in Path(file.path).parts
            assert 0 < file.bytes < 10_000_000
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.urls
            for url in file.urls:
                assert urlparse(url).scheme == "https", url


class Response(io.BytesIO):
    """What a server says."""

    def __init__(self, content: bytes, url: str) -> None:
        super().__init__(content)
        self.url = url
        self.asked: list[int] = []

    def geturl(self) -> str:
        return self.url

    def read(self, size: int = -1) -> bytes:
        self.asked.append(size)
        return super().read(size)


@pytest.mark.parametrize(
    ("content", "url", "line"),
    [
        (b"x" * 5_000_000, "https://example.org/a", "must have 1819752 bytes, got more"),
        (b"x" * 1_819_752, "https://example.org/a", "must have 1819752 bytes and sha256 "),
        (b"", "https://example.org/a", "must have 1819752 bytes and sha256 "),
        (b"x", "http://example.org/a", "leads to http://example.org/a, which is not https"),
        (b"x", "file:///etc/passwd", "leads to file:///etc/passwd, which is not https"),
    ],
)
def test_what_a_server_sends_is_cut_at_the_size_and_refused_where_it_is_not_right(
    content, url, line, tmp_path, monkeypatch
):
    monkeypatch.setenv("TORSOR_DATA", str(tmp_path))
    for variable in ("TORSOR_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    response = Response(content, url)
    monkeypatch.setattr("urllib.request.urlopen", lambda address, timeout: response)
    with refused(f"^cannot fetch lambada: .*{line}"):
        fetch("lambada")
    assert all(0 < size <= 1_819_753 for size in response.asked)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
