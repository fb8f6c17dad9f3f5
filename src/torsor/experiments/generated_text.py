"""Text from a trained character model."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from torsor.experiments.run import load
from torsor.generation import Sampling, generate
from torsor.models import LSTM, GroupRNN, GroupTransformer, Transformer
from torsor.tasks import Characters


def generated_text(path: Path, prompt: str, characters: int, sampling: Sampling, seed: int) -> Iterator[str]:
    """Continue a prompt with a run's model, as its last checkpoint has it.

    Args:
        path: a run folder of a character model; the run may be going on.
        prompt: at least one character, all of them of the text that was trained on.
        characters: how many to draw, at least 1.
        sampling: how one is drawn.
        seed: of the draws.

    Yields:
        One character after another.

    Raises:
        RunFolderError: when the folder is no run folder or its checkpoint cannot be read.
        ValueError: when the run's model is no character model, the prompt is empty or holds another
            symbol, or ``characters`` is below 1.
        ArithmeticError: when a logit is not finite.
    """
    if characters < 1:
        raise ValueError(f"characters must be at least 1, got {characters}")
    if not prompt:
        raise ValueError("prompt must have at least one character, got none")
    study = load(path)
    model, task = study.model, study.task
    if not isinstance(task, Characters) or not isinstance(model, GroupTransformer | GroupRNN | Transformer | LSTM):
        raise ValueError(f"{path} must hold a character model, it holds {study.label}")
    tokens = task.encode(prompt)[None]
    drawn = generate(model.eval(), tokens, sampling, torch.Generator().manual_seed(seed))
    return (task.decode(token) for token in islice(drawn, characters))
