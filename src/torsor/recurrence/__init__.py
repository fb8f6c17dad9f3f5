"""Functions that carry a state through many steps: over time, and over depth."""

# Eager, unlike the other faces: each name here is also its file's, and a lazy face would hand out the file.
from torsor.recurrence.delta_rule import delta_rule
from torsor.recurrence.linear_scan import linear_scan
from torsor.recurrence.loop import loop
from torsor.recurrence.m2rnn import m2rnn
from torsor.recurrence.scan import scan

__all__ = ["delta_rule", "linear_scan", "loop", "m2rnn", "scan"]
