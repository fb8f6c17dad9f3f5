"""The examination of a character model: bits per character over whole texts."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from torsor.experiments.evaluating import device_of
from torsor.experiments.study import Examination, NonFiniteLogitsError
from torsor.tasks import BitsPerCharacter, Characters, bits_in_windows, bits_with_state

GLANCE_CHARACTERS = 16_384
SHORT_TEXT = 1024  # characters, of which 64 streams would repeat more than they share
Bits = Callable[[nn.Module, Tensor], BitsPerCharacter]


class Protocol(ABC):
    """What a model has read before each character that it is scored on."""

    @abstractmethod
    def bits(self, model: nn.Module, tokens: Integer[Tensor, "characters"]) -> BitsPerCharacter:
        """Bits per character of a text, every character but the first scored once."""

    @abstractmethod
    def reads(self, characters: int) -> int:
        """How many characters the model reads to score a text of so many, about."""

    @abstractmethod
    def bits_at_a_glance(self, model: nn.Module, tokens: Integer[Tensor, "characters"]) -> BitsPerCharacter:
        """The same or nearly the same, quickly."""


@final
@dataclass(frozen=True)
class Windows(Protocol):
    """For a model without a state: windows of twice the context, a stride of one.

    Args:
        context: characters of a training window.
    """

    context: int

    def bits(self, model: nn.Module, tokens: Integer[Tensor, "characters"]) -> BitsPerCharacter:
        return bits_in_windows(model, tokens, self.context)

    def reads(self, characters: int) -> int:
        return 2 * characters

    def bits_at_a_glance(self, model: nn.Module, tokens: Integer[Tensor, "characters"]) -> BitsPerCharacter:
        return self.bits(model, tokens)


@final
@dataclass(frozen=True)
class Carried(Protocol):
    """For a recurrent model: its state carried through the whole text, exactly.

    Args:
        piece: characters that one call reads.
    """

    piece: int = 512

    def bits(self, model: nn.Module, tokens: Integer[Tensor, "characters"]) -> BitsPerCharacter:
        return bits_with_state(model, tokens, piece=self.piece)

    def reads(self, characters: int) -> int:
        return characters

    def bits_at_a_glance(self, model: nn.Module, tokens: Integer[Tensor, "characters"]) -> BitsPerCharacter:
        """In 64 streams side by side: the state of each knows 128 characters before its first scored one."""
        if len(tokens) <= SHORT_TEXT:
            return self.bits(model, tokens)
        return bits_with_state(model, tokens, piece=128, streams=64)


@final
@dataclass(frozen=True)
class TextExamination(Examination):
    """Score a character model on validation and test text.

    Args:
        task: the text.
        name: of the text, for the record.
        protocol: what the model has read before each character.
    """

    task: Characters
    name: str
    protocol: Protocol

    def glance(self, model: nn.Module, update: int) -> dict[str, Any]:
        """Bits per character over the first 16,384 characters of the validation text."""
        tokens = self.task.validation[:GLANCE_CHARACTERS]
        return {"bits": self._scored(self.protocol.bits_at_a_glance, model, tokens, update).bits}

    @property
    def tokens(self) -> int:
        parts = (self.task.validation, self.task.test)
        return sum(self.protocol.reads(len(part)) for part in parts if part is not None)

    def evaluate(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The text with its hash, and bits per character of validation and test."""
        scores = {
            "text": {
                "name": self.name,
                "split": self.task.corpus.split,
                "sha256": self.task.data_hash,
                "symbols": self.task.vocabulary,
                "context": self.task.context,
            },
            "validation": self._scored(self.protocol.bits, model, self.task.validation, update).to_json(),
        }
        if self.task.test is not None:
            scores["test"] = self._scored(self.protocol.bits, model, self.task.test, update).to_json()
        return scores

    def _scored(self, bits: Bits, model: nn.Module, tokens: Tensor, update: int) -> BitsPerCharacter:
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                return bits(model, tokens.to(device_of(model)))
        except FloatingPointError as error:
            raise NonFiniteLogitsError(update) from error
        finally:
            model.train(was_training)
