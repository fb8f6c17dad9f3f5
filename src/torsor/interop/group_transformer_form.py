"""Group transformers as JSON holds them, without their weights."""

from functools import partial

from torsor.interop.family import Family, Form, name_of, named
from torsor.interop.group_form import group_form, group_from
from torsor.interop.reading import ReadingBack
from torsor.layers.group_block import BlockKind
from torsor.layers.parallel_block import ParallelBlock
from torsor.layers.serial_block import SerialBlock
from torsor.layers.tangent import TangentSource, own_tangent, token_tangent
from torsor.layers.tangent_network_block import TangentNetworkBlock
from torsor.layers.two_head_block import TwoHeadBlock
from torsor.layers.two_tangent_block import TwoTangentBlock
from torsor.models.group_transformer import GroupTransformer

TWO_TANGENTS = {"serial": SerialBlock, "parallel": ParallelBlock, "tangent network": TangentNetworkBlock}
TANGENTS: dict[str, TangentSource] = {"own": own_tangent, "token": token_tangent}


def group_transformer_form(model: GroupTransformer) -> Form:
    """The form of a group transformer.

    Raises:
        ValueError: when its group, mixing or blocks are not the package's own.
    """
    block = model.blocks[0]
    form = {"vocabulary": model.vocabulary, "layers": len(model.blocks)}
    if isinstance(block, TwoHeadBlock):
        return form | group_form(model.group, block.mixing) | {"block": "two heads"}
    if not isinstance(block, TwoTangentBlock):
        raise ValueError(f"block must be the package's own to be exported, got {type(block).__name__}")
    return (
        form
        | group_form(model.group, block.mixing)
        | {
            "block": name_of("block", TWO_TANGENTS, type(block)),
            "tangent": name_of("position_tangent", TANGENTS, block.position_tangent),
        }
    )


def group_transformer_from(form: Form) -> GroupTransformer:
    """The group transformer of a form.

    Raises:
        ValueError: when a part is not known, or a size is refused.
    """
    group, mixing = group_from(form)
    block: BlockKind = TwoHeadBlock
    if form["block"] != "two heads":
        tangent = named("tangent", TANGENTS, form["tangent"])
        block = partial(named("block", TWO_TANGENTS, form["block"]), position_tangent=tangent)
    return GroupTransformer(group, form["vocabulary"], form["layers"], mixing, block=block)


GROUP_ATTENTION = Family(
    "group transformer",
    GroupTransformer,
    "torsor.interop.group_transformer_form.GROUP_ATTENTION",
    group_transformer_form,
    group_transformer_from,
    ReadingBack,
)
