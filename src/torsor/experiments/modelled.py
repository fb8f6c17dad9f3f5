"""What the model of a run is a model of, in the words of a message."""

from torsor.experiments.study import Study
from torsor.tasks import Characters, ListOps, PackedTokens, WordProblem
from torsor.tracking import HeldOutPairs


def what_is_modelled(study: Study) -> str:
    """The kind of a study's task with the label of its model, such as "a word problem (conformal, 2 groups)"."""
    match study.task:
        case WordProblem() | HeldOutPairs():
            kind = "a word problem"
        case Characters() | PackedTokens():
            kind = "texts"
        case ListOps():
            kind = "expressions over lists"
        case _:
            return study.label
    return f"{kind} ({study.label})"
