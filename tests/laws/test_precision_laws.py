"""Less memory and narrower types: recomputed loops, parts of a batch, and autocast beside a state in float32."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy

from cases import MODELS, TRANSITIONS, looped
from closeness import assert_close
from torsor.diagnostics import readability_defect, toeplitz_defect
from torsor.experiments.sampled_depth import SampledDepth
from torsor.groups import symmetric
from torsor.recurrence.depth import Poisson
from torsor.tasks import Batch, Task, WordProblem
from torsor.training import Plan, SingleProcess, TrainState, adamw, train
from torsor.transitions import BlockConformal, BlockDecay

TOKENS = torch.tensor([[0, 1, 2, 1], [2, 2, 0, 1], [1, 0, 0, 2]])
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def gradients(model, steps):
    model.zero_grad()
    logits = model(TOKENS, steps=steps)
    logits.sin().sum().backward()
    return logits.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


@every_model
@pytest.mark.parametrize("steps", [4, torch.tensor([1, 4, 2])], ids=["one depth", "a depth per sequence"])
@pytest.mark.parametrize("grad_steps", [None, 2])
def test_recomputing_the_loops_gives_the_same_logits_and_gradients(model, steps, grad_steps):
    built = model()
    built.grad_steps = grad_steps
    logits, kept = gradients(built, steps)
    built.recompute = True
    again, recomputed = gradients(built, steps)
    assert torch.equal(again, logits)
    assert len(kept) == len(recomputed) > 0
    for one, other in zip(kept, recomputed, strict=True):
        assert torch.equal(one, other)


def test_recomputing_the_loops_keeps_fewer_numbers_for_the_backward_pass():
    def kept(recompute: bool, steps: int) -> int:
        built = looped(BlockConformal(16, groups=2))
        built.recompute = recompute
        seen: dict[int, int] = {}

        def pack(tensor):
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = built(TOKENS, steps=steps)
        assert logits.requires_grad
        return sum(seen.values())

    whole, less = (kept(each, 9) - kept(each, 1) for each in (False, True))
    assert less < whole / 4


@pytest.mark.parametrize("name", TRANSITIONS)
def test_under_autocast_to_bfloat16_the_map_is_the_one_outside_of_it(name):
    torch.set_default_dtype(torch.float32)
    transition = TRANSITIONS[name]().float()
    outside = transition()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = transition()
        carried = inside(torch.ones(2, transition.dim))
        assert torch.equal(inside.dense(), outside.dense())
    assert carried.dtype == torch.float32
    assert torch.equal(carried, outside(torch.ones(2, transition.dim)))


def test_under_autocast_to_bfloat16_the_state_stays_in_float32():
    torch.set_default_dtype(torch.float32)
    built = looped(BlockConformal(16, groups=2)).float()
    types = set()
    built.core.register_forward_pre_hook(lambda module, inputs: types.add(inputs[0].dtype))
    built.coda.register_forward_pre_hook(lambda module, inputs: types.add(inputs[0].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = built(TOKENS, steps=3)
    assert types == {torch.float32}
    assert_close(logits.float(), built(TOKENS, steps=3), 0.1)
    assert not torch.equal(logits.float(), built(TOKENS, steps=3))


@pytest.mark.parametrize("recompute", [False, True])
def test_a_map_trained_under_autocast_is_as_conformal_as_in_float32(recompute):
    torch.set_default_dtype(torch.float32)
    task = WordProblem(symmetric(3), length=4)
    built = looped(BlockConformal(16, groups=2), classes=6, recompute=recompute).float()
    built_vocabulary = built.prelude.embedding.num_embeddings
    assert built_vocabulary == task.vocabulary
    before = built.transition().dense().detach().clone()
    state = TrainState(built, adamw(built, 1e-2))
    engine = SingleProcess(autocast=torch.bfloat16)
    step = SampledDepth(Poisson(2, 4), seed=0, per_sequence=True)
    losses = [r.loss for r in train(state, task, Plan(updates=20, batch=16), forward=step.forward, engine=engine)]
    assert losses[-1] < losses[0]
    trained = built.transition.double()()
    assert (trained.dense().float() - before).abs().max() > 1e-3
    assert readability_defect(trained).own < 1e-15
    assert toeplitz_defect(trained, steps=16).own.mean < 1e-14


def test_a_batch_in_parts_with_a_depth_per_sequence_is_the_batch_in_one():
    task = WordProblem(symmetric(3), length=4)
    step = SampledDepth(Poisson(3, 6), seed=0, per_sequence=True)

    def after(parts):
        built = looped(BlockDecay(16, groups=16), classes=6)
        state = TrainState(built, adamw(built, 1e-2))
        (record,) = train(state, task, Plan(updates=1, batch=10, parts=parts), forward=step.forward)
        return record.loss, [p.grad for p in built.parameters()]

    (whole, expected), (loss, found) = after(1), after(3)
    assert loss == pytest.approx(whole, rel=1e-12)
    for one, other in zip(expected, found, strict=True):
        assert_close(one, other, 1e-10)


def test_the_loss_is_summed_in_float32_under_autocast():
    torch.set_default_dtype(torch.float32)
    logits = torch.randn(4, 600, 8).bfloat16()
    targets = torch.randint(8, (4, 600))

    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros(8))

        def forward(self, tokens):
            return (logits + self.shift).bfloat16()

    class Echo(Task):
        vocabulary, classes = 8, 8

        def batch(self, update, size):
            return Batch(targets, targets)

        def evaluation(self, size):
            return self.batch(0, size)

    built = Fixed()
    (record,) = train(TrainState(built, adamw(built, 1e-3)), Echo(), Plan(updates=1, batch=4))
    exact = cross_entropy(logits.double().flatten(0, 1), targets.flatten()).item()
    assert record.loss == pytest.approx(exact, rel=1e-6)
