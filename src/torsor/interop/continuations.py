"""The likelihood of continuations of contexts, for a model of ours in the package lm-eval."""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from torsor.text.tokenizer import Tokenizer

MISSING = "evaluation by lm-eval needs the package lm-eval: pip install 'torsor[eval]'"


@final
class Continuations:
    """Any causal model and a tokenizer, asked how likely a continuation of a context is.

    The model reads the begin token, the context and the continuation, both encoded as one text; blanks
    at the end of a context belong to the continuation.

    Guarantees, each a test in ``tests/test_continuations.py``:

    * on passages split at their last space it is ``torsor.tasks.LastWords``, through lm-eval too;
    * any batch equals one continuation at a time, and scores come in the order asked for.

    Args:
        model: ``model(tokens) -> logits``, causal, in the mode it is in.
        tokenizer: that the model was trained with.
        batch: continuations that one call reads, at least 1.
        device: where the model is.

    Raises:
        ValueError: when ``batch`` is below 1.
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        tokenizer: Tokenizer,
        *,
        batch: int = 32,
        device: torch.device | str = "cpu",
    ) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, got {batch}")
        self._model = model
        self._tokenizer = tokenizer
        self._batch = batch
        self._device = device

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, bool]]:
        r"""For each context and continuation, :math:`\ln p` of the continuation in float64, and whether it is greedy.

        Raises:
            ValueError: when a text cannot be encoded.
        """
        items = [self._encoded(*pair) for pair in pairs]
        order = sorted(range(len(items)), key=lambda number: len(items[number][0]))
        found: list[tuple[float, bool]] = [(0.0, True)] * len(items)
        with torch.no_grad():
            for first in range(0, len(order), self._batch):
                numbers = order[first : first + self._batch]
                for number, score in zip(numbers, self._scores([items[number] for number in numbers]), strict=True):
                    found[number] = score
        return found

    def _encoded(self, context: str, continuation: str) -> tuple[list[int], int]:
        """All tokens, and how many of them are the continuation's.

        Where both are one token together, none would be the continuation's own: each is then encoded by itself.
        """
        encode, before = self._tokenizer.encode, context.rstrip()
        whole, alone = encode(context + continuation), encode(before)
        own = len(whole) - len(alone)
        if own < 1:
            rest = encode(context[len(before) :] + continuation)
            whole, own = [*alone, *rest], len(rest)
        return [self._tokenizer.begin, *whole], own

    def _scores(self, items: Sequence[tuple[list[int], int]]) -> list[tuple[float, bool]]:
        rows = torch.full((len(items), len(items[-1][0])), self._tokenizer.begin)  # what fills up is never looked at
        for row, (tokens, _) in zip(rows, items, strict=True):
            row[: len(tokens)] = torch.tensor(tokens)
        logits = self._model(rows[:, :-1].to(self._device)).cpu()
        scores = []
        for row, some, (tokens, count) in zip(rows, logits, items, strict=True):
            own = slice(len(tokens) - 1 - count, len(tokens) - 1)
            targets, likely = row[1:][own], some[own].double().log_softmax(dim=-1)
            nats = likely.gather(1, targets[:, None]).sum().item()
            scores.append((nats, bool((likely.argmax(dim=-1) == targets).all())))
        return scores


def for_lm_eval(continuations: Continuations) -> Any:
    """The model as ``lm_eval.simple_evaluate(model=...)`` takes it.

    It carries out every task that scores continuations: all tasks of choice, and LAMBADA, whose ``acc`` and
    ``perplexity`` are those of ``torsor.tasks.LastWords``. Tasks that generate text or score whole texts are refused.

    Raises:
        ImportError: when the package lm-eval is missing.

    Returns:
        An ``lm_eval.api.model.LM``.
    """
    try:
        from lm_eval.api.model import LM  # pyright: ignore[reportMissingImports] - an extra
    except ImportError as error:
        raise ImportError(MISSING) from error

    @final
    class Model(LM):  # pyright: ignore[reportUntypedBaseClass] - the same
        def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
            found = continuations.scores([request.args for request in requests])
            for request, score in zip(requests, found, strict=True):
                self.cache_hook.add_partial("loglikelihood", request.args, score)
            return found

        def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
            raise NotImplementedError("whole texts are scored by torsor.tasks.HeldOutText, not through lm-eval")

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            raise NotImplementedError("tasks that generate text are not carried out through lm-eval")

    return Model()
