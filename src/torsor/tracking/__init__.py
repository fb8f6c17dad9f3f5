"""State tracking under examination: suites of word problems, their scores, and the algebra of a model's errors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
