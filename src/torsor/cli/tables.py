"""The tables that commands print, from the files of run folders."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from torsor.cli.consoles import wide_console
from torsor.experiments.reading import description, evaluation

JsonFlag = Annotated[bool, Parameter(name="--json", negative=())]


def print_scores(runs: Sequence[Path]) -> None:
    """What finished runs of one experiment were scored with.

    Args:
        runs: finished run folders.
    """
    content = evaluation(runs[0])
    if "depths" in content:
        _print_accuracies(runs)
    elif "perplexity_by_depth" in content:
        _print_perplexities(runs)
    elif "lengths" in content:
        _print_lengths(runs)
    elif "expressions" in content:
        _print_expressions(runs)
    else:
        _print_bits(runs)


def _print_perplexities(runs: Sequence[Path]) -> None:
    """Perplexity and LAMBADA of each run at every depth it was scored at."""
    table = Table("run", "loops", "perplexity", "bits per byte", "labels", "LAMBADA", "95 %", box=None, pad_edge=False)
    content = {}
    for run in runs:
        content = evaluation(run)
        last = {each["steps"]: each for each in content["lambada_by_depth"]}
        name = label(run)
        for depth in content["perplexity_by_depth"]:
            steps, bits, perplexity = depth["steps"], depth["bits_per_byte"], depth["perplexity"]
            words = last.get(steps)
            table.add_row(
                name,
                f"{steps}{'*' if steps == content['trained_steps'] else ''}",
                "infinite" if perplexity is None else f"{perplexity:.3f}",
                "" if bits is None else f"{bits:.4f}",
                f"{depth['labels']:,}",
                "" if words is None else f"{words['accuracy']:.4f}",
                "" if words is None else "-".join(f"{end:.3f}" for end in words["interval"]),
            )
            name = ""
    console = wide_console()
    console.print(table)
    console.print(f"* the mean depth of training; {content['perplexity_by_depth'][0]['definition']}", soft_wrap=True)
    if content["lambada_by_depth"]:
        console.print(content["lambada_by_depth"][0]["definition"], soft_wrap=True)
    console.print(f"text: {', '.join(f'{k} {v}' for k, v in content['text'].items())}", soft_wrap=True)


def _print_bits(runs: Sequence[Path]) -> None:
    """Bits per character of each run on validation and test text."""
    table = Table("run", "parameters", "text", "bits per character", "characters", box=None, pad_edge=False)
    for run in runs:
        content = evaluation(run)
        name, parameters = label(run), _parameters(run)
        for part in ("validation", "test"):
            if part in content:
                scored = content[part]
                bits, count = f"{scored['bits_per_character']:.4f}", f"{scored['characters']:,}"
                table.add_row(name, parameters, part, bits, count)
                name = parameters = ""
    console = wide_console()
    console.print(table)
    text = evaluation(runs[0])["text"]
    console.print(f"{text['name']}, split {text['split']}, sha256 {text['sha256']}", soft_wrap=True)


def _print_accuracies(runs: Sequence[Path]) -> None:
    """Accuracies of each run at every depth it was scored at, the joint one with its interval over words."""
    table = Table("run", "loops", "joint", "95 %", "last", "token", "cond. (of)", box=None, pad_edge=False)
    for run in runs:
        content = evaluation(run)
        name = label(run)
        for depth in content["depths"]:
            low, high = depth["joint_interval"]
            conditional = depth["conditional"]
            trained = "*" if depth["steps"] == content["trained_steps"] else ""
            table.add_row(
                name,
                f"{depth['steps']}{trained}",
                f"{depth['joint']:.3f}",
                f"{low:.2f}-{high:.2f}",
                f"{depth['last']:.3f}",
                f"{depth['token']:.3f}",
                "none" if conditional is None else f"{conditional:.3f} ({depth['conditional_count']})",
            )
            name = ""
    console = wide_console()
    console.print(table)
    console.print("* the trained depth; joint: every position right; 95 %: of joint, over words (Clopper-Pearson)")


def _print_lengths(runs: Sequence[Path]) -> None:
    """Accuracies of each run at every length, and of its streamed words."""
    table = Table(
        "run", "parameters", "letters", "accuracy", "last", "joint", "95 %", "words", box=None, pad_edge=False
    )
    for run in runs:
        content = evaluation(run)
        name, parameters = label(run), _parameters(run)
        for scores in (*content["lengths"], *([content["stream"]] if "stream" in content else [])):
            low, high = scores["joint_interval"]
            table.add_row(
                name,
                parameters,
                f"{scores['length']:,}{' streamed' if scores is content.get('stream') else ''}",
                f"{scores['token']:.4f}",
                f"{scores['last']:.3f}",
                f"{scores['joint']:.3f}",
                f"{low:.2f}-{high:.2f}",
                f"{scores['words']:,}",
            )
            name = parameters = ""
    console = wide_console()
    console.print(table)
    console.print(
        "accuracy: over all positions; joint: every position right; 95 %: of joint, over words (Clopper-Pearson)"
    )
    for run in runs:
        closure = evaluation(run).get("closure")
        if closure is not None:
            tried = f"{closure['states']:,} states, {closure['transitions']:,} transitions tried"
            console.print(f"{label(run)}, words of every length: {closure['verdict']} ({tried})", soft_wrap=True)


def _print_expressions(runs: Sequence[Path]) -> None:
    """Accuracies of each run on expressions for validation and test, and what the controls give there."""
    heads = ("run", "parameters", "expressions", "accuracy", "95 %", "balanced", "first operator", "commonest")
    table = Table(*heads, box=None, pad_edge=False)
    for run in runs:
        name, parameters = label(run), _parameters(run)
        for part, scores in evaluation(run)["expressions"].items():
            numbers = (f"{scores[key]:.3f}" for key in ("balanced", "first_operator", "commonest"))
            interval = "-".join(f"{end:.3f}" for end in scores["interval"])
            table.add_row(name, parameters, part, f"{scores['accuracy']:.3f}", interval, *numbers)
            name = parameters = ""
    console = wide_console()
    console.print(table)
    console.print(
        "95 %: over expressions (Clopper-Pearson); first operator, commonest: the best fixed answers, without reading"
    )


def print_geometry(runs: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Defects of each run's transition over own blocks and whole vector, and the formulas they follow.

    Args:
        runs: a label and the content of ``geometry.json`` for each.
    """
    table = Table("transition", "defect", "own blocks", "whole vector", box=None, pad_edge=False)
    for name, content in runs:
        readability, toeplitz = content["readability"], content["toeplitz"]
        table.add_row(name, "readability", f"{readability['own']:.1e}", f"{readability['whole']:.1e}")
        table.add_row("", "Toeplitz", *(_spread(toeplitz[scope]) for scope in ("own", "whole")))
    console = wide_console()
    console.print(table)
    content = runs[0][1]
    console.print(f"\nreadability: {content['readability']['formula']}", highlight=False)
    console.print(f"Toeplitz: {content['toeplitz']['formula']}", highlight=False)


def label(run: Path) -> str:
    """The run's row name and its seed."""
    described = description(run)
    return f"{described.about['label']}, seed {described.seed}"


def _parameters(run: Path) -> str:
    return f"{description(run).about['parameters']:,}"


def _spread(number: dict[str, float]) -> str:
    return f"{number['mean']:.1e} ± {number['std']:.1e}"
