"""The page about an exported model: what it is, how it is loaded, and the numbers of its run."""

import json
from collections.abc import Mapping
from typing import Any

IMPORT = "import torsor.interop.hugging_face  # teaches the Auto classes\n"
LONGEST = 20  # numbers of a curve that is shown; longer ones are left to the run's own files


def model_card(
    title: str,
    auto: str,
    *,
    self_contained: bool,
    about: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
) -> str:
    """A model card in Markdown.

    Args:
        title: of the page.
        auto: the Auto class that loads the model.
        self_contained: whether its code lies beside it.
        about: what is known of the run, by name.
        scores: what the run's examination found, as JSON holds it.
    """
    trust = ", trust_remote_code=True" if self_contained else ""
    lines = [
        "---",
        "library_name: transformers",
        "tags: [torsor]",
        "---",
        f"# {title}",
        "",
        "A model of [torsor], whose state is carried by structured, norm-preserving maps.",
        "",
        "```python",
        *(() if self_contained else (IMPORT.rstrip(),)),
        f"from transformers import {auto}",
        "",
        f'model = {auto}.from_pretrained("."{trust})',
        "```",
        "",
        "Tokens under a zero of the attention mask are never read, on whichever side they stand.",
    ]
    if about:
        lines += ["", "## The run", "", *_table({"": list(about), "value": list(about.values())})]
    if scores:
        lines += ["", "## Scores", "", *_sections(scores)]
    return "\n".join([*lines, "", "[torsor]: https://pypi.org/project/torsor/", ""])


def _sections(scores: Mapping[str, Any]) -> list[str]:
    plain = {name: value for name, value in scores.items() if not isinstance(value, Mapping | list)}
    lines = _table({"": list(plain), "value": list(plain.values())}) if plain else []
    for name, value in scores.items():
        rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else [value]
        if name not in plain and rows and all(isinstance(row, Mapping) for row in rows):
            columns = {key: [row.get(key) for row in rows] for key in rows[0]}
            lines += ["", f"### {name}", "", *_table(columns)]
    return lines


def _table(columns: Mapping[str, list[Any]]) -> list[str]:
    shown = {name: values for name, values in columns.items() if not any(_is_long(value) for value in values)}
    rows = zip(*shown.values(), strict=True)
    return [
        f"| {' | '.join(shown)} |",
        f"|{' --- |' * len(shown)}",
        *(f"| {' | '.join(map(_cell, row))} |" for row in rows),
    ]


def _is_long(value: Any) -> bool:
    return isinstance(value, list) and len(value) > LONGEST


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("|", "\\|").replace("\n", " ")
