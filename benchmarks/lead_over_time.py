"""How the lead of the right answer over all others falls while a trained recurrent tracker reads on.

``python benchmarks/lead_over_time.py RUN [LETTERS [WORDS [DTYPE]]]`` reads words of a finished run's word problem
(24 of 65,536 letters in float32 unless others are named) and prints, after every eighth of them, the mean and the
smallest lead over the last 256 letters, the right logit less the largest of all others, and in how many words there has
been an error. A lead that falls alike in float32 and in float64 falls by what was learned, not by rounding.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

from torsor.experiments.run import load
from torsor.tasks import WordProblem
from torsor.tracking import HeldOutPairs, Recurrent
from torsor.tracking.words import word_pieces

PIECE = 256  # letters of a call
LOOKS = 8


def lead(logits: Tensor, answers: Tensor) -> Tensor:
    """The right logit less the largest of all others, at every position."""
    others = logits.scatter(-1, answers[..., None], -torch.inf).amax(-1)
    return logits.gather(-1, answers[..., None])[..., 0] - others


@torch.no_grad()
def main(run: Path, letters: int, words: int, dtype: torch.dtype) -> None:
    study = load(run)
    task = study.task.task if isinstance(study.task, HeldOutPairs) else study.task
    if not isinstance(task, WordProblem) or not isinstance(study.model, Recurrent):
        raise SystemExit(f"RUN must be of a recurrent model of a word problem, {run} is not")
    if letters < LOOKS * PIECE or words < 1:
        raise SystemExit(f"LETTERS must be at least {LOOKS * PIECE} and WORDS 1, got {letters} and {words}")
    model = study.model.eval().to(dtype)
    sound, state, read, looks = torch.ones(words, dtype=torch.bool), None, 0, 0
    print(f"{words} words in {dtype}; letters: mean and smallest lead, words with an error before")
    for batch in word_pieces(task, words, letters, PIECE):
        logits, state = model(batch.tokens, state)
        asked = batch.targets[0] >= 0  # the begin token has no answer
        leads = lead(logits[:, asked], batch.targets[:, asked])
        sound &= (leads > 0).all(1)
        read += leads.shape[1]
        if read * LOOKS >= (looks + 1) * letters:
            looks += 1
            print(f"{read:,}: {leads.mean():.3f}, {leads.min():.3f}; {(~sound).sum()}", flush=True)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 5 or (len(sys.argv) == 5 and sys.argv[4] not in {"float32", "float64"}):
        raise SystemExit(f"usage: {sys.argv[0]} RUN [LETTERS [WORDS [float32|float64]]]")
    _, run, *more = sys.argv
    letters, words, dtype = (*more, *("65536", "24", "float32")[len(more) :])
    main(Path(run), int(letters), int(words), getattr(torch, dtype))
