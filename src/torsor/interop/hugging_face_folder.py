"""A model in a folder that transformers loads, and back."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from torsor.interop.families import family_named, form_of
from torsor.interop.family import Form
from torsor.interop.hugging_face_tokenizer import PlainCharacters, filling_token, save_tokenizer, special_tokens
from torsor.interop.missing import require_hugging_face
from torsor.interop.model_card import model_card
from torsor.interop.single_file import single_file
from torsor.interop.watched_folder import watched_folder
from torsor.text.storage import disk_errors
from torsor.text.tokenizer import Tokenizer
from torsor.text.writing import read_json, sync_folder

WEIGHTS, CONFIG, CARD, MODELLING = "model.safetensors", "config.json", "README.md", "modeling_torsor"
RUN = "run.json"  # of a folder that training fills


def to_hugging_face(
    model: nn.Module,
    folder: Path,
    *,
    tokenizer: Tokenizer | PlainCharacters | None = None,
    steps: int | None = None,
    labels: bool = False,
    self_contained: bool = False,
    card: str | None = None,
    watch: Callable[[int, int], object] | None = None,
) -> None:
    """Write a folder that the Auto classes of transformers load; all of it, or nothing.

    Guarantees, each a test in ``tests/test_hugging_face.py``, for every registered model:

    * a model that is exported and loaded has the same weights and logits, to the last bit;
    * a weight that is tied is stored once, and tied again when it is loaded;
    * padding on either side changes no logits where a token stands;
    * greedy, drawn and beam-searched tokens are those of the exported model.

    Args:
        model: of one of the package's kinds.
        folder: a new or empty one.
        tokenizer: that the model was trained with; None for a model that is called with tokens.
        steps: loops of a looped model where a call names no number of its own; None for any other.
        labels: whether the logits label the tokens that are read, as in a word problem, in place of naming the next.
        self_contained: whether the code is written too, so that the folder is loaded without this package.
        card: the text of its ``README.md``; by default one that says how it is loaded.
        watch: is told now and then how many bytes of the weights have been written, and how many there are.

    Raises:
        ValueError: when the model cannot be exported, the arguments do not fit it, the folder holds something,
            or the operating system refuses.
        ImportError: when the package transformers or tokenizers is missing.
    """
    form = form_of(model)
    _require_fitting(form, tokenizer, steps, labels)
    require_hugging_face()
    from transformers.utils import logging

    from torsor.interop.hugging_face_config import TorsorConfig
    from torsor.interop.hugging_face_model import TorsorForCausalLM, TorsorForTokenClassification

    kind = TorsorForTokenClassification if labels else TorsorForCausalLM
    config = TorsorConfig(
        form,
        steps,
        labels,
        tie_word_embeddings=bool(family_named(form["family"]).tied(form)),
        **special_tokens(tokenizer),
        **({"num_labels": classes_of(form)} if labels else {}),
    )
    auto = "AutoModelForTokenClassification" if labels else "AutoModelForCausalLM"
    if self_contained:
        config.auto_map = {"AutoConfig": f"{MODELLING}.TorsorConfig", auto: f"{MODELLING}.{kind.__name__}"}
    with torch.device("meta"):
        wrapped = kind(config)
    wrapped.model = model
    filling = filling_token(tokenizer)
    if filling is not None and wrapped.generation_config is not None:
        wrapped.generation_config.pad_token_id = filling
    size = sum(each.numel() * each.element_size() for each in {*model.parameters(), *model.buffers()})
    with _whole(folder) as new:
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            with watched_folder(new, size, watch):
                wrapped.save_pretrained(new)
        finally:
            if shown:
                logging.enable_progress_bar()
        if tokenizer is not None:
            save_tokenizer(tokenizer, new)
        if self_contained:
            (new / f"{MODELLING}.py").write_text(single_file(family_named(form["family"])), encoding="utf-8")
        (new / CARD).write_text(card or model_card(folder.name, auto, self_contained=self_contained), encoding="utf-8")


def from_hugging_face(folder: Path | str) -> nn.Module:
    """The model of an exported folder, with its weights to the last bit; transformers is not needed.

    Args:
        folder: that ``to_hugging_face`` or ``save_pretrained`` wrote.

    Raises:
        ValueError: when it is no such folder, or a file does not fit.
    """
    folder = Path(folder)
    if (folder / RUN).is_file() and not (folder / CONFIG).exists():
        written = folder / "hf"
        raise ValueError(f"{folder} is a run, no exported model: torsor export {folder} first, then read {written}")
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or config.get("model_type") != "torsor":
        found = config.get("model_type") if isinstance(config, dict) else None
        raise ValueError(f"{folder / CONFIG} must be of a torsor model, it is of {found!r}")
    form = config.get("parts")
    if not isinstance(form, dict):
        raise ValueError(f"{folder / CONFIG} must say under 'parts' what the model is made from")
    family = family_named(form.get("family"))
    try:
        with torch.device("meta"):
            model = family.build(form)
    except KeyError as error:
        raise ValueError(f"{folder / CONFIG} must hold {error} under 'parts'") from error
    weights = {name.removeprefix("model."): tensor for name, tensor in _tensors(folder).items()}
    ties = family.tied(form)
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items() if name not in ties}
    given = {name: tensor.shape for name, tensor in weights.items()}
    if wanted != given:
        wrong = sorted(name for name in wanted | given if wanted.get(name) != given.get(name))
        raise ValueError(f"{folder} must hold the weights that its {CONFIG} asks for, wrong is {', '.join(wrong[:5])}")
    model.load_state_dict(weights | {name: weights[to] for name, to in ties.items()}, assign=True)
    for name, to in ties.items():
        part, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(part), leaf, model.get_parameter(to))
    return model


def classes_of(form: Form) -> int:
    """How many logits the model of a form has."""
    classes = form.get("classes")
    return form["vocabulary"] if classes is None else classes


def _require_fitting(
    form: Form, tokenizer: Tokenizer | PlainCharacters | None, steps: int | None, labels: bool
) -> None:
    vocabulary, classes, looped = form["vocabulary"], classes_of(form), "transition" in form
    if not labels and classes != vocabulary:
        raise ValueError(f"model must name the next of its {vocabulary} tokens or label them, it has {classes} logits")
    if looped and (steps is None or steps < 1):
        raise ValueError(f"steps must be at least 1 for a looped model, got {steps}")
    if not looped and steps is not None:
        raise ValueError(f"steps must be None for a model without a loop, got {steps}")
    if tokenizer is not None and tokenizer.vocabulary != vocabulary:
        raise ValueError(f"tokenizer must have the model's {vocabulary} tokens, got {tokenizer.vocabulary}")


def _tensors(folder: Path) -> dict[str, Tensor]:
    index = folder / f"{WEIGHTS}.index.json"
    names = sorted(set(read_json(index)["weight_map"].values())) if index.is_file() else [WEIGHTS]
    tensors = {}
    for name in names:
        with disk_errors(f"read {folder / name}"):
            # in memory of their own: torch's loops over complex numbers end the process at an odd address of a file
            tensors |= {name: tensor.clone() for name, tensor in load_file(folder / name).items()}
    return tensors


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder to write in, which takes the place of ``folder`` at the end, or goes."""
    with disk_errors(f"write {folder}"):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{folder} must be a new or empty folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
        try:
            yield new
            new.chmod(0o777 & ~_umask())
            for each in new.rglob("*"):
                with each.open("rb") as opened:
                    os.fsync(opened.fileno())
            sync_folder(new)
            new.replace(folder)
            sync_folder(folder.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
