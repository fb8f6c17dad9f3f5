"""Laws of training: repeatable and resumable to the last bit, one weight per label, one rule of decay."""

import ast
import json
import math
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import torsor.training
from closeness import assert_close
from refusal import refused
from tiny_training import Echo, equal, model, plan, state, tensors
from torsor.tasks import IGNORED, Batch, Task
from torsor.training import (
    CurriculumState,
    Engine,
    LengthCurriculum,
    NonFiniteLoss,
    Plan,
    RunFolder,
    Schedule,
    SingleProcess,
    TrainState,
    WholeSequence,
    adamw,
    decays,
    parameter_groups,
    train,
)
from torsor.transitions import BlockConformal

DTYPES = [torch.float32, torch.float64]


class Given(Task):
    """The same batch at every update."""

    def __init__(self, tokens, targets):
        self.only = Batch(torch.tensor(tokens), torch.tensor(targets))

    vocabulary, classes = 3, 2

    def evaluation(self, size):
        return self.only

    def batch(self, update, size):
        return self.only


class Tied(nn.Module):
    """An output matrix that is the embedding, and another one that is not."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(3, 8)
        self.hidden = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.hidden(self.embedding(tokens)))


def tied_state(dtype):
    torch.manual_seed(0)
    built = Tied().to(dtype)
    return TrainState(built, adamw(built, 0.02, weight_decay=0.3))


def half_state(dtype):
    return TrainState(built := model(torch.bfloat16), adamw(built, 0.02, weight_decay=0.3))


def noisy(model, tokens, update, rows):
    """A forward pass that draws numbers, from a generator that the update's number seeds."""
    logits = model(tokens)
    return logits + torch.randn(logits.shape, generator=torch.Generator().manual_seed(update), dtype=logits.dtype)


def plain(model, tokens, update, rows):
    return model(tokens)


def run_in_pieces(folder, build, ends, forward=plain):
    """Train to each of ``ends`` in turn, each time from a new object and from what the last one saved."""
    for end in ends:
        with RunFolder(folder, "tests/laws", {}, seed=0) as run:
            current = build()
            run.restore(current)
            for record in train(current, Echo(), plan(10), forward=forward):
                run.log(record)
                if record.update == end:
                    break
            run.save(current)
    return tensors(current), current.curriculum, (folder / "metrics.jsonl").read_bytes()


# --- equal to the last bit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", [state, tied_state, half_state])
def test_ten_updates_equal_five_saved_plus_five(tmp_path, build, dtype):
    whole = run_in_pieces(tmp_path / "whole", lambda: build(dtype), ends=[10])
    pieces = run_in_pieces(tmp_path / "pieces", lambda: build(dtype), ends=[5, 10])
    assert equal(whole[0], pieces[0])
    assert whole[1:] == pieces[1:]
    assert whole[2].count(b"\n") == 10


def test_ten_updates_equal_ten_pieces_of_one_with_a_forward_pass_that_draws_numbers(tmp_path):
    whole = run_in_pieces(tmp_path / "whole", state, ends=[10], forward=noisy)
    pieces = run_in_pieces(tmp_path / "pieces", state, ends=range(1, 11), forward=noisy)
    assert equal(whole[0], pieces[0])
    assert whole[1:] == pieces[1:]
    assert whole[2] != run_in_pieces(tmp_path / "silent", state, ends=[10])[2]


@pytest.mark.parametrize("forgotten", ["moments", "curriculum", "update"])
def test_the_moments_the_curriculum_and_the_update_are_all_needed_to_go_on(forgotten):
    def continued(forget):
        first, second = state(), state()
        for record in train(first, Echo(), plan(20)):
            if record.update == 5:
                break
        moments, progress = first.moments(), first.progress()
        if forget == "moments":
            moments = {}
        elif forget == "curriculum":
            progress["curriculum"] = {"stage": 0, "mean": 0.0, "count": 0}
        elif forget == "update":
            progress["update"] = 4
        second.load(first.weights(), moments, progress)
        list(train(second, Echo(), plan(20)))
        return second.weights()

    assert equal(continued(None), continued(None))
    assert not equal(continued(None), continued(forgotten))


