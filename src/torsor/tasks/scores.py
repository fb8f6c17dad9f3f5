"""How well words are tracked: joint, last, conditional and token accuracy, and the curve over positions."""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from torsor.tasks.base import IGNORED
from torsor.tasks.proportion import Proportion


@final
@dataclass(frozen=True)
class Scores:
    r"""Accuracies of words of one length, with the counts they rest on.

    With :math:`\mathrm{ok}_t` for "the answer at position :math:`t` is right",
    :math:`t = 1, \dots, n`, and means taken over words:

    * ``curve``: :math:`C(k) = \mathrm{mean}(\prod_{t \le k} \mathrm{ok}_t)`, the first ``k`` all right;
    * ``joint``: :math:`C(n)`, the whole word right: the headline number;
    * ``last``: :math:`\mathrm{mean}(\mathrm{ok}_n)`, whatever came before;
    * ``conditional``: :math:`\sum \prod_{t \le n} \mathrm{ok}_t / \sum \prod_{t < n} \mathrm{ok}_t`,
      the last right among words that are right before it. Its ``trials`` are the count of these
      words; where there is none it does not exist and is None, never NaN or 0;
    * ``position``: :math:`\mathrm{mean}(\mathrm{ok}_k)` for each :math:`k`;
    * ``token``: the mean of :math:`\mathrm{ok}_t` over words and positions. The answers within one
      word depend on each other, so it is a number without an interval;
    * ``mean_first_error``: the mean of the first position with a wrong answer, counted as
      :math:`n + 1` for a word without one; it equals :math:`1 + \sum_k C(k)`.

    Scores are counts, and add: ``a + b`` are the scores of all words of both. Words are independent,
    so ``joint``, ``last`` and ``conditional`` have Clopper-Pearson intervals.

    Args:
        words: number of words, at least 1.
        right: for each position, how many words are right there.
        unbroken: for each position, how many are right there and everywhere before.

    Raises:
        ValueError: when the counts cannot be those of any words.
    """

    words: int
    right: tuple[int, ...]
    unbroken: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.words < 1 or not self.right:
            raise ValueError(f"scores need at least one word and one position, got {self.words} and {len(self.right)}")
        if len(self.right) != len(self.unbroken):
            raise ValueError(f"right and unbroken must be equally long, got {len(self.right)} and {len(self.unbroken)}")
        bounded = all(0 <= some <= all_ <= self.words for some, all_ in zip(self.unbroken, self.right, strict=True))
        if not bounded or any(later > earlier for earlier, later in pairwise(self.unbroken)):
            raise ValueError(
                "unbroken must decrease from position to position and not exceed right, nor right the words"
            )

    @classmethod
    def of(cls, correct: Bool[Tensor, "batch length"]) -> "Scores":
        """The scores of words whose right answers are marked True, without the begin token's position."""
        unbroken = correct.cumprod(dim=1).sum(dim=0)
        return cls(len(correct), tuple(correct.sum(dim=0).tolist()), tuple(unbroken.tolist()))

    def __add__(self, other: "Scores") -> "Scores":
        """The scores of the words of both.

        Raises:
            ValueError: when the words differ in length.
        """
        if not isinstance(other, Scores):
            return NotImplemented
        if self.length != other.length:
            raise ValueError(f"scores to add must be of one length, got {self.length} and {other.length}")
        return Scores(
            self.words + other.words,
            tuple(a + b for a, b in zip(self.right, other.right, strict=True)),
            tuple(a + b for a, b in zip(self.unbroken, other.unbroken, strict=True)),
        )

    @property
    def length(self) -> int:
        """Number of scored positions of each word."""
        return len(self.right)

    @property
    def joint(self) -> Proportion:
        """Words that are right at every position."""
        return Proportion(self.unbroken[-1], self.words)

    @property
    def last(self) -> Proportion:
        """Words that are right at the last position."""
        return Proportion(self.right[-1], self.words)

    @property
    def conditional(self) -> Proportion | None:
        """Among words that are right before the last position, those right there too; None if there is no such word.

        Words of length 1 are all right before it.
        """
        trials = self.unbroken[-2] if self.length > 1 else self.words
        return Proportion(self.unbroken[-1], trials) if trials else None

    @property
    def token(self) -> float:
        """The share of right answers over all words and positions."""
        return sum(self.right) / (self.words * self.length)

    @property
    def curve(self) -> tuple[float, ...]:
        r""":math:`C(1), \dots, C(n)`: the share of words whose first ``k`` answers are all right."""
        return tuple(count / self.words for count in self.unbroken)

    @property
    def position(self) -> tuple[float, ...]:
        r"""The share of words that are right at each position, whatever came before."""
        return tuple(count / self.words for count in self.right)

    @property
    def mean_first_error(self) -> float:
        """The mean position of the first wrong answer, from 1; length + 1 for a word without one."""
        return 1 + sum(self.unbroken) / self.words

    def to_json(self) -> dict[str, object]:
        """Plain numbers and lists, with 95% Clopper-Pearson intervals beside what has them.

        ``conditional`` and its interval are None where ``conditional_count`` is 0.
        """
        conditional = self.conditional
        return {
            "words": self.words,
            "length": self.length,
            "joint": self.joint.value,
            "joint_interval": list(self.joint.interval()),
            "last": self.last.value,
            "last_interval": list(self.last.interval()),
            "conditional": conditional.value if conditional else None,
            "conditional_interval": list(conditional.interval()) if conditional else None,
            "conditional_count": conditional.trials if conditional else 0,
            "token": self.token,
            "mean_first_error": self.mean_first_error,
            "curve": list(self.curve),
            "position": list(self.position),
        }


def score(logits: Float[Tensor, "batch length classes"], targets: Int[Tensor, "batch length"]) -> Scores:
    """Compare the likeliest class at each position with its target.

    Positions whose targets are -100 in every word, such as the begin token's, are left out. Of equal
    logits the smallest class counts as the answer.

    Raises:
        ValueError: when shapes disagree, a logit is NaN or infinite, a target is not a class, or a
            position is scored in some words only.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits must have the shape of targets and classes, got {tuple(logits.shape)} for {tuple(targets.shape)}"
        )
    finite = torch.isfinite(logits)
    if not finite.all():
        raise ValueError(
            f"logits must be finite, got {int((~finite).sum())} of {logits.numel()} that are NaN or infinite"
        )
    ignored = targets == IGNORED
    if (ignored != ignored[:1]).any():
        raise ValueError(f"targets must be {IGNORED} at the same positions of every word")
    positions = ~ignored.any(dim=0)
    scored = targets[:, positions]
    wrong = scored[(scored < 0) | (scored >= logits.shape[-1])]
    if wrong.numel():
        raise ValueError(f"targets must be in 0 .. {logits.shape[-1] - 1}, or {IGNORED}, got {int(wrong[0])}")
    return Scores.of(logits[:, positions].argmax(dim=-1) == scored)
