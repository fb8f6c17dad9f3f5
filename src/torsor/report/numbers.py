"""What a run folder gives as numbers, where one that is absent or not finite is None."""

Interval = tuple[float, float]
Series = tuple[float | None, ...]
Matrix = tuple[Series, ...]