def test_two_runs_are_bitwise_equal_and_another_seed_is_another_run():
    def run(seed):
        current = state(seed=seed)
        return [record.metrics() for record in train(current, Echo(), plan(20))], tensors(current)

    (first, first_tensors), (second, second_tensors), (other, _) = run(0), run(0), run(1)
    assert json.dumps(first) == json.dumps(second)
    assert equal(first_tensors, second_tensors)
    assert first != other


def test_a_state_loaded_from_a_state_is_the_same_to_the_last_bit_and_shares_no_memory():
    first, second = state(), state(seed=1)
    list(train(first, Echo(), plan(7)))
    second.load(first.weights(), first.moments(), json.loads(json.dumps(first.progress())))
    assert equal(tensors(first), tensors(second))
    assert (second.update, second.curriculum) == (7, first.curriculum)
    before = tensors(second)
    list(train(first, Echo(), plan(9)))
    assert equal(tensors(second), before)
    assert not equal(tensors(first), before)


def test_training_on_after_a_pause_in_the_same_process_is_one_run():
    whole, paused = state(), state()
    records = list(train(whole, Echo(), plan(10)))
    again = list(islice(train(paused, Echo(), plan(10)), 6))
    again += train(paused, Echo(), plan(10))
    assert [r.metrics() for r in again] == [r.metrics() for r in records]
    assert equal(tensors(paused), tensors(whole))


# --- the update -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_update_is_the_written_formula_of_adamw(dtype):
    """Against the formula in float64, in loops over parameters that share no code with PyTorch's optimizers."""
    rate, betas, decay, clip = 0.05, (0.8, 0.9), 0.3, 0.2
    built = model(dtype)
    optimizer = adamw(built, rate, betas, decay)
    assert optimizer.defaults["fused"]
    reference = {name: p.detach().double().clone() for name, p in built.named_parameters()}
    means = {name: [torch.zeros_like(p), torch.zeros_like(p)] for name, p in reference.items()}
    here = Plan(updates=4, batch=5, clip=clip, schedule=Schedule(warmup=2))
    for record in train(TrainState(built, optimizer), Echo(), here):
        k, factor = record.update, min(1.0, record.update / 2)
        gradients = {name: p.grad.double() for name, p in built.named_parameters()}
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
        assert norm == pytest.approx(min(clip, record.gradient_norm), rel=1e-5)
        assert record.learning_rate == rate * factor
        for name, value in reference.items():
            first, second = means[name]
            first.mul_(betas[0]).add_((1 - betas[0]) * gradients[name])
            second.mul_(betas[1]).add_((1 - betas[1]) * gradients[name] ** 2)
            if name in {"1.weight", "3.weight"}:
                value.mul_(1 - rate * factor * decay)
            step = (first / (1 - betas[0] ** k)) / ((second / (1 - betas[1] ** k)).sqrt() + 1e-8)
            value.sub_(rate * factor * step)
    for name, parameter in built.named_parameters():
        assert_close(parameter.double(), reference[name], 1e-11 if dtype == torch.float64 else 1e-5)


def test_the_gradient_norm_of_a_record_is_the_one_before_clipping_and_infinity_clips_nothing():
    free, tight = state(), state()
    (loose,) = train(free, Echo(), replace(plan(1), clip=math.inf))
    (clipped,) = train(tight, Echo(), replace(plan(1), clip=1e-3))
    assert loose.gradient_norm == clipped.gradient_norm > 1e-3

    def norm(current):
        return math.sqrt(sum(float((p.grad**2).sum()) for p in current.model.parameters()))

    assert norm(free) == pytest.approx(loose.gradient_norm, rel=1e-5)
    assert norm(tight) == pytest.approx(1e-3, rel=1e-3)


def test_each_parameter_group_keeps_its_own_peak_rate():
    built = model()
    optimizer = torch.optim.AdamW(
        [{"params": built[0].parameters()}, {"params": built[1:].parameters(), "lr": 0.5}], lr=1
    )
    here = Plan(updates=4, batch=2, schedule=Schedule(warmup=4))
    rates = [[g["lr"] for g in optimizer.param_groups] for _ in train(TrainState(built, optimizer), Echo(), here)]
    assert rates == [[0.25, 0.125], [0.5, 0.25], [0.75, 0.375], [1.0, 0.5]]


def test_the_model_trains_in_training_mode_whatever_was_done_between_two_records():
    current = state()
    seen = []

    def forward(model, tokens, update, rows):
        seen.append(model.training)
        return model(tokens)

    for _ in train(current, Echo(), plan(3), forward=forward):
        current.model.eval()
    assert seen == [True] * 3


