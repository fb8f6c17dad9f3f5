"""A run whose model continues texts: its weights, and how a text becomes its tokens and back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from torsor.experiments.language_data import language_data
from torsor.experiments.language_examination import LanguageExamination
from torsor.experiments.modelled import what_is_modelled
from torsor.experiments.run import rebuild
from torsor.experiments.study import Study
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
    if not continues_texts(study):
        raise ValueError(f"{path} must hold a model of texts, it holds one of {what_is_modelled(study)}")
    load_weights(path, study.model)
    return model_of_texts(study, described.arguments)


def continues_texts(study: Study) -> bool:
    """Whether the model of a study names the next token of a text."""
    looped = isinstance(study.model, LoopedTransformer)
    reads = isinstance(study.examination, LanguageExamination) if looped else isinstance(study.model, Stepwise)
    return reads and isinstance(study.task, Characters | PackedTokens)


def model_of_texts(study: Study, arguments: Mapping[str, Any]) -> TextModel:
    """The text model of a study with the weights that it has, in evaluation mode.

    Args:
        study: one whose model continues texts.
        arguments: of its experiment.

    Raises:
        ValueError: when it does not.
    """
    model, task, steps = study.model.eval(), study.task, 0
    if isinstance(model, LoopedTransformer) and isinstance(study.examination, LanguageExamination):
        steps = study.examination.trained_steps
    if isinstance(model, LoopedTransformer | Stepwise):
        match task:
            case Characters():
                return TextModel(
                    model,
                    lambda text: task.encode(text).tolist(),
                    lambda tokens: task.decode(torch.tensor(list(tokens))),
                    steps,
                )
            case PackedTokens():
                tokenizer = language_data(arguments["text"], arguments["entries"]).tokenizer
                return TextModel(
                    model, lambda text: [tokenizer.begin, *tokenizer.encode(text)], tokenizer.decode, steps
                )
    raise ValueError(f"a model of texts must be one that names the next token, got {study.label}")
