"""``torsor plan``: what a run would take, counted on the model itself before anything is started."""

import inspect
import json
from typing import Any

from cyclopts import App

from torsor.cli.experiment_command import experiments_app
from torsor.cli.patience import shown_waiting
from torsor.cli.tables import JsonFlag
from torsor.cli.whole import Whole
from torsor.experiments.experiment import Experiment, Scale


def _common(
    *,
    scale: Scale = "paper",
    gpu: str = "h100",
    gpus: Whole = 1,
    as_json: JsonFlag = False,
) -> None:
    """Options of every experiment.

    Args:
        scale: size of the run: for a laptop, or the paper's.
        gpu: accelerator whose data sheet the time is reckoned by: a100, h100, h200 or b200.
        gpus: how many of them.
        as_json: print JSON for programs.
    """


def _plan(experiment: Experiment, given: dict[str, Any]) -> None:
    from torsor.experiments.accelerators import find_accelerator

    common = {name: given.pop(name, p.default) for name, p in inspect.signature(_common).parameters.items()}
    accelerator = find_accelerator(common["gpu"])
    if common["gpus"] < 1:
        raise ValueError(f"gpus must be at least 1, got {common['gpus']}")
    arguments = experiment.arguments(scale=common["scale"], **given)
    from torsor.experiments.forecast import SHARE_OF_PEAK, forecast

    if arguments.get("text") == "":
        # a language model's sizes depend neither on what it reads nor on what it is scored with
        arguments |= {"text": "made", "lambada": False}
    with shown_waiting(f"counting {experiment.name}"):
        study = experiment.build(**arguments)
        whole = forecast(study)
    batch = -(-study.plan.batch // common["gpus"])
    seconds = whole.seconds(accelerator, common["gpus"])
    kept = whole.kept_bytes * batch / study.plan.batch
    held = whole.weight_bytes + whole.gradient_bytes + whole.optimizer_bytes + kept
    content = whole.to_json() | {
        "scale": common["scale"],
        "gpu": accelerator.name,
        "gpus": common["gpus"],
        "share_of_peak": SHARE_OF_PEAK,
        "products_in": "float32" if study.engine.autocast is None else "bfloat16",
        "seconds": seconds,
        "bytes_per_gpu": held,
        "fits": held < accelerator.memory,
    }
    if common["as_json"]:
        print(json.dumps(content))
        return
    size = "the paper's size" if common["scale"] == "paper" else "a laptop's size, train's own"
    print(f"{experiment.name}, {study.label}: {size} (--scale {common['scale']})")
    for name, value in _lines(content):
        print(f"  {name:<28}{value}")
    fits = "fits in" if content["fits"] else "DOES NOT FIT IN"
    print(f"\n{held / 1e9:.2f} GB on each {fits} {accelerator.memory / 1e9:.0f} GB, without what lives for a moment.")
    print(f"The time assumes {SHARE_OF_PEAK:.0%} of the data sheet's bfloat16 peak; only matrix products are counted.")
    if content["products_in"] == "float32":
        print("This run's products are in float32, for which a GPU has a lower peak: it will take longer than that.")


def _lines(content: dict[str, Any]) -> list[tuple[str, str]]:
    size = content["bytes"]
    return [
        ("parameters", f"{content['parameters']:,}"),
        ("updates", f"{content['updates']:,}"),
        ("tokens", f"{content['tokens']:,} ({content['tokens_per_update']:,} an update)"),
        ("operations per token", f"{content['operations_per_token']:.3e} (forward and backward)"),
        ("operations", f"{content['operations_per_update'] * content['updates']:.3e}"),
        ("weights", f"{size['weights'] / 1e9:.3f} GB"),
        ("gradients", f"{size['gradients'] / 1e9:.3f} GB"),
        ("optimizer", f"{size['optimizer'] / 1e9:.3f} GB"),
        ("kept for the backward pass", f"{size['kept_for_backward'] / 1e9:.3f} GB"),
        (f"on {content['gpus']} x {content['gpu']}", f"{content['seconds'] / 3600:.2f} hours"),
    ]


app: App = experiments_app(
    "plan", "Print parameters, operations, memory and time of an experiment's run; start nothing.", _plan, _common
)
