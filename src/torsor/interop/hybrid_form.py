"""Models of layers of several kinds as JSON holds them, without their weights."""

from dataclasses import asdict

from torsor.interop.family import Family, Form
from torsor.interop.m2rnn_form import blocks_of, layered_form
from torsor.interop.reading import ReadingOn
from torsor.layers.cached_attention import CachedAttention
from torsor.layers.delta_product import DeltaProductLayer
from torsor.layers.lstm_layer import LSTMLayer
from torsor.layers.m2rnn import M2RNNLayer
from torsor.layers.matrix_heads import MatrixHeads
from torsor.layers.rotrnn import RotRNNLayer
from torsor.layers.sequence_layer import SequenceLayer
from torsor.models.hybrid import Hybrid

KINDS = "M2RNN, attention, LSTM, RotRNN, DeltaProduct"


def layer_form(layer: SequenceLayer) -> Form:
    """What a layer is made from; its parameters are stored beside it.

    Raises:
        ValueError: when it is of a kind that the form has no name for.
    """
    match layer:
        case M2RNNLayer():
            return {
                "kind": "M2RNN",
                "width": layer.width,
                "heads": asdict(layer.heads),
                "kernel": layer.convolution.kernel,
                "gradient_clip": layer.gradient_clip,
                "clip_mode": layer.clip_mode,
            }
        case CachedAttention():
            return {"kind": "attention", "width": layer.width, "heads": layer.heads}
        case LSTMLayer():
            return {"kind": "LSTM", "width": layer.width}
        case RotRNNLayer():
            rotation = layer.rotation
            return {"kind": "RotRNN", "width": layer.width, "dim": rotation.dim, "heads": rotation.heads}
        case DeltaProductLayer():
            sizes = {"heads": layer.heads, "key_dim": layer.key_dim, "value_dim": layer.value_dim, "maps": layer.maps}
            return {"kind": "DeltaProduct", "width": layer.width, "sizes": sizes}
    raise ValueError(f"layers must be of {KINDS} to be exported, got {type(layer).__name__}")


def layer_from(form: Form) -> SequenceLayer:
    """The layer of a form, at its initial values.

    Raises:
        ValueError: when the form names what is not known, or a size is refused.
    """
    match form["kind"]:
        case "M2RNN":
            heads = MatrixHeads(**form["heads"])
            return M2RNNLayer(form["width"], heads, form["kernel"], form["gradient_clip"], form["clip_mode"])
        case "attention":
            return CachedAttention(form["width"], form["heads"])
        case "LSTM":
            return LSTMLayer(form["width"])
        case "RotRNN":
            return RotRNNLayer(form["width"], form["dim"], form["heads"])
        case "DeltaProduct":
            return DeltaProductLayer(form["width"], **form["sizes"])
        case kind:
            raise ValueError(f"kind of layer must be one of {KINDS}, got {kind!r}")


def hybrid_form(model: Hybrid) -> Form:
    """The form of a model of several kinds of layers.

    Raises:
        ValueError: when a layer is of a kind that the form has no name for.
    """
    return layered_form(model) | {"layers": [layer_form(block.mixer) for block in blocks_of(model)]}


def hybrid_from(form: Form) -> Hybrid:
    """The model of a form.

    Raises:
        ValueError: when a layer is not known, or a size is refused.
    """
    layers = [layer_from(each) for each in form["layers"]]
    return Hybrid(form["vocabulary"], layers, classes=form["classes"], hidden=form["hidden"])


MIXED = Family("hybrid", Hybrid, "torsor.interop.hybrid_form.MIXED", hybrid_form, hybrid_from, ReadingOn)
