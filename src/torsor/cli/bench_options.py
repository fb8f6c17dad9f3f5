"""The options of those cases of ``torsor bench`` that have some of their own, with what they mean."""

from collections.abc import Callable
from pathlib import Path

from torsor.cli.whole import MaybeWhole, Whole


def _looped(*, widths: tuple[int, ...] = (128, 512)) -> None:
    """Of the looped training step.

    Args:
        widths: of the residual stream; batch 64, length 64, 8 loops, 1/1/1 layers.
    """


def _transitions(*, dims: tuple[int, ...] = (32, 64, 128, 256, 512), tokens: Whole = 4096) -> None:
    """Of the transitions.

    Args:
        dims: widths of the state, multiples of 8.
        tokens: states that one application carries.
    """


def _exponential(*, norm: float = 4.0) -> None:
    """Of the exponential.

    Args:
        norm: of the largest matrix in each batch.
    """


def _group_transformer(*, batch: Whole = 64, context: Whole = 128, width: Whole = 16) -> None:
    """Of the models on a group.

    Args:
        batch: sequences of a step.
        context: tokens of each.
        width: of the matrices.
    """


def _drift(run: Path | None = None, *, tokens: Whole = 100_000) -> None:
    """Of the drift.

    Args:
        run: a finished run of a recurrent group model, read on its validation text; fresh models on random tokens
            otherwise.
        tokens: of the sequence.
    """


def _linear_scan(
    *,
    batch: Whole = 4,
    length: Whole = 4096,
    heads: Whole = 8,
    head_dim: Whole = 32,
    lengths: tuple[int, ...] = (1024, 4096, 16384, 65536, 262144),
) -> None:
    """Of the scan.

    Args:
        batch: sequences.
        length: tokens of each sequence.
        heads: of the state.
        head_dim: coordinates of a head, even.
        lengths: of one sequence each, at which the scan alone is timed too.
    """


def _m2rnn(
    *,
    batch: Whole = 4,
    length: Whole = 1024,
    heads: Whole = 8,
    written_length: Whole = 128,
    threads: MaybeWhole = 1,
) -> None:
    """Of the M²RNN.

    Args:
        batch: sequences.
        length: elements of each sequence.
        heads: states of 64 x 16 of each sequence.
        written_length: length at which a loop that writes its states by index is timed, too; 0 for none.
        threads: threads of PyTorch.
    """


def _generation(
    *,
    width: Whole = 128,
    contexts: tuple[int, ...] = (128, 256, 1024, 2048, 4096),
    steps: tuple[int, ...] = (1, 4, 8),
) -> None:
    """Of the generation.

    Args:
        width: of the residual stream; 1/1/1 layers, 4 heads, one sequence.
        contexts: tokens with the one that is read.
        steps: loops; the policies are compared at the most of them.
    """


def _streaming(*, words: Whole = 100, length: Whole = 2048, group: str = "A5") -> None:
    """Of the words.

    Args:
        words: that are read together.
        length: letters of each.
        group: of the word problem, read from all its elements.
    """


def none() -> None:
    """Of all other cases."""


OPTIONS: dict[str, Callable[..., None]] = {
    "looped": _looped,
    "transitions": _transitions,
    "exponential": _exponential,
    "group-transformer": _group_transformer,
    "drift": _drift,
    "linear-scan": _linear_scan,
    "m2rnn": _m2rnn,
    "generation": _generation,
    "streaming": _streaming,
}
