"""Measure the geometry of a map: is it readable, is its Gram matrix Toeplitz, how do directions move?"""

import torch

from torsor.diagnostics import lag_cosine, readability_defect, toeplitz_defect
from torsor.maps import Diagonal
from torsor.transitions import BlockConformal, Geometric


def main() -> None:
    """Compare a blockwise conformal map with a diagonal one whose rates have spread."""
    conformal = BlockConformal(dim=64, groups=2, frequencies=Geometric(100.0), initial_scale=(0.4, 0.8))()
    diagonal = Diagonal(torch.linspace(0.4, 0.8, 64))
    for name, carry in (("conformal, two groups", conformal), ("diagonal", diagonal)):
        print(f"\n{name}")
        print(readability_defect(carry))
        print(toeplitz_defect(carry, steps=16))
        print(lag_cosine(carry, steps=16))


if __name__ == "__main__":
    main()
