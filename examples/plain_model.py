"""One transition in a plain PyTorch model: the rest, the task and the training loop are yours."""

import argparse

import torch
from torch import nn

from torsor.diagnostics import readability_defect
from torsor.transitions import BlockConformal

STATES = 5  # the task: walk to and fro on a circle of so many places, and say where you are


class Walker(nn.Module):
    """A recurrent network whose state is carried by a map, and written to by each letter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transition = BlockConformal(width, groups=2)
        self.letters = nn.Embedding(2, width)
        self.mix = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.places = nn.Linear(width, STATES)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        """Letters (batch, length) to scores of the places (batch, length, STATES)."""
        carry, write = self.transition(), self.transition.input_map()  # built once, used at every step
        written = write(self.letters(letters))
        state, seen = torch.zeros_like(written[:, 0]), []
        for step in range(letters.shape[1]):
            state = carry(state) + written[:, step]
            state = state + self.mix(state)
            seen.append(state)
        return self.places(torch.stack(seen, 1))


def main(updates: int) -> None:
    """Train for so many updates, and print how often the place is right."""
    torch.manual_seed(0)
    model = Walker(width=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for update in range(1, updates + 1):
        letters = torch.randint(2, (64, 12))
        places = (2 * letters - 1).cumsum(1) % STATES
        scores = model(letters)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), places.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update in {1, updates} or update % 50 == 0:
            print(f"update {update}  loss {loss:.3f}  right {(scores.argmax(-1) == places).float().mean():.3f}")
    print(readability_defect(model.transition()))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=300)
    main(arguments.parse_args().updates)
