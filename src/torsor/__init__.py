"""Sequence models whose state is carried from step to step by a structured, norm-preserving map."""

__version__ = "0.1.0"
