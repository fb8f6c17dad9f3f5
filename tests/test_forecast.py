"""What a run will take, against what its update really computes and keeps."""

import json

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from torsor.cli import main
from torsor.experiments.catalogue import find
from torsor.experiments.forecast import COUNTED_UPDATES, forecast

SMALL = {"width": 16, "heads": 2, "length": 6, "batch": 12, "words": 10, "updates": 40}


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def build(**arguments):
    experiment = find("rotate-the-loop/a5")
    return experiment.build(**experiment.arguments(**{**SMALL, **arguments}))


def really(study, update):
    """Operations of an update, and bytes kept by the forward pass, on tensors with values."""
    tokens = study.task.batch(update, study.plan.batch).tokens
    kept, weights = {}, {id(p) for p in study.model.parameters()}

    def pack(tensor):
        if id(tensor) not in weights:
            kept[tensor.untyped_storage().data_ptr()] = (tensor, tensor.untyped_storage().nbytes())
        return tensor

    with FlopCounterMode(display=False) as counter:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = study.step.forward(study.model, tokens, update, slice(0, len(tokens)))
        logits.sum().backward()
    return counter.get_total_flops(), sum(size for _, size in kept.values())


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"transition": "cayley", "core_layers": 2},
        {"grad_steps": 3, "largest_steps": 9},
        {"depth_per": "sequence", "mean_steps": 4.0, "grad_steps": 2},
    ],
    ids=str,
)
def test_operations_are_those_that_an_update_really_computes(arguments):
    study = build(**arguments)
    counts = [really(study, update)[0] for update in range(COUNTED_UPDATES)]
    assert forecast(build(**arguments)).operations == pytest.approx(sum(counts) / len(counts), rel=1e-9)


@pytest.mark.parametrize("arguments", [{"smallest_steps": 8}, {"smallest_steps": 8, "grad_steps": 3}], ids=str)
def test_what_is_kept_for_the_backward_pass_is_what_a_forward_pass_really_keeps(arguments):
    kept = really(build(**arguments), 0)[1]
    assert forecast(build(**arguments)).kept_bytes == pytest.approx(kept, rel=0.02)


def test_a_larger_batch_takes_as_much_more_and_the_parts_of_a_plan_take_less_memory():
    one, two = forecast(build(smallest_steps=8)), forecast(build(smallest_steps=8), batch=24)
    assert two.operations == pytest.approx(2 * one.operations)
    assert two.tokens == 2 * one.tokens == 2 * 12 * 7
    assert one.kept_bytes < two.kept_bytes < 2 * one.kept_bytes + 1
    study = build(smallest_steps=8)
    parameters = sum(p.nbytes for p in study.model.parameters())
    counted = forecast(study)
    assert (counted.weight_bytes, counted.gradient_bytes, counted.optimizer_bytes) == (
        parameters,
        parameters,
        2 * parameters,
    )


def run(command):
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


OPTIONS = "--width 16 --heads 2 --length 6 --batch 12 --words 10 --updates 40 --largest-steps 4"


def test_the_command_prints_parameters_operations_memory_and_time(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(f"plan rotate-the-loop/a5 {OPTIONS} --gpu h200 --gpus 8") == 0
    out = capsys.readouterr().out
    # train's own scale is another
    assert out.startswith("rotate-the-loop/a5, conformal, 2 groups: the paper's size (--scale paper)\n")
    for words in ("parameters", "operations per token", "kept for the backward pass", "8 x NVIDIA H200", "fits in 141"):
        assert words in out
    assert "This run's products are in float32, for which a GPU has a lower peak" in out
    assert run(f"plan rotate-the-loop/a5 {OPTIONS} --json") == 0
    alone = json.loads(capsys.readouterr().out)
    assert run(f"plan rotate-the-loop/a5 {OPTIONS} --json --gpus 4") == 0
    four = json.loads(capsys.readouterr().out)
    assert four["seconds"] == pytest.approx(alone["seconds"] / 4)
    assert four["bytes_per_gpu"] < alone["bytes_per_gpu"]
    assert alone["fits"]
    assert alone["scale"] == "paper"
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("plan", "name an experiment"),
        ("plan rotate-the-loop/a6", "did you mean 'rotate-the-loop/a5'?"),
        (f"plan rotate-the-loop/a5 {OPTIONS} --gpu h300", "there is no accelerator 'h300'"),
        (f"plan rotate-the-loop/a5 {OPTIONS} --gpus 0", "gpus must be at least 1, got 0"),
    ],
)
def test_a_mistake_is_one_line(command, words, capsys):
    assert run(command) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
