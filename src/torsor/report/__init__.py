"""The report of training runs: one page of numbers and pictures that needs nothing but a browser."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
