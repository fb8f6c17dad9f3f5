"""Laws of the M²RNN recurrence, of its layer, of layers that carry a state, and of models built of them."""

from itertools import accumulate, pairwise

import pytest
import torch

from closeness import assert_close
from refusal import refused
from torsor.recurrence import m2rnn, scan
from torsor.recurrence.m2rnn import m2rnn_reference

CLIPS = [{}, {"gradient_clip": 0.1}, {"gradient_clip": 0.1, "clip_mode": "carry"}]
each_clip = pytest.mark.parametrize("clip", CLIPS, ids=["none", "total", "carry"])
NAMES = ("q", "k", "v", "weight", "forget", "state")


def arguments(length=11, batch=2, heads=(1, 2, 4, 2, 4), key_dim=3, value_dim=5):
    q, k, v, w, f = heads
    made = (
        torch.randn(batch, length, q, key_dim),
        torch.randn(batch, length, k, key_dim),
        torch.randn(batch, length, v, value_dim),
        torch.randn(w, value_dim, value_dim) / 2,
        torch.rand(batch, length, f),
        torch.rand(batch, max(heads), key_dim, value_dim) * 2 - 1,
    )
    return [each.requires_grad_() for each in made]


# The recurrence.


@each_clip
@pytest.mark.parametrize("cuts", [(0, 1, 40), (0, 16, 40), (0, 7, 8, 33, 40)])
def test_a_sequence_in_pieces_equals_the_sequence_in_one_in_its_gradients_too_clipped_or_not(cuts, clip):
    q, k, v, weight, forget, state = given = arguments(40)
    outputs, last = m2rnn(*given, **clip)
    pieces = []
    for start, end in pairwise(cuts):
        part = slice(start, end)
        piece, state = m2rnn(q[:, part], k[:, part], v[:, part], weight, forget[:, part], state, **clip)
        pieces.append(piece)
    weights = torch.randn_like(outputs), torch.randn_like(last)
    found = (torch.cat(pieces, dim=1), state)
    for one, other in zip(found, (outputs, last), strict=True):
        assert_close(one, other)
    for one, other in zip(
        torch.autograd.grad(found, given, weights), torch.autograd.grad((outputs, last), given, weights), strict=True
    ):
        assert_close(one, other)


@each_clip
def test_packed_sequences_equal_each_sequence_alone_in_outputs_states_and_gradients(clip):
    lengths = (4, 1, 19, 4)
    boundaries = [0, *accumulate(lengths)]
    given = arguments(sum(lengths), batch=1)
    given[5] = torch.rand(4, 4, 3, 5, requires_grad=True)
    outputs, states = m2rnn(*given, cu_seqlens=torch.tensor(boundaries), **clip)
    weights = torch.randn_like(outputs), torch.randn_like(states)
    grads = torch.autograd.grad((outputs, states), given, weights)
    of_weight = torch.zeros_like(given[3])
    for number, (start, end) in enumerate(pairwise(boundaries)):
        alone = [each[:, start:end] if each.shape[:2] == (1, 28) else each for each in given]
        alone[5] = given[5][number : number + 1]
        output, state = m2rnn(*alone, **clip)
        assert_close(outputs[:, start:end], output)
        assert_close(states[number : number + 1], state)
        back = torch.autograd.grad((output, state), alone, (weights[0][:, start:end], weights[1][number : number + 1]))
        for position in (0, 1, 2, 4):
            assert_close(grads[position][:, start:end], back[position])
        assert_close(grads[5][number : number + 1], back[5])
        of_weight += back[3]
    assert_close(grads[3], of_weight)


def test_in_a_pack_no_sequence_feels_another():
    given = [each.detach() for each in arguments(12, batch=1)]
    given[5] = torch.zeros(2, 4, 3, 5)
    boundaries = torch.tensor([0, 5, 12])
    before, states = m2rnn(*given, cu_seqlens=boundaries)
    given[1][:, 4] += 1  # the last key of the first sequence
    after, changed = m2rnn(*given, cu_seqlens=boundaries)
    assert torch.equal(before[:, 5:], after[:, 5:])
    assert torch.equal(states[1], changed[1])
    assert not torch.allclose(states[0], changed[0])
    joined = m2rnn(*given[:5])[0]
    assert not torch.allclose(joined[:, 5:], after[:, 5:])


def test_a_batch_equals_its_sequences_alone_and_its_state_continues_them():
    given = arguments()
    outputs, last = m2rnn(*given)
    for row in range(2):
        alone = [each if name == "weight" else each[row : row + 1] for name, each in zip(NAMES, given, strict=True)]
        one, state = m2rnn(*alone)
        assert_close(outputs[row : row + 1], one)
        assert_close(last[row : row + 1], state)


