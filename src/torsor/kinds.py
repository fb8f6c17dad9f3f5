"""What a value is, in the words of a message of one line."""

_SPOKEN = "AEFHILMNORSX"  # letters whose names begin with a vowel: an LSTM, a GRU
_LONGEST = 80  # characters of a value that a message repeats


def kind_of(value: object) -> str:
    """The kind of a value, with its article: "None", "a list", "an int", "a Diagonal"; numpy's as "numpy.ndarray"."""
    if value is None:
        return "None"
    kind = type(value)
    if kind.__module__.partition(".")[0] == "numpy":
        return f"numpy.{kind.__name__}"
    spelled = kind.__name__[:2].isupper()
    return f"{'an' if kind.__name__[0] in (_SPOKEN if spelled else 'AEIOaeiou') else 'a'} {kind.__name__}"


def shown(value: object) -> str:
    """A value as it is typed where that is short and of one line, else its kind."""
    typed = repr(value)
    return typed if len(typed) <= _LONGEST and "\n" not in typed else kind_of(value)