def test_update_number_u_trains_on_batch_number_u_of_the_planned_size():
    seen, inner = [], Echo()

    class Noted(Task):
        vocabulary, classes, evaluation = 3, 2, inner.evaluation

        def batch(self, update, size):
            seen.append((update, size))
            return inner.batch(update, size)

    current = state()
    list(islice(train(current, Noted(), plan(9)), 3))
    list(train(current, Noted(), plan(5)))
    assert seen == [(update, 5) for update in range(5)]


# --- the loss ---------------------------------------------------------------------------------------------------


def test_the_loss_is_the_mean_over_scored_labels_however_they_stand_in_the_rows():
    tokens = [[2, 0, 1, 1], [2, 1, 0, 0], [2, 1, 1, 0]]
    targets = [[IGNORED, 0, 1, 1], [IGNORED, 1, IGNORED, IGNORED], [IGNORED, IGNORED, IGNORED, IGNORED]]
    current = state(torch.float64)
    logits = current.model(torch.tensor(tokens)).tolist()
    costs = [
        math.log(sum(math.exp(x) for x in row)) - row[target]
        for rows, answers in zip(logits, targets, strict=True)
        for row, target in zip(rows, answers, strict=True)
        if target != IGNORED
    ]
    (record,) = train(current, Given(tokens, targets), Plan(updates=1, batch=3))
    assert len(costs) == 4
    assert record.loss == pytest.approx(sum(costs) / 4, rel=1e-12)
    by_rows = (sum(costs[:3]) / 3 + costs[3]) / 2
    assert abs(record.loss - by_rows) > 1e-3


class Part(Engine):
    """One of several processes, as far as the loop can see."""

    def __init__(self, part):
        self.inner, self.dealt = SingleProcess(), part

    is_main = property(lambda self: True)
    processes = property(lambda self: 2)
    autocast = property(lambda self: None)

    def whole(self, model):
        return self.inner.whole(model)

    def gather(self, tensors):
        return self.inner.gather(tensors)

    shard = property(lambda self: self.inner.shard)

    def pieces(self, tensors):
        return self.inner.pieces(tensors)

    def collect(self, data):
        return self.inner.collect(data)

    def spread(self, data):
        return self.inner.spread(data)

    def part(self, last):
        return self.inner.part(last)

    def setup(self, model, optimizer):
        return self.inner.setup(model, optimizer)

    def rows(self, size):
        return slice(*self.dealt.indices(size)[:2])

    def place(self, tensor):
        return self.inner.place(tensor)

    def precision(self):
        return self.inner.precision()

    def backward(self, loss):
        self.inner.backward(loss)

    def clip(self, parameters, limit):
        return self.inner.clip(parameters, math.inf)

    def total(self, value):
        return self.inner.total(value)

    def save(self, tensors, path):
        self.inner.save(tensors, path)

    def load(self, path):
        return self.inner.load(path)


def test_the_losses_and_gradients_of_the_parts_of_a_batch_add_up_to_those_of_the_whole():
    tokens = [[2, 0, 1, 1], [2, 1, 0, 0], [2, 1, 1, 0]]
    targets = [[IGNORED, 0, 1, 1], [IGNORED, 1, IGNORED, IGNORED], [IGNORED, 0, 0, IGNORED]]

    def update(rows):
        current = state(torch.float64)
        (record,) = train(current, Given(tokens, targets), Plan(updates=1, batch=3), engine=Part(rows))
        return record.loss, [p.grad for p in current.model.parameters()]

    (whole, gradients), (first, some), (second, others) = update(slice(None)), update(slice(1)), update(slice(1, None))
    assert first + second == pytest.approx(whole, rel=1e-12)
    for gradient, one, two in zip(gradients, some, others, strict=True):
        assert_close(one + two, gradient)


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_batch_in_parts_gives_the_loss_and_the_gradient_of_the_batch_in_one(parts):
    tokens = [[2, 0, 1, 1], [2, 1, 0, 0], [2, 1, 1, 0]]
    targets = [[IGNORED, 0, 1, 1], [IGNORED, 1, IGNORED, IGNORED], [IGNORED, 0, 0, IGNORED]]
    seen = []

    def forward(model, tokens, update, rows):
        seen.append((len(tokens), rows))
        return model(tokens)

    def update(parts):
        current = state(torch.float64)
        plan = Plan(updates=1, batch=3, parts=parts)
        (record,) = train(current, Given(tokens, targets), plan, forward=forward)
        return record.loss, [p.grad for p in current.model.parameters()]

    (whole, gradients), (loss, others) = update(1), update(parts)
    assert loss == pytest.approx(whole, rel=1e-12)
    for one, other in zip(gradients, others, strict=True):
        assert_close(one, other)
    assert len(seen) == 1 + min(parts, 3)
    assert [rows for _, rows in seen[-min(parts, 3) :]][-1].stop == 3
    assert all(count == rows.stop - rows.start for count, rows in seen)


