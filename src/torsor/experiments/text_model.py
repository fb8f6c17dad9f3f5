"""A run whose model continues texts: its weights, and how a text becomes its tokens and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch

from torsor.experiments.language_data import language_data
from torsor.experiments.language_examination import LanguageExamination
from torsor.experiments.run import rebuild
from torsor.generation import Stepwise
from torsor.models import LoopedTransformer
from torsor.tasks import Characters, PackedTokens
from torsor.training import load_weights


@final
@dataclass(frozen=True)
class TextModel:
    """A model of a text's next token.

    Args:
        model: trained, in evaluation mode.
        encode: a text to its tokens, with what a model reads before every text.
        decode: tokens to their text; a part of a character becomes U+FFFD.
        trained_steps: mean number of loops in training; 0 for a model without loops.
    """

    model: LoopedTransformer | Stepwise
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    trained_steps: int


def text_model(path: Path) -> TextModel:
    """The text model of a run, as its last checkpoint has it.

    Args:
        path: a run folder; the run may be going on.

    Raises:
        RunFolderError: when the folder is no run folder, or its checkpoint cannot be read or is of another model.
        ValueError: when the run's model does not continue texts.
    """
    study, described = rebuild(path)
    model, task = study.model, study.task
    steps = 0
    if isinstance(model, LoopedTransformer) and isinstance(study.examination, LanguageExamination):
        steps = study.examination.trained_steps
    if not isinstance(model, LoopedTransformer | Stepwise) or (isinstance(model, LoopedTransformer) and not steps):
        raise ValueError(f"{path} must hold a model of texts, it holds {study.label}")
    load_weights(path, study.model)
    study.model.eval()
    match task:
        case Characters():
            return TextModel(
                model,
                lambda text: task.encode(text).tolist(),
                lambda tokens: task.decode(torch.tensor(list(tokens))),
                steps,
            )
        case PackedTokens():
            tokenizer = language_data(described.arguments["text"], described.arguments["entries"]).tokenizer
            return TextModel(model, lambda text: [tokenizer.begin, *tokenizer.encode(text)], tokenizer.decode, steps)
    raise ValueError(f"{path} must hold a model of texts, it holds {study.label}")
