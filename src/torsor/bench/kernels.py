"""The kernels of the recurrences against float64, and their time and memory beside those of torch's operations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torsor.bench.clock import take_turns
from torsor.bench.differences import relative_differences, with_gradients
from torsor.bench.harness import ratio_fields
from torsor.bench.linear_scan import arguments as scan_arguments
from torsor.bench.m2rnn import NAMES
from torsor.bench.m2rnn import arguments as m2rnn_arguments
from torsor.bench.peak_memory import peak_bytes
from torsor.maps import ScaledRotation
from torsor.recurrence import linear_scan_passes
from torsor.recurrence.kernels import triton_is_installed
from torsor.recurrence.linear_scan import linear_scan_reference
from torsor.recurrence.m2rnn import m2rnn_reference
from torsor.recurrence.m2rnn_chunked import InChunks
from torsor.recurrence.m2rnn_passes import Passes, through

Recurrence = Callable[..., tuple[Tensor, Tensor]]
KERNELS, TORCH, LOOP = "kernels", "torch", "loop"
# Of the largest number, beside four times the error that torch's operations make.
TOLERANCE = 1e-5


def measure(
    device: torch.device,
    *,
    batch: int = 4,
    length: int = 4096,
    heads: int = 8,
    key_dim: int = 64,
    value_dim: int = 16,
    planes: int = 128,
    checked_length: int = 256,
    rounds: int = 5,
) -> dict[str, Any]:
    """Compare with the loops in float64, and time forward and backward passes in turns.

    Args:
        device: where. On a CPU the kernels run in Triton's interpreter, for which TRITON_INTERPRET must have been 1
            before Triton was first imported, and its seconds say nothing of a kernel's.
        batch: sequences.
        length: tokens of each, where it is timed.
        heads: of the M²RNN.
        key_dim: rows of its states.
        value_dim: columns of its states.
        planes: of the linear scan.
        checked_length: tokens of each, where it is compared.
        rounds: turns that each case takes.

    Returns:
        A plain dictionary: for each recurrence the largest errors of every form in float32, relative to the
        largest number; whether those of the kernels are as small as they should be; and for every form
        the seconds, how many times as fast as torch's operations it is, with interval, and the peak bytes.
        Without Triton, there are no kernels in it.
    """
    rows = {}
    for name, (make, forms, reference) in _recurrences(batch, heads, key_dim, value_dim, planes).items():
        narrow, given = ([_on(device, each) for each in make(size)] for size in (checked_length, length))
        errors = {form: _errors(function, reference, narrow) for form, function in forms.items()}
        rows[name] = {
            "errors": errors,
            "right": _right(errors),
            "cases": _cases(forms | {LOOP: reference}, given, rounds, device),
        }
    sizes = {"batch": batch, "length": length, "heads": heads, "key_dim": key_dim, "value_dim": value_dim}
    return {**sizes, "planes": planes, "checked_length": checked_length, "rounds": rounds, "recurrences": rows}


def _recurrences(batch: int, heads: int, key_dim: int, value_dim: int, planes: int) -> dict[str, Any]:
    """How the arguments of each are made from a length, its forms, and the loop."""
    passes: dict[str, Passes] = {TORCH: InChunks()}
    carries = {TORCH: linear_scan_passes.carry_through}
    if triton_is_installed():
        from torsor.recurrence import linear_scan_triton, m2rnn_triton  # here, since they import Triton

        passes = {KERNELS: m2rnn_triton.InKernels(), **passes}
        carries = {KERNELS: linear_scan_triton.carry_through, **carries}
    scans = {form: _scan_by(carry) for form, carry in carries.items()}

    def rotations(length: int, own: bool) -> list[Tensor]:
        return scan_arguments(batch, length, planes, 2, own)

    return {
        "M²RNN": (
            lambda length: m2rnn_arguments(batch, length, heads, key_dim, value_dim),
            {form: _m2rnn_by(each) for form, each in passes.items()},
            m2rnn_reference,
        ),
        "linear scan, one map": (lambda length: rotations(length, False), scans, _scan_reference),
        "linear scan, a map for each token": (lambda length: rotations(length, True), scans, _scan_reference),
    }


def _m2rnn_by(passes: Passes) -> Recurrence:
    return lambda *given: through(passes, given[:-1], given[-1], None, carry_alone=False)


def _scan_by(carry: Callable[..., Tensor]) -> Recurrence:
    def scan(scale: Tensor, angle: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        lanes = torch.view_as_complex(inputs.unflatten(-1, (-1, 2)))
        multiplier, first = torch.polar(scale, angle).detach(), torch.zeros_like(lanes[:, 0])
        states, last = linear_scan_passes.LinearScan.apply(carry, scale, angle, multiplier, lanes, first)
        return torch.view_as_real(states).flatten(-2), torch.view_as_real(last).flatten(-2)

    return scan


def _scan_reference(scale: Tensor, angle: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    return linear_scan_reference(ScaledRotation(scale, angle), inputs)


def _on(device: torch.device, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return x.detach().to(device, dtype).requires_grad_()


def _errors(function: Recurrence, reference: Recurrence, given: Sequence[Tensor]) -> dict[str, float]:
    exact = with_gradients(reference, [_on(each.device, each, torch.float64) for each in given])
    arguments = NAMES if len(given) == len(NAMES) else ("scale", "angle", "inputs")
    names = ("outputs", "last state", *(f"gradient of {name}" for name in arguments))
    return relative_differences(names, with_gradients(function, given), exact)


def _right(errors: Mapping[str, Mapping[str, float]]) -> bool | None:
    if KERNELS not in errors:
        return None
    return all(error <= 4 * errors[TORCH][name] + TOLERANCE for name, error in errors[KERNELS].items())


def _cases(
    forms: Mapping[str, Recurrence], given: Sequence[Tensor], rounds: int, device: torch.device
) -> dict[str, dict[str, Any]]:
    def waiting(function: Recurrence) -> Callable[[], None]:
        def call() -> None:
            with_gradients(function, given)
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        return call

    timings = take_turns({form: waiting(function) for form, function in forms.items()}, rounds)
    rows = {}
    for form, function in forms.items():
        peak = _peak(lambda function=function: with_gradients(function, given), given, device)
        rows[form] = {"seconds": timings.median(form), "peak_bytes": peak, "reference": TORCH}
        rows[form] |= ratio_fields(timings.ratio_interval(TORCH, form))
    return rows


def _peak(call: Callable[[], object], given: Sequence[Tensor], device: torch.device) -> int:
    if device.type != "cuda":
        return peak_bytes(call, given)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    return torch.cuda.max_memory_allocated(device) - before