def test_parts_below_one_are_refused():
    with refused("parts must be at least 1, got 0"):
        Plan(updates=1, batch=1, parts=0)


def test_an_engine_computes_in_bfloat16_or_in_the_parameters_own_type():
    with refused("autocast must be torch.bfloat16 or None, got torch.float16"):
        SingleProcess(autocast=torch.float16)
    types = []

    def forward(model, tokens, update, rows):
        types.append(model(tokens).dtype)
        return model(tokens)

    for autocast in (None, torch.bfloat16):
        current = state()
        (record,) = train(current, Echo(), plan(1), forward=forward, engine=SingleProcess(autocast))
        assert math.isfinite(record.loss)
        assert all(p.dtype == p.grad.dtype == torch.float32 for p in current.model.parameters())
    assert types == [torch.float32, torch.bfloat16]


def test_a_batch_without_a_scored_label_is_refused():
    task = Given([[2, 0]], [[IGNORED, IGNORED]])
    with refused("scored target, that of update 1 has none"):
        list(train(state(), task, Plan(updates=1, batch=1)))


# --- numbers that are not finite ----------------------------------------------------------------------------------


WHOLE_LOSS = "the loss, while the outputs of all modules are finite"


def bad_loss(model, tokens, update, rows):
    logits = model(tokens)
    return logits * math.inf if update == 6 else logits


def bad_gradient(model, tokens, update, rows):
    logits = model(tokens)
    return logits + (logits - logits).abs().sqrt() if update == 6 else logits  # 0 forward, inf * 0 backward


@pytest.mark.parametrize(("forward", "finite"), [(bad_loss, False), (bad_gradient, True)])
def test_a_loss_or_gradient_that_is_not_finite_stops_before_anything_moved(tmp_path, forward, finite):
    current, good = state(), state()
    with RunFolder(tmp_path, "tests/laws", {}, seed=0) as run:

        def go_on():
            for record in train(current, Echo(), plan(10), forward=forward):
                run.log(record)
                if record.update == 4:
                    run.save(current)

        with pytest.raises(NonFiniteLoss, match=r"^update 7 has loss .* the parameters are those before it$") as caught:
            go_on()
        run.stop(str(caught.value))
    assert caught.value.update == 7
    assert caught.value.where == (
        "the gradient that reaches the output of the module 3, a Linear" if finite else WHOLE_LOSS
    )
    assert math.isfinite(caught.value.loss) == finite
    assert not math.isfinite(caught.value.gradient_norm)
    assert current.update == 6
    for record in train(good, Echo(), plan(10)):
        if record.update == 4:
            fourth = tensors(good)
        if record.update == 6:
            break
    assert equal(tensors(current), tensors(good))
    with RunFolder(tmp_path, "tests/laws", {}, seed=0) as run:
        assert run.update == 4
        run.restore(restored := state())
    assert equal(tensors(restored), fourth)


# --- decay -------------------------------------------------------------------------------------------------------


