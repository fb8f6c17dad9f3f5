"""The first argument of everything that is built, of another kind than it must be: a ValueError of one line."""

import numpy as np
import pytest
import torch

from cases import MODELS, SEQUENCE_MODELS
from refusal import refused
from torsor import groups, maps, tasks, transitions
from torsor.groups import FiniteGroup, named, symmetric
from torsor.kinds import kind_of, shown
from torsor.maps import Dense, Diagonal, Householder, Permutation, ScaledRotation
from torsor.models import GRU, LSTM, M2RNN, RotRNN
from torsor.recurrence import loop
from torsor.tasks import Batch, Characters, Corpus, HeldOutText, LastWords, ListOps, PackedTokens, WordProblem
from torsor.tracking import HeldOutPairs
from torsor.transitions import (
    BlockConformal,
    BlockDecay,
    Cayley,
    Contraction,
    Exponential,
    Free,
    Geometric,
    TokenPermutation,
    Uniform,
)

NUMBERS = torch.ones(4)
WRONG = {
    "None": None,
    "a list": [3, 1],
    "a string": "S3 of\ntwo lines",
    "an array": np.ones((9, 9)),
    "a number in a tensor": torch.tensor(2.0),
    "an object": object(),
}
BUILT = {
    "Dense": Dense,
    "Diagonal": Diagonal,
    "Permutation": Permutation,
    "ScaledRotation": lambda given: ScaledRotation(given, NUMBERS),
    "ScaledRotation, angle": lambda given: ScaledRotation(NUMBERS, given),
    "Householder": lambda given: Householder(given, torch.tensor(1.0)),
    "BlockConformal": lambda given: BlockConformal(given, groups=1),
    "BlockConformal, groups": lambda given: BlockConformal(8, groups=given),
    "BlockDecay": lambda given: BlockDecay(given, groups=1),
    "Cayley": Cayley,
    "Exponential": Exponential,
    "Free": Free,
    "Householder of transitions": transitions.Householder,
    "Contraction": Contraction,
    "Geometric": Geometric,
    "Uniform": Uniform,
    "TokenPermutation": lambda given: TokenPermutation(given, (0, 1)),
    "WordProblem": lambda given: WordProblem(given, length=4),
    "WordProblem, length": lambda given: WordProblem(symmetric(3), length=given),
    "HeldOutPairs": lambda given: HeldOutPairs(given, pairs=((1, 2),)),
    "Characters": lambda given: Characters(given, context=4),
    "Corpus": lambda given: Corpus(given, "abc"),
    "Corpus.cut": Corpus.cut,
    "ListOps": ListOps,
    "PackedTokens": lambda given: PackedTokens(given, torch.arange(9), context=4, entries=9),
    "HeldOutText": lambda given: HeldOutText(given, context=4),
    "LastWords": lambda given: LastWords(given, lambda text: [0] * len(text), begin=1),
    "Batch": lambda given: Batch(given, torch.arange(9)),
    "symmetric": symmetric,
    "alternating": groups.alternating,
    "cyclic": groups.cyclic,
    "dihedral": groups.dihedral,
    "heisenberg": groups.heisenberg,
    "named": named,
    "from_cycles": lambda given: groups.from_cycles(given, (0, 1)),
    "generated_by": lambda given: groups.generated_by(given, "mine"),
    "direct_product": groups.direct_product,
    "FiniteGroup": lambda given: FiniteGroup(given, (0,), "mine"),
    "Orthogonal": groups.Orthogonal,
    "SpecialOrthogonal": groups.SpecialOrthogonal,
    "Unitary": groups.Unitary,
    "SpecialUnitary": groups.SpecialUnitary,
    "Torus": groups.Torus,
}
# what makes nothing of an argument of its own, or is an abstract class
OTHERWISE = {"LinearMap", "Transition", "InputTransition", "OrthogonalChart", "Frequencies", "Still", "Float32Island"}
OTHERWISE |= {"Task", "Group", "MatrixGroup", "quaternion", "special_linear_2_3", "icosahedral_rotations"}
OTHERWISE |= {"departure", "kept_near", "polish"}  # of elements, as the groups' own methods
OTHERWISE |= {"IGNORED", "Perplexity", "Proportion", "Scores", "BitsPerCharacter", "LastWordScore", "TokenStream"}
OTHERWISE |= {"score", "shuffled", "passages_of", "bits_in_windows", "bits_with_state"}  # results, and what scores
OTHERWISE |= {"Hold", "euler", "exact_hold"}
TOKENS = torch.tensor([[0, 1, 2]])


