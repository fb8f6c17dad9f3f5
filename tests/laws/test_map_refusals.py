"""What no linear map accepts, and what it says then."""

import pytest
import torch

from cases import MAPS
from refusal import refused
from torsor.maps import Dense, Diagonal, Householder, Permutation, ScaledRotation

every_map = pytest.mark.parametrize("name", MAPS)


@every_map
def test_a_state_of_another_width_is_refused(name):
    m = MAPS[name]()
    with refused(f"dim = {m.dim} coordinates, got shape"):
        m(torch.randn(m.dim + 1))


@every_map
@pytest.mark.parametrize("exponent", [-1, 0.5, True])
def test_an_exponent_that_is_not_a_count_is_refused(name, exponent):
    with refused("exponent must be an integer in 0 "):
        MAPS[name]().power(exponent)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Dense(torch.zeros(2, 3)), "matrix must be square"),
        (lambda: Dense(torch.eye(4), groups=3), "groups must divide dim = 4, got 3"),
        (lambda: Diagonal(torch.ones(4), groups=0), "groups must divide dim = 4, got 0"),
        (lambda: Diagonal(torch.ones(4).bfloat16()), "values must be float32 or float64, got bfloat16"),
        (lambda: Dense(torch.eye(4).half()), "matrix must be float32 or float64, got float16"),
        (lambda: ScaledRotation(torch.ones(2), torch.ones(2).half()), "angle must be float32 or float64"),
        (lambda: ScaledRotation(torch.ones(2), torch.ones(3)), "scale and angle must agree"),
        (lambda: ScaledRotation(torch.ones(2), torch.ones(2).float()), "scale and angle must agree"),
        (lambda: ScaledRotation(torch.ones(4), torch.ones(4), groups=3), "groups must divide the number of planes = 4"),
        (lambda: Householder(torch.ones(2, 4).half(), torch.tensor(1.0)), "vectors must be float32 or float64"),
        (lambda: Householder(torch.ones(2, 4), torch.tensor(1.0).half()), "scale must be float32 or float64"),
        (lambda: Householder(torch.ones(2, 4), torch.ones(2)), "scale must agree with vectors in type and leading"),
        (lambda: Householder(torch.ones(2, 4), torch.tensor(1.0).float()), "scale must agree with vectors in type"),
        (lambda: Householder(torch.ones(4), torch.tensor(1.0)), "vectors must have the axes reflections and dim"),
        (lambda: Permutation(torch.tensor([0, 0, 2])), "images must hold each of 0 .. 2 exactly once"),
        (lambda: Diagonal(torch.ones(4)) @ Diagonal(torch.ones(5)), "maps to compose must share one dim, got 4 and 5"),
    ],
)
def test_an_inadmissible_map_is_refused_in_one_line(build, message):
    with refused(message):
        build()


@pytest.mark.parametrize("name", MAPS)
def test_a_state_without_an_axis_is_refused(name):
    with refused("coordinates, got shape"):
        MAPS[name]()(torch.tensor(1.0))