class Looped(nn.Module):
    """Every kind of part that models are made of."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 8)
        self.norm = nn.RMSNorm(8)
        self.transition = BlockConformal(8, groups=2)
        self.write = nn.Linear(8, 8)
        self.chart = nn.Parameter(torch.zeros(8, 8))
        self.turned = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8, bias=False))
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, 5, bias=False)


def test_weights_of_linear_layers_decay_and_nothing_else_does():
    built = Looped()
    names = {parameter: name for name, parameter in built.named_parameters()}
    decaying, free = parameter_groups(built, weight_decay=0.1)
    assert [names[p] for p in decaying["params"]] == ["write.weight", "head.weight"]
    assert (decaying["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert {names[p] for p in decaying["params"] + free["params"]} == {n for n in names.values() if "frozen" not in n}
    assert {"transition.frequency", "chart", "norm.weight", "embedding.weight", "write.bias"} <= {
        names[p] for p in free["params"]
    }


def test_without_a_gradient_a_decaying_weight_shrinks_by_the_rate_and_the_others_stay():
    built = Looped()
    before = {name: p.detach().clone() for name, p in built.named_parameters()}
    optimizer = adamw(built, learning_rate=0.5, weight_decay=0.1)
    for parameter in built.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in built.named_parameters():
        assert_close(parameter, before[name] * (0.95 if name in {"write.weight", "head.weight"} else 1.0))


def test_a_tied_parameter_is_counted_once_and_follows_the_embedding():
    built = Tied()
    decaying, free = parameter_groups(built, weight_decay=0.1)
    assert [p is built.hidden.weight for p in decaying["params"]] == [True]
    assert {id(p) for p in free["params"]} == {id(built.embedding.weight), id(built.hidden.bias)}
    assert len(free["params"]) == 2


def test_tied_linear_layers_decay():
    built = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    built[1].weight = built[0].weight
    decaying, free = parameter_groups(built, weight_decay=0.1)
    assert (len(decaying["params"]), len(free["params"])) == (1, 2)


def test_a_subclass_of_linear_decays_and_a_bare_matrix_does_not():
    assert decays(type("Own", (nn.Linear,), {})(2, 2), "weight")
    assert not decays(Looped(), "chart")


def test_complex_and_transposed_parameters_are_left_to_the_unfused_update():
    for value in (torch.randn(2, 3, dtype=torch.complex64), torch.randn(2, 3).T):
        part = nn.ParameterList([nn.Parameter(value)])
        assert not adamw(part, 0.1).defaults["fused"]


# --- schedule ----------------------------------------------------------------------------------------------------


def test_the_schedule_warms_up_stays_level_and_falls_by_equal_steps():
    schedule = Schedule(warmup=4, decay=0.3)
    factors = [schedule.factor(update, updates=10) for update in range(10)]
    assert factors == [0.25, 0.5, 0.75, 1, 1, 1, 1, 0.75, 0.5, 0.25]
    assert [Schedule().factor(update, 3) for update in range(3)] == [1, 1, 1]
    assert [Schedule(decay=1.0, final=0.5).factor(u, 3) for u in range(3)] == [0.875, 0.75, 0.625]


@given(st.integers(0, 30), st.floats(0, 1), st.floats(0, 1), st.integers(1, 40))
def test_no_update_of_a_schedule_is_without_effect_or_above_the_peak(warmup, decay, final, updates):
    schedule = Schedule(warmup, decay, final)
    factors = [schedule.factor(update, updates) for update in range(updates)]
    assert all(0 < factor <= 1 + 1e-12 for factor in factors)
    rising = [low <= high for low, high in pairwise(factors)]
    assert rising == sorted(rising, reverse=True) or len(set(factors)) == 1  # up, then down, and never up again


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Schedule(warmup=-1), "warmup must not be negative, got -1"),
        (lambda: Schedule(decay=1.5), r"decay must be in \[0, 1\], got 1.5"),
        (lambda: Schedule(final=-0.1), r"final must be in \[0, 1\], got -0.1"),
        (lambda: Schedule().factor(3, updates=3), r"update must be in 0..2, got 3"),
        (lambda: Plan(updates=0, batch=1), "updates must be at least 1, got 0"),
        (lambda: Plan(updates=1, batch=0), "batch must be at least 1, got 0"),
        (lambda: Plan(updates=1, batch=1, clip=0.0), "clip must be positive, got 0.0"),
        (lambda: Plan(updates=1, batch=1, clip=math.nan), "clip must be positive, got nan"),
        (lambda: LengthCurriculum(lengths=()), r"lengths must increase and start at 1 or more, got \(\)"),
        (lambda: LengthCurriculum(lengths=(2, 2)), r"lengths must increase .* got \(2, 2\)"),
        (lambda: LengthCurriculum(lengths=(0, 2)), r"lengths must increase .* got \(0, 2\)"),
        (lambda: LengthCurriculum(lengths=(2,), threshold=0.0), "threshold must be positive, got 0.0"),
        (lambda: LengthCurriculum(lengths=(2,), smoothing=1.0), r"smoothing must be in \[0, 1\), got 1.0"),
        (lambda: LengthCurriculum(lengths=(2,)).length(CurriculumState(stage=1)), "stage must be under .* = 1, got 1"),
        (lambda: adamw(model(), 0.0), "learning_rate must be positive and finite, got 0.0"),
        (lambda: adamw(model(), 0.1, weight_decay=-1.0), "weight_decay must be finite and not negative, got -1.0"),
        (lambda: adamw(model(), 0.1, weight_decay=math.inf), "weight_decay must be finite and not negative, got inf"),
        (lambda: adamw(model(), 0.1, weight_decay=math.nan), "weight_decay must be finite and not negative, got nan"),
        (lambda: adamw(nn.ReLU(), 0.1), "model must have a trainable parameter"),
        (lambda: TrainState(model(), adamw(model(), 0.1)), "parameters of model only, 7 of its own"),
    ],
)
def test_a_number_out_of_range_is_refused_in_one_line(build, message):
    with refused(message):
        build()


# --- curriculum ---------------------------------------------------------------------------------------------------


def test_the_running_loss_is_the_plain_mean_at_first_and_the_exponential_one_later():
    curriculum = LengthCurriculum(lengths=(2, 4), threshold=1e-9, smoothing=0.75)
    state, losses = CurriculumState(), [0.9, 0.5, 0.4, 0.6, 1.0, 0.2]
    means = [(state := curriculum.after(state, loss)).mean for loss in losses]
    for k in range(4):
        assert means[k] == pytest.approx(sum(losses[: k + 1]) / (k + 1), rel=1e-12)
    for k in (4, 5):
        assert means[k] == pytest.approx(0.75 * means[k - 1] + 0.25 * losses[k], rel=1e-12)


def test_a_low_loss_leads_to_the_next_length_with_a_new_mean_and_the_last_length_stays():
    curriculum = LengthCurriculum(lengths=(2, 4, 8), threshold=0.25, smoothing=0.9)
    state = CurriculumState()
    lengths = []
    for loss in (0.6, 0.1, 0.01, 0.2, 0.3, 0.1, 0.1):
        lengths.append(curriculum.length(state))
        state = curriculum.after(state, loss)
    # 0.6, then 0.35, then 0.237: on; 0.2: on; then the end.
    assert lengths == [2, 2, 2, 4, 8, 8, 8]
    assert (state.stage, state.count) == (2, 3)


def test_training_sees_the_first_letters_only_until_the_curriculum_is_through():
    shapes = []

    def forward(model, tokens, update, rows):
        shapes.append(tuple(tokens.shape))
        return model(tokens)

    records = list(train(state(), Echo(), plan(60), forward=forward))
    assert [(5, record.length + 1) for record in records] == shapes
    assert [record.tokens for record in records] == [rows * columns for rows, columns in shapes]
    assert sorted({record.length for record in records}) == [2, 4, 6]
    assert [r.length for r in records] == sorted(r.length for r in records)


def test_without_a_curriculum_every_batch_is_whole():
    (record,) = train(state(), Echo(), Plan(updates=1, batch=4))
    assert (record.length, record.tokens) == (None, 28)
    assert WholeSequence().after(CurriculumState(), 0.0) == CurriculumState()


def test_a_curriculum_longer_than_the_task_is_refused():
    with refused("length must be at most the task's = 6, got 7"):
        list(train(state(), Echo(), replace(plan(1), curriculum=LengthCurriculum(lengths=(7,)))))


@given(st.integers(0, 10), st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 10**9))
def test_the_state_of_the_curriculum_survives_json_to_the_last_bit(stage, mean, count):
    first, second = state(), state()
    first.curriculum = CurriculumState(stage, mean, count)
    second.load(first.weights(), {}, json.loads(json.dumps(first.progress())))
    assert second.curriculum == first.curriculum
    assert second.curriculum.mean.hex() == mean.hex()


# --- what does not fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, m, p: w.pop("1.bias"), "does not fit the model: missing 1.bias$"),
        (lambda w, m, p: w.update(extra=torch.zeros(1)), "does not fit the model: unexpected extra$"),
        (lambda w, m, p: w.update({"1.bias": w["1.bias"][:3]}), r"1.bias has float32\[3\] instead of float32\[7\]$"),
        (lambda w, m, p: w.update({"1.bias": w["1.bias"].double()}), r"float64\[7\] instead of float32\[7\]$"),
        (lambda w, m, p: m.pop("exp_avg/1.bias"), "does not fit the optimizer: missing exp_avg/1.bias$"),
        (lambda w, m, p: m.pop("step/1.bias"), "does not fit the optimizer: missing step/1.bias$"),
        (lambda w, m, p: m.update({"exp_avg/x": torch.zeros(7)}), "the optimizer: unexpected exp_avg/x$"),
        (lambda w, m, p: m.update({"exp_avg/1.bias": torch.zeros(3)}), r"exp_avg/1.bias has float64\[3\] instead"),
        (lambda w, m, p: p.update(optimizer="Muon"), "optimizer must be Muon as in the checkpoint, got AdamW$"),
        (lambda w, m, p: w.clear(), "missing 0.weight, .*, and 2 more$"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line_and_changes_nothing(change, message):
    trained, fresh = state(), state(seed=1)
    list(train(trained, Echo(), plan(3)))
    weights, moments, progress = trained.weights(), trained.moments(), trained.progress()
    change(weights, moments, progress)
    before = tensors(fresh)
    with refused(message):
        fresh.load(weights, moments, progress)
    assert equal(tensors(fresh), before)
    assert fresh.update == 0


def test_weights_are_stored_once_each_and_share_no_memory():
    built = Tied()
    built.register_buffer("table", torch.arange(6.0).reshape(2, 3))
    built.register_buffer("row", built.table[0])
    built.register_buffer("turned", built.table.T)
    built.register_buffer("again", built.table.view(2, 3))
    built.register_buffer("passing", torch.zeros(1), persistent=False)
    weights = TrainState(built, adamw(built, 0.1)).weights()
    buffers = {"table", "row", "turned", "again"}
    assert weights.keys() == {"embedding.weight", "hidden.bias", "hidden.weight"} | buffers
    assert all(torch.equal(weights[name], built.get_buffer(name)) for name in buffers)
    assert len({tensor.untyped_storage().data_ptr() for tensor in weights.values()}) == len(weights)
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in weights.values())
    assert all(tensor.is_contiguous() for tensor in weights.values())


def test_a_transposed_parameter_is_resumed_to_the_last_bit():
    def build():
        torch.manual_seed(0)
        built = nn.Sequential(nn.Embedding(3, 8), nn.Linear(8, 2))
        built[1].weight = nn.Parameter(torch.randn(8, 2).T)
        return TrainState(built, adamw(built, 0.1))

    whole, first, second = build(), build(), build()
    list(train(whole, Echo(), plan(8)))
    list(islice(train(first, Echo(), plan(8)), 4))
    second.load(first.weights(), first.moments(), first.progress())
    turned = second.model[1].weight
    assert second.optimizer.state[turned]["exp_avg"].stride() == turned.stride() == (1, 2)
    list(train(second, Echo(), plan(8)))
    assert equal(tensors(second), tensors(whole))


def test_complex128_and_what_is_no_tensor_are_refused_before_anything_is_written():
    built = nn.ParameterList([nn.Parameter(torch.zeros(2, dtype=torch.complex128))])
    with refused("must not keep complex128"):
        TrainState(built, adamw(built, 0.1)).weights()


# --- no pickle ------------------------------------------------------------------------------------------------------


def unsafe(tree):
    """Names in a syntax tree that could run code out of a file."""
    modules = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in modules)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in modules:
                yield node.module
            if node.module == "torch":
                yield from (alias.name for alias in node.names if alias.name in {"load", "save"})
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in {("torch", "load"), ("torch", "save")}:
                yield f"torch.{node.attr}"
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            yield node.arg


def test_nothing_in_torsor_reads_or_writes_pickle():
    sources = sorted((Path(torsor.training.__file__).parents[1]).rglob("*.py"))
    assert len(sources) > 20
    found = {str(path): list(unsafe(ast.parse(path.read_text()))) for path in sources}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from pickle import loads", "torch.load(f)", "from torch import save", "f(allow_pickle=True)"],
)
def test_pickle_would_be_seen(source):
    assert list(unsafe(ast.parse(source)))
