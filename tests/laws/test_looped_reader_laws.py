"""The laws of a looped transformer that reads from a cache: it is the model, or what its policy says."""

from itertools import pairwise

import pytest
import torch

from cases import MODELS, looped
from closeness import assert_close
from conftest import TOLERANCE
from refusal import refused
from slow_looped import SlowLooped
from torsor.generation import Budget, Full, LastLoop, LogitDivergence, LoopedReader, Prompts, RelativeResidual
from torsor.layers import Block, ValueGate
from torsor.layers.folded_block import FoldedBlock, FoldedStack
from torsor.layers.rotary import rotary_table
from torsor.models import AlignedValues
from torsor.transitions import BlockConformal

TOKENS = torch.tensor([2, 0, 1, 1, 0, 1, 0, 0, 1, 2])
BATCH = torch.stack([TOKENS, TOKENS.flip(0), TOKENS.roll(3)])
POLICIES = {"full": Full(5), "last loop": LastLoop(), "budget 2": Budget(2), "budget 3": Budget(3)}
CUTS = {"at once": (0, 10), "in two": (0, 6, 10), "in four": (0, 3, 4, 8, 10), "one by one": tuple(range(11))}
every_cut = pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param


def lively(dtype=torch.float64, **arguments):
    arguments = {"layers": (1, 2, 1), "value_embeddings": AlignedValues()} | arguments
    return looped(BlockConformal(16, groups=2), **arguments).to(dtype)


def rows_of(*rows) -> Prompts:
    return Prompts(torch.cat(rows), tuple(len(row) for row in rows))


def in_pieces(reader, cache, tokens, cuts, steps):
    pieces = []
    for start, end in pairwise(cuts):
        read = reader.read(rows_of(*tokens[:, start:end]), cache, steps, every=True)
        pieces.append(read.logits.unflatten(0, (len(tokens), end - start)))
    return torch.cat(pieces, dim=1)


@pytest.mark.parametrize("gate", [None, ValueGate(16, 2)], ids=["plain", "gated"])
def test_with_causal_attention_a_folded_block_equals_the_block(gate):
    block = Block(16, 2, value_gate=gate)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    x, values = torch.randn(1, 5, 16), torch.randn(1, 5, 16)
    values = None if gate is None else values
    rotary = rotary_table(5, 8, device=x.device, dtype=x.dtype)

    def attend(query, key, value):
        future = torch.ones(5, 5, dtype=torch.bool).triu(1)
        scores = torch.einsum("qhd,khd->hqk", query, key) / 8**0.5
        return torch.einsum("hqk,khd->qhd", scores.masked_fill(future, -torch.inf).softmax(-1), value).flatten(1)

    folded = FoldedBlock(block)
    found = folded(x[0], rotary, attend, None if values is None else values[0])
    assert_close(found, block(x, rotary, values)[0])
    gated = 0 if gate is None else gate.read.weight.numel()
    assert folded.bytes == 8 * (3 * 16**2 + 64 * 16 + gated)


@pytest.mark.parametrize("name", MODELS)
@every_cut
def test_under_full_the_logits_are_the_model_s_in_any_pieces(name, cuts, dtype):
    model = MODELS[name]().to(dtype)
    reader = LoopedReader(model)
    for steps in (1, 4):
        found = in_pieces(reader, reader.cache(3, 12, Full(5)), BATCH, cuts, steps)
        assert found.dtype == dtype
        assert_close(found, model(BATCH, steps=steps).detach(), TOLERANCE[dtype])


