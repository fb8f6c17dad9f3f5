"""Which pairs of letters a trained tracker multiplies rightly: those of its training, and those that it never saw.

``python benchmarks/pairs_by_heart.py RUN [RUN ...]`` reads every ordered pair of letters as a word of two in a finished
run of learned trackers, and counts those with the right product. A tracker that is right on the pairs of its training
alone has learned a table by heart, not to multiply.
"""

import sys
from itertools import product
from pathlib import Path

import torch

from torsor.experiments.run import load
from torsor.tracking import HeldOutPairs


@torch.no_grad()
def main(run: Path) -> None:
    study = load(run)
    if not isinstance(study.task, HeldOutPairs):
        raise SystemExit(f"RUN must be of a tracker with held-out pairs, {run} is not")
    task, unseen = study.task.task, set(study.task.pairs)
    pairs = list(product(range(len(task.letters)), repeat=2))
    tokens = torch.tensor([(task.begin, *pair) for pair in pairs])
    outputs = study.model.eval()(tokens)
    logits = outputs[0] if isinstance(outputs, tuple) else outputs
    right = (logits[:, -1].argmax(-1) == task.label(tokens)[:, -1]).tolist()
    new = [hit for pair, hit in zip(pairs, right, strict=True) if pair in unseen]
    seen = len(pairs) - len(new)
    print(f"{run}: {sum(right) - sum(new):,} of {seen:,} pairs of training, {sum(new):,} of {len(new):,} others")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(f"usage: {sys.argv[0]} RUN [RUN ...]")
    for each in sys.argv[1:]:
        main(Path(each))
