"""The tables of Subgroups of U(d), with the paper's numbers."""

from torsor.experiments.reading import BitsPerCharacter
from torsor.experiments.table import Published, Row, Table
from torsor.experiments.tuning import Tuning

_COLUMNS = ("validation", "test")
_RATES = Tuning("learning_rate", (2e-3, 5e-3, 1e-2, 2e-2), share=1 / 3)


def _bits(validation: float, test: float) -> dict[str, Published]:
    return {"validation": Published(validation), "test": Published(test)}


def _pair(
    name: str, summary: str, experiment: str, osm: tuple[str, int, float, float], base: tuple[str, int, float, float]
) -> Table:
    """A baseline and the group model that its parameters are matched with: kind, width, validation, test."""
    titles = {
        "transformer": "Transformer (ALiBi, 2L1H)",
        "group-transformer": "OSMFormer (linear mixing)",
        "lstm": "LSTM",
        "group-rnn": "OSM-RNN (linear mixing)",
    }
    rows = tuple(
        Row(titles[kind], {"model": kind, "width": width}, _bits(validation, test))
        for kind, width, validation, test in (base, osm)
    )
    return Table(
        name,
        summary,
        experiment,
        experiment.partition("/")[2],
        rows,
        _COLUMNS,
        reading=BitsPerCharacter(),
        tuning=_RATES,
    )


TABLES = (
    _pair(
        "subgroups/tiny-shakespeare-100k",
        "Table 2: Tiny Shakespeare, some 100,000 parameters, bits per character.",
        "subgroups/tiny-shakespeare-100k",
        ("group-transformer", 16, 2.254, 2.464),
        ("transformer", 76, 2.259, 2.583),
    ),
    _pair(
        "subgroups/penn-treebank-100k",
        "Table 3: Penn Treebank, some 100,000 parameters, bits per character.",
        "subgroups/penn-treebank-100k",
        ("group-transformer", 17, 1.665, 1.614),
        ("transformer", 76, 1.716, 1.664),
    ),
    _pair(
        "subgroups/tiny-shakespeare-recurrent",
        "Table 4: Tiny Shakespeare, recurrent, some 52,000 parameters, bits per character.",
        "subgroups/tiny-shakespeare-recurrent",
        ("group-rnn", 16, 2.366, 2.539),
        ("lstm", 80, 2.407, 2.594),
    ),
)
