"""Models: causal, at any length and depth, equal however they are called."""

import pytest
import torch
from torch import nn

from cases import MODELS, TRANSITIONS, looped
from refusal import refused
from torsor.groups import alternating, cyclic, dihedral, direct_product, symmetric
from torsor.layers import Block, Stack
from torsor.models import (
    AlignedValues,
    Coda,
    LoopedTransformer,
    Oracle,
    Prelude,
    PublishedValues,
    parcae_transformer,
)
from torsor.tasks import WordProblem, score
from torsor.transitions import BlockConformal, BlockDecay, TokenPermutation

TOKENS = torch.tensor([[2, 0, 1, 1, 0, 1], [2, 1, 1, 0, 0, 0], [2, 0, 0, 0, 1, 0]])


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return MODELS[request.param]()


def test_causal(model):
    changed = TOKENS.clone()
    changed[:, 4] = 1 - changed[:, 4]
    before, after = model(TOKENS, steps=3), model(changed, steps=3)
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=1e-13, atol=1e-13)
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_several_depths_in_one_pass_equal_separate_passes(model):
    together = model(TOKENS, steps=(1, 4, 2))
    assert together.shape == (3, *TOKENS.shape, model.readout.out_features)
    for logits, steps in zip(together, (1, 4, 2), strict=True):
        torch.testing.assert_close(logits, model(TOKENS, steps=steps), rtol=1e-13, atol=1e-13)
    assert not torch.allclose(together[0], together[1])


def test_a_depth_per_sequence_equals_that_sequence_alone(model):
    together = model(TOKENS, steps=torch.tensor([4, 1, 2]))
    for row, steps in enumerate((4, 1, 2)):
        torch.testing.assert_close(together[row : row + 1], model(TOKENS[row : row + 1], steps=steps))


def test_a_depth_per_sequence_sends_back_the_sum_of_what_the_sequences_send_back_alone(model):
    model.grad_steps = 2
    model(TOKENS, steps=torch.tensor([4, 1, 2])).square().sum().backward()
    together = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    for row, steps in enumerate((4, 1, 2)):
        model(TOKENS[row : row + 1], steps=steps).square().sum().backward()
    for (name, parameter), grad in zip(model.named_parameters(), together, strict=True):
        torch.testing.assert_close(grad, parameter.grad, rtol=1e-10, atol=1e-10, msg=name)


def test_a_depth_per_sequence_costs_the_loops_of_each_sequence_and_no_more(model):
    computed = []
    model.core.register_forward_pre_hook(lambda _, inputs: computed.append(inputs[0].shape[0]))
    model(TOKENS, steps=torch.tensor([4, 1, 2]))
    assert sum(computed) == 4 + 1 + 2


def test_it_runs_at_unseen_lengths_and_depths(model):
    tokens = torch.randint(0, 3, (1, 300))
    assert model(tokens, steps=20).isfinite().all()


def test_a_batch_equals_its_rows_alone(model):
    together = model(TOKENS, steps=3)
    for row in range(3):
        torch.testing.assert_close(together[row : row + 1], model(TOKENS[row : row + 1], steps=3))


def test_the_gradient_reaches_every_parameter(model):
    model(TOKENS, steps=(2, 3)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("name", TRANSITIONS)
def test_at_the_initial_values_the_loop_is_linear_and_equals_its_closed_form(name):
    transition = TRANSITIONS[name]()
    model = parcae_transformer(transition, vocabulary=3, classes=5, heads=1)
    embedding = model.prelude.norm(model.prelude.embedding(TOKENS))
    matrix, write = transition().dense(), transition.input_map()(embedding)
    state = sum(write @ torch.linalg.matrix_power(matrix, t).T for t in range(7))
    expected = model.readout(model.coda.norm(model.coda.enter(state)))
    torch.testing.assert_close(model(TOKENS, steps=7), expected)


def test_zero_gradient_reaches_the_steps_before_the_last_ones():
    model = looped(BlockConformal(16, groups=2), grad_steps=2)
    model(TOKENS, steps=5).sum().backward()
    truncated = model.core.blocks[0].feedforward.up.weight.grad.clone()
    whole = looped(BlockConformal(16, groups=2))
    whole(TOKENS, steps=5).sum().backward()
    assert not torch.allclose(truncated, whole.core.blocks[0].feedforward.up.weight.grad)
    torch.testing.assert_close(model(TOKENS, steps=5), whole(TOKENS, steps=5))
    model.zero_grad()
    whole.zero_grad()
    model(TOKENS, steps=2).sum().backward()
    whole(TOKENS, steps=2).sum().backward()
    for short, long in zip(model.parameters(), whole.parameters(), strict=True):
        assert torch.equal(short.grad, long.grad)


def test_the_initial_state_is_zeros_noise_by_a_generator_or_a_tensor(model):
    def noisy(seed):
        return model(TOKENS, steps=2, initial_state="noise", generator=torch.Generator().manual_seed(seed))

    assert torch.equal(noisy(0), noisy(0))
    assert not torch.allclose(noisy(0), noisy(1))
    assert torch.equal(model(TOKENS, steps=2), model(TOKENS, steps=2, initial_state=torch.zeros(3, 6, 16)))


def test_parameters_are_as_many_as_documented():
    width, hidden = 16, 64
    block = 4 * width**2 + 2 * width * hidden + 2 * width
    expected = 3 * width + 5 * width + 2 * width**2 + 2 * width + 3 * block
    diagonal = parcae_transformer(BlockDecay(width, groups=width), vocabulary=3, classes=5, heads=2)
    conformal = parcae_transformer(BlockConformal(width, groups=2), vocabulary=3, classes=5, heads=2)
    assert sum(p.numel() for p in diagonal.parameters()) == expected + 2 * width
    assert sum(p.numel() for p in conformal.parameters()) == expected + 2 * 2 + width // 2


@pytest.mark.parametrize(
    ("width", "layers", "heads", "tables", "millions"),
    [(512, (1, 1, 1), 4, 2, 60.30), (768, (2, 2, 2), 6, 3, 144.32), (1024, (4, 4, 4), 8, 6, 388.00)],
)
@pytest.mark.parametrize("values", [AlignedValues(), PublishedValues()], ids=repr)
def test_language_models_have_the_published_number_of_parameters(width, layers, heads, tables, millions, values):
    with torch.device("meta"):
        model = parcae_transformer(
            BlockDecay(width, groups=width),
            vocabulary=32768,
            heads=heads,
            layers=layers,
            value_embeddings=values,
        )
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 2) == millions
    owned = [len(stack.tables()) for stack in (model.prelude.blocks, model.core, model.coda.blocks)]
    assert sum(owned) == tables


