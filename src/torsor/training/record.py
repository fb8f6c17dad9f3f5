"""What one update leaves behind."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Record:
    """The numbers of one update.

    All but ``seconds`` are equal, to the last bit, between two runs of the same arguments.

    Args:
        update: how many updates the parameters have had, this one included; 1 for the first.
        loss: mean cross entropy over the scored labels, in nats, before this update.
        gradient_norm: joint 2-norm of the gradients, before clipping.
        learning_rate: rate of the first parameter group at this update.
        length: letters per sequence where a curriculum chose, otherwise None.
        tokens: positions in the batch.
        seconds: wall time of this update, without what was done between two of them.
    """

    update: int
    loss: float
    gradient_norm: float
    learning_rate: float
    length: int | None
    tokens: int
    seconds: float

    def metrics(self) -> dict[str, int | float | None]:
        """What a repeated run must reproduce."""
        return {
            "update": self.update,
            "loss": self.loss,
            "gradient_norm": self.gradient_norm,
            "learning_rate": self.learning_rate,
            "length": self.length,
        }

    def timing(self) -> dict[str, int | float]:
        """What differs from run to run: seconds, and tokens per second."""
        return {"update": self.update, "seconds": self.seconds, "tokens_per_second": self.tokens / self.seconds}
