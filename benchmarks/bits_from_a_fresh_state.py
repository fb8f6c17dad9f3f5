"""How far from its beginning a recurrent character model can still read: bits per character by position.

``python benchmarks/bits_from_a_fresh_state.py RUN [LENGTH ...]`` cuts the validation text of a finished run into
windows (128, 512, 2,048 and 8,192 characters unless others are named), starts the state anew in each, and prints the
bits of all characters but the windows' first, and of those at positions 1 to 127, 128 to 255, 256 to 511 and so on. A
model whose state wears off gets worse from some position on; the score of a whole text with the state carried is then
that of its far end.
"""

import math
import sys
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torsor.experiments.run import load
from torsor.tasks import Characters

LENGTHS = (128, 512, 2048, 8192)
TOGETHER = 65_536  # characters of a call


@torch.no_grad()
def bits_by_position(model: nn.Module, text: Tensor, length: int) -> Tensor:
    """The mean bits at each position but the first, over the text's whole windows of a length."""
    windows = text[: len(text) // length * length].long().view(-1, length)
    total = torch.zeros(length - 1, dtype=torch.float64)
    for rows in windows.split(max(1, TOGETHER // length)):
        outputs = model(rows)
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        nats = cross_entropy(logits[:, :-1].transpose(1, 2), rows[:, 1:], reduction="none")
        total += nats.double().sum(0)
    return total / len(windows) / math.log(2)


def main(run: Path, lengths: tuple[int, ...]) -> None:
    study = load(run)
    if not isinstance(study.task, Characters):
        raise SystemExit(f"RUN must be of a character model, {run} is of {type(study.task).__name__}")
    text, model = study.task.validation, study.model.eval()
    for length in lengths:
        if not 2 <= length <= len(text):
            raise SystemExit(f"LENGTH must be between 2 and the {len(text):,} characters of the text, got {length}")
    print("characters of a window: bits of all; bits from position")
    for length in lengths:
        bits = bits_by_position(model, text, length)
        edges = [0, *(2**n - 1 for n in range(7, length.bit_length()) if 2**n < length), length - 1]
        parts = [f"{first + 1:,}: {bits[first:last].mean():.3f}" for first, last in pairwise(edges)]
        print(f"{length:,}: {bits.mean():.3f}; {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(f"usage: {sys.argv[0]} RUN [LENGTH ...]")
    main(Path(sys.argv[1]), tuple(int(each) for each in sys.argv[2:]) or LENGTHS)
