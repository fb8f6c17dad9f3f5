"""The optimizer of language models: which parameters Muon moves, how, and that a run resumes exactly."""

import json
from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import nn

from cases import TRANSITIONS, looped
from refusal import refused
from tiny_training import Echo, model, plan
from torsor.models import AlignedValues
from torsor.training import Schedule, TrainState, muon, train
from torsor.transitions import BlockConformal


def moved_by_muon(built: nn.Module, **arguments) -> set[str]:
    optimizer = muon(built, 1e-2, **arguments)
    taken = {id(p) for p in optimizer.param_groups[0]["params"]}
    everything = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(everything) == sorted(id(p) for p in built.parameters())
    return {name for name, p in built.named_parameters() if id(p) in taken}


@pytest.mark.parametrize("name", TRANSITIONS)
def test_no_rate_frequency_or_chart_parameter_is_moved_by_muon(name):
    transition = TRANSITIONS[name]()
    built = looped(transition) if transition.dim % 4 == 0 else nn.Sequential(nn.Linear(6, 6), transition)
    moved = moved_by_muon(built)
    own = {id(p) for p in transition.parameters()}
    assert moved
    assert not [each for each, p in built.named_parameters() if id(p) in own and each in moved]


def test_muon_moves_the_matrices_of_blocks_and_neither_embeddings_gains_nor_what_is_named():
    built = looped(BlockConformal(16, groups=2), classes=None, layers=(2, 2, 2), value_embeddings=AlignedValues())
    moved = moved_by_muon(built, by_adamw=[built.inject, built.coda.enter])
    blocks = (*built.prelude.blocks.modules(), *built.core.modules(), *built.coda.blocks.modules())
    matrices = {id(each.weight) for each in blocks if isinstance(each, nn.Linear)}
    assert moved == {name for name, p in built.named_parameters() if id(p) in matrices}
    assert {"inject.weight", "coda.enter.weight"} <= moved_by_muon(built)


def test_an_update_is_that_of_the_two_optimizers_side_by_side():
    together, apart = model(), model()
    optimizer = muon(together, 0.03, adamw_learning_rate=0.01, by_adamw=[together[3]], weight_decay=0.1)
    one = torch.optim.Muon([apart[1].weight], lr=0.03, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    rest = [apart[0].weight, apart[1].bias, *apart[2].parameters(), apart[3].bias]
    other = torch.optim.AdamW(
        [{"params": [apart[3].weight], "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=0.01,
        betas=(0.8, 0.95),
    )
    for _ in range(3):
        for a, b in zip(together.parameters(), apart.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        optimizer.step()
        one.step()
        other.step()
    assert all(torch.equal(a, b) for a, b in zip(together.parameters(), apart.parameters(), strict=True))


def test_an_update_of_muon_gives_a_matrix_entries_of_the_size_of_adamw_s():
    built = nn.Sequential(nn.Linear(256, 64, bias=False), nn.Linear(64, 4))
    optimizer = muon(built, 1.0, by_adamw=[built[1]])
    before = built[0].weight.detach().clone()
    for parameter in built.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    assert float((built[0].weight.detach() - before).square().mean().sqrt()) == pytest.approx(0.2, rel=0.25)


def test_an_update_of_muon_at_the_published_scale_is_an_orthogonal_one_longer_for_tall_matrices():
    built = nn.Sequential(nn.Linear(16, 64, bias=False), nn.Linear(64, 64))
    optimizer = muon(built, 1.0, by_adamw=[built[1]], scale="published")
    before = built[0].weight.detach().clone()
    for parameter in built.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    lengths = torch.linalg.svdvals(built[0].weight.detach() - before)
    assert lengths.min() > 0.6 * 2
    assert lengths.max() < 1.3 * 2


def test_the_schedule_scales_both_rates():
    built = model()
    optimizer = muon(built, 0.4, adamw_learning_rate=0.1)
    here = replace(plan(4), schedule=Schedule(warmup=4))
    rates = [
        [group["lr"] for group in optimizer.param_groups] for _ in train(TrainState(built, optimizer), Echo(), here)
    ]
    assert rates == [pytest.approx([0.1 * k, 0.025 * k]) for k in range(1, 5)]


def test_ten_updates_of_muon_equal_five_saved_loaded_and_followed_by_five():
    def build():
        built = model()
        return TrainState(built, muon(built, 0.03, by_adamw=[built[3]], weight_decay=0.1))

    whole, first, second = build(), build(), build()
    list(train(whole, Echo(), plan(10)))
    list(islice(train(first, Echo(), plan(10)), 5))
    second.load(first.weights(), first.moments(), json.loads(json.dumps(first.progress())))
    list(train(second, Echo(), plan(10)))
    assert all(torch.equal(second.weights()[name], value) for name, value in whole.weights().items())
    assert all(torch.equal(second.moments()[name], value) for name, value in whole.moments().items())
    assert {"momentum_buffer/1.weight", "exp_avg/0.weight"} <= whole.moments().keys()


def test_a_checkpoint_that_lacks_a_slot_of_muon_is_refused():
    built = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    trained = TrainState(built, muon(built, 0.03))
    for parameter in built.parameters():
        parameter.grad = torch.randn_like(parameter)
    trained.optimizer.step()
    moments = trained.moments()
    del moments["exp_avg/0.bias"]
    with refused("missing exp_avg/0.bias"):
        trained.load(trained.weights(), moments, trained.progress())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive and finite, got 0.0"),
        ({"learning_rate": 0.1, "adamw_learning_rate": -1.0}, "adamw_learning_rate must be positive and finite"),
        ({"learning_rate": 0.1, "momentum": 1.0}, r"momentum must be in \[0, 1\), got 1.0"),
        ({"learning_rate": 0.1, "weight_decay": -1.0}, "weight_decay must be finite and not negative, got -1.0"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments, words):
    with refused(words):
        muon(model(), **arguments)


def test_a_model_without_a_hidden_matrix_is_refused():
    with refused("model must have a matrix of a hidden layer, it has none: use adamw"):
        muon(nn.Embedding(3, 4), 0.1)