def test_value_embeddings_stand_in_every_second_layer_and_the_published_gates_beside_some_tables():
    def layers(values, layers):
        return sorted(values.tables(layers)), sorted(values.gates(layers))

    assert layers(AlignedValues(), (1, 1, 1)) == ([0, 2], [0, 2])
    assert layers(PublishedValues(), (1, 1, 1)) == ([0, 2], [1, 2])
    assert layers(AlignedValues(), (0, 1, 0)) == ([0], [0])
    assert layers(PublishedValues(mean_steps=7), (1, 1, 1)) == ([0, 2], [1])
    assert layers(PublishedValues(grad_steps=3), (1, 1, 1)) == ([0, 2], [0])
    for even in [(2, 2, 2), (4, 4, 4), (2, 6, 4)]:
        assert layers(PublishedValues(), even) == layers(AlignedValues(), even)
        assert layers(PublishedValues(), even)[0] == list(range(1, sum(even), 2))


def test_at_one_layer_each_the_published_table_of_the_prelude_and_gate_of_the_core_receive_no_gradient():
    published, aligned = (
        looped(BlockDecay(16, groups=16), classes=None, value_embeddings=values)
        for values in (PublishedValues(), AlignedValues())
    )
    idle = {"prelude.blocks.value_tables.0.weight", "core.blocks.0.attention.value_gate.read.weight"}
    for model, expected in ((published, idle), (aligned, set())):
        model(TOKENS, steps=3).square().sum().backward()
        assert {name for name, parameter in model.named_parameters() if parameter.grad is None} == expected


def test_value_embeddings_are_looked_up_once_however_many_loops_read_them():
    model, looked_up = MODELS["looped, value embeddings"](), []
    for stack in (model.prelude.blocks, model.core, model.coda.blocks):
        for table in stack.tables():
            table.register_forward_pre_hook(lambda *_: looked_up.append(1))
    model(TOKENS, steps=(2, 9))
    assert len(looked_up) == 3


def test_a_readout_tied_to_the_embedding_is_the_embedding():
    model = MODELS["looped, readout tied to the embedding"]()
    assert model.readout.weight is model.prelude.embedding.weight
    model.reset_parameters(torch.Generator().manual_seed(7))
    assert model.readout.weight is model.prelude.embedding.weight
    untied = parcae_transformer(BlockDecay(16, groups=16), vocabulary=3, classes=5, heads=2, seed=7)
    assert torch.equal(model.readout.weight, untied.prelude.embedding.weight)


def test_another_transition_in_a_copy_changes_what_is_carried_and_leaves_the_first_model_alone(model):
    before = model(TOKENS, steps=3)
    other = model.with_transition(BlockConformal(16, groups=8))
    assert other.transition.groups == 8
    assert not torch.allclose(other(TOKENS, steps=3), before)
    own = dict(model.named_parameters())
    for name, parameter in other.named_parameters():
        if not name.startswith("transition."):
            assert torch.equal(parameter, own[name])
            assert parameter is not own[name]
    assert (other.readout.weight is other.prelude.embedding.weight) == (model.readout.out_features == 3)
    assert torch.equal(model(TOKENS, steps=3), before)
    assert torch.equal(other.with_transition(model.transition)(TOKENS, steps=3), before)


