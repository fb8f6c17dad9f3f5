"""Properties that hold for whatever is drawn: a few examples every day, thousands with HYPOTHESIS_PROFILE=campaign."""

import json
import math
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from cases import MATRIX_GROUPS, MODELS, SEQUENCE_LAYERS, TASKS, TRANSITIONS
from closeness import assert_close
from torsor.generation import Full, LoopedReader, Prompts
from torsor.generation.sampling import Sampling
from torsor.groups import departure, generated_by
from torsor.maps import Diagonal, ScaledRotation
from torsor.recurrence import linear_scan
from torsor.recurrence.depth import Fixed, Poisson, Uniform
from torsor.recurrence.linear_scan import linear_scan_reference
from torsor.text import CharacterTokenizer, JsonLines, Preparation, PreparedText
from torsor.transitions import BlockConformal

seeds = st.integers(0, 2**31)


@given(
    groups=st.integers(1, 4),
    planes=st.integers(1, 4),
    scale=st.floats(1e-30, 1 - 1e-12),
    pairing=st.sampled_from(("adjacent", "half-split")),
    seed=seeds,
)
def test_a_conformal_transition_scales_every_inner_product_of_a_group_by_the_square_of_its_rate(
    groups, planes, scale, pairing, seed
):
    transition = BlockConformal(2 * groups * planes, groups, initial_scale=scale, pairing=pairing)
    with torch.no_grad():
        transition.frequency.copy_(torch.randn(groups * planes, generator=torch.Generator().manual_seed(seed)) * 100)
    x, y = torch.randn(2, groups, 2 * planes, generator=torch.Generator().manual_seed(seed + 1))
    carry = transition()
    moved = [carry(each.flatten()).unflatten(0, (groups, -1)) / scale for each in (x, y)]
    size = (x.norm(dim=-1) * y.norm(dim=-1)).max()  # of two that are nearly orthogonal the product itself is small
    error = ((moved[0] * moved[1]).sum(-1) - (x * y).sum(-1)).abs().max()
    assert error <= 1e-14 * (8 + 2 * -math.log(scale)) * size  # the error of a rate is that of its logarithm


@given(
    length=st.integers(1, 70),
    batch=st.integers(1, 3),
    seed=seeds,
    kind=st.sampled_from(("rotation", "rotation of each token", "diagonal", "diagonal of each token")),
    smallest=st.sampled_from((0.0, 0.5, 0.999)),
)
def test_a_scan_in_any_number_of_pieces_is_the_scan_step_by_step(length, batch, seed, kind, smallest):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, length) if kind.endswith("token") else ()
    scale = smallest + (1 - smallest) * torch.rand(*shape, 4, generator=generator)
    angle = torch.randn(*shape, 4, generator=generator)
    carry = ScaledRotation(scale, angle) if kind.startswith("rotation") else Diagonal(scale.repeat_interleave(2, -1))
    inputs, state = torch.randn(batch, length, 8, generator=generator), torch.randn(batch, 8, generator=generator)
    for one, other in zip(linear_scan(carry, inputs, state), linear_scan_reference(carry, inputs, state), strict=True):
        assert_close(one, other)


@given(points=st.integers(1, 5), seed=seeds, count=st.integers(1, 3))
def test_what_any_permutations_generate_is_a_group_of_an_order_that_divides_the_factorial(points, seed, count):
    chance = np.random.default_rng(seed)
    group = generated_by([tuple(map(int, chance.permutation(points))) for _ in range(count)], "drawn")
    assert math.factorial(points) % group.order == 0
    every = np.arange(group.order)
    assert np.array_equal(np.sort(group.table, 0), np.broadcast_to(every[:, None], group.table.shape))
    a, b, c = chance.integers(group.order, size=(3, 200))
    assert np.array_equal(group.table[group.table[a, b], c], group.table[a, group.table[b, c]])
    assert np.array_equal(group.table[a, group.inverse(a)], np.zeros(200))


@given(
    texts=st.lists(st.text("abc", max_size=12), min_size=1, max_size=12).filter(any),
    shard_tokens=st.integers(1, 40),
)
def test_whatever_is_prepared_is_read_back_document_by_document(texts, shard_tokens):
    tokenizer = CharacterTokenizer("abc")
    with TemporaryDirectory() as place:
        corpus = Path(place) / "corpus.jsonl"
        corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        for _ in Preparation(JsonLines(corpus), tokenizer, shard_tokens=shard_tokens).into(Path(place) / "out"):
            pass
        stream = PreparedText.open(Path(place) / "out").training[:]
    starts = np.flatnonzero(stream == tokenizer.begin)
    found = [tokenizer.decode(part) for part in np.split(stream, starts[1:])]
    assert found == [text for text in texts if text]


def cuts_of(length, chance):
    """Where a sequence is cut, from its beginning to its end."""
    inner = np.flatnonzero(chance.random(length - 1) < chance.random()) + 1
    return [0, *inner.tolist(), length]


@given(name=st.sampled_from(sorted(TRANSITIONS)), size=st.floats(1e-3, 30), seed=seeds)
def test_wherever_its_parameters_went_a_transition_s_map_is_its_matrix_and_all_but_a_free_one_shrinks(name, size, seed):
    torch.manual_seed(seed)
    transition = TRANSITIONS[name]()
    with torch.no_grad():
        for parameter in transition.parameters():
            parameter += size * torch.randn_like(parameter)
    carry, x = transition(), torch.randn(3, transition.dim)
    matrix = carry.dense()
    assert_close(carry(x), x @ matrix.mT)
    if name != "free":
        assert torch.linalg.matrix_norm(matrix, 2) <= 1 + 1e-12
    if not name.startswith(("decay", "free")):  # each block turns, and shrinks at one rate
        for block in carry.blocks:
            gram = matrix[block, block].mT @ matrix[block, block]
            assert_close(gram, gram.diagonal().mean() * torch.eye(len(gram)))


