"""Models in transformers: the same weights, logits and text as here, on every version that is supported."""

import json
import logging
import os
import subprocess
import sys
from functools import cache, partial
from itertools import islice, product

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

import torsor.interop.hugging_face  # noqa: E402, F401 - teaches the Auto classes
from cases import LAYERED_MODELS, MODELS, SEQUENCE_LAYERS, SEQUENCE_MODELS, looped, stirred  # noqa: E402
from refusal import refused  # noqa: E402
from torsor.generation import Sampling, generate  # noqa: E402
from torsor.groups import cyclic  # noqa: E402
from torsor.interop import PlainCharacters, SeededDraws, from_hugging_face, to_hugging_face  # noqa: E402
from torsor.interop.families import FAMILIES, family_of, form_of  # noqa: E402
from torsor.layers import RotRNNBlock  # noqa: E402
from torsor.models import GRU, Hybrid, LoopedTransformer, Oracle, RotRNN, TanhRNN, parcae_transformer  # noqa: E402
from torsor.text import BytePairRecipe, CharacterTokenizer  # noqa: E402
from torsor.transitions import (  # noqa: E402
    BlockConformal,
    BlockDecay,
    Cayley,
    Exponential,
    Free,
    Householder,
    TokenPermutation,
)
from torsor.transitions.hold import exact_hold  # noqa: E402

STEPS = 3
ROTRNN = {
    "RotRNN": lambda: stirred(RotRNN(7, width=8, heads=2)),
    "RotRNN, other state": lambda: stirred(RotRNN(7, width=6, heads=1, dim=4, layers=1)),
}
MIXED = ("M²RNN", "M²RNN, no convolution, carry clipped", "attention", "LSTM", "RotRNN", "DeltaProduct")
NEXT_TOKEN = {
    "looped, tied": lambda: looped(BlockConformal(16, groups=2), classes=None, layers=(1, 2, 1)),
    "looped, every decay": lambda: looped(BlockDecay(16, groups=16, hold=exact_hold), classes=3),
    "M²RNN": LAYERED_MODELS["M²RNN"],
    "hybrid": lambda: Hybrid(7, [SEQUENCE_LAYERS[name]() for name in MIXED], hidden=5, std=0.5),
    **ROTRNN,
    **{name: SEQUENCE_MODELS[name] for name in ("group transformer, O", "group transformer, U", "group RNN, O")},
    **{name: SEQUENCE_MODELS[name] for name in ("group RNN, SU", "transformer", "LSTM")},
    "GRU": lambda: stirred(GRU(7, hidden=5)),
    "tanh RNN": lambda: stirred(TanhRNN(7, hidden=5)),
}
CHARTS = {
    f"looped, {kind.__name__}": lambda kind=kind: looped(kind(16), classes=3)
    for kind in (Cayley, Householder, Exponential, Free)
}
FROZEN = {
    "looped, frozen": lambda: looped(BlockConformal(16, groups=2, frozen=True, pairing="half-split"), grad_steps=2)
}
EVERY = MODELS | SEQUENCE_MODELS | LAYERED_MODELS | CHARTS | FROZEN | NEXT_TOKEN
every_model = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
every_language_model = pytest.mark.parametrize("make", NEXT_TOKEN.values(), ids=NEXT_TOKEN)
PAD = 99  # in no vocabulary: a model that reads it fails
PROMPTS = ([1, 0], [2, 1, 0, 2, 1], [0, 2, 2])


