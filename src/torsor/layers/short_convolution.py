"""A causal convolution over the last few elements, each channel by itself, that carries its window."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.layers.sequence_layer import require_packed, require_part


@final
class ShortConvolution(nn.Module):
    r"""Weigh the last elements of every channel: :math:`y_t = \sum_{j < n} w_j \, x_{t - n + 1 + j}`, without a bias.

    Before the first element stands the window, zeros or what the piece before left.

    Guarantees, each a test in ``tests/laws/test_sequence_layer_laws.py``:

    * it is torch's convolution with a group for each channel, padded by zeros before the first element;
    * a sequence in pieces equals the sequence in one;
    * packed sequences equal each sequence alone.

    Args:
        channels: of the sequence.
        kernel: :math:`n`, how many elements are weighed; 4 as published.

    Raises:
        ValueError: when a size is below 1.
    """

    def __init__(self, channels: int, kernel: int = 4) -> None:
        super().__init__()
        if channels < 1 or kernel < 1:
            raise ValueError(f"channels and kernel must be at least 1, got {channels} and {kernel}")
        self.kernel = kernel
        self.weight: nn.Parameter = nn.Parameter(torch.empty(channels, kernel))
        self.reset_parameters(0.02)

    @torch.no_grad()
    def reset_parameters(self, std: float, generator: torch.Generator | None = None) -> None:
        """Draw the weights normal of size ``std``."""
        self.weight.normal_(std=std, generator=generator)

    def initial_window(self, batch: int) -> Float[Tensor, "batch before channels"]:
        """Zeros in the place of the elements before the first."""
        return self.weight.new_zeros(batch, self.kernel - 1, self.weight.shape[0])

    def forward(
        self,
        x: Float[Tensor, "batch length channels"],
        window: Float[Tensor, "sequences before channels"] | None = None,
        cu_seqlens: Int[Tensor, "boundaries"] | None = None,
    ) -> tuple[Float[Tensor, "batch length channels"], Float[Tensor, "sequences before channels"]]:
        """The weighed elements, and the last ``kernel - 1`` of each sequence.

        Args:
            x: with ``cu_seqlens`` a batch of one.
            window: the elements before, for each sequence; None for zeros.
            cu_seqlens: the boundaries of packed sequences, as in ``m2rnn``.

        Raises:
            ValueError: when the window has another shape or type, or ``m2rnn`` would refuse the boundaries.
        """
        sequences = x.shape[0] if cu_seqlens is None else require_packed(x, cu_seqlens)
        initial = self.initial_window(sequences)
        if window is None:
            window = initial
        require_part("window", window, tuple(initial.shape), initial.dtype)
        x = x.to(self.weight.dtype)
        if cu_seqlens is None:
            joined = torch.cat([window, x], dim=1)
            return self._weighed(joined), joined[:, x.shape[1] :]
        lengths = cu_seqlens.diff()
        pieces = zip(window, x[0].split(lengths.tolist()), strict=True)
        joined = torch.cat([each for piece in pieces for each in piece])[None]
        # every window before shifts what follows it
        shift = torch.arange(sequences, device=x.device) * (self.kernel - 1)
        positions = torch.arange(x.shape[1], device=x.device) + shift.repeat_interleave(lengths.to(x.device))
        ends = cu_seqlens[1:].to(x.device) + shift
        last = ends[:, None] + torch.arange(self.kernel - 1, device=x.device)
        return self._weighed(joined)[:, positions], joined[0, last]

    def _weighed(self, joined: Tensor) -> Tensor:
        length = joined.shape[1] - self.kernel + 1
        # a few shifted products: faster here than torch's convolution of groups, and without a transposition
        parts = (joined[:, j : j + length] * weight for j, weight in enumerate(self.weight.unbind(1)))
        total = next(parts)
        for part in parts:
            total = total + part
        return total
