"""The tables of M²RNN and RotRNN, with the papers' numbers where we know them."""

from torsor.experiments.reading import BitsPerCharacter
from torsor.experiments.recurrent_readings import AccuracyByLength, ListOpsAccuracy
from torsor.experiments.table import Published, Row, Table
from torsor.experiments.tuning import Tuning

_SHORT = ("128", "256", "512")
_SOLVED = {length: Published(0.995) for length in _SHORT}  # printed as "at least"


S3 = Table(
    "recurrent/s3",
    "S3, learned at length 128, some 30,000 parameters each. The paper's numbers are lower bounds: at least 0.995.",
    "recurrent/s3",
    "recurrent-s3",
    (
        Row("M²RNN", {"model": "m2rnn", "width": 32}, _SOLVED),
        Row("GRU", {"model": "gru", "width": 96}, _SOLVED),
        Row("LSTM", {"model": "lstm", "width": 82}),
        Row("RotRNN", {"model": "rotrnn", "width": 48, "layers": 4, "heads": 12}),
        Row("OSM-RNN on O(18)", {"model": "group-rnn", "width": 18}),
    ),
    (*_SHORT, "65,536 streamed"),
    reading=AccuracyByLength(),
    # no share: a trial that ends before M²RNN leaves its plateau tells nothing
    tuning=Tuning("learning_rate", (2e-3, 5e-3, 1e-2)),
)

LIST_OPS = Table(
    "recurrent/list-ops",
    "ListOps: RotRNN against the same model without rotation. The paper's own number is not known to us.",
    "recurrent/list-ops",
    "list-ops",
    (
        Row("RotRNN", {"model": "rotrnn"}),
        Row("linear recurrence without rotation", {"model": "decay"}),
    ),
    ("validation", "test"),
    reading=ListOpsAccuracy(),
    tuning=Tuning("learning_rate", (1e-3, 3e-3, 1e-2), share=0.5),
)

TINY_SHAKESPEARE = Table(
    "recurrent/tiny-shakespeare",
    "Tiny Shakespeare, recurrent, some 100,000 parameters, bits per character. No paper has these numbers.",
    "recurrent/tiny-shakespeare",
    "recurrent-tiny-shakespeare",
    (
        Row("M²RNN", {"model": "m2rnn", "width": 64}),
        Row("RotRNN", {"model": "rotrnn", "width": 96, "layers": 3, "heads": 24}),
        Row("OSM-RNN (linear mixing)", {"model": "group-rnn-from-token", "width": 20}),
        Row("LSTM", {"model": "lstm", "width": 122}),
    ),
    ("validation", "test"),
    reading=BitsPerCharacter(),
    tuning=Tuning("learning_rate", (5e-3, 1e-2, 2e-2, 5e-2), share=1 / 3),
)

TABLES = (S3, LIST_OPS, TINY_SHAKESPEARE)