def test_it_is_a_scan_of_its_step_over_the_state():
    q, k, v, weight, forget, state = (each.detach() for each in arguments(heads=(1, 1, 1, 1, 1)))

    def step(matrix, inputs):
        key, value, gate = inputs.split([3, 5, 1], dim=-1)
        proposed = torch.tanh(matrix @ weight[0] + key[:, :, None] * value[:, None, :])
        return gate[:, :, None] * matrix + (1 - gate[:, :, None]) * proposed

    states, last = scan(step, state[:, 0], torch.cat([k[:, :, 0], v[:, :, 0], forget], dim=-1))
    outputs, found = m2rnn(q, k, v, weight, forget, state)
    assert_close(found[:, 0], last)
    assert_close(outputs[:, :, 0], torch.einsum("blkv,blk->blv", states, q[:, :, 0]))


def test_a_row_of_the_state_is_a_vector_rnn_of_its_own_which_its_element_of_k_drives():
    given = [each.detach() for each in arguments()]
    _, last = m2rnn(*given)
    changed = [each.clone() for each in given]
    changed[1][..., 1] += torch.randn(2, 11, 2)
    moved = m2rnn(*changed)[1]
    assert torch.equal(moved[:, :, [0, 2]], last[:, :, [0, 2]])
    assert not torch.allclose(moved[:, :, 1], last[:, :, 1])
    row = [each[..., 1:2] if name in ("q", "k") else each for name, each in zip(NAMES, given, strict=True)]
    row[5] = given[5][:, :, 1:2]
    assert_close(m2rnn(*row)[1], last[:, :, 1:2])


def test_at_a_gate_of_1_the_state_stays_bit_for_bit_at_a_gate_of_0_what_the_tanh_lets_through_remains_of_it():
    q, k, v, weight, forget, state = (each.detach() for each in arguments(length=20))
    assert torch.equal(m2rnn(q, k, v, weight, torch.ones_like(forget), state)[1], state)
    forget[:, 12] = 0
    before = m2rnn(*(x[:, :12] for x in (q, k, v)), weight, forget[:, :12], state)[1]
    after = m2rnn(*(x[:, :13] for x in (q, k, v)), weight, forget[:, :13], state)[1]
    written = k[:, 12].repeat_interleave(2, 1)[..., None] * v[:, 12][:, :, None]
    assert_close(after, torch.tanh(before @ weight.repeat_interleave(2, 0) + written))
    # and without a matrix nothing remains at all
    other = m2rnn(q, k, v, torch.zeros_like(weight), forget, -state)[1]
    assert torch.equal(m2rnn(q, k, v, torch.zeros_like(weight), forget, state)[1], other)


def test_no_entry_of_the_state_leaves_the_interval_from_minus_1_to_1_if_the_first_has_none_outside():
    given = [each.detach() for each in arguments(length=60)]
    given[3] *= 50
    given[1] *= 50
    for length in (1, 20, 60):
        part = [x[:, :length] if x.shape[1] == 60 else x for x in given]
        assert m2rnn(*part)[1].abs().max() <= 1
    given[5] *= 3
    given[4][:, 0] = 1
    assert m2rnn(*(x[:, :1] if x.shape[1] == 60 else x for x in given))[1].abs().max() > 1


def test_the_two_ways_of_clipping_differ_where_outputs_push_hard_and_agree_where_they_do_not():
    given = arguments(30)
    outputs = [m2rnn(*given, gradient_clip=1.0, clip_mode=mode)[0] for mode in ("total", "carry")]
    push = torch.randn_like(outputs[0])

    def difference(size):
        total, carry = (torch.autograd.grad(each, given[1], size * push, retain_graph=True)[0] for each in outputs)
        return (total - carry).norm() / total.norm()

    assert difference(1e-3) == 0
    assert difference(3.0) > 0.05


def test_causal_an_element_changes_no_output_before_it():
    given = [each.detach() for each in arguments(20)]
    before = m2rnn(*given)[0]
    for position in (0, 1, 2, 4):
        changed = [each.clone() for each in given]
        changed[position][:, 9] = torch.rand_like(changed[position][:, 9])
        after = m2rnn(*changed)[0]
        assert torch.equal(before[:, :9], after[:, :9])
        assert not torch.allclose(before[:, 9], after[:, 9])


def double(value, *shape):
    return torch.full(shape, value, dtype=torch.float64)  # the default type is set when tests run, later than this


