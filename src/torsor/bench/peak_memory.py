"""The largest memory that the tensors of a computation hold at one time."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def peak_bytes(call: Callable[[], object], given: Iterable[Tensor] = ()) -> int:
    """Call, and count the bytes of all tensors made meanwhile that lived at one time, backward passes included.

    Every tensor that PyTorch hands out is counted once, at the size of its storage, from when it is made
    until it is freed, whoever holds it. What an operation takes and frees within itself is not seen.

    Args:
        call: what to measure.
        given: tensors that were there before and are not to be counted.
    """
    counter = _Counter({_key(each) for each in given})
    with counter:
        call()
    return counter.most


@final
class _Counter(TorchDispatchMode):
    def __init__(self, known: set[int]) -> None:
        super().__init__()
        self.known = known
        self.now = self.most = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else [result]:
            if isinstance(each, Tensor):
                self._count(each)
        return result

    def _count(self, tensor: Tensor) -> None:
        key = _key(tensor)
        if key in self.known:
            return
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        self.known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        # the storage's Python object lives as long as the storage itself
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
