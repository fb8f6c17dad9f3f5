"""Files that were truncated, altered or exchanged: every change is noticed before anything is used."""

import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from refusal import refused
from tiny_training import complete, equal, model, open_run, snapshot, state, tensors
from torsor.text import CharacterTokenizer, JsonLines, Preparation, PreparedText
from torsor.training import RunFolderError, load_weights, read_run
from torsor.training.checkpoint import locate

BODY_CHANGES = int(os.environ.get("TORSOR_CHANGES", "200"))  # of single bytes, for each file
FILES = ("model.safetensors", "training.safetensors", "state.json")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Wait for no disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def run(tmp_path) -> Path:
    complete(tmp_path / "run", updates=3, every=3)
    return tmp_path / "run"


def changes(content: bytes, header: int, *, every_value: bool = False):
    """Every place of the header and some of the body, with another byte for it."""
    chance = random.Random(0)
    body = [chance.randrange(header, len(content)) for _ in range(BODY_CHANGES)] if len(content) > header else []
    for place in [*range(min(header, len(content))), *body]:
        for other in range(1, 256) if every_value and place < header else (chance.randrange(1, 256),):
            yield place, bytes([content[place] ^ other])


def header_of(path: Path) -> int:
    """How many bytes stand before a file's tensors; all of a JSON file."""
    content = path.read_bytes()
    return len(content) if path.suffix == ".json" else 8 + int.from_bytes(content[:8], "little")


def every_change_is_noticed(path: Path, notice, *, every_value: bool = False) -> int:
    """Change one byte at a time and ask; how many changes there were."""
    content = path.read_bytes()
    count = 0
    with path.open("r+b", buffering=0) as opened:
        for place, byte in changes(content, header_of(path), every_value=every_value):
            opened.seek(place)
            opened.write(byte)
            assert notice(), f"byte {place} of {path.name} became {byte!r} and nobody noticed"
            opened.seek(place)
            opened.write(content[place : place + 1])
            count += 1
    assert path.read_bytes() == content
    return count


def refuses(action) -> bool:
    """Whether it is refused in one line."""
    try:
        action()
    except ValueError as error:
        return "\n" not in str(error)
    return False


@pytest.mark.parametrize("name", FILES)
def test_every_single_byte_of_a_checkpoint_that_changes_is_noticed(run, name):
    digest = read_run(run).checkpoint
    counted = every_change_is_noticed(run / "checkpoint" / name, lambda: refuses(lambda: locate(run, digest)))
    assert counted >= header_of(run / "checkpoint" / name)
    locate(run, digest)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_every_single_byte_of_a_header_is_noticed_whatever_it_becomes(run, name):
    digest = read_run(run).checkpoint
    every_change_is_noticed(run / "checkpoint" / name, lambda: refuses(lambda: locate(run, digest)), every_value=True)


def test_every_single_byte_of_the_run_file_that_changes_what_it_says_is_noticed(run):
    good = read_run(run)

    def noticed() -> bool:
        try:
            found = read_run(run)  # a space for another says the same
        except RunFolderError as error:
            return "\n" not in str(error)
        # where the checksum's own name is hit, it is not looked at, and all the rest is as it was
        return replace(found, about={name: found.about[name] for name in good.about}) == good

    assert every_change_is_noticed(run / "run.json", noticed) > 500


def test_another_number_in_the_run_file_is_refused_by_its_checksum_and_changes_nothing(run):
    path, good = run / "run.json", (run / "run.json").read_text()
    for old, new in (('"update": 3', '"update": 4'), ('"threads": 1', '"threads": 2'), ('"finished"', '"running"')):
        assert good.count(old) == 1
        path.write_text(good.replace(old, new))
        before = snapshot(run)
        for action in (lambda: open_run(run), lambda: load_weights(run, model())):
            with refused(
                "run.json was altered: its SHA-256 must be .{64}, found .{64}; put a copy of it back, or delete "
            ):
                action()
        assert snapshot(run) == before


