"""Properties that hold for whatever is drawn: a few examples every day, thousands with HYPOTHESIS_PROFILE=campaign."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from closeness import assert_close
from torsor.groups import generated_by
from torsor.maps import Diagonal, ScaledRotation
from torsor.recurrence import linear_scan
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
    import json

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
