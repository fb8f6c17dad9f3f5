"""M²RNN models as JSON holds them, without their weights."""

from dataclasses import asdict

from torsor.interop.family import Family, Form
from torsor.interop.reading import ReadingOn
from torsor.layers.m2rnn import M2RNNLayer
from torsor.layers.matrix_heads import MatrixHeads
from torsor.layers.sequence_block import SequenceBlock
from torsor.models.layered import LayeredModel
from torsor.models.m2rnn import M2RNN


def layered_form(model: LayeredModel) -> Form:
    """What models of a list of layers have in common."""
    return {
        "vocabulary": model.vocabulary,
        "classes": model.classes,
        "hidden": blocks_of(model)[0].feedforward.down.in_features,
    }


def blocks_of(model: LayeredModel) -> list[SequenceBlock]:
    """The blocks, in order."""
    return [block for block in model.blocks if isinstance(block, SequenceBlock)]


def m2rnn_form(model: M2RNN) -> Form:
    """The form of an M²RNN model."""
    layers = [block.mixer for block in blocks_of(model)]
    (heads,) = {layer.heads for layer in layers if isinstance(layer, M2RNNLayer)}
    return layered_form(model) | {"width": model.width, "layers": len(layers), "heads": asdict(heads)}


def m2rnn_from(form: Form) -> M2RNN:
    """The M²RNN model of a form.

    Raises:
        ValueError: when a size is refused.
    """
    return M2RNN(
        form["vocabulary"],
        form["width"],
        form["layers"],
        MatrixHeads(**form["heads"]),
        classes=form["classes"],
        hidden=form["hidden"],
    )


MATRICES = Family("M2RNN", M2RNN, "torsor.interop.m2rnn_form.MATRICES", m2rnn_form, m2rnn_from, ReadingOn)