@every_policy
@every_cut
def test_under_every_policy_the_logits_are_those_of_its_definition(policy, cuts, dtype):
    model = lively(dtype)
    reader, slow = LoopedReader(model), SlowLooped(model, policy.slots, policy.slot)
    found = in_pieces(reader, reader.cache(1, 12, policy), TOKENS[None], cuts, 5)[0]
    expected = torch.cat([slow.read(TOKENS[start:end], 5) for start, end in pairwise(cuts)])
    assert_close(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("policy", [LastLoop(), Budget(2)], ids=["last loop", "budget 2"])
def test_a_shared_slot_is_another_function_than_the_model_s_except_inside_one_piece(policy):
    model = lively()
    reader = LoopedReader(model)
    wanted = model(BATCH, steps=4).detach()
    assert_close(in_pieces(reader, reader.cache(3, 12, policy), BATCH, CUTS["at once"], 4), wanted)
    by_token = in_pieces(reader, reader.cache(3, 12, policy), BATCH, CUTS["one by one"], 4)
    assert (by_token - wanted).abs().max() > 1e-3


def test_a_budget_of_one_is_the_last_loop_and_one_of_all_loops_is_full():
    reader = LoopedReader(lively())

    def logits(policy):
        return in_pieces(reader, reader.cache(3, 12, policy), BATCH, CUTS["in four"], 4)

    assert torch.equal(logits(Budget(1)), logits(LastLoop()))
    assert torch.equal(logits(Budget(5)), logits(Full(5)))


@every_policy
def test_depths_that_differ_from_piece_to_piece_follow_the_definition(policy):
    model = lively()
    reader, slow = LoopedReader(model), SlowLooped(model, policy.slots, policy.slot)
    cache = reader.cache(1, 12, policy)
    for (start, end), depth in zip(pairwise((0, 3, 4, 5, 7, 8, 10)), (5, 1, 2, 3, 5, 4), strict=True):
        found = reader.read(rows_of(TOKENS[start:end]), cache, depth, every=True).logits
        assert_close(found, slow.read(TOKENS[start:end], depth))


@every_policy
@pytest.mark.parametrize("rule", [None, RelativeResidual(0.15), LogitDivergence(0.005)], ids=["none", "residual", "KL"])
def test_a_batch_equals_its_rows_alone_whatever_their_lengths_depths_and_rules(policy, rule, dtype):
    model = lively(dtype)
    reader = LoopedReader(model)
    rows = [TOKENS[:1], TOKENS[3:9], TOKENS[2:5], TOKENS[1:7]]
    depths = torch.tensor([5, 1, 3, 5])
    more = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0], [2, 1, 0, 1]])

    def read(rows, depths, more):
        cache = reader.cache(len(rows), 12, policy)
        found = [reader.read(rows_of(*rows), cache, depths)]
        for now in more:
            found.append(reader.read(rows_of(*now[:, None]), cache, depths, rule=rule, warm=rule is None))
        return torch.stack([each.logits for each in found]), torch.tensor([each.steps for each in found])

    logits, steps = read(rows, depths, more)
    for row, tokens in enumerate(rows):
        alone, steps_alone = read([tokens], depths[row : row + 1], more[:, row : row + 1])
        assert_close(logits[:, row], alone[:, 0], TOLERANCE[dtype])
        assert torch.equal(steps[:, row], steps_alone[:, 0])
    if rule is not None:
        assert len(set(steps[1:].flatten().tolist())) > 2


@every_policy
@pytest.mark.parametrize("rule", [RelativeResidual(0.15), LogitDivergence(0.005)], ids=["residual", "KL"])
def test_a_token_ends_at_the_first_loop_at_which_its_rule_holds_and_is_seen_by_later_ones_as_it_ended(policy, rule):
    model = lively()
    reader, slow = LoopedReader(model), SlowLooped(model, policy.slots, policy.slot)
    cache = reader.cache(1, 12, policy)
    reader.read(rows_of(TOKENS[:3]), cache, 5)
    slow.read(TOKENS[:3], 5)
    made = []
    for token in TOKENS[3:].split(1):
        found = reader.read(rows_of(token), cache, 5, rule=rule)
        logits = {}
        for depth in range(1, 6):
            trial = copied(slow)
            logits[depth] = trial.read(token, depth)[0]
            states = trial.states[-1][0]
            if depth > 1 and holds(rule, states[-2], states[-1], logits[depth - 1], logits[depth]):
                break
        assert found.steps == (depth,)
        assert_close(found.logits[0], slow.read(token, depth)[0])
        made.append(depth)
    assert len(set(made)) > 1


def holds(rule, before, after, old, new):
    if isinstance(rule, RelativeResidual):
        return (after - before).norm() / after.norm() < rule.threshold
    log_new, log_old = new.log_softmax(0), old.log_softmax(0)
    return sum(p.exp() * (p - q) for p, q in zip(log_new, log_old, strict=True)) < rule.threshold


def copied(slow):
    other = SlowLooped(slow.model, slow.slots, slow.slot)
    other.kept = {key: dict(pairs) for key, pairs in slow.kept.items()}
    other.length = slow.length
    return other