def test_a_model_cast_to_half_precision_keeps_its_transition_in_float32():
    model = parcae_transformer(BlockConformal(16, groups=2), vocabulary=3, classes=5, heads=2).bfloat16()
    assert {p.dtype for p in model.transition.parameters()} == {torch.float64}
    assert {p.dtype for p in model.core.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_cast_to_half_precision_runs_near_the_one_that_was_not(dtype):
    model = looped(BlockConformal(16, groups=2)).float()
    wide = model(TOKENS, steps=3)
    narrow = model.to(dtype)(TOKENS, steps=3)
    assert narrow.dtype == dtype
    torch.testing.assert_close(narrow.float(), wide, rtol=0.1, atol=0.1 * float(wide.detach().abs().max()))


def test_weights_depend_on_the_seed_alone():
    def build(seed):
        transition, values = BlockConformal(16, groups=2), AlignedValues()
        return parcae_transformer(transition, vocabulary=3, classes=5, heads=2, value_embeddings=values, seed=seed)

    torch.manual_seed(1)
    first = build(0).state_dict()
    torch.manual_seed(2)
    second, other = build(0).state_dict(), build(1).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["core.blocks.0.attention.query.weight"], other["core.blocks.0.attention.query.weight"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m(TOKENS, steps=0), "steps must be an integer of at least 1, or a tuple of such, got 0"),
        (lambda m: m(TOKENS.double(), steps=1), "tokens must be int64 or int32, got float64"),
        (lambda m: m(TOKENS + 1, steps=1), "tokens must lie in 0 .. 2, got 3"),
        (lambda m: m(TOKENS - 1, steps=1), "tokens must lie in 0 .. 2, got -1"),
        (lambda m: m(TOKENS[:, :0], steps=1), "at least one token"),
        (lambda m: m(TOKENS, steps=1, initial_state="ones"), "'zeros', 'noise' or a tensor, got 'ones'"),
        (lambda m: m(TOKENS, steps=1, initial_state=torch.zeros(3, 6, 4)), r"shape \(3, 6, 16\)"),
        (lambda m: m(TOKENS, steps=torch.tensor([1, 2])), "each of 3 sequences"),
    ],
)
def test_bad_input_is_one_clear_line(call, words):
    with refused(words):
        call(MODELS["looped, conformal"]())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: parcae_transformer(BlockDecay(9, 9), vocabulary=3, classes=5, heads=1), "2 \\* heads = 2, got 9"),
        (lambda: parcae_transformer(BlockDecay(8, 8), vocabulary=0, classes=5, heads=1), "vocabulary"),
        (lambda: parcae_transformer(BlockDecay(8, 8), vocabulary=3, classes=0, heads=1), "classes"),
        (lambda: parcae_transformer(BlockDecay(8, 8), vocabulary=3, classes=5, heads=1, layers=(1, 0, 1)), "core"),
        (lambda: parcae_transformer(BlockDecay(8, 8), vocabulary=3, classes=5, heads=1, grad_steps=0), "grad_steps"),
        (lambda: _assembled(transition=6, coda=8), "transition's dim must be the width of the embedding = 8, got 6"),
        (lambda: _assembled(transition=8, coda=6), "coda's width must be that of the embedding = 8, got 6"),
        (lambda: _assembled(transition=8, coda=8, table=(4, 8)), r"embedding's shape \(3, 8\), got \(4, 8\)"),
        (lambda: looped(BlockDecay(16, 16)).with_transition(BlockDecay(8, 8)), "width of the embedding = 16, got 8"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def _assembled(transition, coda, table=(3, 8)):
    return LoopedTransformer(
        prelude=Prelude(nn.Embedding(3, 8), Stack([])),
        transition=BlockDecay(transition, groups=1),
        core=Stack([Block(8, heads=2)], {0: nn.Embedding(*table)}),
        coda=Coda(coda, Stack([])),
        readout=nn.Linear(8, 5),
    )


@pytest.mark.parametrize(
    "group",
    [
        symmetric(3),
        symmetric(4),
        symmetric(5),
        alternating(5),
        cyclic(6),
        dihedral(4),
        direct_product(cyclic(2), symmetric(3)),
    ],
    ids=lambda g: g.name,
)
@pytest.mark.parametrize("alphabet", ["generators", "all"])
@pytest.mark.parametrize("length", [1, 40])
def test_the_oracle_scores_one_on_every_group_and_length_without_training(group, alphabet, length):
    task = WordProblem(group, length, alphabet=alphabet)
    batch = task.batch(update=3, size=16)
    scores = score(Oracle(TokenPermutation(group, task.letters))(batch.tokens), batch.targets)
    assert scores.joint.value == scores.last.value == scores.token == scores.conditional.value == 1.0


def test_an_oracle_that_multiplies_on_the_wrong_side_does_not_score_one():
    group = symmetric(3)
    task = WordProblem(group, 8, alphabet="all")
    with refused(f"letters must be elements of {group.name}, in 0 .. {group.order - 1}, got -1"):
        TokenPermutation(group, (0, -1))
    oracle = Oracle(TokenPermutation(group, task.letters))
    oracle.transition.images[:-1] = torch.from_numpy(group.table.copy()).long()  # letter times state
    batch = task.batch(update=0, size=64)
    assert score(oracle(batch.tokens), batch.targets).joint.value < 0.5
