"""RotRNN models as JSON holds them, without their weights."""

from functools import partial

from torsor.interop.family import Family, Form
from torsor.interop.reading import ReadingOn
from torsor.layers.rotrnn import RotRNNLayer
from torsor.layers.rotrnn_block import RotRNNBlock
from torsor.models.rotrnn import RotRNN


def rotrnn_form(model: RotRNN) -> Form:
    """The form of a RotRNN model.

    Raises:
        ValueError: when its blocks read both ways, or are of another layer.
    """
    blocks = [block for block in model.blocks if isinstance(block, RotRNNBlock)]
    layers = [block.recurrence for block in blocks if isinstance(block.recurrence, RotRNNLayer)]
    if len(layers) < len(blocks):
        raise ValueError("model must be of RotRNN layers that read one way to be exported, got others")
    return {
        "vocabulary": model.vocabulary,
        "width": layers[0].width,
        "heads": layers[0].rotation.heads,
        "layers": len(layers),
        "dim": model.dim,
        "classes": model.readout.out_features,
        "dropout": blocks[0].dropout.p,
    }


def rotrnn_from(form: Form) -> RotRNN:
    """The RotRNN model of a form.

    Raises:
        ValueError: when a size is refused.
    """
    return RotRNN(
        form["vocabulary"],
        form["width"],
        form["heads"],
        layers=form["layers"],
        dim=form["dim"],
        classes=form["classes"],
        block=partial(RotRNNBlock, dropout=form["dropout"]),
    )


ROTATIONS = Family("RotRNN", RotRNN, "torsor.interop.rotrnn_form.ROTATIONS", rotrnn_form, rotrnn_from, ReadingOn)
