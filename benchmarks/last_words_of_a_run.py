"""LAMBADA of a finished language run that was not scored on it: the whole last word by greedy choice, at some depths.

``python benchmarks/last_words_of_a_run.py RUN [STEPS ...]`` reads all passages in one pass to the largest number of
loops (1, 4, 8 and 16 unless others are named), and prints for each how many last words were right, with the 95 %
interval of their share, and the perplexity of a last word (exp of the mean over passages). ``--lambada`` does the same
at the end of a training, at all of its depths.
"""

import sys
from pathlib import Path

from torsor.experiments.catalogue import find
from torsor.experiments.language_examination import LanguageExamination
from torsor.experiments.run import load_weights
from torsor.models import LoopedTransformer
from torsor.tasks import LastWords
from torsor.training import read_run

STEPS = (1, 4, 8, 16)


def last_words_of(run: Path) -> tuple[LastWords, LoopedTransformer]:
    """The passages as the run's tokenizer has them, and the trained model."""
    described = read_run(run)
    experiment = find(described.experiment)
    wanted = {"lambada": True} if "lambada" in described.arguments else {}
    study = experiment.build(**described.arguments | wanted)
    match study.examination, study.model:
        case LanguageExamination(last_words=LastWords() as words), LoopedTransformer() as model:
            load_weights(run, model)
            return words, model.eval()
        case _:
            raise SystemExit(f"RUN must be of a looped language model, {run} is of {described.experiment}")


def main(run: Path, steps: tuple[int, ...]) -> None:
    words, model = last_words_of(run)
    print("loops: right of passages (share, 95 % interval); perplexity of a last word")
    for depth, score in words.score_at_steps(model, steps).items():
        low, high = score.right.interval()
        found = f"{score.right.hits} of {score.right.trials} ({score.accuracy:.4f}, {low:.4f} to {high:.4f})"
        print(f"{depth}: {found}; {score.perplexity:.1f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(f"usage: {sys.argv[0]} RUN [STEPS ...]")
    main(Path(sys.argv[1]), tuple(int(each) for each in sys.argv[2:]) or STEPS)