def logits_of(model: nn.Module, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        outputs = model(tokens, steps=STEPS) if isinstance(model, LoopedTransformer) else model(tokens)
    return outputs[0] if isinstance(outputs, tuple) else outputs


def export(model: nn.Module, folder, **arguments) -> None:
    steps = STEPS if isinstance(model, LoopedTransformer) else None
    to_hugging_face(model, folder, steps=steps, **arguments)


def labelled(model: nn.Module) -> bool:
    tokens = torch.zeros(1, 1, dtype=torch.long)
    return logits_of(model, tokens).shape[-1] != model.vocabulary


def exported(make) -> nn.Module:
    """A model that can be exported; of one that cannot, the refusal is looked at, and the test left out."""
    model = make().eval()
    problem = ""
    try:
        form_of(model)
    except ValueError as error:
        problem = str(error)
    assert "\n" not in problem
    if problem:
        pytest.skip(problem)
    return model


def loaded(folder, labels: bool = False, **arguments) -> nn.Module:
    auto = transformers.AutoModelForTokenClassification if labels else transformers.AutoModelForCausalLM
    return auto.from_pretrained(folder, **({"dtype": "auto"} | arguments))


@pytest.fixture
def both(make, tmp_path):
    """A model of ours, and the same after the way through a folder."""
    model = make().eval()
    export(model, tmp_path / "hf")
    return model, loaded(tmp_path / "hf")


def padded(side: str) -> tuple[Tensor, Tensor]:
    """The prompts as one batch, and its mask."""
    width = max(map(len, PROMPTS))
    filling = [[PAD] * (width - len(each)) for each in PROMPTS]
    joined = [fill + each if side == "left" else each + fill for each, fill in zip(PROMPTS, filling, strict=True)]
    tokens = torch.tensor(joined)
    return tokens, (tokens != PAD).long()


def greedy(model: nn.Module, prompt: list[int], count: int) -> list[int]:
    """The slow form: everything is read again for every token."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(logits_of(model, torch.tensor([tokens]))[0, -1].argmax()))
    return tokens[len(prompt) :]


def log_probabilities(model: nn.Module, prompt: list[int], continuations: list[tuple[int, ...]]) -> list[float]:
    later = torch.tensor(continuations)
    tokens = torch.cat([torch.tensor([prompt] * len(later)), later], dim=1)
    found = logits_of(model, tokens).log_softmax(-1)[:, len(prompt) - 1 : -1]
    return found.gather(2, later[..., None]).sum(dim=(1, 2)).tolist()


def best_of(model: nn.Module, prompt: list[int], continuations: list[tuple[int, ...]], count: int) -> list:
    found = zip(log_probabilities(model, prompt, continuations), continuations, strict=True)
    return [each for _, each in sorted(found, reverse=True)[:count]]


def beam_search(model: nn.Module, prompt: list[int], count: int, width: int) -> list[int]:
    """The slow form: of all continuations of the best by one token, the best."""
    best = [()]
    for _ in range(count):
        longer = [(*each, token) for each in best for token in range(model.vocabulary)]
        best = best_of(model, prompt, longer, width)
    return list(best[0])


def same_weights(first: nn.Module, second: nn.Module) -> bool:
    ours, theirs = first.state_dict(), second.state_dict()
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in ours
    )


@every_model
def test_a_model_that_is_exported_and_loaded_has_the_same_weights_and_logits_to_the_last_bit(make, tmp_path):
    model = exported(make)
    labels = labelled(model)
    export(model, tmp_path / "hf", labels=labels)
    tokens = torch.randint(model.vocabulary, (2, 6))
    theirs, back = loaded(tmp_path / "hf", labels), from_hugging_face(tmp_path / "hf").eval()
    assert type(back) is type(model)
    for each, logits in ((theirs.model, theirs(tokens).logits), (back, logits_of(back, tokens))):
        assert same_weights(model, each)
        assert torch.equal(logits, logits_of(model, tokens))
    gradients = [(name, parameter.requires_grad) for name, parameter in model.named_parameters()]
    assert [(name, parameter.requires_grad) for name, parameter in back.named_parameters()] == gradients
    assert form_of(back) == form_of(model)


def test_the_register_has_a_model_of_every_family():
    assert {family_of(make()).name for make in NEXT_TOKEN.values()} == {family.name for family in FAMILIES}


@every_model
def test_a_weight_that_is_tied_is_stored_once_and_tied_again_when_it_is_loaded(make, tmp_path):
    model = exported(make)
    labels = labelled(model)
    export(model, tmp_path / "hf", labels=labels)
    stored = load_file(tmp_path / "hf" / "model.safetensors")
    assert len(stored) == len({id(tensor) for tensor in model.state_dict(keep_vars=True).values()})
    theirs = loaded(tmp_path / "hf", labels)
    assert len(list(theirs.parameters())) == len(list(from_hugging_face(tmp_path / "hf").parameters()))
    assert len(list(theirs.parameters())) == len(list(model.parameters()))
    theirs.save_pretrained(tmp_path / "again")
    assert load_file(tmp_path / "again" / "model.safetensors").keys() == stored.keys()
    assert same_weights(from_hugging_face(tmp_path / "again"), model)


@every_language_model
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_no_logits_where_a_token_stands(both, side):
    model, theirs = both
    tokens, mask = padded(side)
    with torch.no_grad():
        found = theirs(tokens, attention_mask=mask).logits
        carried = theirs(tokens, attention_mask=mask, use_cache=True).logits
    for row, prompt in enumerate(PROMPTS):
        alone = logits_of(model, torch.tensor([prompt]))[0]
        for logits in (found, carried):
            torch.testing.assert_close(logits[row][mask[row].bool()], alone, rtol=1e-10, atol=1e-10)


@every_language_model
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_greedy_tokens_are_those_of_the_exported_model(both, side, use_cache):
    model, theirs = both
    tokens, mask = padded(side)
    found = theirs.generate(
        tokens, attention_mask=mask, max_new_tokens=6, do_sample=False, use_cache=use_cache, pad_token_id=PAD
    )
    for prompt, row in zip(PROMPTS, found[:, tokens.shape[1] :].tolist(), strict=True):
        assert row == greedy(model, prompt, 6)


@every_language_model
def test_beam_searched_tokens_are_those_of_the_exported_model(both):
    model, theirs = both
    tokens, mask = padded("left")
    search = partial(theirs.generate, tokens, attention_mask=mask, do_sample=False, pad_token_id=PAD)
    exact = search(num_beams=model.vocabulary, max_new_tokens=2)
    narrow = search(num_beams=2, max_new_tokens=4)
    for row, prompt in enumerate(PROMPTS):
        pairs = list(product(range(model.vocabulary), repeat=2))
        assert [tuple(exact[row, -2:].tolist())] == best_of(model, prompt, pairs, 1)
        assert narrow[row, -4:].tolist() == beam_search(model, prompt, 4, width=2)


@every_language_model
def test_drawn_tokens_are_those_of_the_exported_model(both):
    model, theirs = both
    prompt = torch.tensor([[1, 0, 2], [2, 2, 1]])

    def theirs_drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return theirs.generate(prompt, max_new_tokens=8, do_sample=True, temperature=0.8, top_k=0, pad_token_id=PAD)

    torch.manual_seed(5)
    tokens = prompt
    for _ in range(8):
        chances = (logits_of(model, tokens)[:, -1].float() / 0.8).softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1)], dim=1)
    assert torch.equal(theirs_drawn(5), tokens)
    assert torch.equal(theirs_drawn(5), tokens)
    assert not torch.equal(theirs_drawn(6), tokens)


@pytest.mark.parametrize("make", [NEXT_TOKEN["group RNN, O"], NEXT_TOKEN["transformer"]], ids=["GroupRNN", "attention"])
def test_seeded_draws_give_the_text_that_is_drawn_here(both):
    model, theirs = both
    prompt, sampling = torch.tensor([[1, 0, 2], [2, 2, 1]]), Sampling(0.9, 5)
    ours = generate(model, prompt, sampling, torch.Generator().manual_seed(3))
    found = theirs.generate(
        prompt,
        logits_processor=transformers.LogitsProcessorList([SeededDraws(sampling, seed=3)]),
        max_new_tokens=12,
        do_sample=False,
        pad_token_id=PAD,
    )
    assert torch.equal(found[:, 3:], torch.stack(list(islice(ours, 12)), dim=1))


@every_language_model
@pytest.mark.parametrize(("dtype", "apart"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_a_text_in_pieces_through_the_cache_equals_the_text_in_one(make, dtype, apart, tmp_path, monkeypatch):
    monkeypatch.setattr("torsor.interop.loop_cache._ROOM", 2)  # so that it has to grow
    export(make().to(dtype).eval(), tmp_path / "hf")
    theirs = loaded(tmp_path / "hf")
    vocabulary = theirs.config.vocab_size
    tokens = torch.randint(vocabulary, (2, 9))
    mask = torch.ones_like(tokens)
    mask[0, :4] = 0
    whole = theirs(tokens, attention_mask=mask).logits
    assert whole.dtype == dtype
    pieces, carried = [], None
    for start, end in ((0, 2), (2, 3), (3, 7), (7, 9)):
        output = theirs(tokens[:, start:end], attention_mask=mask[:, :end], past_key_values=carried, use_cache=True)
        carried = cache_of(output)
        pieces.append(output.logits)
    read = mask.bool()
    torch.testing.assert_close(torch.cat(pieces, dim=1)[read], whole[read], rtol=apart, atol=apart)


def cache_of(output):
    return output.get("cache", output.get("past_key_values"))


@every_language_model
def test_a_cache_that_is_reordered_goes_on_from_the_sequences_that_are_named(both):
    model, theirs = both
    tokens, mask = padded("left")
    later = torch.tensor([[1], [0], [2], [1]])
    carried = cache_of(theirs(tokens, attention_mask=mask, use_cache=True))
    carried.batch_repeat_interleave(2)
    carried.batch_select_indices(torch.tensor([1, 2, 3, 4]))
    carried.reorder_cache(torch.tensor([3, 3, 0, 1]))
    rows = [2, 2, 0, 1]
    longer = torch.cat([mask[rows], torch.ones(4, 1, dtype=torch.long)], dim=1)
    found = theirs(later, attention_mask=longer, past_key_values=carried).logits[:, 0]
    for row, (prompt, token) in enumerate(zip(rows, later, strict=True)):
        alone = logits_of(model, torch.tensor([PROMPTS[prompt] + token.tolist()]))[0, -1]
        torch.testing.assert_close(found[row], alone, rtol=1e-10, atol=1e-10)


@every_language_model
def test_a_token_after_the_prompt_is_read_alone_through_the_cache(both, monkeypatch):
    _, theirs = both
    tokens, mask = padded("left")
    lengths = []
    forward = type(theirs).forward

    def counted(self, input_ids, **arguments):
        lengths.append(input_ids.shape[1])
        return forward(self, input_ids, **arguments)

    monkeypatch.setattr(type(theirs), "forward", counted)
    for arguments in ({"do_sample": False}, {"do_sample": True}, {"do_sample": False, "num_beams": 2}):
        lengths.clear()
        theirs.generate(tokens, attention_mask=mask, max_new_tokens=4, pad_token_id=PAD, **arguments)
        assert lengths == [tokens.shape[1], 1, 1, 1]


def test_a_looped_cache_takes_the_depth_of_the_call_and_no_more_loops_than_it_has_room_for(tmp_path):
    model = NEXT_TOKEN["looped, tied"]().eval()
    export(model, tmp_path / "hf")
    theirs, tokens = loaded(tmp_path / "hf"), torch.tensor([[1, 0, 2]])
    carried = cache_of(theirs(tokens, steps=5, use_cache=True))
    deep = theirs(torch.tensor([[2]]), steps=5, past_key_values=carried).logits
    longer = torch.tensor([[1, 0, 2, 2]])
    torch.testing.assert_close(deep[:, 0], theirs(longer, steps=5).logits[:, -1], rtol=1e-10, atol=1e-10)
    carried = cache_of(theirs(tokens, use_cache=True))
    with refused("steps must be at most the 3 loops that the cache has room for, got 4"):
        theirs(torch.tensor([[2]]), steps=4, past_key_values=carried)
    assert carried.seen == 3  # a refused piece was not read


def test_a_looped_cache_doubles_its_room_holds_the_weights_of_its_time_and_passes_no_gradient(tmp_path):
    export(NEXT_TOKEN["looped, tied"]().eval(), tmp_path / "hf")
    theirs = loaded(tmp_path / "hf")
    output = theirs(torch.randint(3, (2, 40)), use_cache=True)
    carried = cache_of(output)
    assert theirs(torch.tensor([[1]])).logits.requires_grad
    assert not output.logits.requires_grad
    virtual = 1 + STEPS * 2 + 1
    for seen, room in ((40, 64), (64, 64), (65, 128), (300, 300), (301, 600)):
        if seen > carried.seen:
            theirs(torch.randint(3, (2, seen - carried.seen)), past_key_values=carried)
        assert carried._cache.bytes == 8 * (2 * 2 * room * 16 * virtual + 2 * 16 + room * theirs.model.head_dim)
    at_first = cache_of(theirs(torch.tensor([[1, 0, 2]]), use_cache=True))
    with torch.no_grad():
        theirs.model.core.blocks[0].attention.query.weight.zero_()
    old = theirs(torch.tensor([[1]]), past_key_values=at_first).logits[:, 0]
    new = theirs(torch.tensor([[1, 0, 2, 1]])).logits[:, -1]
    assert (old - new).abs().max() > 1e-6


def test_the_depth_of_a_looped_model_is_chosen_for_each_call(tmp_path):
    model = NEXT_TOKEN["looped, tied"]().eval()
    export(model, tmp_path / "hf")
    theirs, tokens = loaded(tmp_path / "hf"), torch.tensor([[1, 0, 2]])
    with torch.no_grad():
        assert torch.equal(theirs(tokens, steps=5).logits, model(tokens, steps=5))
    assert not torch.equal(theirs(tokens, steps=5).logits, theirs(tokens).logits)
    one = theirs.generate(tokens, steps=1, max_new_tokens=8, do_sample=False)
    with torch.no_grad():
        assert one[0, 3] == model(tokens, steps=1)[0, -1].argmax()
    other = tmp_path / "transformer"
    export(NEXT_TOKEN["transformer"](), other)
    with refused("steps must be None for a model without a loop, got 2"):
        loaded(other)(tokens, steps=2)


@pytest.mark.parametrize("name", ["looped, tied", "M²RNN", "group transformer, O", "group RNN, O", "RotRNN"])
def test_loaded_in_bfloat16_the_same_parameters_stay_wide_as_in_a_cast(name, tmp_path):
    torch.set_default_dtype(torch.float32)
    model = NEXT_TOKEN[name]().eval()
    export(model, tmp_path / "hf")
    theirs = loaded(tmp_path / "hf", dtype=torch.bfloat16)
    cast = model.bfloat16()
    assert same_weights(cast, theirs.model)
    assert torch.float32 in {parameter.dtype for parameter in theirs.parameters()}
    tokens = torch.tensor([[1, 0, 2]])
    assert torch.equal(theirs(tokens).logits, logits_of(cast, tokens))


def test_the_loss_is_that_of_naming_each_next_token(tmp_path):
    model = NEXT_TOKEN["GRU"]().eval()
    export(model, tmp_path / "hf")
    tokens = torch.tensor([[1, 0, 2, 2], [2, 1, 1, 0]])
    labels = tokens.masked_fill(torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]]).bool(), -100)
    chances = logits_of(model, tokens).log_softmax(-1)
    kept = [-chances[row, place, tokens[row, place + 1]] for row in (0, 1) for place in range(3)][:-4] + [
        -chances[1, place, tokens[1, place + 1]] for place in range(3)
    ]
    loss = loaded(tmp_path / "hf")(tokens, labels=labels).loss
    torch.testing.assert_close(loss.double(), torch.stack(kept).mean(), rtol=1e-6, atol=0)


def test_a_model_of_labels_is_loaded_to_label_tokens_alone(tmp_path):
    model = MODELS["looped, conformal"]().eval()
    export(model, tmp_path / "hf", labels=True)
    tokens = torch.tensor([[2, 0, 1, 1]])
    theirs = loaded(tmp_path / "hf", labels=True)
    assert theirs.config.num_labels == 5
    assert torch.equal(theirs(tokens).logits, logits_of(model, tokens))
    assert theirs(tokens, labels=tokens).loss.isfinite()
    with refused("labels the tokens that it reads: load it by AutoModelForTokenClassification"):
        loaded(tmp_path / "hf")
    export(NEXT_TOKEN["GRU"](), tmp_path / "lstm")
    with refused("names the next token: load it by AutoModelForCausalLM"):
        loaded(tmp_path / "lstm", labels=True)


@cache
def byte_pairs():
    return BytePairRecipe(270, per_document=10_000).train(["to be or not to be, that is the question " * 20])


TOKENIZERS = {
    "byte pairs": byte_pairs,
    "characters": lambda: CharacterTokenizer(" \nabcé𝔸"),
    "plain characters": lambda: PlainCharacters(" \nabcé𝔸"),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_tokenizer_of_the_folder_encodes_alike(name, tmp_path):
    tokenizer = TOKENIZERS[name]()
    plain = isinstance(tokenizer, PlainCharacters)
    model = parcae_transformer(BlockDecay(8, groups=8), vocabulary=tokenizer.vocabulary, heads=2)
    export(model, tmp_path / "hf", tokenizer=tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = "to be " if name == "byte pairs" else "a\nb  é𝔸c"
    ours = [tokenizer.symbols.index(each) for each in text] if plain else [tokenizer.begin, *tokenizer.encode(text)]
    assert theirs(text)["input_ids"] == ours
    assert theirs.decode(ours, skip_special_tokens=True) == text
    batch = theirs([text, text[:3]], padding=True, return_tensors="pt")
    assert batch["attention_mask"][1].tolist()[-3 - (not plain) :] == [1] * (3 + (not plain))
    found = loaded(tmp_path / "hf").generate(
        batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=3, do_sample=False
    )
    assert found.shape[0] == 2
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["vocab_size"] == tokenizer.vocabulary
    if name != "byte pairs":
        with pytest.raises(Exception, match="UNK"):  # tokenizers has no class for it
            theirs("z")
        assert set("abz c") - set(theirs.get_vocab()) == {"z"}  # what the page says instead


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_text_model_is_exported_loaded_and_goes_on_with_texts_of_two_lengths_without_a_warning(name, tmp_path):
    tokenizer = TOKENIZERS[name]()
    ours = stirred(GRU(tokenizer.vocabulary, hidden=5)).eval()
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    try:
        export(ours, tmp_path / "hf", tokenizer=tokenizer)
        model = loaded(tmp_path / "hf")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
        texts = ["to be " * 2, "to"] if name == "byte pairs" else ["a\nb  é", "é𝔸"]
        batch = theirs(texts, padding=True, return_tensors="pt")
        drawn = model.generate(**batch, max_new_tokens=6, do_sample=False)
    finally:
        logger.removeHandler(handler)
    assert said == []
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    tokens = {key: value for key, value in config.items() if key.endswith("_token_id") and value is not None}
    assert all(0 <= value < tokenizer.vocabulary for value in tokens.values())
    assert model.generation_config.pad_token_id == theirs.pad_token_id
    for text, row in zip(texts, drawn.tolist(), strict=True):
        new = greedy(ours, theirs(text)["input_ids"], 6)
        ends = new.index(theirs.eos_token_id) + 1 if theirs.eos_token_id in new else 6
        assert row[batch["input_ids"].shape[1] :][:ends] == new[:ends]


ALONE = """
import json, sys
sys.modules["torsor"] = None  # an import of it fails
from pathlib import Path
import torch
torch.set_num_threads(1)
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
for folder in sorted(Path(sys.argv[1]).iterdir()):
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, dtype="auto")
    wanted = load_file(folder / "expected")
    assert torch.equal(model(wanted["tokens"]).logits, wanted["logits"]), folder
    output = model(wanted["tokens"][:, :2], use_cache=True)
    cache = output.get("cache", output.get("past_key_values"))
    later = model(wanted["tokens"][:, 2:], past_key_values=cache).logits
    torch.testing.assert_close(later, wanted["logits"][:, 2:], rtol=1e-10, atol=1e-10)
    drawn = model.generate(wanted["tokens"], max_new_tokens=5, do_sample=False, pad_token_id=99)
    assert torch.equal(drawn, wanted["greedy"]), folder
    beams = model.generate(wanted["tokens"], max_new_tokens=3, do_sample=False, num_beams=2, pad_token_id=99)
    assert beams.shape == (2, 7)
    print(folder.name)
