"""Timings: ratios within one run, with the machine's own limit measured beside them."""
