"""Well-formed JSON of the wrong shape, made from a right one: what a reader must refuse in one line or take."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

STRANGE = (None, True, -1, 0, 1.5, 10**400, "", "\ud800", "../x", "a\0b", [], [[]], {}, {"a": None}, "x" * 300)


def malformed(good: Any, number: int, seed: int = 0) -> Iterator[bytes]:
    """So many contents, each with one to three places changed: another value, a name less or more."""
    chance = random.Random(seed)
    for _ in range(number):
        content = copy.deepcopy(good)
        for _ in range(chance.randint(1, 3)):
            content = _changed(content, chance)
        yield json.dumps(content).encode()
    yield b"[" * 100_000
    yield b'{"a":' * 100_000
    yield b"\xff\xfe{}"


def _changed(content: Any, chance: random.Random) -> Any:
    """One place changed, at any depth."""
    if isinstance(content, dict) and content and chance.random() < 0.9:
        name = chance.choice(list(content))
        draw = chance.random()
        if draw < 0.15:
            del content[name]
        elif draw < 0.25:
            content[name + "s"] = chance.choice(STRANGE)
        else:
            content[name] = _changed(content[name], chance)
        return content
    if isinstance(content, list) and content and chance.random() < 0.8:
        place = chance.randrange(len(content))
        content[place] = _changed(content[place], chance)
        return content
    return copy.deepcopy(chance.choice(STRANGE))
