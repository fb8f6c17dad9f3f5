"""How near the letters of a trained `rotations` tracker come to a representation of its group, in float64.

``python benchmarks/learned_rotations.py RUN`` prints the largest entry of |R(x) R(y) - R(x y)| over all pairs of
letters, where R(x) = exp(drive of x) is what a letter moves the state by; the largest entry of the state's own weight,
which moves it whatever the letter; and for three dimensions how far the trace of a letter is from that of the nearest
of an icosahedron's rotations.
"""

import math
import sys
from pathlib import Path

import torch

from torsor.experiments.run import rebuild
from torsor.groups import named
from torsor.models import GroupRNN
from torsor.training import load_weights, read_run

ANGLES = (0, math.tau / 5, math.tau / 3, 2 * math.tau / 5, math.tau / 2)  # of an icosahedron's rotations


@torch.no_grad()
def main(run: Path) -> None:
    study, _ = rebuild(run)
    model = study.model
    if not isinstance(model, GroupRNN) or read_run(run).arguments["alphabet"] != "all":
        raise SystemExit(f"RUN must be of --model rotations with all elements for letters, {run} is not")
    load_weights(run, model)
    group, drive = named(read_run(run).arguments["group"]), model.drive.double()[:-1]  # the last is the begin token
    moves = model.group.exp(model.group.from_coordinates(drive))
    product = torch.tensor(group.table)  # with all elements for letters, letter x is element x
    defect = (moves[:, None] @ moves - moves[product]).abs().max()
    print(f"largest entry of |R(x) R(y) - R(x y)| over {product.numel():,} pairs: {defect:.1e}")
    weight = max(each.abs().max() for each in model.mixing.parameters())
    print(f"largest entry of the state's own weight: {weight:.1e}")
    if model.group.dim == 3:
        traces = moves.diagonal(dim1=-2, dim2=-1).sum(-1)
        exact = torch.tensor([1 + 2 * math.cos(angle) for angle in ANGLES], dtype=torch.float64)
        print(f"trace of a letter from an icosahedron's: {(traces[:, None] - exact).abs().amin(1).max():.1e}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} RUN")
    main(Path(sys.argv[1]))