def test_everything_that_the_faces_name_is_tried():
    names = {name for face in (maps, transitions, tasks, groups) for name in face.__all__}
    assert names - OTHERWISE - set(BUILT) == set()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [(name, wrong) for name in BUILT for wrong in WRONG if (name.partition(".")[0], wrong) != ("Corpus", "a string")],
)
def test_a_first_argument_of_another_kind_is_refused(name, wrong):
    with refused(""):
        BUILT[name](WRONG[wrong])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Diagonal(np.ones(4)), "values must be a tensor, got numpy.ndarray: torch.as_tensor"),
        (lambda: Dense(np.eye(3)), "matrix must be a tensor, got numpy.ndarray"),
        (lambda: Diagonal([1.0, 2.0]), "values must be a tensor, got a list"),
        (lambda: Diagonal(torch.tensor(2.0)), r"values must have at least one axis, got shape \(\)"),
        (lambda: Permutation([1, 0, 2]), "images must be a tensor, got a list"),
        (lambda: Permutation(torch.ones(3)), r"images must be integers, at least one, got float64 of shape \(3,\)"),
        (lambda: ScaledRotation(1.0, 0.5), "scale must be a tensor, got a float"),
        (
            lambda: WordProblem("S3", length=16),
            r"group must be a FiniteGroup, got 'S3': torsor.groups.named\('S3'\) makes one",
        ),
        (lambda: WordProblem(3, length=16), "group must be a FiniteGroup, got an int"),
        (lambda: named(3), "group must be named by a string such as 'S3', got 3"),
        (lambda: named("A5x"), "got 'A5x'; a group's name must stand on both sides of an x$"),
        (lambda: named(""), "or a product such as S3xC2, got ''$"),
        (lambda: named("A5xQ9"), "got 'A5xQ9'; nearest to 'Q9': Q8$"),
        (lambda: symmetric("3"), "n must be an integer in 1 .. 7 for the symmetric group S_n.*, got '3'"),
        (
            lambda: Diagonal(NUMBERS) @ NUMBERS,
            r"composes two linear maps, got a Tensor: a state x is carried by m\(x\)",
        ),
        (
            lambda: NUMBERS @ Diagonal(NUMBERS),
            r"composes two linear maps, got a Tensor: a state x is carried by m\(x\)",
        ),
        (lambda: loop(lambda state: state, torch.zeros(1, 2), [4, 8]), r"or a tuple of such, got a list: \(4, 8\)\?"),
        (lambda: WordProblem(symmetric(3), 4).label([[2, 0]]), "tokens must be a tensor, got a list"),
        (lambda: ListOps().value([1]), "tokens must be a tensor, got a list"),
        (lambda: Characters(Corpus.cut("ab" * 50), 4).decode([1]), "tokens must be a tensor, got a list"),
        (lambda: Corpus.cut(b"a text"), "the text must be a string, got a bytes"),
    ],
)
def test_what_would_be_right_is_said(make, message):
    with refused(message):
        make()


READERS = MODELS | SEQUENCE_MODELS | {"M2RNN": lambda: M2RNN(7, 6), "RotRNN": lambda: RotRNN(7, 8)}


@pytest.mark.parametrize(
    ("tokens", "kind"), [(TOKENS.numpy(), "numpy.ndarray"), (TOKENS.tolist(), "a list"), (None, "None")]
)
@pytest.mark.parametrize("name", READERS)
def test_a_model_reads_tokens_in_a_tensor_alone(name, tokens, kind):
    model = READERS[name]()
    with refused(f"tokens must be a tensor, got {kind}"):
        model(tokens, **({"steps": 4} if name in MODELS else {}))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "None"),
        (3, "an int"),
        ([], "a list"),
        (np.ones(2), "numpy.ndarray"),
        (NUMBERS, "a Tensor"),
        (LSTM(3, 2), "an LSTM"),
        (GRU(3, 2), "a GRU"),
        (M2RNN(7, 6), "an M2RNN"),
        (Uniform(), "a Uniform"),
        (groups.Orthogonal(2), "an Orthogonal"),
    ],
)
def test_a_kind_has_its_article(value, said):
    assert kind_of(value) == said


def test_a_value_is_shown_where_it_is_short_and_of_one_line():
    assert shown("S3") == "'S3'"
    assert shown(np.eye(3)) == "numpy.ndarray"
    assert shown(list(range(100))) == "a list"
