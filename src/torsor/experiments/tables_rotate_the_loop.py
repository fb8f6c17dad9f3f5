"""The tables of Rotate the Loop, with the paper's numbers."""

from collections.abc import Mapping
from typing import Any

from torsor.experiments.experiment import Scale
from torsor.experiments.reading import DefectBySteps, PerplexityByDepth
from torsor.experiments.table import Published, Row, Table
from torsor.experiments.tuning import Tuning

_CONFORMAL_2 = {"transition": "conformal", "groups": 2}
_DIAGONAL = {"transition": "diagonal"}
_TIED_2 = {"transition": "tied", "groups": 2}
_EVERY_PLANE = "every plane its own group"

_DIAGONAL_A5 = {
    "T=16": Published(0.537, 0.098),
    "T=32": Published(0.692, 0.097),
    "T=48": Published(0.771, 0.079),
}
_CONFORMAL_2_A5 = {
    "T=16": Published(0.812, 0.058),
    "T=32": Published(0.894, 0.052),
    "T=48": Published(0.926, 0.040),
}
_DEPTHS = ("T=16", "T=32", "T=48")


def _conformal(groups: int) -> dict[str, Any]:
    return {"transition": "conformal", "groups": groups}


# The widths of the two scales decide how many planes there are, and so the last row's number of groups.
_LAPTOP: Mapping[str, Any] = {
    "length": 16,
    "width": 128,
    "smallest_steps": 1,
    "largest_steps": 8,
    "updates": 3000,
    "batch": 128,
}
_RATES = Tuning("learning_rate", (1e-3, 2e-3, 4e-3), share=0.5)
_SCALES: Mapping[Scale, Mapping[str, Any]] = {"laptop": _LAPTOP}

A5 = Table(
    "rotate-the-loop/a5",
    "A5 at three depths: diagonal against conformal; joint accuracy here, last-token in the paper.",
    "rotate-the-loop/a5",
    "a5",
    (
        Row("diagonal", _DIAGONAL, _DIAGONAL_A5),
        Row(
            "conformal, 1 group",
            _conformal(1),
            {"T=16": Published(0.628), "T=32": Published(0.746), "T=48": Published(0.795)},
        ),
        Row("conformal, 2 groups", _CONFORMAL_2, _CONFORMAL_2_A5),
    ),
    _DEPTHS,
    _SCALES,
    tuning=_RATES,
)

S5 = Table(
    "rotate-the-loop/s5",
    "S5, the harder group; joint accuracy here, last-token in the paper.",
    "rotate-the-loop/s5",
    "s5",
    (
        Row("diagonal", _DIAGONAL, {"T=32": Published(0.531, 0.092)}),
        Row("conformal, 2 groups", _CONFORMAL_2, {"T=32": Published(0.808, 0.054)}),
    ),
    _DEPTHS,
    _SCALES,
    tuning=_RATES,
)

GROUP_COUNT = Table(
    "rotate-the-loop/group-count",
    "A5: how many groups share a rate; joint accuracy here, last-token in the paper.",
    "rotate-the-loop/a5",
    "a5",
    (
        Row("diagonal", _DIAGONAL, {"T=32": Published(0.692, 0.097)}),
        Row("conformal, 1 group", _conformal(1), {"T=32": Published(0.746)}),
        Row("conformal, 2 groups", _CONFORMAL_2, {"T=32": Published(0.894, 0.052)}),
        Row("conformal, 4 groups", _conformal(4), {"T=32": Published(0.573)}),
        Row("conformal, 8 groups", _conformal(8), {"T=32": Published(0.614)}),
        Row(f"conformal, {_EVERY_PLANE}", {"transition": "untied"}, {"T=32": Published(0.741)}),
    ),
    _DEPTHS,
    _SCALES,
    tuning=_RATES,
)

