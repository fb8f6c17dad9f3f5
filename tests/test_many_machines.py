"""Many processes train as one does: equal numbers, checkpoints that any number goes on from, one line an error."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

import cases
import tiny_training
from refusal import refused
from torsor.experiments.together import join
from torsor.models import LSTM
from torsor.training import Plan, train

FILES = ("checkpoint/model.safetensors", "checkpoint/training.safetensors", "metrics.jsonl")
MOST_APART = {"adamw": 1e-6, "muon": 0.02}  # a sharded Muon orthogonalises in bfloat16, in another order of its sums


def program(name: str, *arguments: str) -> str:
    """What a program beside this file prints; it must succeed."""
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, here / name, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(here)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of ``two_processes.py``, which runs once however many workers share these tests."""
    shared = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp().parent if shared else tmp_path_factory.mktemp("many")
    folder = base / "two_processes"
    with (base / "two_processes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "endings.json").exists():
            folder.mkdir()
            program("two_processes.py", str(folder))
    return folder


@pytest.fixture(scope="module")
def endings(trained):
    return json.loads((trained / "endings.json").read_text())


def differing(first: Path, second: Path) -> list[str]:
    """The files of two runs that are not the same bytes: metrics, weights and moments, whole or in shards."""
    names = {
        f"checkpoint/{each.name}"
        for folder in (first, second)
        for each in (folder / "checkpoint").glob("*.safetensors")
    }
    names.add("metrics.jsonl")
    assert len(names) in {3, 5}
    return [name for name in sorted(names) if (first / name).read_bytes() != (second / name).read_bytes()]


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file; of a checkpoint in shards those that its index puts together."""
    if path.exists():
        return load_file(path)
    index = json.loads((path.parent / "shards.json").read_text())[path.stem]
    files = {name: load_file(path.parent / name) for places in index.values() for name in (p["file"] for p in places)}
    pieces = {name: [files[each["file"]][name] for each in places] for name, places in index.items()}
    return {name: torch.cat(rows) if rows[0].ndim else rows[0] for name, rows in pieces.items()}


def apart(first: Path, second: Path) -> float:
    """The largest difference of two files of tensors, relative to the largest number of a tensor or to 1."""
    ours, theirs = tensors_of(first), tensors_of(second)
    assert ours.keys() == theirs.keys()
    pairs = [(ours[name].double(), theirs[name].double()) for name in ours if ours[name].numel()]
    return max(float((one - other).abs().max() / other.abs().max().clamp(min=1)) for one, other in pairs)


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


# --- equal to one process ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["", ", muon"])
def test_two_processes_equal_one_with_its_batch_in_two_parts_to_the_last_bit(trained, optimizer):
    assert not differing(trained / f"ddp, whole{optimizer}", trained / f"whole{optimizer}")


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_model_in_shards_equals_one_process_up_to_rounding(trained, optimizer):
    name = "whole" if optimizer == "adamw" else "whole, muon"
    for file in FILES[:2]:
        assert apart(trained / f"fsdp, {name}" / file, trained / name / file) < MOST_APART[optimizer]
    assert losses(trained / f"fsdp, {name}") == pytest.approx(losses(trained / name), rel=MOST_APART[optimizer])


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_two_parts_on_each_of_two_processes_equal_four_parts_on_one_up_to_rounding(trained, layout):
    for file in FILES[:2]:
        assert apart(trained / f"{layout}, four parts" / file, trained / "four parts" / file) < 1e-6
    assert losses(trained / f"{layout}, four parts") == pytest.approx(losses(trained / "four parts"), rel=1e-5)


def test_in_bfloat16_two_processes_equal_one_and_the_weights_are_in_float32(trained):
    ours, theirs = load_file(trained / "ddp, bfloat16"), load_file(trained / "bfloat16")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert {tensor.dtype for tensor in ours.values()} == {torch.float32}
    assert apart(trained / "fsdp, bfloat16", trained / "bfloat16") < 1e-5
    assert apart(trained / "bfloat16", trained / "float32") > 1e-4  # so that the products are in bfloat16


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_parameters_of_every_transition_group_and_layer_are_right_on_two_processes(trained, layout):
    registers = [*cases.TRANSITIONS, *cases.MATRIX_GROUPS, *cases.LAYERED_MODELS]
    files = sorted((trained / "models").iterdir())
    assert len(files) == len(registers) + 2
    for file in files:
        assert apart(trained / f"{layout}, models" / file.name, file) < 1e-12, file.name
        results = load_file(trained / f"{layout}, models" / file.name)
        moved = [name for name, tensor in results.items() if name.startswith("moved/") and tensor.abs().max() > 1e-6]
        assert len(moved) >= 3
        for name, stored in results.items():  # what is gathered for a checkpoint is what the model computes with
            if name.startswith("after/") and name.replace("after", "seen", 1) in results:
                assert torch.equal(stored, results[name.replace("after", "seen", 1)])


def test_a_single_process_does_what_the_bare_loop_does_to_the_last_bit():
    ours, bare = tiny_training.state(), tiny_training.state()
    plan = Plan(updates=6, batch=5, clip=0.5, parts=2)
    assert len(list(train(ours, tiny_training.Echo(), plan))) == 6
    for update in range(6):
        batch = tiny_training.Echo().batch(update, 5)
        bare.optimizer.zero_grad()
        for rows in (slice(0, 2), slice(2, 5)):
            logits, targets = bare.model(batch.tokens[rows]), batch.targets[rows]
            (cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / 30).backward()
        torch.nn.utils.clip_grad_norm_(bare.model.parameters(), 0.5)
        bare.optimizer.step()
    assert tiny_training.equal(tiny_training.tensors(ours), tiny_training.tensors(bare))


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_a_run_on_two_processes_in_two_pieces_equals_the_run_in_one(trained, layout):
    assert not differing(trained / f"{layout}, pieces", trained / f"{layout}, whole")


def test_one_process_goes_on_from_what_two_have_written(trained):
    assert not differing(trained / "ddp, to one", trained / "whole")
    assert apart(trained / "fsdp, to one" / FILES[0], trained / "whole" / FILES[0]) < 1e-6


def test_a_run_that_lost_a_process_ends_as_if_it_had_not(trained, endings):
    assert endings["undisturbed"] == [0, 0]
    assert endings["two, killed"] == [1, -9]  # the other one noticed, and left
    assert endings["two"] == [0, 0]
    for name in (*FILES, "evaluation.json", "geometry.json"):
        assert (trained / "two" / name).read_bytes() == (trained / "undisturbed" / name).read_bytes(), name


def went_on_alone(one, two):
    """The losses of a run that one process ended and of the same run by two, which are equal up to rounding."""
    alone, together = losses(one), losses(two)
    assert len(alone) == len(together) == 40
    assert alone[:14] == together[:14]
    assert alone == pytest.approx(together, rel=1e-4)
    return alone, together


def test_a_run_that_lost_a_process_is_ended_by_one_alone_on_the_same_batches(trained, endings):
    assert (endings["one, killed"], endings["one"]) == ([1, -9], [0])
    alone, together = went_on_alone(trained / "one", trained / "undisturbed")
    assert alone[15:] != pytest.approx(together[14:-1], rel=1e-4)  # no batch is another's


@pytest.mark.parametrize(("name", "run"), [("scored again", "undisturbed"), ("shards, scored again", "shards")])
def test_the_scores_of_a_finished_run_of_several_processes_are_made_again_by_the_main_one(name, run, trained, endings):
    assert endings[name] == [0, 0]
    for file in (each for each in (trained / run).rglob("*") if each.is_file() and each.name != ".lock"):
        assert (trained / f"{run}, scored again" / file.relative_to(trained / run)).read_bytes() == file.read_bytes()
    said = (trained / f"{run}, scored again.0.txt").read_text()
    assert "40 updates; nothing was trained now; its model was examined again\n" in said
    assert (trained / f"{run}, scored again.1.txt").read_text() == ""


def test_each_process_writes_its_own_shard_and_none_holds_the_whole_model(trained):
    folder = trained / "fsdp, whole" / "checkpoint"
    shards = {f"{kind}-{number}-of-2.safetensors" for kind in ("model", "training") for number in (1, 2)}
    assert {each.name for each in folder.iterdir()} == shards | {"state.json", "shards.json"}
    whole = load_file(trained / "whole" / FILES[0])
    for number in (1, 2):
        for name, rows in load_file(folder / f"model-{number}-of-2.safetensors").items():
            assert len(rows) <= -(-len(whole[name]) // 2) if whole[name].ndim else number == 1, name
    assert (folder / "model-1-of-2.safetensors").stat().st_size > (folder / "state.json").stat().st_size


def test_a_run_in_shards_that_lost_a_process_ends_as_if_it_had_not(trained, endings):
    assert endings["shards"] == [0, 0]
    assert endings["shards, two, killed"] == [1, -9]
    assert endings["shards, two"] == [0, 0]
    assert not differing(trained / "shards, two", trained / "shards")
    for name in ("evaluation.json", "geometry.json"):
        assert (trained / "shards, two" / name).read_bytes() == (trained / "shards" / name).read_bytes(), name


def test_a_run_in_shards_that_lost_a_process_is_ended_by_one_alone(trained, endings):
    assert (endings["shards, one, killed"], endings["shards, one"]) == ([1, -9], [0])
    went_on_alone(trained / "shards, one", trained / "shards")
    assert (trained / "shards, one" / FILES[0]).exists()  # the one process has written it whole
    assert not (trained / "shards, one" / "checkpoint" / "shards.json").exists()


def test_one_process_measures_tracks_and_exports_a_run_in_shards(trained, tmp_path, capsys):
    from torsor.cli import main
    from torsor.experiments.run import load

    torch.set_default_dtype(torch.float32)
    folder = tmp_path / "run"
    shutil.copytree(trained / "shards", folder)
    written = tensors_of(folder / FILES[0])
    study = load(folder)
    assert all(torch.equal(written[name], each) for name, each in study.model.state_dict().items() if name in written)
    geometry = json.loads((folder / "geometry.json").read_text())
    (folder / "geometry.json").unlink()
    for command in (f"measure {folder}", f"track {folder} --words 8 --lengths 4 --threads 1"):
        with pytest.raises(SystemExit) as caught:
            main(command.split())
        assert caught.value.code == 0, capsys.readouterr().err
    assert json.loads((folder / "geometry.json").read_text()) == geometry
    if find_spec("transformers"):
        from torsor.interop import from_hugging_face

        with pytest.raises(SystemExit) as caught:
            main(f"export {folder} --to hf --out {tmp_path / 'hf'}".split())
        assert caught.value.code == 0
        back = from_hugging_face(tmp_path / "hf").state_dict()
        assert all(torch.equal(back[name], each) for name, each in study.model.state_dict().items())


def test_the_run_says_how_many_processes_trained_it(trained):
    counts = {
        name: [
            (each["update"], each["processes"])
            for each in json.loads((trained / name / "run.json").read_text())["resumed_with"]
        ]
        for name in ("whole", "undisturbed", "two", "one")
    }
    assert counts["undisturbed"] == counts["two"] == [(0, 2)]
    assert counts["whole"] == []
    (first, last) = counts["one"]
    assert (first, last[1]) == ((0, 2), 1)
    assert last[0] in {14, 21}


# --- what is said -----------------------------------------------------------------------------------------------------


def test_only_the_main_process_speaks(trained, endings):
    assert "its geometry" in (trained / "undisturbed.0.txt").read_text()
    assert (trained / "undisturbed.1.txt").read_text() == ""
    line = "torsor: another of the 2 processes has ended; the same command goes on from the last checkpoint\n"
    assert (trained / "two, killed.0.txt").read_text().endswith(line)
    assert endings["another seed"] == [2, 2]
    told = (trained / "undisturbed, another seed.0.txt").read_text()
    assert told.count("\n") == 1
    assert "holds a run with seed=0, not 5" in told
    assert (trained / "undisturbed, another seed.1.txt").read_text() == ""


@pytest.mark.parametrize(("number", "heard"), [(0, ["measuring"]), (1, [])])
def test_how_far_a_run_is_the_main_process_alone_says(number, heard, tmp_path, monkeypatch):
    from torsor.cli.train import _follow_together
    from torsor.experiments.listening import listening, tell

    def records():
        tell("measuring", 1, 2)
        yield from ()

    monkeypatch.setattr("torsor.cli.progress.follow", lambda records, _path: list(records))
    told = []
    with listening(lambda what, _share: told.append(what)):
        _follow_together(records(), tmp_path, SimpleNamespace(number=number, count=2))
    assert told == heard


def test_a_batch_that_the_processes_cannot_share_is_one_line_and_leaves_nothing(trained, endings):
    assert endings["a batch of 7"] == [2, 2]
    line = "batch must be a multiple of the number of processes = 2, got 7\n"
    assert (trained / "odd.0.txt").read_text() == "torsor: " + line
    assert (trained / "odd.1.txt").read_text() == "torsor: process 1 of 2: " + line
    assert not (trained / "odd").exists()


@pytest.mark.parametrize(
    ("given", "started", "message"),
    [
        ((0, None, "cpu"), {}, "devices must be at least 1, got 0"),
        ((None, -1, "cpu"), {}, "nodes must be at least 1, got -1"),
        ((1000, None, "cuda"), {}, r"devices must be at most the \d+ GPUs that torch finds, got 1000; --device cpu"),
        ((1000, None, "auto"), {}, r"devices must be at most the \d+ GPUs that torch finds, got 1000; --device cpu"),
        ((2, None, "cuda:1"), {}, "device must be auto, cpu or cuda where there are several, got 'cuda:1'"),
        ((2, 4, "cpu"), {}, "nodes must be 1 unless torchrun or srun starts the processes on each, got 4"),
        ((None, None, "cpu"), {"WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "processes that were started = 2, got 1 .* 1"),
        ((2, 2, "cpu"), {"WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "processes that were started = 2, got 2 .* 2"),
        ((2, None, "cpu"), {"SLURM_PROCID": "0", "SLURM_NTASKS": "3"}, "that were started = 3, got 2 .* 1"),
    ],
)
def test_processes_that_cannot_be_joined_are_refused_in_one_line(given, started, message, monkeypatch):
    for name in ("WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in started.items():
        monkeypatch.setenv(name, value)
    devices, nodes, device = given
    with refused(message):
        join(devices, nodes, "ddp", device)


DOCUMENTED = (Path(__file__).parents[1] / "docs" / "many_machines.md").read_text().replace("\\\n", " ")


@pytest.mark.parametrize(
    ("launcher", "devices", "nodes"),
    [("", 8, None), ("torchrun ", 8, 4), ("srun ", 8, 4)],
    ids=["one", "torchrun", "Slurm"],
)
def test_the_documented_commands_are_those_of_the_program(launcher, devices, nodes):
    from torsor.cli.app import app

    lines = [line.strip() for line in DOCUMENTED.splitlines() if "torsor train rotate-the-loop/language" in line]
    (line,) = [line for line in lines if line.startswith(launcher or "torsor")]
    if launcher == "torchrun ":
        assert f"--nnodes {nodes} --nproc-per-node {devices} " in line
        assert "--no-python torsor" in line  # it is a program and no file of Python
    if launcher == "srun ":
        assert f"#SBATCH --nodes={nodes}" in DOCUMENTED
        assert f"#SBATCH --ntasks-per-node={devices}" in DOCUMENTED
    typed = line[line.index("torsor train") :].split()[1:]
    _, bound, _ = app.parse_args(typed, exit_on_error=False, print_error=False)
    given = bound.kwargs
    assert (given["devices"], given.get("nodes"), given["scale"]) == (devices, nodes, "paper")


def test_one_device_is_the_single_process_and_an_interactive_job_starts_none(monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_JOB_NAME", "bash")
    assert join(None, None, "ddp", "auto") is None
    assert join(1, 1, "fsdp", "cuda:77") is None


def test_without_the_package_several_devices_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(ImportError, match=r"^several devices need .* pip install 'torsor\[dist\]'$"):
        join(2, None, "ddp", "cpu")


# --- compiled blocks --------------------------------------------------------------------------------------------------


def test_the_number_of_compiled_graphs_does_not_grow_with_depth_or_length():
    told = json.loads(program("compiled_blocks.py", "aot_eager"))
    assert told["blocks"] == 3
    assert 1 <= told["graphs"] <= 2 < told["limit"]
    assert set(told["by depth"]) == {told["graphs"]}  # all of them by the second length of the first depth
    assert told["apart"] < 1e-4
    assert told["names"]


def test_a_model_without_blocks_is_refused_before_it_is_compiled():
    from torsor.experiments.compiled import CompiledBlocks

    with refused("--compile needs a model that is made of torsor.layers.Block, this one has none"):
        CompiledBlocks(LSTM(7, hidden=5))
