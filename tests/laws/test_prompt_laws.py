"""The laws of prompts of different lengths in one batch, over every model that reads one token at a time."""

from itertools import islice, pairwise

import pytest
import torch

from cases import LAYERED_MODELS, SEQUENCE_MODELS, looped, stirred
from closeness import assert_close
from conftest import TOLERANCE
from refusal import refused
from torsor.generation import (
    CachedLoop,
    Full,
    InCohorts,
    LastLoop,
    LoopedCache,
    LoopedReader,
    Prompts,
    Sampling,
    generate,
)
from torsor.generation.cohorts import Cohort
from torsor.generation.stepwise import read_piece
from torsor.models import LSTM, RotRNN
from torsor.transitions import BlockConformal

PLAIN = SEQUENCE_MODELS | LAYERED_MODELS | {"RotRNN": lambda: stirred(RotRNN(7, width=6, heads=1))}


def in_cohorts(make):
    return lambda dtype: InCohorts(make().to(dtype))


def cached(policy, steps=3):
    return lambda dtype: CachedLoop(
        LoopedReader(looped(BlockConformal(16, groups=2), classes=None).to(dtype)), steps, capacity=16, policy=policy
    )


READERS = {name: in_cohorts(make) for name, make in PLAIN.items()} | {
    "looped, full": cached(Full(3)),
    "looped, last loop": cached(LastLoop()),
}
every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
ROWS = [[2, 0, 1, 1, 0], [1], [0, 1, 2], [2, 1, 0, 0, 0]]
MORE = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 2], [2, 2, 0, 1]])
LEFT, RIGHT = (
    Prompts.padded(
        torch.tensor([[2, 0, 1, 1, 0], [*at(9, 1)], [*at(8, 0, 1, 2)], [2, 1, 0, 0, 0]]),
        torch.tensor([[1, 1, 1, 1, 1], [*at(0, 1)], [*at(0, 1, 1, 1)], [1, 1, 1, 1, 1]]).bool(),
    )
    for at in (
        lambda pad, *own: [pad] * (5 - len(own)) + list(own),
        lambda pad, *own: list(own) + [pad] * (5 - len(own)),
    )
)
PACKED = Prompts.packed(torch.tensor([token for row in ROWS for token in row]), torch.tensor([0, 5, 6, 9, 14]))


def logits_of(reader, prompts, more):
    logits, state = reader.begin(prompts)
    found = [logits]
    for tokens in more:
        logits, state = reader.step(tokens, state)
        found.append(logits)
    return torch.stack(found, dim=1)


@every_reader
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_a_batch_of_prompts_equals_its_rows_alone_whatever_their_lengths(reader, dtype):
    built = reader(dtype)
    together = logits_of(built, Prompts.of(ROWS), MORE)
    for row, tokens in enumerate(ROWS):
        alone = logits_of(built, Prompts.of([tokens]), MORE[:, row : row + 1])
        assert_close(together[row], alone[0], TOLERANCE[dtype] * 10)


def parts_of(state):
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, tuple):
        return [part for each in state for part in parts_of(each)]
    if isinstance(state, LoopedCache | Cohort):
        return [part for each in vars(state).values() for part in parts_of(each)]
    return []


@every_reader
def test_padding_leaves_every_state_untouched(reader):
    built = reader(torch.float64)
    logits, state = built.begin(Prompts.of(ROWS))
    for other in (LEFT, RIGHT, PACKED):
        assert other.lengths == (5, 1, 3, 5)
        assert torch.equal(other.tokens, Prompts.of(ROWS).tokens)
        found, after = built.begin(other)
        assert torch.equal(found, logits)
        assert len(parts_of(after)) == len(parts_of(state)) > 0
        for one, two in zip(parts_of(after), parts_of(state), strict=True):
            assert torch.equal(one, two)


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize(
    ("dtype", "apart"), [(torch.float64, 1e-11), (torch.float32, 2e-5)], ids=["float64", "float32"]
)
def test_a_piece_at_once_equals_its_tokens_in_any_pieces_whoever_reads_it(make, dtype, apart):
    model = make().to(dtype)
    tokens = torch.tensor([[2, 0, 1, 1], [1, 6, 0, 3]])
    state = model.initial_state(2)
    for each in tokens.unbind(1):
        wanted, state = model.step(each, state)
    for cuts in ((0, 4), (0, 3, 4), (0, 1, 3, 4), (0, 1, 2, 3, 4)):
        state = model.initial_state(2)
        for start, end in pairwise(cuts):
            found, state = read_piece(model, tokens[:, start:end], state)
        assert found.shape == wanted.shape
        assert_close(found, wanted, apart)
    foreign, _ = read_piece(Foreign(model), tokens, model.initial_state(2))
    assert_close(foreign, wanted, apart)


