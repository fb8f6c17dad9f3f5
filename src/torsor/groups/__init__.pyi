from .finite import FiniteGroup as FiniteGroup
