"""Experiments: the only place that chooses parts, one declaration for each published setting."""

# No import here: a declaration must be read without torch, and a run needs it.
