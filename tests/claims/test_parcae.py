"""A published Parcae checkpoint: its logits, what of it is refused, and how to go on from it."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from closeness import assert_close
from conftest import TOLERANCE
from refusal import refused
from torsor.diagnostics import toeplitz_defect
from torsor.models.parcae import from_published
from torsor.training import adamw
from torsor.transitions import BlockConformal

WIDTH, HEADS, VOCABULARY = 64, 4, 11
MEASURED = Path(os.environ.get("TORSOR_DATA", "data"), "parcae_small.npz")
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7, 9, 10], [0, 0, 0, 0, 0, 0, 0, 0]])


def published(tensors, tokens, loops, heads):
    """The published forward pass, written from its description and independently of this package."""

    def norm(x, weight=1.0, eps=1e-5):
        return weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)

    def rope(x):
        plane = torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1]
        angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] / 50_000**plane
        cos, sin, even, odd = angle.cos()[:, None], angle.sin()[:, None], x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    def attention(x, name, layer):
        q, k, v = ((x @ tensors[f"{name}.c_{each}.weight"].T).unflatten(-1, (heads, -1)) for each in "qkv")
        gate, table = tensors.get(f"{name}.ve_gate.weight"), tensors.get(f"value_embeds.{layer}.weight")
        if gate is not None and table is not None:
            v = v + 2 * torch.sigmoid(x[..., :32] @ gate.T)[..., None] * table[tokens].unflatten(-1, (heads, -1))
        q, k = norm(rope(q), eps=2**-23), norm(rope(k), eps=2**-23)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        past = torch.ones(tokens.shape[1], tokens.shape[1]).tril() == 1
        weights = torch.where(past, scores, -torch.inf).softmax(-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2) @ tensors[f"{name}.c_proj.weight"].T

    def stack(x, name, first):
        for number in range(count(tensors, name)):
            block = f"transformer.{name}.{number}"
            x = x + attention(norm(x, tensors[f"{block}.norm_1.weight"]), f"{block}.attn", first + number)
            inner = norm(x, tensors[f"{block}.norm_2.weight"]) @ tensors[f"{block}.mlp.fc.weight"].T
            x = x + 0.5 * inner.clamp(min=0) ** 2 @ tensors[f"{block}.mlp.proj.weight"].T
        return x

    own = {key.removeprefix("transformer."): tensor for key, tensor in tensors.items()}
    core, coda = count(tensors, "prelude"), count(tensors, "prelude") + count(tensors, "core_block")
    e = norm(stack(own["wte.weight"][tokens], "prelude", 0), own["ln_prelude.weight"])
    dt = torch.log(1 + torch.exp(own["adapter.dt_bias"]))
    x = torch.zeros_like(e)
    for _ in range(loops):
        injected = torch.exp(-dt * torch.exp(own["adapter.A_log"])) * x + dt * (e @ own["adapter.B"].T)
        x = stack(injected, "core_block", core)
    y = norm(stack(x @ own["C.weight"].T, "coda", coda), own["ln_f.weight"])
    return y @ own["wte.weight"].T


def count(tensors, name):
    return len({key.split(".")[2] for key in tensors if key.startswith(f"transformer.{name}.")})


def checkpoint(layers, dtype=torch.float32, gates=None):
    """Random tensors under the published names: value embeddings in every second layer, gates there or as given."""
    reading = range((sum(layers) - 1) % 2, sum(layers), 2)
    shapes = {
        "transformer.wte.weight": (VOCABULARY, WIDTH),
        "transformer.adapter.A_log": (WIDTH,),
        "transformer.adapter.dt_bias": (WIDTH,),
        "transformer.adapter.B": (WIDTH, WIDTH),
        "transformer.C.weight": (WIDTH, WIDTH),
        "transformer.ln_prelude.weight": (WIDTH,),
        "transformer.ln_f.weight": (WIDTH,),
        **{f"value_embeds.{layer}.weight": (VOCABULARY, WIDTH) for layer in reading},
    }
    names = ((name, i) for name, n in zip(("prelude", "core_block", "coda"), layers, strict=True) for i in range(n))
    for layer, (name, number) in enumerate(names):
        block = f"transformer.{name}.{number}"
        shapes |= {f"{block}.norm_{each}.weight": (WIDTH,) for each in (1, 2)}
        shapes |= {f"{block}.attn.c_{each}.weight": (WIDTH, WIDTH) for each in ("q", "k", "v", "proj")}
        shapes |= {f"{block}.mlp.fc.weight": (4 * WIDTH, WIDTH), f"{block}.mlp.proj.weight": (WIDTH, 4 * WIDTH)}
        if layer in (reading if gates is None else gates):
            shapes |= {f"{block}.attn.ve_gate.weight": (HEADS, 32)}
    draw = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randn(shape, generator=draw, dtype=dtype) / (math.sqrt(shape[-1]) if len(shape) == 2 else 2)
        for name, shape in shapes.items()
    }
    return tensors | {"lm_head.weight": tensors["transformer.wte.weight"]}


@pytest.mark.parametrize("layers", [(2, 2, 2), (4, 2, 2), (0, 2, 0), (2, 4, 0)])
@pytest.mark.parametrize("loops", [1, 4, 8])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_published_checkpoint_gives_the_published_logits_at_any_depth(layers, loops, dtype):
    tensors = checkpoint(layers, dtype)
    logits, expected = from_published(tensors, HEADS)(TOKENS, steps=loops), published(tensors, TOKENS, loops, HEADS)
    assert logits.dtype == dtype
    assert_close(logits, expected, TOLERANCE[dtype])
    assert (expected - published(tensors, TOKENS, loops + 1, HEADS)).abs().max() > 0.01


@pytest.mark.parametrize("gates", [(1, 2), (1,), (0,), (0, 2)])
def test_at_one_layer_each_the_gates_are_those_that_the_checkpoint_holds(gates):
    tensors = checkpoint((1, 1, 1), torch.float64, gates)
    model = from_published(tensors, HEADS)
    assert_close(model(TOKENS, steps=3), published(tensors, TOKENS, 3, HEADS))
    assert [stack.readers for stack in (model.prelude.blocks, model.core, model.coda.blocks)] == [
        (0,) if 0 in gates else (),
        (),
        (0,) if 2 in gates else (),
    ]


@pytest.mark.skipif(not MEASURED.exists(), reason="the folder TORSOR_DATA holds no parcae_small.npz")
def test_the_logits_that_the_published_code_computed_are_met_to_1e_5_in_float32():
    held = {name: torch.from_numpy(array) for name, array in np.load(MEASURED).items()}
    model = from_published({name[2:]: tensor for name, tensor in held.items() if name.startswith("w.")}, heads=4)
    for logits, steps in zip(model(held["x"], steps=(1, 4, 8)), (1, 4, 8), strict=True):
        torch.testing.assert_close(logits, held[f"logits_T{steps}"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "transformer.wte.weight",
        "transformer.C.weight",
        "transformer.adapter.dt_bias",
        "transformer.core_block.1.attn.ve_gate.weight",
        "transformer.coda.0.mlp.proj.weight",
        "value_embeds.3.weight",
        "lm_head.weight",
    ],
)
def test_a_tensor_that_is_missing_unexpected_ill_shaped_or_of_integers_is_named(name):
    tensors = checkpoint((2, 2, 2))
    without = {each: tensor for each, tensor in tensors.items() if each != name}
    with refused(f"missing {name}$" if name != "transformer.wte.weight" else f"{name} must be a tensor"):
        from_published(without, HEADS)
    with refused("unexpected transformer.surplus.weight$"):
        from_published(tensors | {"transformer.surplus.weight": torch.ones(3)}, HEADS)
    if name != "transformer.wte.weight":  # of which all other shapes are read
        with refused(rf"{name} must have shape \(.*\), got \(3, 5\)$"):
            from_published(tensors | {name: torch.ones(3, 5)}, HEADS)
    with refused(f"{name} must hold real numbers, got int64$"):
        from_published(tensors | {name: tensors[name].long()}, HEADS)


def test_all_that_does_not_fit_is_named_in_one_line():
    tensors = checkpoint((2, 2, 2))
    del tensors["transformer.ln_f.weight"], tensors["value_embeds.5.weight"]
    tensors |= {"value_embeds.4.weight": torch.ones(VOCABULARY, WIDTH), "transformer.C.weight": torch.ones(WIDTH)}
    with pytest.raises(ValueError) as caught:
        from_published(tensors, HEADS)
    assert set(str(caught.value).partition(": ")[2].split(", ", 3)) == {
        "missing value_embeds.5.weight",
        "missing transformer.ln_f.weight",
        "unexpected value_embeds.4.weight",
        "transformer.C.weight must have shape (64, 64), got (64,)",
    }
    with refused(r"missing .*, and \d+ more$"):
        from_published({"transformer.wte.weight": torch.ones(VOCABULARY, WIDTH)}, HEADS)


def test_a_checkpoint_that_is_none_or_whose_heads_or_readout_are_others_is_refused():
    tensors = checkpoint((2, 2, 2))
    with refused(r"transformer.wte.weight must be a tensor \(vocabulary, width\), got none"):
        from_published({}, HEADS)
    with refused(r"ve_gate.weight must have shape \(8, 32\), got \(4, 32\)"):
        from_published(tensors, 8)
    with refused("width must be a positive multiple of 2 \\* heads = 6, got 64"):
        from_published(tensors, 3)
    with refused("lm_head.weight must equal transformer.wte.weight"):
        from_published(tensors | {"lm_head.weight": tensors["transformer.wte.weight"] + 1}, HEADS)


def test_the_table_of_rotary_positions_may_be_there_and_narrow_tensors_become_float32():
    tensors = checkpoint((2, 2, 2))
    model = from_published(tensors | {"freqs_cis": torch.ones(1, 4, 1, 8, 2)}, HEADS)
    assert torch.equal(model(TOKENS, steps=2), from_published(tensors, HEADS)(TOKENS, steps=2))
    narrow = from_published({name: tensor.bfloat16() for name, tensor in tensors.items()}, HEADS)
    assert {parameter.dtype for parameter in narrow.parameters()} == {torch.float32}
    torch.testing.assert_close(narrow(TOKENS, steps=1), model(TOKENS, steps=1), rtol=0, atol=0.1)


def test_the_weights_are_copies_the_readout_is_the_embedding_and_all_of_them_learn():
    tensors = checkpoint((2, 2, 2))
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    model = from_published(tensors, HEADS)
    assert model.readout.weight is model.prelude.embedding.weight
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.requires_grad
            parameter.add_(1)
    assert all(torch.equal(tensors[name], before) for name, before in kept.items())


def test_from_a_checkpoint_the_geometry_is_measured_the_transition_exchanged_and_the_training_continued():
    tensors = checkpoint((2, 2, 2))
    first = from_published(tensors, HEADS)
    assert toeplitz_defect(first.transition(), steps=8).own.mean > 0.01
    model = first.with_transition(BlockConformal(WIDTH, groups=2)).float()
    assert toeplitz_defect(model.transition(), steps=8).own.mean < 1e-6
    model.grad_steps = 2
    optimizer, losses = adamw(model, 3e-3), []
    for update in range(12):
        logits = model(TOKENS[:, :-1], steps=torch.tensor([1 + update % 3, 3, 4]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), TOKENS[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert model.transition.frequency.grad.abs().max() > 0
    assert torch.equal(first(TOKENS, steps=2), from_published(tensors, HEADS)(TOKENS, steps=2))