class Foreign:
    """A user's model: it has a step and nothing else."""

    def __init__(self, model):
        self.model = model

    def initial_state(self, batch):
        return self.model.initial_state(batch)

    def step(self, tokens, state):
        return self.model.step(tokens, state)


def test_rows_of_a_recurrent_model_travel_together_after_their_prompts():
    _, state = InCohorts(LSTM(7, 5)).begin(Prompts.of(ROWS))
    assert len(state) == 1
    assert sorted(state[0].rows.tolist()) == [0, 1, 2, 3]
    _, state = READERS["transformer"](torch.float64).begin(Prompts.of(ROWS))
    assert [len(each.rows) for each in state] == [2, 1, 1]


@every_reader
def test_with_a_generator_for_each_row_a_batch_draws_what_its_rows_draw_alone(reader):
    built, sampling = reader(torch.float64), Sampling(4.0, top=3, nucleus=0.95)

    def drawn(rows, seeds):
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        return torch.stack(list(islice(generate(built, Prompts.of(rows), sampling, generators), 6)), dim=1)

    together = drawn(ROWS, range(4))
    for row, tokens in enumerate(ROWS):
        assert torch.equal(drawn([tokens], [row])[0], together[row])
    assert not torch.equal(drawn(ROWS, range(4, 8)), together)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prompts.of([]), "prompts must have at least one row, got none"),
        (lambda: Prompts.of([[1], []]), "every prompt must have at least one token, got none in row 1"),
        (lambda: Prompts(torch.tensor([1, 2, 3]), (1, 1)), r"lengths must sum to the number of tokens = \(3,\), got 2"),
        (
            lambda: Prompts.packed(torch.tensor([1, 2]), torch.tensor([0, 1])),
            r"bounds must rise from 0 .* got \[0, 1\]",
        ),
        (
            lambda: Prompts.padded(torch.tensor([[1, 2, 3]]), torch.tensor([[True, False, True]])),
            "padding must lie before or after a row's own tokens, got some between in row 0",
        ),
        (
            lambda: Prompts.padded(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[True, False], [False, False]])),
            "at least one token, got none in row 1",
        ),
        (
            lambda: Prompts.padded(torch.tensor([[1, 2]]), torch.tensor([[True]])),
            r"mask must be bool of shape \(1, 2\)",
        ),
        (
            lambda: generate(LSTM(7, 5), Prompts.of(ROWS), generator=[torch.Generator()]),
            "one for each of 4 rows, got 1",
        ),
        (lambda: next(generate(LSTM(7, 5), torch.tensor([[7]]))), "tokens must lie in 0 .. 6, got 7"),
        (
            lambda: InCohorts(LSTM(7, 5)).step(torch.tensor([1]), InCohorts(LSTM(7, 5)).begin(PACKED)[1]),
            r"one for each of the state's 4 rows, got \(1,\)",
        ),
        (lambda: list(generate(cached(LastLoop())(torch.float64), Prompts.of(ROWS))), "the context must have room"),
        (lambda: next(generate(cached(Full(2))(torch.float64), Prompts.of(ROWS))), "at most the 2 loops"),
    ],
)
def test_what_is_no_batch_of_prompts_is_refused(make, message):
    with refused(message):
        make()