def test_a_run_file_of_before_it_had_a_checksum_is_read(run):
    content = json.loads((run / "run.json").read_bytes())
    assert len(content["about"].pop("sha256")) == 64
    (run / "run.json").write_text(json.dumps(content))
    assert read_run(run).finished


def test_truncated_anywhere_a_file_of_a_checkpoint_is_refused(run):
    digest = read_run(run).checkpoint
    for name in FILES:
        path = run / "checkpoint" / name
        content = path.read_bytes()
        for length in (0, 1, 7, 8, 9, header_of(path) - 1, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:length])
            with refused(f"checkpoint/{name} was truncated or altered: its SHA-256 must begin .*, found .*$"):
                locate(run, digest)
        path.write_bytes(content)
    locate(run, digest)


def test_files_of_one_checkpoint_or_of_two_runs_that_were_exchanged_are_refused(run, tmp_path):
    complete(tmp_path / "other", updates=4, every=2)
    digest = read_run(run).checkpoint
    places = [run / "checkpoint" / name for name in FILES]
    others = [tmp_path / "other" / "checkpoint" / name for name in FILES]
    for first, second in [*zip(places, others, strict=True), (places[0], places[1]), (places[1], places[2])]:
        kept = first.read_bytes(), second.read_bytes()
        first.write_bytes(kept[1])
        second.write_bytes(kept[0])
        with refused("was truncated or altered: its SHA-256 must begin .{12}, found .{12}$"):
            locate(run, digest)
        first.write_bytes(kept[0])
        second.write_bytes(kept[1])
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(tmp_path / "other" / "checkpoint", run / "checkpoint")
    untouched = model()
    with refused("was truncated or altered"):
        load_weights(run, untouched)
    assert equal(dict(untouched.state_dict()), dict(model().state_dict()))


def test_of_a_damaged_and_a_sound_checkpoint_the_sound_one_is_taken(run):
    with open_run(run) as opened:
        opened.restore(expected := state())
    shutil.copytree(run / "checkpoint", run / "checkpoint.previous")
    (run / "checkpoint" / "model.safetensors").write_bytes(b"")
    with open_run(run) as opened:
        opened.restore(found := state(seed=1))
    assert equal(tensors(found), tensors(expected))


# Prepared text


@pytest.fixture
def prepared(tmp_path) -> Path:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "".join(f'{{"text": "{("abc" * 9)[n % 3 : n % 3 + n % 7] + n // 21 * "b"}"}}\n' for n in range(90))
    )
    for _ in Preparation(JsonLines(corpus), CharacterTokenizer("abc"), 0.2, shard_tokens=150).into(tmp_path / "out"):
        pass
    return tmp_path / "out"


def test_every_single_byte_of_a_shard_that_changes_is_noticed(prepared):
    shards = sorted(prepared.glob("*.bin"))
    assert len(shards) >= 3
    for shard in shards:
        content = shard.read_bytes()
        for place, byte in changes(content, 0):
            shard.write_bytes(content[:place] + byte + content[place + 1 :])
            assert refuses(lambda: PreparedText.open(prepared)), (shard.name, place)
        shard.write_bytes(content)
    PreparedText.open(prepared)


@pytest.mark.parametrize("name", ["index.json", "tokenizer.json"])
def test_every_single_byte_of_an_index_or_a_tokenizer_that_changes_what_it_says_is_noticed(prepared, name):
    good = PreparedText.open(prepared, checksums=False)

    def noticed() -> bool:
        try:
            found = PreparedText.open(prepared, checksums=False)
        except ValueError as error:
            return "\n" not in str(error)
        return found.index == good.index and found.tokenizer.content() == good.tokenizer.content()

    assert every_change_is_noticed(prepared / name, noticed) > 30


def test_shards_that_were_exchanged_are_refused(prepared):
    first, second = sorted(prepared.glob("training-*.bin"))[:2]
    kept = first.read_bytes(), second.read_bytes()
    first.write_bytes(kept[1])
    second.write_bytes(kept[0])
    with refused("training-0000[01].bin must have (sha256|[0-9]+ bytes)"):
        PreparedText.open(prepared)
