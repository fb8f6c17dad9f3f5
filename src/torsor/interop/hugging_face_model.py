"""Models of this package as transformers calls them: to name the next token, or to label every token."""

from abc import ABC
from dataclasses import fields
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast, TokenClassifierOutput

from torsor.interop.families import family_named
from torsor.interop.hugging_face_config import TorsorConfig
from torsor.interop.sequence_cache import SequenceCache

# transformers has renamed the field; an output has one of the two
CACHE = "cache" if "cache" in {field.name for field in fields(CausalLMOutputWithPast)} else "past_key_values"

ALIGNMENT = 16  # bytes of a complex number in float64


class TorsorModel(PreTrainedModel, ABC):
    """What the two have in common: a model of the package, and reading that skips padding.

    Tokens under a zero of the mask are never read, wherever they stand: what is read of a sequence is what stands
    under a one, in its order. A position under a zero gets the logits of the last one that was read before it.
    """

    config_class: type[PretrainedConfig] | None = TorsorConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _is_stateful = True
    config: TorsorConfig

    def __init__(self, config: TorsorConfig) -> None:
        super().__init__(config)
        family = family_named(config.parts.get("family"))
        self.model: nn.Module = family.build(config.parts)
        self._reading = family.reading(self.model)
        self._ties = {f"model.{name}": f"model.{to}" for name, to in family.tied(config.parts).items()}
        self._tied_weights_keys = self._ties or None  # pyright: ignore[reportAttributeAccessIssue]
        self.post_init()  # what stays in float32 was made so, and is loaded in the type that it was made in

    @classmethod
    def from_pretrained(cls, *arguments: Any, **named: Any) -> Any:
        """A model of a folder: as in every model of transformers, its weights in memory of their own.

        Where they stay in the file they may lie at any address, and torch's loops over complex numbers end the
        process at an odd one.
        """
        found = super().from_pretrained(*arguments, **named)
        model = found[0] if isinstance(found, tuple) else found
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.data_ptr() % ALIGNMENT:
                tensor.data = tensor.data.clone()
        return found

    def get_input_embeddings(self) -> Any:
        """The table that a tied readout reads; None where nothing is tied."""
        return self.get_submodule(next(iter(self._ties.values())).rpartition(".")[0]) if self._ties else None

    def get_output_embeddings(self) -> Any:
        """The readout, where it is tied to the embedding; None otherwise."""
        return self.get_submodule(next(iter(self._ties)).rpartition(".")[0]) if self._ties else None

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the values alone that every part gave itself."""

    def _whole(
        self, tokens: Int[Tensor, "batch length"], mask: Tensor | None, steps: int | None
    ) -> Float[Tensor, "batch length classes"]:
        """Logits at every position of whole sequences."""
        kept = _kept(tokens, mask, 0)
        if kept is None:
            return self._reading.logits(tokens, steps)
        if not kept.any(dim=1).all():
            raise ValueError("attention_mask must leave at least one token of every sequence, it leaves none of some")
        # every model is causal: what is moved behind the last token changes nothing before it
        order = kept.logical_not().byte().argsort(dim=1, stable=True)
        return _spread(self._reading.logits(tokens.masked_fill(~kept, 0).gather(1, order), steps), kept)

    def _piece(
        self, tokens: Int[Tensor, "batch length"], mask: Tensor | None, cache: SequenceCache, steps: int | None
    ) -> Float[Tensor, "batch length classes"]:
        """Logits at the positions of a next piece; the cache is moved behind it."""
        if len(cache) != tokens.shape[0]:
            raise ValueError(f"cache must be of {tokens.shape[0]} sequences, got one of {len(cache)}")
        kept = _kept(tokens, mask, cache.seen)
        if kept is None:
            kept = torch.ones_like(tokens, dtype=torch.bool)
        if not kept.any():
            raise ValueError("attention_mask must leave a token of some sequence, it leaves none")
        logits = cache.read(tokens, kept, steps)
        cache.seen += tokens.shape[1]
        return _spread(logits, kept)


@final
class TorsorForCausalLM(TorsorModel, GenerationMixin):
    """A model that names the next token.

    Args:
        config: what it is made from.

    Raises:
        ValueError: when the model labels the tokens that it reads.
    """

    def __init__(self, config: TorsorConfig) -> None:
        if config.labels:
            raise ValueError("this model labels the tokens that it reads: load it by AutoModelForTokenClassification")
        super().__init__(config)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the cache is our own

    def forward(
        self,
        input_ids: Int[Tensor, "batch length"],
        attention_mask: Tensor | None = None,
        cache: SequenceCache | None = None,
        past_key_values: SequenceCache | None = None,
        use_cache: bool | None = None,
        labels: Int[Tensor, "batch length"] | None = None,
        steps: int | None = None,
        return_dict: bool | None = None,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Logits of the next token at every position.

        Args:
            input_ids: of the sequences, or of what follows a cache.
            attention_mask: ones where a token is read, for all positions seen so far; None for ones everywhere.
            cache: what came back for the positions before.
            past_key_values: the same, under its older name.
            use_cache: whether a cache is wanted; through that of a looped model no gradient passes.
            labels: the tokens again, for the mean loss of naming each next one; -100 is left out.
            steps: loops of a looped model; those of the configuration by default.
            return_dict: False for a tuple.

        Raises:
            ValueError: when tokens are out of range, the mask leaves a sequence empty, the cache is another batch's
                or has no room for so many loops.
        """
        cache = past_key_values if cache is None else cache
        steps = self.config.steps if steps is None else steps
        if cache is None and use_cache:
            cache = self._reading.cache(len(input_ids), steps)
        if cache is None:
            logits = self._whole(input_ids, attention_mask, steps)
        else:
            logits = self._piece(input_ids, attention_mask, cache, steps)
        loss = None
        if labels is not None:
            loss = cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        output = CausalLMOutputWithPast(loss=loss, logits=logits, **{CACHE: cache})  # pyright: ignore[reportArgumentType]
        return output.to_tuple() if return_dict is False else output

    def prepare_inputs_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride] - it is called by names
        self,
        input_ids: Int[Tensor, "batch length"],
        cache: SequenceCache | None = None,
        past_key_values: SequenceCache | None = None,
        attention_mask: Tensor | None = None,
        use_cache: bool | None = None,
        steps: int | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """What ``generate`` calls the model with: what follows the cache, or everything where there is none."""
        cache = past_key_values if cache is None else cache
        seen = 0 if cache is None else cache.seen
        named = {} if cache is None else {CACHE: cache}
        return {
            "input_ids": input_ids[:, seen:].contiguous(),
            "attention_mask": attention_mask,
            "use_cache": use_cache,
            "steps": steps,
            **named,
        }


