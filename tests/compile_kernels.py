"""Compile every kernel to the machine code of a GPU, without one; print the sizes of what comes out.

Run as a program of its own, without Triton's interpreter.
"""

import json

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from torsor.recurrence import linear_scan_triton, m2rnn_kernels

PUBLISHED = {"key_dim": 64, "value_dim": 16, "rows": 64, "columns": 16}
WALK = {"size": linear_scan_triton.CHUNK, "block": 128, "turns": True}
KERNELS = {
    "advance": (m2rnn_kernels.advance, PUBLISHED | {"reads": True, "keeps": True, "ends": True}),
    "sweep": (m2rnn_kernels.sweep, PUBLISHED | {"bound": 1.0, "carry_alone": False}),
    "walk, ends of chunks": (linear_scan_triton._walk, WALK | {"own": True, "ends": True, "starts_at": None}),
    "walk, states": (linear_scan_triton._walk, WALK | {"own": False, "ends": False, "product_at": None}),
}


def machine_code(kernel, constants) -> bytes:
    """For compute capability 9.0, all numbers in float32."""
    names = {name: "*fp32" if name.endswith("_at") else "i32" for name in kernel.arg_names}
    names |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=names, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": True}).asm["cubin"]


print(json.dumps({name: len(machine_code(*each)) for name, each in KERNELS.items()}))