@given(name=st.sampled_from(sorted(MATRIX_GROUPS)), size=st.floats(1e-6, 1e3), seed=seeds)
def test_however_large_its_numbers_an_element_lies_on_its_group_and_its_inverse_undoes_it(name, size, seed):
    torch.manual_seed(seed)
    group = MATRIX_GROUPS[name]()
    g, h = group.element(size * torch.randn(2, *group.raw_shape))
    bound = 1e-13 * max(1.0, size)  # a phase has lost as many digits as its number has before the point
    assert departure(group, g) <= 1e-12
    assert departure(group, group.compose(g, h)) <= 1e-12
    assert_close(group.compose(group.compose(h, g), group.inverse(g)), h, bound)


@given(
    depth=st.one_of(
        st.integers(1, 10**6).map(Fixed),
        st.tuples(st.integers(1, 500), st.integers(0, 500)).map(lambda pair: Uniform(pair[0], sum(pair))),
        st.builds(Poisson, st.floats(0, 1e6), st.integers(1, 10**6)),
    ),
    fraction=st.floats(1e-3, 1),
    seed=seeds,
    update=st.integers(0, 10**9),
    batch=st.integers(1, 40),
)
def test_depths_lie_within_their_bounds_and_a_smaller_batch_has_the_first_of_them(depth, fraction, seed, update, batch):
    for each in (depth, depth.scaled(fraction)):
        drawn = each.per_sequence(seed, update, batch)
        assert len(drawn) == batch
        assert 1 <= drawn.min() <= drawn.max() <= each.largest <= depth.largest
        fewer = max(1, batch // 2)
        assert torch.equal(drawn[:fewer], each.per_sequence(seed, update, fewer))
        assert int(drawn[0]) == each.at(seed, update)


@given(
    logits=st.lists(st.integers(-4, 4), min_size=1, max_size=8),
    temperature=st.sampled_from((0.0, 0.3, 1.0, 7.0)),
    top=st.none() | st.integers(1, 9),
    nucleus=st.none() | st.floats(0.01, 1),
    seed=seeds,
)
def test_a_drawn_token_is_among_the_fewest_most_probable_ones_that_were_asked_for(
    logits, temperature, top, nucleus, seed
):
    generator = torch.Generator().manual_seed(seed)
    drawn = Sampling(temperature, top, nucleus).draw(torch.tensor([logits] * 20).double(), generator).tolist()
    if temperature == 0:
        assert set(drawn) == {logits.index(max(logits))}
        return
    falling = sorted(logits, reverse=True)[:top]
    weights = [math.exp((each - falling[0]) / temperature) for each in falling]
    count = len(falling)
    if nucleus is not None:
        together = [math.fsum(weights[: k + 1]) / math.fsum(weights) for k in range(count)]
        count = next((k + 1 for k in range(count) if together[k] >= nucleus - 1e-12), count)
    least = falling[min(count, len(falling)) - 1]
    assert all(logits[token] >= least for token in drawn)


@given(name=st.sampled_from(sorted(TASKS)), update=st.integers(0, 10**6), size=st.integers(1, 9))
def test_a_batch_of_any_update_is_the_same_again_and_every_target_is_a_class_or_none(name, update, size):
    task = TASKS[name]()
    batch, again = task.batch(update, size), TASKS[name]().batch(update, size)
    assert torch.equal(batch.tokens, again.tokens)
    assert torch.equal(batch.targets, again.targets)
    assert 0 <= batch.tokens.min() <= batch.tokens.max() < task.vocabulary
    scored = batch.targets[batch.targets != -100]
    assert ((scored >= 0) & (scored < task.classes)).all()


@given(name=st.sampled_from(sorted(MODELS)), length=st.integers(1, 12), rows=st.integers(1, 3), seed=seeds)
def test_from_a_full_cache_any_pieces_at_any_depth_give_the_logits_of_the_model(name, length, rows, seed):
    torch.manual_seed(seed)
    chance, model = np.random.default_rng(seed), MODELS[name]()
    steps, tokens = int(chance.integers(1, 5)), torch.randint(3, (rows, length))
    reader = LoopedReader(model)
    cache, pieces = reader.cache(rows, length, Full(5)), []
    for start, end in pairwise(cuts_of(length, chance)):
        prompts = Prompts(tokens[:, start:end].flatten(), (end - start,) * rows)
        pieces.append(reader.read(prompts, cache, steps, every=True).logits.unflatten(0, (rows, -1)))
    assert_close(torch.cat(pieces, dim=1), model(tokens, steps=steps).detach())


@given(name=st.sampled_from(sorted(SEQUENCE_LAYERS)), length=st.integers(1, 20), rows=st.integers(1, 3), seed=seeds)
def test_a_layer_reads_on_from_its_state_in_any_pieces(name, length, rows, seed):
    torch.manual_seed(seed)
    chance, layer = np.random.default_rng(seed), SEQUENCE_LAYERS[name]()
    x, state, pieces = torch.randn(rows, length, 6), None, []
    with torch.no_grad():
        whole, _ = layer(x)
        for start, end in pairwise(cuts_of(length, chance)):
            output, state = layer(x[:, start:end], state)
            pieces.append(output)
    assert_close(torch.cat(pieces, dim=1), whole)
