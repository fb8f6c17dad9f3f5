"""How a user's mistake is answered: a ValueError of one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from jaxtyping import TypeCheckError


@contextmanager
def refused(message: str) -> Iterator[None]:
    """The block raises a ValueError of one line that matches ``message``.

    Where the tests run with the shape checker, it may see the mistake first.
    """
    with pytest.raises((ValueError, TypeCheckError)) as caught:
        yield
    if caught.type is not TypeCheckError:
        assert re.search(message, str(caught.value)), str(caught.value)
        assert "\n" not in str(caught.value)
