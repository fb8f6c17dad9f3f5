"""The lengths that the words of a curriculum have, one after the other."""


def word_lengths(length: int, shortest: int = 2) -> tuple[int, ...]:
    """Two letters, then one more up to eight, then two more up to sixteen, then eight more up to the whole word.

    Args:
        length: of the whole word.
        shortest: shorter words are left out; from ``length`` on there is but the whole word.
    """
    stages = [*range(2, 9), *range(10, 17, 2), *range(24, length, 8)]
    return (*(each for each in stages if shortest <= each < length), length)
