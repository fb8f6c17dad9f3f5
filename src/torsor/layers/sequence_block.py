"""A pre-norm residual block of any layer that carries a state, and a gated position-wise layer."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.layers.norm import RMSNorm
from torsor.layers.sequence_layer import LayerState, SequenceLayer
from torsor.layers.swiglu import SwiGLU


@final
class SequenceBlock(nn.Module):
    r"""Mix, then think: :math:`x \leftarrow x + m(\|x\|)`, then :math:`x \leftarrow x + \text{SwiGLU}(\|x\|)`.

    The state is that of the mixing layer; ``2 width + 3 width hidden`` parameters besides its own.

    Args:
        mixer: what mixes elements.
        hidden: of the position-wise layer.

    Raises:
        ValueError: when ``hidden`` is below 1.
    """

    def __init__(self, mixer: SequenceLayer, hidden: int) -> None:
        super().__init__()
        self.mixer_norm: RMSNorm = RMSNorm(mixer.width)
        self.mixer = mixer
        self.feedforward_norm: RMSNorm = RMSNorm(mixer.width)
        self.feedforward: SwiGLU = SwiGLU(mixer.width, hidden)

    @torch.no_grad()
    def reset_parameters(self, std: float, layers: int, generator: torch.Generator | None = None) -> None:
        """Give every parameter its initial value, those of the mixing layer excepted."""
        self.mixer_norm.weight.fill_(1)
        self.feedforward_norm.weight.fill_(1)
        self.feedforward.reset_parameters(std, layers, generator)

    def initial_state(self, batch: int) -> LayerState:
        """The mixing layer's."""
        return self.mixer.initial_state(batch)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        state: LayerState | None = None,
        cu_seqlens: Int[Tensor, "boundaries"] | None = None,
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        """The stream after the block, and the layer's last state; of every sequence, where they are packed.

        Args:
            x: the stream.
            state: before the first element.
            cu_seqlens: the boundaries of packed sequences in a batch of one.

        Raises:
            ValueError: as the mixing layer does.
        """
        normed = self.mixer_norm(x)
        if cu_seqlens is None:
            mixed, after = self.mixer(normed, state)
        else:
            mixed, after = self.mixer.forward_packed(normed, cu_seqlens, state)
        x = x + mixed
        return x + self.feedforward(self.feedforward_norm(x)), after
