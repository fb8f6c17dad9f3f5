"""Laws of every transition in the register: parameters in, the same map out, the gradient back."""

import copy

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from cases import TRANSITIONS
from closeness import assert_close
from refusal import refused
from register import concrete_subclasses
from torsor.maps import LinearMap
from torsor.transitions import BlockConformal, BlockDecay, Geometric, Still, Transition, Uniform

CHARTS = {"Free"}  # whose matrix is a parameter, on purpose; the coordinates of the other charts have one axis
every_transition = pytest.mark.parametrize("name", TRANSITIONS)


def moved(transition: Transition) -> Transition:
    """The transition away from its initial values, as training would leave it."""
    with torch.no_grad():
        for parameter in transition.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return transition


def both_maps(transition: Transition) -> list[torch.Tensor]:
    return [transition().dense(), transition.input_map().dense()]


def assert_same_maps(left: list[torch.Tensor], right: list[torch.Tensor]):
    for one, other in zip(left, right, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.fixture
def in_float32():
    torch.set_default_dtype(torch.float32)


def test_the_register_holds_every_kind_of_transition():
    assert {type(case()) for case in TRANSITIONS.values()} == concrete_subclasses(Transition)


@every_transition
def test_a_transition_builds_two_maps_of_its_dim(name):
    transition = TRANSITIONS[name]()
    for m in (transition(), transition.input_map()):
        assert isinstance(m, LinearMap)
        assert m.dim == transition.dim
        assert m.dense().shape == (transition.dim, transition.dim)
        assert m.dense().isfinite().all()


@every_transition
def test_two_calls_build_the_same_maps(name):
    transition = moved(TRANSITIONS[name]())
    assert_same_maps(both_maps(transition), both_maps(transition))


@every_transition
def test_two_transitions_built_alike_are_alike(name):
    torch.manual_seed(3)
    first = TRANSITIONS[name]()
    torch.manual_seed(3)
    assert_same_maps(both_maps(first), both_maps(TRANSITIONS[name]()))


@every_transition
def test_the_gradient_reaches_every_parameter_through_the_two_maps(name):
    transition = moved(TRANSITIONS[name]())
    sum((m * torch.randn_like(m)).sum() for m in both_maps(transition)).backward()
    learned = [(key, p) for key, p in transition.named_parameters() if p.requires_grad]
    for key, parameter in learned:
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        # the entries of a chart's matrix may be redundant; every rate and frequency counts
        reached = parameter.grad != 0
        assert reached.all() if parameter.ndim == 1 else reached.any(), key


@every_transition
def test_the_gradient_reaches_every_parameter_from_the_initial_values(name):
    transition = TRANSITIONS[name]()
    sum((m * torch.randn_like(m)).sum() for m in both_maps(transition)).backward()
    for key, parameter in transition.named_parameters():
        assert not parameter.requires_grad or (parameter.grad.isfinite().all() and parameter.grad.any()), key


@every_transition
def test_the_gradient_through_the_two_maps_is_that_of_finite_differences(name):
    transition = moved(TRANSITIONS[name]())
    names, values = zip(*transition.named_parameters(), strict=True)
    x, e = torch.randn(2, transition.dim), torch.randn(2, transition.dim)

    def step(*parameters):
        substituted = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(Step(transition), {f"0.{key}": v for key, v in substituted.items()}, (x, e))

    assert torch.autograd.gradcheck(step, tuple(value.detach().clone().requires_grad_() for value in values))


class Step(nn.Sequential):
    """One step without a block, u = M x + B e."""

    def forward(self, x, e):
        transition = self[0]
        return transition()(x) + transition.input_map()(e)


@every_transition
def test_a_map_used_first_without_gradient_still_gives_its_gradient(name):
    transition = moved(TRANSITIONS[name]())
    x = torch.randn(transition.dim)
    carry, write = transition(), transition.input_map()
    with torch.no_grad():
        carry(x), write(x)
    (carry(x) + write(x)).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in transition.parameters() if p.requires_grad)


@every_transition
def test_a_state_dict_restores_both_maps_bit_for_bit(name, in_float32):
    trained = moved(TRANSITIONS[name]())
    fresh = TRANSITIONS[name]()
    fresh.load_state_dict(trained.state_dict())
    assert_same_maps(both_maps(fresh), both_maps(trained))
    other = TRANSITIONS[name]()
    other.load_state_dict(load(save(trained.state_dict())))  # through a safetensors file
    assert_same_maps(both_maps(other), both_maps(trained))


@every_transition
def test_a_deep_copy_builds_the_same_maps_and_shares_nothing(name, in_float32):
    original = moved(TRANSITIONS[name]())
    before = both_maps(original)
    twin = copy.deepcopy(original)
    assert_same_maps(both_maps(twin), before)
    moved(twin)
    assert_same_maps(both_maps(original), before)
    assert not torch.equal(both_maps(twin)[0], before[0])


@every_transition
def test_a_map_built_before_an_update_does_not_move_with_the_parameters(name):
    transition = TRANSITIONS[name]()
    maps = [transition(), transition.input_map()]
    before = [m.dense().clone() for m in maps]
    moved(transition)
    assert_same_maps([m.dense() for m in maps], before)
    assert not torch.equal(transition().dense(), before[0])