ABLATION = Table(
    "rotate-the-loop/ablation",
    "A5: tying the rates without rotation, rotation without tying, both; joint accuracy here, last-token in the paper.",
    "rotate-the-loop/a5",
    "a5",
    (
        Row("neither (diagonal)", _DIAGONAL, {"T=32": Published(0.692, 0.097)}),
        Row("tied rates, no rotation", _TIED_2, {"T=32": Published(0.810, 0.036)}),
        Row("rotation, rates untied", {"transition": "untied"}, {"T=32": Published(0.741)}),
        Row("both (conformal, 2 groups)", _CONFORMAL_2, {"T=32": Published(0.894, 0.052)}),
    ),
    _DEPTHS,
    _SCALES,
    tuning=_RATES,
)

CHARTS = Table(
    "rotate-the-loop/charts",
    "A5 at half the depth: rotations, Householder, Cayley, diagonal; joint accuracy here, last-token in the paper.",
    "rotate-the-loop/a5",
    "a5-half-depth",
    (
        Row("diagonal", _DIAGONAL, {"T=16": Published(0.408, 0.061)}),
        Row("pairwise rotation", _conformal(1), {"T=16": Published(0.721, 0.042)}),
        Row("Householder, O(d)", {"transition": "householder", "groups": 1}, {"T=16": Published(0.552, 0.054)}),
        Row("Cayley, SO(d)", {"transition": "cayley", "groups": 1}, {"T=16": Published(0.274, 0.059)}),
    ),
    ("T=8", "T=16", "T=24"),
    {"laptop": {**_LAPTOP, "largest_steps": 4}, "paper": {"largest_steps": 16}},
    tuning=_RATES,
)


def _of_sizes(papers: Mapping[str, Mapping[str, Mapping[str, Published]]]) -> tuple[Row, ...]:
    """Diagonal and conformal at every size of the language models, with the paper's numbers."""
    rows = []
    for size, paper in papers.items():
        rows.append(Row(f"{size}, diagonal", {"size": size, **_DIAGONAL}, paper.get("diagonal", {})))
        rows.append(
            Row(f"{size}, conformal, 2 groups", {"size": size, **_CONFORMAL_2}, paper.get("conformal", {})),
        )
    return tuple(rows)


_LANGUAGE_RATES = Tuning("learning_rate", (4e-3, 8e-3, 1.6e-2), share=0.5)

LANGUAGE = Table(
    "rotate-the-loop/language",
    "Language models: perplexity by depth. The paper's diagonal numbers beyond 60M follow from its percentages.",
    "rotate-the-loop/language",
    "language",
    (
        *_of_sizes(
            {
                "60M": {
                    "diagonal": {
                        "T=1": Published(29.10),
                        **{f"T={steps}": Published(22.45) for steps in (8, 16, 32, 48)},
                    },
                    "conformal": {"T=1": Published(28.40), "T=48": Published(18.62)},
                },
                "140M": {"diagonal": {"T=48": Published(19.47)}, "conformal": {"T=48": Published(16.18)}},
                "370M": {"diagonal": {"T=48": Published(14.90)}, "conformal": {"T=48": Published(12.37)}},
            }
        ),
        Row("60M, conformal, 1 group", {"size": "60M", **_conformal(1)}),
        Row("60M, tied rates, 2 groups", {"size": "60M", **_TIED_2}),
    ),
    ("T=1", "T=4", "T=8", "T=16", "T=32", "T=48"),
    reading=PerplexityByDepth(),
    tuning=_LANGUAGE_RATES,
)

TOEPLITZ = Table(
    "rotate-the-loop/toeplitz",
    "Toeplitz defect of the language models' trained maps; the paper's conformal ones lie in 3.6e-16 to 5.4e-16.",
    "rotate-the-loop/language",
    "language",
    _of_sizes(
        {
            "60M": {"diagonal": {"T=8": Published(0.059, 0.011), "T=32": Published(0.283, 0.023)}},
            "140M": {},
            "370M": {"diagonal": {"T=8": Published(0.220, 0.047)}},
        }
    ),
    ("T=8", "T=16", "T=32"),
    reading=DefectBySteps((8, 16, 32)),
    tuning=_LANGUAGE_RATES,
)

TABLES = (A5, S5, GROUP_COUNT, ABLATION, CHARTS, TOEPLITZ, LANGUAGE)
