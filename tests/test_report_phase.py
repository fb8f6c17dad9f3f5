"""Phase portraits: what they draw is where the trained map itself takes a state."""

import itertools
import json

import numpy as np
import pytest
import torch
from scipy.linalg import eig

from test_report import COMMAND, edit, fake_run
from torsor.experiments.geometry import geometry
from torsor.report import write_report
from torsor.report.geometry import SHOWN_BLOCKS, portrait
from torsor.report.phase import STEPS, orbit
from torsor.report.read import read_run
from torsor.transitions import BlockConformal, BlockDecay, Cayley, Geometric, Householder

TURNING = {
    "conformal": lambda: BlockConformal(16, 2, frequencies=Geometric(50.0), initial_scale=(0.7, 0.95)),
    "half-split": lambda: BlockConformal(16, 2, pairing="half-split", initial_scale=(0.7, 0.95)),
    "chart": lambda: Cayley(9),
    "reflections": lambda: Householder(8),
}
STILL = {"diagonal": lambda: BlockDecay(16, 16), "tied rates": lambda: BlockDecay(16, 2)}


def measured(make, folder):
    """A transition with parameters as training might leave them, and what the report reads of it."""
    transition, generator = make().to(torch.float64), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in transition.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    run = fake_run(folder / "a-0")
    edit(run, "geometry.json", lambda data: data.update(geometry(transition, steps=4, probes=2), initial=None))
    return transition(), run


def portraits(run):
    pictures = portrait(read_run(run).geometry, 1.0, 1.0).panels
    return [each for each in pictures if each.title.startswith("phase portrait")]


def curves(picture):
    """The states of every curve, as the page tells them."""
    told = [shape.values for shape in picture.shapes if shape.values]
    return [np.array([[float(n) for n in pair.split(" ")] for pair in values.split(";")]) for values in told]


def read_along(carry, block, factor):
    """The coordinate of a state along the left eigenvector of a factor, under the map, with its first value 1."""
    matrix = carry.dense().detach().numpy()[block, block]
    values, left, _ = eig(matrix, left=True)
    w = np.zeros(carry.dim, complex)
    w[block] = left[:, np.abs(values - factor).argmin()]
    x, found = torch.from_numpy(np.random.default_rng(0).standard_normal(carry.dim)), []
    for _ in range(STEPS + 1):
        found.append(w.conj() @ x.numpy())
        x = carry(x).detach()
    return np.array(found) / found[0]


@pytest.mark.parametrize("name", TURNING)
def test_a_plane_s_spiral_is_where_the_map_takes_a_state(name, tmp_path):
    carry, run = measured(TURNING[name], tmp_path)
    drawn = portraits(run)
    assert len(drawn) == len(carry.blocks)
    for picture, block in zip(drawn, carry.blocks, strict=True):
        found = curves(picture)
        assert found
        for states in found:
            z = states[:, 0] + 1j * states[:, 1]
            assert np.allclose(z, read_along(carry, block, z[1] / z[0]), atol=2e-4)  # told with five digits


def test_the_planes_that_turn_least_and_most_are_drawn(tmp_path):
    carry, run = measured(TURNING["conformal"], tmp_path)
    for picture, block in zip(portraits(run), carry.blocks, strict=True):
        turns = [np.arctan2(states[1, 1], states[1, 0]) for states in curves(picture)]
        angles = np.abs(carry.angle.detach().numpy()[block.start // 2 : block.stop // 2])
        assert turns[0] == pytest.approx(angles.min(), abs=1e-4)
        assert turns[-1] == pytest.approx(angles.max(), abs=1e-4)
        assert len(turns) == 3


@pytest.mark.parametrize("name", STILL)
def test_where_no_plane_turns_states_move_in_the_slowest_and_the_fastest_coordinate(name, tmp_path):
    carry, run = measured(STILL[name], tmp_path)
    for picture, block in zip(portraits(run), carry.blocks, strict=True):
        rates = torch.diagonal(carry.dense().detach())[block]
        slow, fast = rates[rates.abs().argmax()].item(), rates[rates.abs().argmin()].item()
        found = curves(picture)
        assert len(found) == 8
        for states in found:
            steps = np.arange(STEPS + 1)
            assert np.allclose(states, states[0] * np.stack([slow**steps, fast**steps], 1), atol=2e-4)
            assert np.hypot(*states[0]) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("factor", [1.3, -2.0, 0.4 + 1.2j, 1e300, 1e-300, 0.0])
def test_a_state_that_grows_ends_on_the_circle_and_none_leaves_it(factor):
    states = orbit(complex(factor))
    assert all(abs(each) <= 1 + 1e-9 for each in states)
    assert all(later == pytest.approx(earlier * factor) for earlier, later in itertools.pairwise(states))
    if 1 < abs(factor) < 1e9:
        assert abs(states[-1]) == pytest.approx(1)


def test_of_many_blocks_the_first_are_drawn_and_the_rest_counted(tmp_path):
    carry, run = measured(lambda: BlockConformal(32, 8), tmp_path)
    assert len(carry.blocks) == 8
    assert len(portraits(run)) == SHOWN_BLOCKS
    page = write_report([run], tmp_path / "page.html", COMMAND).read_text()
    assert f"{8 - SHOWN_BLOCKS} more blocks are not drawn" in page


def test_numbers_that_are_not_there_leave_no_portrait_and_no_error(tmp_path):
    run = fake_run(tmp_path / "a-0")
    edit(run, "geometry.json", lambda data: data.update(spectrum=[[None, 1, 0], "x", []]))
    assert portraits(run) == []
    assert "phase portrait," not in write_report([run], tmp_path / "page.html", COMMAND).read_text()
    assert json.loads((run / "geometry.json").read_text())["gram"]
