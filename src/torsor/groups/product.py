"""The direct product of finite groups, side by side on disjoint points."""

from math import prod

from torsor.groups.finite import FiniteGroup, require_order
from torsor.groups.permutation import generated_by, side_by_side
from torsor.groups.requirements import require_finite_group


def direct_product(*factors: FiniteGroup) -> FiniteGroup:
    r"""The group :math:`G \times H \times \cdots` of tuples, multiplied factor by factor.

    The points of the first factor come first, then those of the second, and so on. The index of
    :math:`(g, h)` is therefore :math:`g |H| + h`, and that of a longer tuple is its value as digits
    of mixed radix. The generators are those of the first factor, then those of the second, ...

    Args:
        factors: one or more groups; the product of their orders is at most 10,000.

    Raises:
        ValueError: when there is no factor, or one is no finite group.

    Example:
        >>> from torsor.groups import cyclic, symmetric
        >>> direct_product(symmetric(3), cyclic(2)).name
        'S3xC2'
    """
    if not factors:
        raise ValueError("factors must be one or more groups, got none")
    for factor in factors:
        require_finite_group(factor)
    name = "x".join(factor.name for factor in factors)
    require_order(prod(factor.order for factor in factors), name)
    identities = [range(factor.degree) for factor in factors]
    generators = [
        side_by_side(*identities[:place], factor.permutations[x].tolist(), *identities[place + 1 :])
        for place, factor in enumerate(factors)
        for x in factor.generators
    ]
    return generated_by(generators, name)
