"""A model under examination: the ways in which it can be asked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.kinds import kind_of
from torsor.tracking.answers import Model, asked
from torsor.tracking.reading import Chunked, Step, asked_to_read, has_words_first, read
from torsor.tracking.state_rows import tensors_of


@runtime_checkable
class Recurrent(Protocol):
    """A model that is read on token by token."""

    def step(self, tokens: Tensor, state: Any, /) -> tuple[Tensor, Any]:
        """``(tokens "batch", state) -> (logits "batch outputs", state)``; the first state is None."""
        ...


Vectors = Callable[[Tensor, int], Float[Tensor, "batch positions width"] | None]
"""``(tokens, positions) -> vectors``: what stands for each of the last positions, or None where nothing does."""


@final
@dataclass(frozen=True)
class Subject:
    """A model and how it is asked.

    Args:
        name: what tables call it.
        answer: ``tokens -> logits`` on whole words; of a looped model ``(tokens, steps=depths) -> logits``,
            the depths on a new first axis.
        read_on: one token at a time, or ``Chunked``; None where the model has no state.
        depths: of a looped model, at which it is examined; empty for any other.
        trained_steps: the largest of its depths in training.
        vectors: what stands for a position, whose class means are drawn; None for the logits.
        vectors_are: what that is, in words.
        grows: whether its state grows with what it has read, as a cache of keys and values does: it can be read
            on, but not for a million letters.
    """

    name: str
    answer: Model
    read_on: Step | Chunked | None = None
    depths: tuple[int, ...] = ()
    trained_steps: int | None = None
    vectors: Vectors | None = None
    vectors_are: str = ""
    grows: bool = False


def subject_of(model: object, name: str, vocabulary: int, device: torch.device | str = "cpu") -> Subject:
    """A user's own model as a subject.

    A callable of tokens is asked for whole words. ``Chunked``, or an object with ``step(tokens, state)``, is read
    on; what is both is asked for whole words by calling it and streamed by ``step``.

    Args:
        model: any of these.
        name: what tables call it.
        vocabulary: how many tokens it must know.
        device: where it reads them.

    Raises:
        ValueError: when it is none of these, or cannot read on.
    """
    if isinstance(model, Chunked):
        return read_on_subject(name, None, model, vocabulary, device)
    if isinstance(model, Recurrent):
        answer = model if callable(model) and not _without_forward(model) else None
        return read_on_subject(name, answer, model.step, vocabulary, device)
    if callable(model) and not _without_forward(model):
        return Subject(name, model, vectors=partial(logits_after, model), vectors_are="logits")
    raise ValueError(
        f"{name} must give a callable tokens -> logits, a torsor.tracking.Chunked, or an object with "
        f"step(tokens, state), got {kind_of(model)}"
    )


def _without_forward(model: object) -> bool:
    """Whether it is a module that cannot be called, though Python takes every module for a callable."""
    return isinstance(model, nn.Module) and type(model).forward is nn.Module.forward


def read_on_subject(
    name: str,
    answer: Model | None,
    read_on: Step | Chunked,
    vocabulary: int,
    device: torch.device | str = "cpu",
) -> Subject:
    """A model with a state, whose state after a position stands for it, unless it grows.

    Args:
        name: what tables call it.
        answer: on whole words, where it can do that too.
        read_on: one token at a time, or in chunks.
        vocabulary: how many tokens it must know.
        device: where it reads them.

    Raises:
        ValueError: when it cannot read on.
    """
    whole = answer or in_pieces(read_on, vocabulary)
    if state_grows(read_on, vocabulary, device):
        return Subject(name, whole, read_on, grows=True)
    vectors = partial(states_after, read_on, vocabulary)
    return Subject(name, whole, read_on, vectors=vectors, vectors_are="state")


@torch.no_grad()
def state_grows(model: Step | Chunked, vocabulary: int, device: torch.device | str = "cpu") -> bool:
    """Whether the tensors of the state hold more after three tokens of a word than after two.

    Args:
        model: one token at a time, or in chunks.
        vocabulary: how many tokens it must know; the last begins the word.
        device: where it reads them.

    Raises:
        ValueError: when it cannot read on.
    """
    state, sizes = None, []
    with asked_to_read(model):
        for token in (vocabulary - 1, 0, 0):
            _, state = read(model, torch.tensor([[token]], device=device), state, vocabulary)
            sizes.append(sum(each.numel() for each in tensors_of(state)))
    return sizes[2] > sizes[1]


def in_pieces(model: Step | Chunked, vocabulary: int) -> Model:
    """``tokens -> logits`` from a model that is read on, whole words at a time.

    Args:
        model: one token at a time, or in chunks.
        vocabulary: how many tokens it must know.
    """
    piece = model.length if isinstance(model, Chunked) else 1

    def answer(tokens: Int[Tensor, "batch length"]) -> Tensor:
        parts, state = [], None
        with asked_to_read(model):
            for part in tokens.split(piece, dim=1):
                outputs, state = read(model, part, state, vocabulary)
                parts.append(outputs)
        return torch.cat(parts, dim=1) if parts[0].ndim > 1 else parts[0]

    return answer


def one_by_one(model: Step | Chunked) -> Step:
    """The model as a step of one token, if it reads in chunks too.

    Args:
        model: one token at a time, or in chunks.
    """
    if not isinstance(model, Chunked):
        return model
    reads = model.read

    def step(tokens: Int[Tensor, "batch"], state: Any) -> tuple[Tensor, Any]:
        outputs, state = reads(tokens[:, None], state)
        return outputs[:, 0], state

    return step


@torch.no_grad()
def states_after(
    model: Step | Chunked, vocabulary: int, tokens: Int[Tensor, "batch length"], last: int
) -> Float[Tensor, "batch last width"] | None:
    """The state after each of the last positions as one vector, or None where its rows are not the words.

    Args:
        model: one token at a time, or in chunks.
        vocabulary: how many tokens it must know.
        tokens: whole words.
        last: how many positions, fewer than there are.
    """
    state, found = None, []
    piece = model.length if isinstance(model, Chunked) else tokens.shape[1]
    before = tokens[:, :-last].split(piece, dim=1)
    with asked_to_read(model):
        for part in (*before, *tokens[:, -last:].split(1, dim=1)):
            _, state = read(model, part, state, vocabulary)
            if part.shape[1] == 1:
                if not has_words_first(state, len(tokens)):
                    return None
                found.append(_flat(state))
    together = [each for each in found[-last:] if each is not None]
    return torch.stack(together, dim=1) if len(together) == last else None


@torch.no_grad()
def logits_after(answer: Model, tokens: Int[Tensor, "batch length"], last: int) -> Float[Tensor, "batch last outputs"]:
    """The logits of the last positions, less their mean over the outputs, which changes no probability."""
    with asked(answer):
        result = answer(tokens.clone())
    logits = (result[0] if isinstance(result, tuple) else result)[:, -last:].double()
    return logits - logits.mean(-1, keepdim=True)


def _flat(state: Any) -> Float[Tensor, "batch width"] | None:
    """The real and complex tensors of a state side by side."""
    parts = [torch.view_as_real(each) if each.is_complex() else each for each in tensors_of(state)]
    numbers = [each.double().reshape(len(each), -1) for each in parts if each.is_floating_point()]
    return torch.cat(numbers, dim=1) if numbers else None