def test_a_warm_start_is_the_model_started_from_the_state_of_the_token_before(dtype):
    model = lively(dtype)
    reader = LoopedReader(model)
    cache = reader.cache(1, 12, Full(3))
    reader.read(rows_of(TOKENS[:4]), cache, 3)
    start, seen = torch.zeros(1, 10, 16, dtype=dtype), []
    model.coda.enter.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0]))
    for place in range(4, 10):
        found = reader.read(rows_of(TOKENS[place : place + 1]), cache, 3, warm=True).logits
        cold = model(TOKENS[None, : place + 1], steps=3, initial_state=start[:, : place + 1])
        start[:, place] = seen[-1][:, place - 1].detach()
        wanted = model(TOKENS[None, : place + 1], steps=3, initial_state=start[:, : place + 1])
        assert_close(found, wanted[:, -1].detach(), TOLERANCE[dtype])
        assert not torch.allclose(wanted[:, -1], cold[:, -1])


def test_a_row_that_has_made_its_loops_is_not_computed_any_more(monkeypatch):
    sound, tokens = FoldedStack.__call__, []

    def counted(self, x, *rest):
        tokens.append((self, len(x)))
        return sound(self, x, *rest)

    monkeypatch.setattr(FoldedStack, "__call__", counted)
    reader = LoopedReader(lively())
    depths = torch.tensor([5, 1, 3])
    reader.read(rows_of(*BATCH), reader.cache(3, 12, Full(5)), depths)
    assert sum(count for stack, count in tokens if stack is reader._core) == 10 * int(depths.sum())


@pytest.mark.parametrize("rule", [RelativeResidual(0.15), LogitDivergence(0.005)], ids=["residual", "KL"])
def test_a_token_that_its_rule_has_ended_is_not_computed_any_more(rule, monkeypatch):
    reader = LoopedReader(lively())
    cache = reader.cache(4, 12, Full(6))
    reader.read(rows_of(TOKENS[:1], TOKENS[3:9], TOKENS[2:5], TOKENS[1:7]), cache, 6)
    sound, tokens = FoldedStack.__call__, []

    def counted(self, x, *rest):
        if self is reader._core:
            tokens.append(len(x))
        return sound(self, x, *rest)

    monkeypatch.setattr(FoldedStack, "__call__", counted)
    made = reader.read(Prompts.of([[0], [1], [1], [0]]), cache, 6, rule=rule).steps
    assert len(set(made)) > 1
    assert tokens == [sum(each > loop for each in made) for loop in range(max(made))]


def test_no_gradient_passes_and_weights_trained_afterwards_do_not_reach_the_folded_blocks():
    model = lively()
    reader = LoopedReader(model)
    before = reader.read(rows_of(TOKENS), reader.cache(1, 12, LastLoop()), 2).logits
    assert not before.requires_grad
    with torch.no_grad():
        model.core.blocks[0].attention.query.weight.zero_()
    assert torch.equal(reader.read(rows_of(TOKENS), reader.cache(1, 12, LastLoop()), 2).logits, before)


def test_what_cannot_be_read_is_refused_and_changes_nothing():
    reader = LoopedReader(lively())
    cache = reader.cache(2, 8, Full(4))
    reader.read(rows_of(TOKENS[:3], TOKENS[:5]), cache, 4)
    two = rows_of(TOKENS[:1], TOKENS[:1])
    for message, read in (
        (r"the cache must be one of the batch of 3 rows, got one of 2", lambda: reader.read(rows_of(*BATCH), cache, 4)),
        (
            r"it holds 8, row 1 has 5 and 4 more were given",
            lambda: reader.read(rows_of(TOKENS[:1], TOKENS[:4]), cache, 4),
        ),
        (r"tokens must lie in 0 .. 2, got 3", lambda: reader.read(Prompts.of([[0], [3]]), cache, 4)),
        (r"steps must be at most the 4 loops that the cache has room for, got 5", lambda: reader.read(two, cache, 5)),
        (r"steps must be an integer of at least 1, got 0", lambda: reader.read(two, cache, 0)),
        (r"one integer for each of 2 rows, got \(3,\)", lambda: reader.read(two, cache, torch.tensor([1, 2, 3]))),
        (
            r"an exit rule and a warm start go with one token of a row, got 2",
            lambda: reader.read(rows_of(TOKENS[:2], TOKENS[:1]), cache, 4, rule=RelativeResidual(0.1)),
        ),
        (
            r"the cache must be one of this model, made by reader.cache\(...\), got another model's",
            lambda: LoopedReader(lively(layers=(1, 1, 1))).read(two, cache, 4),
        ),
        (r"threshold must be positive and finite, got 0", lambda: RelativeResidual(0)),
        (r"threshold must be positive and finite, got nan", lambda: LogitDivergence(float("nan"))),
    ):
        with refused(message):
            read()
        assert cache.lengths == [3, 5]
