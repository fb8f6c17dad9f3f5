"""The configuration of an exported model, as transformers reads and writes it."""

from typing import Any, final

from transformers import PretrainedConfig

MODEL_TYPE = "torsor"


@final
class TorsorConfig(PretrainedConfig):
    """A model without its weights.

    Args:
        parts: the model's form, as ``torsor.interop.families.form_of`` gives it.
        steps: loops of a looped model where a call names no number of its own; None for any other.
        labels: whether the logits label the tokens that were read, in place of naming the next.
        arguments: of every configuration: tokens that begin, end and fill up, and so on.
    """

    model_type = MODEL_TYPE

    def __init__(
        self, parts: dict[str, Any] | None = None, steps: int | None = None, labels: bool = False, **arguments: Any
    ) -> None:
        # transformers builds an empty one to compare with
        self.parts: dict[str, Any] = {} if parts is None else parts
        self.steps = steps
        self.labels = labels
        self.vocab_size: int = self.parts.get("vocabulary", 0)
        super().__init__(**arguments)