@final
class TorsorForTokenClassification(TorsorModel):
    """A model that labels every token it reads, such as with the product of a word so far.

    Args:
        config: what it is made from.

    Raises:
        ValueError: when the model names the next token.
    """

    def __init__(self, config: TorsorConfig) -> None:
        if not config.labels:
            raise ValueError("this model names the next token: load it by AutoModelForCausalLM")
        super().__init__(config)

    def forward(
        self,
        input_ids: Int[Tensor, "batch length"],
        attention_mask: Tensor | None = None,
        labels: Int[Tensor, "batch length"] | None = None,
        steps: int | None = None,
        return_dict: bool | None = None,
    ) -> TokenClassifierOutput | tuple[Any, ...]:
        """Logits of the label of every token.

        Args:
            input_ids: of the sequences; of a word problem, its begin token first.
            attention_mask: ones where a token is read; None for ones everywhere.
            labels: the right ones, for the mean loss; -100 is left out.
            steps: loops of a looped model; those of the configuration by default.
            return_dict: False for a tuple.

        Raises:
            ValueError: when tokens are out of range, or the mask leaves a sequence empty.
        """
        logits = self._whole(input_ids, attention_mask, self.config.steps if steps is None else steps)
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        output = TokenClassifierOutput(loss=loss, logits=logits)  # pyright: ignore[reportArgumentType]
        return output.to_tuple() if return_dict is False else output


def _kept(tokens: Tensor, mask: Tensor | None, seen: int) -> Bool[Tensor, "batch length"] | None:
    """Where a token is read; None for everywhere."""
    if mask is None:
        return None
    wanted = (tokens.shape[0], seen + tokens.shape[1])
    if mask.shape != wanted:
        raise ValueError(f"attention_mask must have shape {wanted}, of all positions so far, got {tuple(mask.shape)}")
    kept = mask[:, seen:].bool()
    return None if kept.all() else kept


def _spread(packed: Float[Tensor, "batch length classes"], kept: Bool[Tensor, "batch length"]) -> Tensor:
    """The logits of tokens that were read one after the other, at the positions where the tokens stand."""
    last = (kept.cumsum(dim=1) - 1).clamp(min=0)
    return packed.gather(1, last[..., None].expand(-1, -1, packed.shape[-1]))