@every_transition
def test_no_parameter_has_two_axes_unless_it_is_the_matrix_of_a_chart(name):
    transition = TRANSITIONS[name]()
    axes = {key: parameter.ndim for key, parameter in transition.named_parameters()}
    assert axes
    assert type(transition).__name__ in CHARTS or set(axes.values()) == {1}, axes


@every_transition
@pytest.mark.parametrize("cast", ["bfloat16", "half", "to"])
def test_casting_to_half_precision_leaves_the_parameters_in_float32(name, cast, in_float32):
    model = nn.Sequential(nn.Linear(2, 2), moved(TRANSITIONS[name]()))
    before = both_maps(model[1])
    model = model.to(torch.bfloat16) if cast == "to" else getattr(model, cast)()
    assert model[0].weight.dtype in {torch.bfloat16, torch.float16}  # the rest of the model does follow
    assert {p.dtype for p in model[1].parameters()} == {torch.float32}
    assert_same_maps(both_maps(model[1]), before)


@every_transition
def test_casting_to_double_precision_widens_the_parameters(name, in_float32):
    assert {p.dtype for p in TRANSITIONS[name]().double().parameters()} == {torch.float64}


@every_transition
def test_under_autocast_the_maps_are_those_without_it(name, in_float32):
    transition = moved(TRANSITIONS[name]())
    before = both_maps(transition)
    x = torch.randn(3, transition.dim).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_maps(both_maps(transition), before)
        assert transition()(x).dtype == torch.float32
        assert transition.input_map()(x).dtype == torch.float32


@every_transition
def test_a_transition_built_where_half_precision_is_the_default_is_in_float32(name):
    torch.set_default_dtype(torch.bfloat16)  # as loaders of checkpoints do
    transition = TRANSITIONS[name]()
    assert {p.dtype for p in transition.parameters()} == {torch.float32}
    assert transition().dense().dtype == torch.float32


@every_transition
def test_float32_maps_agree_with_float64_maps(name, in_float32):
    transition = moved(TRANSITIONS[name]())
    narrow = both_maps(transition)
    for one, other in zip(narrow, both_maps(transition.double()), strict=True):
        assert_close(one.double(), other, 1e-6)


def test_the_pairing_of_a_transition_is_that_of_its_maps():
    adjacent, halves = (BlockConformal(8, groups=2, pairing=pairing) for pairing in ("adjacent", "half-split"))
    place = torch.tensor([0, 2, 1, 3, 4, 6, 5, 7])  # where the half-split coordinates stand among the adjacent ones
    assert torch.equal(halves().dense(), adjacent().dense()[place][:, place])
    assert not torch.equal(halves().dense(), adjacent().dense())


def test_a_frozen_frequency_is_kept_but_not_learned():
    transition = BlockConformal(8, groups=2, frozen=True)
    assert "frequency" in transition.state_dict()
    assert [key for key, p in transition.named_parameters() if not p.requires_grad] == ["frequency"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BlockDecay(10, groups=4), "dim, the width, must be a positive multiple of groups = 4, got 10"),
        (lambda: BlockDecay(8, groups=0), "dim, the width, must be a positive multiple of groups = 0, got 8"),
        (lambda: BlockConformal(10, groups=4), r"the width, must be a positive multiple of 2 \* groups = 8, got 10"),
        (lambda: BlockConformal(0, groups=1), r"dim, the width, must be a positive multiple of 2 \* groups = 2, got 0"),
        (lambda: BlockConformal(8, groups=2, initial_scale=1.0), "initial_scale must lie strictly between 0 and 1"),
        (lambda: BlockConformal(8, groups=2, initial_scale=(0.5,)), "initial_scale must hold one number for each of 2"),
        (lambda: BlockConformal(8, groups=2, pairing="halves"), "pairing must be 'adjacent' or 'half-split'"),
        (lambda: Geometric(base=1.0), "base must be larger than 1 and finite, got 1.0"),
    ],
)
def test_an_inadmissible_transition_is_refused_in_one_line(build, message):
    with refused(message):
        build()


def test_uniform_frequencies_depend_on_their_seed_alone():
    torch.manual_seed(0)
    first = Uniform(seed=5)(64, 2)
    torch.manual_seed(1)
    assert torch.equal(first, Uniform(seed=5)(64, 2))
    assert not torch.equal(first, Uniform(seed=6)(64, 2))
    assert first.abs().max() < torch.pi
    assert first.min() < -1 < 1 < first.max()


def test_still_frequencies_are_zero():
    assert torch.equal(Still()(6, 3), torch.zeros(6))


@pytest.mark.parametrize(("base", "groups"), [(10_000.0, 1), (100.0, 4)])
def test_geometric_frequencies_fall_by_one_ratio_in_every_group(base, groups):
    each = 16 // groups
    expected = [base ** (-2 * i / (2 * each)) for _ in range(groups) for i in range(each)]
    assert_close(Geometric(base)(16, groups), torch.tensor(expected))
