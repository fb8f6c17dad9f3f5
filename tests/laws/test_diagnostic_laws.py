"""Numbers about a map read what is known in closed form, find what is planted, and change nothing."""

import json
import math

import numpy as np
import pytest
import torch

import torsor.diagnostics.gram as gram_module
from cases import MAPS
from refusal import refused
from torsor.diagnostics import gram_matrix, lag_cosine, readability_defect, spectral_summary, toeplitz_defect
from torsor.maps import Dense, Diagonal, Permutation, ScaledRotation

SINGLE = [name for name, case in MAPS.items() if case().dense().ndim == 2]
EVERY_NUMBER = [readability_defect, toeplitz_defect, lag_cosine, gram_matrix, spectral_summary]
CARRIED = [toeplitz_defect, lag_cosine, gram_matrix]


def conformal(groups=1, planes=8, scales=(0.7, 0.4, 0.9, 0.5)):
    scale = torch.tensor(scales[:groups]).repeat_interleave(planes // groups)
    return ScaledRotation(scale, torch.linspace(0.1, 2.5, planes), groups=groups)


def reference(matrix, probes, steps):
    """Gram matrix and defect of each probe, by loops over powers of the matrix."""
    grams, defects = [], []
    for v in probes:
        carried = [np.linalg.matrix_power(matrix, t) @ v for t in range(steps)]
        p = [x / math.sqrt(sum(x**2)) for x in carried]
        g = np.array([[sum(p[t] * p[s]) for s in range(steps)] for t in range(steps)])
        projection = np.zeros_like(g)
        for t in range(steps):
            for s in range(steps):
                same = [g[a, b] for a in range(steps) for b in range(steps) if a - b == t - s]
                projection[t, s] = sum(same) / len(same)
        grams.append(g)
        defects.append(math.sqrt(((g - projection) ** 2).sum() / (g**2).sum()))
    return np.array(grams), np.array(defects)


@pytest.mark.parametrize("name", SINGLE)
def test_the_numbers_are_those_of_the_formula_over_own_blocks_and_the_whole_vector(name):
    m = MAPS[name]()
    matrix, steps, count = m.dense().double().numpy(), 6, 5
    arguments = {"steps": steps, "probes": count}
    seeded = lambda: torch.Generator().manual_seed(9)  # noqa: E731
    drawn = torch.randn(count, m.dim, dtype=torch.float64, generator=seeded()).numpy()
    toeplitz = toeplitz_defect(m, **arguments, generator=seeded())
    cosine = lag_cosine(m, **arguments, generator=seeded())
    gram = gram_matrix(m, **arguments, generator=seeded())
    near = {"rel": 1e-9, "abs": 1e-13}

    grams, defects = reference(matrix, drawn, steps)
    assert toeplitz.whole.mean == pytest.approx(defects.mean(), **near)
    assert toeplitz.whole.std == pytest.approx(defects.std(ddof=1), **near)
    assert np.array(cosine.whole) == pytest.approx(grams.mean(0)[0], **near)
    assert gram.whole.numpy() == pytest.approx(grams.mean(0), **near)

    inside = [reference(matrix[block, block], drawn[:, block], steps) for block in m.blocks]
    assert toeplitz.own.mean == pytest.approx(np.mean([d.mean() for _, d in inside]), **near)
    assert toeplitz.own.std == pytest.approx(np.mean([d.std(ddof=1) for _, d in inside]), **near)
    assert np.array(cosine.own) == pytest.approx(np.mean([g.mean(0)[0] for g, _ in inside], axis=0), **near)
    assert gram.own.numpy() == pytest.approx(np.mean([g.mean(0) for g, _ in inside], axis=0), **near)
    assert [block.mean for block in toeplitz.by_block] == pytest.approx([d.mean() for _, d in inside], **near)


def test_the_toeplitz_defect_of_a_projection_is_known():
    """With a = |cos(v, e)| the Gram matrix of three steps has 1 on its diagonal, then a and 1, then a."""
    generator = torch.Generator().manual_seed(4)
    v = torch.randn(1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(4))[0]
    a = (v[0] / v.norm()).abs().item()
    defect = toeplitz_defect(Diagonal(torch.tensor([1.0, 0.0])), steps=3, probes=1, generator=generator)
    assert defect.whole.mean == pytest.approx((1 - a) / math.sqrt(5 + 4 * a**2), rel=1e-14)
    assert defect.whole.std == 0


def test_the_lag_cosine_of_one_angle_is_the_cosine_of_its_multiples():
    rotation = ScaledRotation(torch.full((3,), 0.8), torch.full((3,), 0.3))
    expected = [math.cos(0.3 * k) for k in range(20)]
    assert lag_cosine(rotation, steps=20, probes=4).own == pytest.approx(expected, abs=1e-14)


def test_a_multiple_of_the_identity_has_no_defect_though_all_its_steps_look_alike():
    multiple = Diagonal(torch.full((6,), 0.3))
    assert toeplitz_defect(multiple).whole.mean < 1e-15
    assert readability_defect(multiple).whole < 1e-15
    assert lag_cosine(multiple).whole == pytest.approx([1.0] * 32, abs=1e-14)


def test_the_readability_defect_of_two_rates_is_known():
    a, b = 0.9, 0.5
    c2 = (a**2 + b**2) / 2
    expected = math.hypot(a**2 - c2, b**2 - c2) / math.hypot(a**2, b**2)
    assert readability_defect(Diagonal(torch.tensor([a, b]))).whole == pytest.approx(expected, rel=1e-14)


def test_the_readability_defect_stays_below_one():
    assert 0.99 < readability_defect(Diagonal(torch.eye(200)[0])).whole < 1


@pytest.mark.parametrize("scale", [1e-200, 0.01, 0.5, 1.0, 30.0])
def test_a_conformal_map_reads_zero_at_any_scale_over_512_steps(scale):
    m = ScaledRotation(torch.full((16,), scale), torch.linspace(0.01, 3, 16))
    assert toeplitz_defect(m, steps=512, probes=4).whole.mean < 1e-13
    assert readability_defect(m).whole < 1e-14


def test_to_normalise_the_power_only_when_it_is_wanted_would_invent_a_defect():
    m = ScaledRotation(torch.full((16,), 0.5), torch.linspace(0.01, 3, 16))
    v = torch.randn(32)
    late = torch.stack([torch.nn.functional.normalize(m.power(t)(v), dim=0) for t in range(48)])
    assert gram_module.gram_of(late[:, None])[0].diagonal().min() < 1e-2  # of a state with itself
    assert toeplitz_defect(m, steps=48, probes=4).whole.mean < 1e-14


def test_the_numbers_are_cast_before_their_sines_are_taken():
    angle = torch.linspace(0.1, 2.5, 16, dtype=torch.float32)
    rotation = ScaledRotation(torch.full_like(angle, 0.7), angle)
    assert toeplitz_defect(rotation, steps=256, probes=4).whole.mean < 1e-13
    table = Dense(rotation.dense())  # sines in float32, cast up
    assert toeplitz_defect(table, steps=256, probes=4).whole.mean > 1e-9


@pytest.mark.parametrize("guilty", [0, 1, 2, 3])
def test_one_plane_that_shrinks_by_a_millionth_more_is_found_in_its_group(guilty):
    m = conformal(groups=4, planes=32)
    scale = m.scale.clone()
    scale[8 * guilty + 3] *= 1 + 1e-6
    broken = ScaledRotation(scale, m.angle, groups=4)

    readability = readability_defect(broken)
    share = 1 / 8  # of the planes of its group
    assert readability.own == pytest.approx(2e-6 * math.sqrt(share * (1 - share)), rel=1e-4)
    toeplitz = toeplitz_defect(broken, steps=16, probes=8)
    for group in range(4):
        assert (readability.by_block[group] > 1e-7) == (group == guilty)
        assert (toeplitz.by_block[group].mean > 1e-7) == (group == guilty)
    assert readability_defect(m).own < 1e-15
    assert toeplitz_defect(m, steps=16, probes=8).own.mean < 1e-14


def test_two_groups_of_unequal_rates_read_zero_in_each_and_not_on_the_whole_vector():
    m = conformal(groups=2)
    assert readability_defect(m).own < 1e-15 < 1e-2 < readability_defect(m).whole
    assert toeplitz_defect(m).own.mean < 1e-14 < 1e-2 < toeplitz_defect(m).whole.mean
    assert spectral_summary(m).own < 1e-14 < 1e-2 < spectral_summary(m).whole


def test_blocks_of_one_coordinate_or_of_one_plane_read_zero_whatever_they_hold():
    diagonal = Diagonal(torch.randn(6))
    single = tuple(slice(i, i + 1) for i in range(6))
    assert readability_defect(diagonal, blocks=single).own == 0
    assert toeplitz_defect(diagonal, blocks=single).own.mean < 1e-15
    planes = ScaledRotation(torch.rand(4), torch.randn(4), groups=4)
    assert readability_defect(planes).own < 1e-15 < 1e-2 < readability_defect(planes).whole
    assert toeplitz_defect(planes).own.mean < 1e-14 < 1e-2 < toeplitz_defect(planes).whole.mean


def test_an_explicit_partition_that_the_map_mixes_reads_the_part_that_stays_in_each_block():
    m = ScaledRotation(torch.tensor([0.9, 0.9]), torch.tensor([0.4, 1.1]), pairing="half-split")
    halves = (slice(0, 2), slice(2, 4))
    stays = Diagonal(0.9 * torch.tensor([math.cos(0.4), math.cos(1.1)]).repeat(2))
    assert readability_defect(m).whole < 1e-15
    assert readability_defect(m, halves).own == pytest.approx(readability_defect(stays, halves).own, rel=1e-12)
    assert toeplitz_defect(m, blocks=halves).own.mean == pytest.approx(toeplitz_defect(stays, blocks=halves).own.mean)
    assert lag_cosine(m, blocks=halves).own == pytest.approx(lag_cosine(stays, blocks=halves).own)
    assert spectral_summary(m, halves).own == pytest.approx(1 - math.cos(1.1) / math.cos(0.4))


def test_blocks_may_be_of_any_widths_in_any_order_and_strided():
    m = Dense(torch.block_diag(torch.randn(3, 3), torch.randn(5, 5)))
    ascending, descending = (slice(0, 3), slice(3, 8)), (slice(3, None), slice(0, 3))
    for number in (readability_defect, toeplitz_defect, spectral_summary):
        assert number(m, blocks=descending).by_block == number(m, blocks=ascending).by_block[::-1]
    rotation = ScaledRotation(torch.rand(2), torch.randn(2), pairing="half-split")
    assert readability_defect(rotation, blocks=(slice(0, 4, 2), slice(1, 4, 2))).own < 1e-15


def test_the_spectral_summary_reads_radius_moduli_and_spread():
    summary = spectral_summary(conformal(groups=2))
    assert summary.radius == pytest.approx(0.7, rel=1e-14)
    assert summary.by_block == (pytest.approx([0.7] * 8), pytest.approx([0.4] * 8))
    assert summary.whole == pytest.approx(1 - 0.4 / 0.7)
    assert spectral_summary(Diagonal(torch.tensor([0.5, 0.5, 0.8, 0.2]), groups=2)).own == pytest.approx(0.75)
    assert spectral_summary(Diagonal(torch.zeros(3))).whole == 0
    assert spectral_summary(Permutation(torch.tensor([1, 2, 0]))).radius == pytest.approx(1)


def test_the_first_row_of_the_gram_matrix_is_the_lag_cosine():
    m = MAPS["dense"]()
    gram = gram_matrix(m, steps=9, probes=7)
    torch.testing.assert_close(gram.whole, gram.whole.T, rtol=0, atol=1e-14)
    assert gram.whole[0].tolist() == pytest.approx(lag_cosine(m, steps=9, probes=7).whole, abs=1e-14)
    assert gram.whole.diagonal().tolist() == pytest.approx([1.0] * 9)


def test_two_calls_agree_and_another_generator_does_not():
    m = MAPS["dense"]()
    assert toeplitz_defect(m) == toeplitz_defect(m)
    assert lag_cosine(m) == lag_cosine(m)
    other = torch.Generator().manual_seed(1)
    assert toeplitz_defect(m, generator=other) != toeplitz_defect(m)
    before = torch.get_rng_state()
    toeplitz_defect(m)
    assert torch.equal(torch.get_rng_state(), before)  # PyTorch's own generator is left alone


def test_chunks_of_probes_change_nothing_and_bound_the_memory(monkeypatch):
    m = conformal(groups=2)
    at_once = toeplitz_defect(m, steps=12, probes=9)
    gram_at_once = gram_matrix(m, steps=12, probes=9)
    monkeypatch.setattr(gram_module, "_CHUNK_BYTES", 2 * 8 * 12 * (16 + 24))
    sizes = []
    gram_module.over_scopes(m, 12, 9, None, None, lambda p: sizes.append(p.shape[1]) or p.sum(0))
    assert set(sizes) == {1, 2}
    in_chunks = toeplitz_defect(m, steps=12, probes=9)
    assert in_chunks.whole.mean == pytest.approx(at_once.whole.mean, rel=1e-13)
    assert in_chunks.whole.std == pytest.approx(at_once.whole.std, rel=1e-12)
    torch.testing.assert_close(gram_matrix(m, steps=12, probes=9).by_block, gram_at_once.by_block)


@pytest.mark.parametrize("number", EVERY_NUMBER)
def test_a_number_has_no_gradient_and_does_not_notice_autocast_or_the_type_of_the_map(number):
    scale = torch.full((4,), 0.5, dtype=torch.float32, requires_grad=True)
    m = ScaledRotation(scale, torch.linspace(0.1, 1, 4, dtype=torch.float32))
    plain = number(m).to_json()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert number(m).to_json() == plain
    assert number(m.to(torch.float64)).to_json() == plain
    assert torch.is_grad_enabled()
    assert not gram_matrix(m).whole.requires_grad
    assert scale.grad is None


@pytest.mark.parametrize("number", EVERY_NUMBER)
def test_a_result_prints_its_numbers_and_its_formula_and_is_plain_json(number):
    result = number(conformal(groups=2))
    assert result.formula in str(result)
    assert "own blocks" in str(result)
    assert "whole vector" in str(result)
    assert str(result).isascii()
    plain = result.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert {"formula", "own", "whole", "by_block"} <= set(plain)
    with pytest.raises(AttributeError):
        result.own = 0


@pytest.mark.parametrize("number", EVERY_NUMBER)
@pytest.mark.parametrize(
    "blocks",
    [
        (slice(0, 4),),
        (slice(0, 5), slice(4, 8)),
        (slice(0, 8), slice(8, 9)),
        (slice(0, 4), slice(4, 8), slice(4, 4)),
        (slice(None, None, -1),),
        (),
    ],
)
def test_blocks_that_are_not_a_partition_are_refused(number, blocks):
    with refused("blocks must be slices that hold each of 0 .. 7 exactly once"):
        number(Diagonal(torch.rand(8)), blocks=blocks)


@pytest.mark.parametrize("number", EVERY_NUMBER)
def test_a_map_with_batch_axes_is_refused(number):
    with refused(r"map must be one map without batch axes, got batch axes \(3,\)"):
        number(Diagonal(torch.rand(3, 8)))


@pytest.mark.parametrize("number", EVERY_NUMBER)
def test_a_map_without_finite_numbers_is_refused(number):
    with refused("map must hold finite numbers"):
        number(Diagonal(torch.tensor([1.0, math.nan])))


@pytest.mark.parametrize("number", CARRIED)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"steps": 1}, "steps must be an integer of at least 2, got 1"), ({"probes": 0}, "probes must be .* 1, got 0")],
)
def test_too_few_steps_or_probes_are_refused(number, arguments, message):
    with refused(message):
        number(Diagonal(torch.rand(8)), **arguments)


@pytest.mark.parametrize("number", CARRIED)
def test_a_map_that_sends_a_probe_to_zero_is_refused_with_the_step(number):
    nilpotent = Dense(torch.diag(torch.ones(2), 1))
    with refused("map must not send a probe to zero, got zero at step 3 in the coordinates 0:3"):
        number(nilpotent)


def test_a_map_that_is_zero_on_a_block_has_no_readability():
    with refused("map must not be zero on a block, got zero on the coordinates 2:4"):
        readability_defect(Diagonal(torch.tensor([1.0, 1.0, 0.0, 0.0]), groups=2))
