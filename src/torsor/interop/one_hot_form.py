"""The recurrent baselines over one-hot tokens as JSON holds them, without their weights."""

from torsor.interop.family import Family, Form
from torsor.interop.reading import ReadingOn
from torsor.models.gru import GRU
from torsor.models.lstm import LSTM
from torsor.models.one_hot_recurrent import OneHotRecurrent
from torsor.models.tanh_rnn import TanhRNN


def one_hot_form(model: OneHotRecurrent) -> Form:
    """The form of a recurrent baseline."""
    return {"vocabulary": model.vocabulary, "hidden": model.hidden, "classes": model.readout.out_features}


def _family(name: str, constant: str, kind: type[LSTM] | type[GRU] | type[TanhRNN]) -> Family:
    def build(form: Form) -> OneHotRecurrent:
        return kind(form["vocabulary"], form["hidden"], classes=form["classes"])

    return Family(name, kind, f"torsor.interop.one_hot_form.{constant}", one_hot_form, build, ReadingOn)


LONG_MEMORY = _family("LSTM", "LONG_MEMORY", LSTM)
GATED = _family("GRU", "GATED", GRU)
PLAIN = _family("tanh RNN", "PLAIN", TanhRNN)
