"""What a published Parcae checkpoint calls each tensor of ours, and what of it does not fit."""

import re
from collections.abc import Mapping

from torch import Tensor

from torsor.models.value_layers import Layers

EMBEDDING = "transformer.wte.weight"
READOUT = "lm_head.weight"
# The published table of rotary positions follows from the sizes, and is not read.
IGNORED = {"freqs_cis"}

_SINGLE = {
    "prelude.embedding.weight": EMBEDDING,
    "prelude.norm.weight": "transformer.ln_prelude.weight",
    "inject.weight": "transformer.adapter.B",
    "transition.contraction.log_rate": "transformer.adapter.A_log",
    "transition.contraction.raw_timestep": "transformer.adapter.dt_bias",
    "coda.enter.weight": "transformer.C.weight",
    "coda.norm.weight": "transformer.ln_f.weight",
    "readout.weight": READOUT,
}
_STACKS = {"prelude.blocks": "prelude", "core": "core_block", "coda.blocks": "coda"}
_INSIDE = {
    "attention_norm": "norm_1",
    "attention.query": "attn.c_q",
    "attention.key": "attn.c_k",
    "attention.value": "attn.c_v",
    "attention.out": "attn.c_proj",
    "attention.value_gate.read": "attn.ve_gate",
    "feedforward_norm": "norm_2",
    "feedforward.up": "mlp.fc",
    "feedforward.down": "mlp.proj",
}
_OURS = re.compile(rf"({'|'.join(map(re.escape, _STACKS))})\.(blocks|value_tables)\.(\d+)(?:\.(.+))?\.weight")


def published_name(name: str, layers: Layers) -> str:
    """The published name of a parameter of ours.

    Args:
        name: in the state dict of a ``LoopedTransformer`` with a diagonal transition.
        layers: of that model; published tables of value embeddings are numbered through all of them.
    """
    if name in _SINGLE:
        return _SINGLE[name]
    parts = _OURS.fullmatch(name)
    if parts is None:
        raise ValueError(f"name must be that of a looped transformer's parameter, got {name!r}")
    stack, kind, number, inside = parts.groups()
    if kind == "value_tables":
        first = sum(layers[: list(_STACKS).index(stack)])
        return f"value_embeds.{first + int(number)}.weight"
    return f"transformer.{_STACKS[stack]}.{number}.{_INSIDE[inside]}.weight"


def published_layers(state_dict: Mapping[str, Tensor]) -> Layers:
    """How many layers of the prelude, the core and the coda a published checkpoint holds; one of the core at least."""

    def count(stack: str) -> int:
        found = (re.match(rf"transformer\.{stack}\.(\d+)\.", name) for name in state_dict)
        return len({match[1] for match in found if match})

    prelude, core, coda = (count(stack) for stack in _STACKS.values())
    return prelude, max(core, 1), coda


def misfits(state_dict: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """What is missing, unexpected, of another shape or not of real numbers, each named in a few words."""
    found = [f"missing {name}" for name in shapes if name not in state_dict]
    found += [f"unexpected {name}" for name in state_dict if name not in shapes and name not in IGNORED]
    for name, shape in shapes.items():
        tensor = state_dict.get(name)
        if tensor is None:
            continue
        if tuple(tensor.shape) != shape:
            found.append(f"{name} must have shape {shape}, got {tuple(tensor.shape)}")
        elif not tensor.is_floating_point():
            found.append(f"{name} must hold real numbers, got {str(tensor.dtype).removeprefix('torch.')}")
    return found