assert not any(name.split(".")[0] in {"torsor", "jaxtyping"} for name, each in sys.modules.items() if each)
"""


def test_a_folder_that_holds_its_code_is_loaded_without_this_package_and_gives_the_same_logits_and_text(tmp_path):
    left_out = {
        "looped, every decay",
        "RotRNN, other state",
        "group transformer, U",
        "group RNN, SU",
        "GRU",
        "tanh RNN",
    }
    names = [name for name in NEXT_TOKEN if name not in left_out]
    for number, name in enumerate(names):
        model, folder = NEXT_TOKEN[name]().eval(), tmp_path / "folders" / str(number)
        export(model, folder, self_contained=True)
        tokens = torch.tensor([[1, 0, 2, 1], [0, 0, 1, 2]])
        drawn = torch.tensor([greedy(model, row, 5) for row in tokens.tolist()])
        expected = {"tokens": tokens, "logits": logits_of(model, tokens), "greedy": torch.cat([tokens, drawn], dim=1)}
        save_file({name: each.contiguous() for name, each in expected.items()}, folder / "expected")
        assert "torsor" not in imports_of((folder / "modeling_torsor.py").read_text())
    home = {"HF_HOME": str(tmp_path / "home"), "HF_MODULES_CACHE": str(tmp_path / "home" / "modules")}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "folders")],
        env=os.environ | home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.split()) == len(names)


def imports_of(source: str) -> set[str]:
    words = [line.split() for line in source.splitlines() if line.lstrip().startswith(("import ", "from "))]
    return {each[1].partition(".")[0] for each in words if each[0] == "import" or "import" in each}


REFUSED = {
    "an unknown model": (
        lambda: Oracle(TokenPermutation(cyclic(3), (1, 2))),
        {},
        "an Oracle cannot be exported; looped transformer, ",
    ),
    "a model that reads both ways": (
        lambda: RotRNN(7, 8, 2, block=partial(RotRNNBlock, bidirectional=True)),
        {},
        "model must be of RotRNN layers that read one way",
    ),
    "a hold of a user's own": (
        lambda: looped(BlockDecay(16, 2, hold=lambda step, rate: step)),
        {"steps": 3, "labels": True},
        "hold must be one of euler, exact to be exported, got <function",
    ),
    "labels that are not told": (
        MODELS["looped, conformal"],
        {"steps": 3},
        "model must name the next of its 3 tokens or label them, it has 5 logits",
    ),
    "no depth": (NEXT_TOKEN["looped, tied"], {}, "steps must be at least 1 for a looped model, got None"),
    "a depth of nothing": (NEXT_TOKEN["GRU"], {"steps": 2}, "steps must be None for a model without a loop, got 2"),
    "another tokenizer": (
        NEXT_TOKEN["GRU"],
        {"tokenizer": CharacterTokenizer("ab")},
        "tokenizer must have the model's 7 tokens, got 3",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_exported_is_refused_in_one_line_and_leaves_nothing(case, tmp_path):
    make, arguments, message = REFUSED[case]
    with refused(message):
        to_hugging_face(make(), tmp_path / "hf", **arguments)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_holds_something_or_fails_half_way_is_left_as_it_was(tmp_path, monkeypatch):
    folder = tmp_path / "hf"
    folder.mkdir()
    model = NEXT_TOKEN["GRU"]()
    with monkeypatch.context() as broken:
        broken.setattr("torsor.interop.hugging_face_folder.model_card", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export(model, folder)
    assert [each.name for each in tmp_path.iterdir()] == ["hf"]
    assert not any(folder.iterdir())
    export(model, folder)  # an empty one is filled
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    with refused("hf must be a new or empty folder"):
        export(model, folder)
    assert before == {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: config.update(model_type="gpt2"), "must be of a torsor model, it is of 'gpt2'"),
        (lambda config: config.pop("parts"), "must say under 'parts' what the model is made from"),
        (lambda config: config["parts"].update(family="X"), "family must be one of looped transformer, .*, got 'X'"),
        (lambda config: config["parts"].pop("hidden"), "must hold 'hidden' under 'parts'"),
        (lambda config: config["parts"].update(hidden=6), "must hold the weights that its config.json asks for"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused_in_one_line(change, message, tmp_path):
    export(NEXT_TOKEN["GRU"](), tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    with refused(message):
        from_hugging_face(tmp_path / "hf")
    with refused("no such|No such"):
        from_hugging_face(tmp_path / "nowhere")


def test_a_run_s_folder_is_refused_with_the_command_that_exports_it(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with refused(f"{tmp_path} is a run, no exported model: torsor export {tmp_path} first, then read {tmp_path}/hf"):
        from_hugging_face(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_ids": torch.tensor([[1, 9]])}, "tokens must lie in 0 .. 6, got 9"),
        (
            {"input_ids": torch.tensor([[1, 2]]), "attention_mask": torch.tensor([[0, 0]])},
            "at least one token of every",
        ),
        (
            {"input_ids": torch.tensor([[1, 2]]), "attention_mask": torch.tensor([[1]])},
            r"must have shape \(1, 2\), of all positions",
        ),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_in_one_line(arguments, message, tmp_path):
    export(NEXT_TOKEN["GRU"](), tmp_path / "hf")
    model = loaded(tmp_path / "hf")
    with refused(message):
        model(**arguments)
    output = model(torch.tensor([[1, 2]]), use_cache=True)
    with refused("cache must be of 2 sequences, got one of 1"):
        model(torch.tensor([[1], [2]]), past_key_values=cache_of(output))