def bad(**changes):
    given = dict(zip(NAMES, (each.detach() for each in arguments(length=4)), strict=True))
    return given | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": double(1, 2, 4, 3, 3)}, r"heads must divide the largest number of them = 4, got q 1, k 3, v 4"),
        ({"weight": double(1, 3, 5, 5)}, r"heads must divide the largest number of them = 4"),
        ({"forget": double(1.5, 2, 4, 4)}, r"forget must lie in \[0, 1\], got 1.5"),
        ({"forget": double(-0.5, 2, 4, 4)}, r"forget must lie in \[0, 1\], got -0.5"),
        ({"forget": double(torch.nan, 2, 4, 4)}, r"forget must lie in \[0, 1\], got nan"),
        ({"v": torch.ones(2, 4, 4, 5).float()}, r"q, k and v must have one type, got q float64, k float64, v float32"),
        ({"weight": torch.ones(2, 5, 5).float()}, r"weight and forget must have the type of q, got"),
        ({"forget": torch.ones(2, 4, 4).bfloat16()}, r"weight and forget must have the type of q, got"),
        ({"state": torch.zeros(2, 4, 3, 5).float()}, r"state must be float64 of shape \(2, 4, 3, 5\), got float32"),
        ({"state": double(0, 1, 4, 3, 5)}, r"state must be float64 of shape \(2, 4, 3, 5\), got float64 of \(1, 4"),
        ({"q": torch.ones(2, 4, 1, 3).long()}, r"q must be of floating point, got int64"),
        ({"q": torch.ones(4, 1, 3)}, r"q must have shape \(batch, length, heads, dim\), got \(4, 1, 3\)"),
        ({"k": double(1, 2, 5, 2, 3)}, r"k must have shape \(2, 4, heads, 3\) beside q and v, got \(2, 5, 2, 3\)"),
        ({"k": double(1, 2, 4, 2, 2)}, r"k must have shape \(2, 4, heads, 3\) beside q and v"),
        ({"weight": double(1, 2, 4, 4)}, r"weight must have shape \(heads, 5, 5\) beside q and v, got \(2, 4, 4\)"),
        ({"forget": torch.ones(2, 4, 4, 1)}, r"forget must have shape \(2, 4, heads\) beside q and v"),
        ({"gradient_clip": 0.0}, r"gradient_clip must be positive and finite or None, got 0.0"),
        ({"gradient_clip": torch.inf}, r"gradient_clip must be positive and finite or None, got inf"),
        ({"clip_mode": "both"}, r'clip_mode must be "total" or "carry", got "both"'),
    ],
)
def test_what_is_no_recurrence_is_refused_in_one_line(changes, message):
    for function in (m2rnn, m2rnn_reference):
        with refused(message):
            function(**bad(**changes))


def test_an_empty_sequence_is_refused_in_one_line():
    given = {name: each[:, :0] if name in ("q", "k", "v", "forget") else each for name, each in bad().items()}
    with refused(r"q must not be empty, got shape \(2, 0, 1, 3\)"):
        m2rnn(**given)


@pytest.mark.parametrize(
    ("boundaries", "message"),
    [
        (torch.tensor([1, 4]), r"cu_seqlens must go from 0 to the length = 4, got 1 to 4"),
        (torch.tensor([0, 3]), r"cu_seqlens must go from 0 to the length = 4, got 0 to 3"),
        (torch.tensor([0, 3, 2, 4]), r"cu_seqlens must rise, each sequence holding an element, got 2 after 3"),
        (torch.tensor([0, 2, 2, 4]), r"cu_seqlens must rise, each sequence holding an element, got 2 after 2"),
        (torch.tensor([0]), r"cu_seqlens must hold at least two integers in one axis, got int64 of shape \(1,\)"),
        (torch.tensor([0.0, 4.0]), r"cu_seqlens must hold at least two integers in one axis, got float32"),
    ],
)
def test_boundaries_that_do_not_start_at_0_rise_and_end_at_the_length_are_refused_in_one_line(boundaries, message):
    given = {name: each[:1] if name in ("q", "k", "v", "forget") else each for name, each in bad().items()}
    with refused(message):
        m2rnn(**(given | {"state": None}), cu_seqlens=boundaries)


def test_packed_sequences_in_a_batch_of_two_are_refused_in_one_line():
    with refused(r"with cu_seqlens, q must have a batch of 1 or no batch axis, got \(2, 4, 1, 3\)"):
        m2rnn(**bad(state=None), cu_seqlens=torch.tensor([0, 4]))
