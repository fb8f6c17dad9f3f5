"""THE table of tolerances: how far a number may be from what it should be, and why no closer.

``docs/tolerances.md`` shows it, and a test holds the two together. A test that needs another bound says so where it
stands. No switch loosens any of these.
"""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        what: what is compared with what.
        kind: the type of its numbers.
        bound: a number, or a formula in words where it depends on what is compared.
        relative: to what; empty where the bound is 0.
        reason: why it is not smaller.
    """

    what: str
    kind: str
    bound: float | str
    relative: str
    reason: str

    @property
    def shown(self) -> str:
        """As a line of Markdown."""
        bound = f"{self.bound:.0e}".replace("e-0", "e-") if isinstance(self.bound, float) else self.bound
        return f"| {self.what} | {self.kind} | {bound} | {self.relative} | {self.reason} |"


SIZE = "the size of what is compared"
LARGEST = "the largest gradient of the parameter"

FLOAT64 = Row(
    "two ways to one number, and the laws that are such",
    "float64",
    1e-12,
    SIZE,
    "some thousand roundings of 1.1e-16 in sums of a few hundred terms",
)
FLOAT32 = Row(FLOAT64.what, "float32", 1e-5, SIZE, "the same number of roundings of 6e-8")
ISLANDS = Row(
    "maps, transitions, groups, linear scans and group models under bfloat16 autocast, and the same without",
    "float32",
    "0",
    "",
    "states, rates and group arithmetic do not take part in autocast: half precision would leave the group",
)
AUTOCAST = Row(
    "layers and models under bfloat16 autocast, and the laws that are equalities",
    "bfloat16",
    0.05,
    SIZE,
    "matrix products of 8 bits: a rounding is 4e-3, and a dozen follow one another in these small models",
)
GRADIENTS = tuple(
    Row("gradients of the same", kind, bound, LARGEST, reason)
    for kind, bound, reason in (
        ("float64", 1e-11, "sums over a batch of terms that cancel, on numbers that were rounded on the way there"),
        ("float32", 1e-4, "the same"),
        ("bfloat16", 0.1, "the same; under autocast the way back rounds as often as the way there"),
    )
)
STRETCHED = Row(
    "outputs of M²RNN layers, started large, under bfloat16 autocast",
    "bfloat16",
    0.2,
    SIZE,
    "a free matrix inside a tanh stretches at every token what was rounded before it; gradients are finite, no more",
)
THREADS = Row(
    "gradients at one number of threads and at another; losses within the bound of two ways",
    "float32",
    1e-4,
    LARGEST,
    "sums are split elsewhere, and a rate's is over the whole batch; training multiplies it: compare at equal threads",
)
DRIFT = Row(
    "a state on a group after any number of products, polished",
    "float32",
    1e-4,
    "1",
    "looked at every 256 products and polished beyond 5e-5; without a polish it is off by 1.4e-3 after 100,000",
)

TABLE = (
    FLOAT64,
    FLOAT32,
    ISLANDS,
    AUTOCAST,
    STRETCHED,
    *GRADIENTS,
    Row(
        "a run and the same run resumed",
        "any",
        "0",
        "",
        "batches are functions of the update's number, and nothing is left of a generator",
    ),
    Row(
        "metrics, weights and scores at one number of threads",
        "any",
        "0",
        "",
        "one order of summation; `torsor table --verify` compares to the last digit",
    ),
    THREADS,
    Row(
        "a batch in parts and in one",
        "as its type",
        "that of the type",
        "the gradient's size",
        "the order of a sum, and nothing else",
    ),
    Row(
        "orthogonality of a chart",
        "float64",
        "1e-13 times the width, at least 8",
        "1",
        "a product of matrices of this width",
    ),
    Row(
        "the scale of a group, `e^-t`",
        "any",
        "16 roundings times `1 + t`",
        "the scale",
        "the error of `t` is multiplied by `t`: at 1e-38, where `t` is 87, by 87",
    ),
    Row(
        "a scale close to 1",
        "float32",
        "1 - 6e-8 is the largest below 1",
        "",
        "beyond it the map does not contract, in float32; see `Contraction`",
    ),
    Row(
        "an angle",
        "any",
        "16 roundings",
        "the vector",
        "sine and cosine of the rounded angle, however large: of 1e6 in float32 the angle itself is known to 0.06",
    ),
    Row(
        "a map applied `n` times and its power", "float64", "1e-14 times `n + 8`", "the state", "each step rounds once"
    ),
    DRIFT,
    Row("words in a finite group", "", "0", "", "tables of integers; states that are snapped to the group stay on it"),
)

HEAD = "| what is compared | type | bound | relative to | reason |\n| --- | --- | --- | --- | --- |\n"


def markdown() -> str:
    """The table as the page shows it."""
    return HEAD + "".join(f"{row.shown}\n" for row in TABLE)
