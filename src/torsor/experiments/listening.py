"""How far a long piece of work is, told to whoever listens: nobody, unless a program says so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:  # a program that lists what there is must not wait for torch
    from torch import nn

Listener = Callable[[str, float], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a function hear, inside, what ``tell`` says.

    Args:
        listener: takes what goes on, and the share of it that is done.
    """
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def tell(what: str, done: int, of: int) -> None:
    """Say how far something is.

    Args:
        what: goes on.
        done: of it.
        of: all of it; at most that is told, since it may be an estimate.
    """
    listener = _LISTENER.get()
    if listener is not None and of > 0:
        listener(what, min(done / of, 1.0))


@contextmanager
def telling_tokens(model: "nn.Module", tokens: int, what: str) -> Iterator[None]:
    """Inside, tell how many of so many tokens a model has read; nothing is counted where nobody listens.

    Args:
        model: whose forward pass takes tokens first.
        tokens: that it will read, about.
        what: goes on.
    """
    if _LISTENER.get() is None:
        yield
        return
    read = 0

    def count(_module: "nn.Module", given: tuple[Any, ...], _outputs: Any) -> None:
        nonlocal read
        read += given[0].numel() if given else 0
        tell(what, read, tokens)

    handle = model.register_forward_hook(count)
    try:
        yield
        tell(what, 1, 1)
    finally:
        handle.remove()


@contextmanager
def telling_draws(parameters: int, what: str) -> Iterator[None]:
    """Inside, tell how many numbers a model's orthogonal matrices have drawn: what takes long in building one.

    Nothing is counted where nobody listens. What is drawn is not touched.

    Args:
        parameters: of the model.
        what: goes on.
    """
    if _LISTENER.get() is None:
        yield
        return
    import torch
    from torch.overrides import TorchFunctionMode

    @final
    class Counting(TorchFunctionMode):
        drawn = 0

        def __torch_function__(
            self, function: Callable[..., Any], _types: Any, given: tuple[Any, ...] = (), named: Any = None
        ) -> Any:
            found = function(*given, **(named or {}))
            if function is torch.linalg.qr:
                self.drawn += given[0].numel()
                tell(what, self.drawn, parameters)
            return found

    with Counting():
        yield
    tell(what, 1, 1)
