"""Compile the blocks of a looped model, call it at many depths and lengths, and print how many graphs that took."""

import json
import sys

import torch

import cases
from torsor.experiments.compiled import CompiledBlocks

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain, model = (cases.MODELS["looped, conformal"]() for _ in range(2))
    blocks = CompiledBlocks(model, backend=sys.argv[1])
    graphs, apart = [], 0.0
    for steps in (1, 2, 3, 5, 8, 13):
        for length in (3, 5, 6):
            tokens = torch.randint(3, (4, length))
            gradients = []
            for each in (plain, model):
                each.zero_grad()
                logits = each(tokens, steps=steps)
                logits.square().mean().backward()
                gradients.append([logits.detach(), *(p.grad for p in each.parameters())])
            apart = max(apart, *(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*gradients, strict=True)))
        graphs.append(blocks.graphs)
    names = [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    print(json.dumps(blocks.to_json() | {"by depth": graphs, "apart": apart, "names": names}))
