"""What a GPU makes of the library, in one script of some minutes: kernels, two language models, A5 at the paper's size.

The kernels of the recurrences are first compared with float64; where one is wrong, the script ends with exit code 1.
Run it in the repository's root, ``python benchmarks/gpu.py --out FOLDER``, with torch installed; with ``--tiny`` it
runs through on a CPU in a minute, to see that it does, the kernels in Triton's interpreter. It prints and writes
losses, tokens per second and the share of the matrix peak that it measures in the same run; it claims no time that it
did not measure.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from time import perf_counter

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from torsor.bench import kernels
from torsor.experiments.catalogue import find
from torsor.experiments.forecast import forecast
from torsor.experiments.machine import find_device
from torsor.training import TrainState, train


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matrix_peak(device: torch.device, dtype: torch.dtype, size: int, seconds: float = 3.0) -> float:
    """Operations per second of a large matrix product, the fastest of several."""
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best, ending = float("inf"), perf_counter() + seconds
    while perf_counter() < ending:
        wait(device)
        started = perf_counter()
        for _ in range(4):
            a @ b
        wait(device)
        best = min(best, (perf_counter() - started) / 4)
    return 2 * size**3 / best


def checked_kernels(device: torch.device, tiny: bool) -> dict:
    """The errors, seconds and memory of the kernels beside those of torch's operations and of the loops."""
    if device.type != "cuda":
        os.environ["TRITON_INTERPRET"] = "1"  # Triton is not imported before this
    small = {"batch": 1, "length": 3, "heads": 1, "key_dim": 4, "value_dim": 3, "planes": 2}
    found = kernels.measure(device, **(small | {"checked_length": 2, "rounds": 1} if tiny else {}))
    for name, row in found["recurrences"].items():
        cases = {form: {key: case[key] for key in ("seconds", "peak_bytes")} for form, case in row["cases"].items()}
        print(json.dumps({"name": name, "right": row["right"], "errors": row["errors"], "cases": cases}), flush=True)
    return found


def timed(name: str, study, counted, seconds: float, device: torch.device, peak: float) -> dict:
    """Train for so many seconds; the first updates are warm-up and not counted."""
    study.model.to(device)
    state = TrainState(study.model, study.optimizer)
    losses, spent, ending = [], [], perf_counter() + seconds
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    for record in train(state, study.task, study.plan, forward=study.step.forward, engine=study.engine):
        losses.append(record.loss)
        spent.append(record.seconds)  # ends with a wait: the loss has been read
        if perf_counter() > ending:
            break
    steady = spent[min(5, len(spent) - 1) :]
    mean = sum(steady) / len(steady)
    tail = losses[-max(1, len(losses) // 10) :]
    found = {
        "name": name,
        "parameters": sum(p.numel() for p in study.model.parameters()),
        "updates": len(losses),
        "tokens_per_second": counted.tokens / mean,
        "seconds_per_update": mean,
        "share_of_matrix_peak": counted.operations / mean / peak,
        "loss_first": losses[0],
        "loss_last_tenth": sum(tail) / len(tail),
        "peak_memory": torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    }
    with torch.no_grad():
        started = perf_counter()
        try:
            found["evaluation"] = study.examination.evaluate(study.model, state.update)
        except ArithmeticError as error:
            found["evaluation"] = str(error)
        found["evaluation_seconds"] = perf_counter() - started
    print(json.dumps({key: value for key, value in found.items() if key != "evaluation"}), flush=True)
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu"))
    parser.add_argument("--text", default="made", help="as torsor train rotate-the-loop/language --text takes it")
    parser.add_argument("--entries", type=int, default=32_768)
    parser.add_argument("--seconds", type=float, default=110.0, help="of each language model")
    parser.add_argument("--a5-seconds", type=float, default=70.0, help="of each word problem")
    parser.add_argument("--tiny", action="store_true", help="sizes for a CPU, to see that the script runs")
    given = parser.parse_args()
    device = find_device("auto")
    half = torch.bfloat16
    size, dtype = (512, torch.float32) if given.tiny else (8192, half)
    pause = min(given.seconds, 3.0)
    peaks = {
        str(each).removeprefix("torch."): matrix_peak(device, each, size, pause) for each in {dtype, torch.float32}
    }
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    result = {"device": name, "torch": torch.__version__, "matrix_peak": peaks, "runs": []}
    print(json.dumps(result), flush=True)

    if device.type == "cuda" or given.tiny:
        result["kernels"] = checked_kernels(device, given.tiny)
    language, a5 = find("rotate-the-loop/language"), find("rotate-the-loop/a5")
    small = {"shrink": 16, "context": 32, "batch": 4, "parts": 1, "positions": 256, "precision": "float32"}
    large = {"batch": 32, "parts": 1, "context": 2048, "recompute": False, "positions": 65_536}
    narrow = {"width": 32, "heads": 2, "length": 8, "largest_steps": 4, "batch": 8, "words": 50}
    text = {"text": given.text, "lambada": False}
    sizes = small | {"entries": min(given.entries, 300)} if given.tiny else large | {"entries": given.entries}
    pairs = (
        ("60M", language, text | sizes, given.seconds, peaks["float32" if given.tiny else "bfloat16"]),
        ("A5", a5, narrow if given.tiny else {"words": 2000}, given.a5_seconds, peaks["float32"]),
    )
    for size, experiment, arguments, seconds, peak in pairs:
        wanted = {"transition": "diagonal", "groups": 1} | arguments
        # the two maps differ in no matrix product
        counted = forecast(experiment.build(**experiment.arguments(scale="paper", **wanted)))
        for transition, groups in (("diagonal", 1), ("conformal", 2)):
            wanted |= {"transition": transition, "groups": groups}
            study = experiment.build(**experiment.arguments(scale="paper", **wanted))
            limit = min(seconds, 5.0) if given.tiny else seconds
            result["runs"].append(timed(f"{size}, {transition}", study, counted, limit, device, peak))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "gpu.json").write_text(json.dumps(result, indent=1))
    print(f"written: {given.out / 'gpu.json'}")
    rows = result["kernels"]["recurrences"] if "kernels" in result else {}
    wrong = [name for name, row in rows.items() if row["right"] is False]
    if wrong:
        sys.exit(f"the kernels must agree with float64, got errors in: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
