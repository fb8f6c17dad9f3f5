"""The attention baseline as JSON holds it, without its weights."""

from torsor.interop.family import Family, Form, name_of, named
from torsor.interop.reading import ReadingBack
from torsor.layers.layer_norm_block import LayerNormBlock, PostNormBlock, PreNormBlock
from torsor.models.transformer import Transformer

BLOCKS: dict[str, type[LayerNormBlock]] = {"norm before": PreNormBlock, "norm after": PostNormBlock}


def transformer_form(model: Transformer) -> Form:
    """The form of a transformer.

    Raises:
        ValueError: when its blocks are not the package's own.
    """
    blocks = [block for block in model.blocks if isinstance(block, LayerNormBlock)]
    return {
        "vocabulary": model.vocabulary,
        "width": model.width,
        "layers": len(model.blocks),
        "heads": blocks[0].attention.heads,
        "block": name_of("block", BLOCKS, type(blocks[0])),
    }


def transformer_from(form: Form) -> Transformer:
    """The transformer of a form.

    Raises:
        ValueError: when its block is not known, or a size is refused.
    """
    block = named("block", BLOCKS, form["block"])
    return Transformer(form["vocabulary"], form["width"], form["layers"], form["heads"], block=block)


ATTENTION = Family(
    "transformer",
    Transformer,
    "torsor.interop.transformer_form.ATTENTION",
    transformer_form,
    transformer_from,
    ReadingBack,
)
