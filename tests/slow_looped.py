"""A cached looped transformer by its definition: one row, token by token, every key and value in a dictionary."""

import torch

from torsor.layers import Block


class SlowLooped:
    """Reads pieces of one row; what a loop reads of earlier tokens is what a policy's ``slot`` says."""

    def __init__(self, model, slots, slot):
        self.model, self.slots, self.slot = model, slots, slot
        self.kept = {}  # (part, layer, slot) -> {position: (key, value)}
        self.length = 0
        self.states = []  # of every token, after each of its loops

    @torch.no_grad()
    def read(self, tokens, depth, start=None):
        """Logits at every token of a piece; every token of it makes ``depth`` loops, from ``start`` or zeros."""
        model, places = self.model, range(self.length, self.length + len(tokens))
        x = self._stack("prelude", model.prelude.blocks, model.prelude.embedding(tokens), tokens, places, 0, {})
        write = model.transition.input_map()(model.inject(model.prelude.norm(x)))
        carry = model.transition().dense()
        state = torch.zeros_like(write) if start is None else start
        written, states = {}, []
        for loop in range(depth):
            inner = state @ carry.mT + write
            state = self._stack("core", model.core, inner, tokens, places, self.slot(loop), written)
            states.append(state)
        self._fill(written, depth)
        x = model.coda.enter(state)
        x = self._stack("coda", model.coda.blocks, x, tokens, places, 0, {})
        self.length += len(tokens)
        self.states.append(torch.stack(states, dim=1))
        return model.readout(model.coda.norm(x))

    def _fill(self, written, depth):
        """Slots that a piece did not reach get its last keys and values."""
        for (layer, slot), pairs in list(written.items()):
            for other in range(self.slots):
                if (layer, other) not in written and slot == self.slot(depth - 1):
                    self.kept.setdefault(("core", layer, other), {}).update(pairs)

    def _stack(self, part, stack, x, tokens, places, slot, written):
        values = dict(zip(stack.readers, stack.values(tokens[None]), strict=True))
        for layer, block in enumerate(stack.blocks):
            memory = self.kept.setdefault((part, layer, slot), {})
            x = self._block(block, x, memory, places, values.get(layer))
            written[layer, slot] = {place: memory[place] for place in places}
        return x

    def _block(self, block: Block, x, memory, places, values):
        attention, unit = block.attention, block.attention_norm(x)
        heads = attention.heads
        query, key, value = (
            matrix(unit).unflatten(-1, (heads, -1)) for matrix in (attention.query, attention.key, attention.value)
        )
        if values is not None:
            value = value + attention.value_gate(unit[None], values)[0]
        rows = []
        for token, place in enumerate(places):
            memory[place] = (turned(key[token], place), value[token])
            seen = range(place + 1)
            keys, vals = (torch.stack([memory[each][kind] for each in seen], dim=1) for kind in (0, 1))
            scores = (keys @ turned(query[token], place)[..., None])[..., 0] / keys.shape[-1] ** 0.5
            rows.append((scores.softmax(-1)[:, None] @ vals)[:, 0].flatten())
        x = x + torch.stack(rows) @ attention.out.weight.mT
        inner = block.feedforward_norm(x) @ block.feedforward.up.weight.mT
        return x + 0.5 * inner.relu().square() @ block.feedforward.down.weight.mT


def turned(x, place):
    """Planes of heads turned by a position, then divided by their root mean square."""
    dim = x.shape[-1]
    angle = place * 50_000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    even, odd = x[:, 0::2].double(), x[:, 1::2].double()
    both = torch.stack([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], dim=-1)
    both = both.flatten(1)
    return (both / (both.square().mean(-1, keepdim=True) + 1.1920928955078125e-07).sqrt()).to(x.dtype)
