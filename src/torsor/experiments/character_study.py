"""The study of a character model: a text, how it is cut, and how the model is scored."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from torch import nn

from torsor.experiments.character_texts import NAMED, character_texts
from torsor.experiments.study import Study
from torsor.experiments.text_examination import Carried, TextExamination, Windows
from torsor.tasks import Characters, Corpus
from torsor.training import Plan, Schedule, adamw


def character_study(
    build: Callable[[int], tuple[nn.Module, str]],
    *,
    carried: bool,
    text: str,
    split: Literal["80-10-10", "90-5-5", "90-10"],
    context: int,
    updates: int,
    batch: int,
    learning_rate: float,
    weight_decay: float,
    warmup: int,
    decay: float,
    clip: float,
    seed: int,
) -> Study:
    """A model that names the next character of a text.

    Args:
        build: the model and its row's name in a table, given the number of symbols.
        carried: whether it has a state, which is carried through the texts it is scored on.
        text: its name, or the path of a UTF-8 file, whose symbols are all in the vocabulary wherever they stand.
        split: how one text is cut into training, validation and test; a text in three files comes cut.
        context: characters of a training window.
        updates: optimizer updates.
        batch: windows per update.
        learning_rate: peak rate of AdamW.
        weight_decay: decay of matrices.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        seed: of the batches.

    Raises:
        ValueError: when a number is out of range or the text is not there.
    """
    parts = character_texts(text)
    corpus = Corpus.cut(*parts, split=split) if len(parts) == 1 else Corpus(*parts)
    task = Characters(corpus, context, seed=seed, of_all_parts=text not in NAMED)
    model, label = build(task.vocabulary)
    return Study(
        label=label,
        model=model,
        optimizer=adamw(model, learning_rate, weight_decay=weight_decay),
        task=task,
        plan=Plan(updates=updates, batch=batch, clip=clip, schedule=Schedule(warmup=warmup, decay=decay)),
        examination=TextExamination(task, Path(text).name, Carried() if carried else Windows(context)),
        seed=seed,
        data={"sha256": task.data_hash},
    )
