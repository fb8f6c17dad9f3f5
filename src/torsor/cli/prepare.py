"""``torsor data prepare``: documents to a folder of tokens."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import Annotated

from cyclopts import Parameter

from torsor.cli.patience import LINE_EVERY
from torsor.cli.shown_left import ShownLeft
from torsor.cli.tables import JsonFlag
from torsor.experiments.experiment import nearest
from torsor.text.hub import FINEWEB, FINEWEB_EDU, HubDocuments
from torsor.text.json_lines import SUFFIXES as JSON_LINES
from torsor.text.json_lines import JsonLines
from torsor.text.loading import gpt2_tokenizer, load_tokenizer
from torsor.text.parquet_files import SUFFIXES as PARQUET
from torsor.text.parquet_files import ParquetFiles
from torsor.text.prepared_text import PreparedText
from torsor.text.preparing import Preparation, Progress
from torsor.text.source import Source
from torsor.text.text_files import SUFFIXES as TEXT
from torsor.text.text_files import TextFiles
from torsor.text.tokenizer import Tokenizer
from torsor.text.tokenizer_recipe import BytePairRecipe, CharacterRecipe, TokenizerRecipe

HUB = "hub:"
NAMED = {"fineweb": FINEWEB, "fineweb-edu": FINEWEB_EDU}
TOKENIZERS = ("gpt2", "characters")
SAMPLE = "sample-10BT"  # of either, the smallest that is large enough for most


def prepare(
    source: str = "",
    *,
    out: Path | None = None,
    tokenizer: str = "",
    train_tokenizer: int | None = None,
    validation: float = 0.0,
    validation_source: str = "",
    field: str = "text",
    separator: str | None = None,
    subset: str | None = None,
    split: str = "train",
    revision: str = "main",
    patience: float = 60.0,
    documents: int | None = None,
    tokens: int | None = None,
    verified: Annotated[bool, Parameter(name="--verify", negative=())] = False,
    as_json: JsonFlag = False,
) -> None:
    r"""Turn documents into tokens, packed with a begin token between them; killed, the same command goes on.

    Args:
        source: a file or a folder of .parquet, .jsonl or .txt; or fineweb, fineweb-edu, hub:OWNER/NAME, streamed.
        out: the folder to fill.
        tokenizer: gpt2, characters, or a tokenizer.json.
        train_tokenizer: in its place, learn byte pairs from the documents: so many entries.
        validation: the share of documents to hold out.
        validation_source: in its place, documents of their own: as for --source.
        field: of JSON lines, parquet and hub, the field that holds the text.
        separator: what stands between two documents in a text file, \n for a line end; one document a file by default.
        subset: of a data set on the hub; sample-10BT for fineweb and fineweb-edu.
        split: of a data set on the hub.
        revision: of a data set on the hub.
        patience: seconds to wait for the hub at a time.
        documents: take no more of them.
        tokens: take no further document after so many tokens of training.
        verified: read every file once more at the end and compare its SHA-256.
        as_json: print JSON for programs.

    Raises:
        ValueError: when an argument is wrong, the source cannot be read or the disk refuses.
    """
    if not source:
        named = ", ".join(NAMED)
        raise ValueError(
            f"name what to read: --source FILE or FOLDER of .parquet, .jsonl or .txt, {named}, or {HUB}OWNER/NAME"
        )
    if validation and validation_source:
        raise ValueError("hold out a share with --validation or name documents with --validation-source, not both")
    if separator is not None:
        separator = separator.replace(r"\n", "\n")  # which few shells let a user type
    hub = HubDocuments("", subset, split, field, revision, patience)
    read = _source(source, field, separator, hub)
    if out is None:
        raise ValueError("name the folder to fill: --out FOLDER")
    preparation = Preparation(
        read,
        _tokenizer(tokenizer, train_tokenizer),
        _source(validation_source, field, separator, hub) if validation_source else validation,
        documents,
        tokens,
    )
    _follow(preparation.into(out), out, _whole_of(preparation, source, validation_source))
    prepared = PreparedText.open(out, checksums=verified)
    if as_json:
        parts = {
            name: {"documents": part.documents, "bytes": part.bytes, "tokens": len(part), "sha256": part.sha256}
            for name, part in prepared.parts.items()
        }
        own = {"vocabulary": prepared.tokenizer.vocabulary, "sha256": prepared.tokenizer.sha256}
        print(json.dumps({"folder": str(out), "parts": parts, "tokenizer": own}))
        return
    for name, part in prepared.parts.items():
        counts = f"{part.documents:,} documents  {part.bytes:,} bytes  {len(part):,} tokens"
        print(f"{name:<10}  {counts}  sha256 {part.sha256}")
    print(f"tokenizer   {prepared.tokenizer.vocabulary:,} entries  sha256 {prepared.tokenizer.sha256}")


def _whole_of(preparation: Preparation, *sources: str) -> Callable[[Progress], float] | None:
    """The share that is done, by the first end that will be reached; None where nobody knows an end."""
    paths = [Path(name) for name in sources if name]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    known = all(path.exists() for path in paths) and all(file.suffix in {*TEXT, *JSON_LINES} for file in files)
    size = sum(file.stat().st_size for file in files) if known else 0  # of JSON lines, little more than their text
    ends = {"tokens": preparation.tokens, "documents": preparation.documents, "bytes": size}
    wanted = {name: end for name, end in ends.items() if end}
    if not wanted:
        return None
    return lambda progress: min(1.0, max(asdict(progress)[name] / end for name, end in wanted.items()))


def _follow(progresses: Iterator[Progress], out: Path, share_of: Callable[[Progress], float] | None) -> None:
    """Show how far it is: with the time left where there is a known end, now and then where there is none."""
    shown, first, last = ShownLeft(), None, monotonic()
    try:
        for progress in progresses:
            first, now = first or progress, monotonic()
            speed = (progress.tokens - first.tokens) / (now - shown.started)
            counts = f"  {progress.documents:,} documents  {progress.tokens:,} tokens  {speed:,.0f} tokens/s"
            if share_of is None:
                if now - last >= LINE_EVERY:
                    last = now
                    print(f"{out}{counts}", file=sys.stderr, flush=True)
                continue
            done, began = share_of(progress), share_of(first)
            if done > began:  # begun, and not at once at its end
                shown.show(str(out), done, (now - shown.started) * (1 - done) / (done - began), counts)
    finally:
        shown.close()


def _source(name: str, field: str, separator: str | None, hub: HubDocuments) -> Source:
    if name in NAMED:
        return replace(hub, repository=NAMED[name], subset=hub.subset or SAMPLE)
    if name.startswith(HUB):
        return replace(hub, repository=name.removeprefix(HUB))
    path = Path(name)
    kinds = {PARQUET: "parquet", JSON_LINES: "JSON lines", TEXT: "text"}
    files = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    found = [suffixes for suffixes in kinds if any(file.suffix in suffixes for file in files)]
    if separator is not None:
        found = [TEXT]
    if not files:
        raise ValueError(f"there is no file or folder {name}, and no data set of that name{nearest(name, NAMED)}")
    if len(found) != 1:
        endings = ", ".join(suffix for suffixes in kinds for suffix in suffixes)
        held = " and ".join(kinds[suffixes] for suffixes in found) or "none of them"
        raise ValueError(f"{name} must be or hold files of one kind, by their ending {endings}, got {held}")
    if found == [PARQUET]:
        return ParquetFiles(path, field)
    return JsonLines(path, field) if found == [JSON_LINES] else TextFiles(path, separator)


def _tokenizer(name: str, entries: int | None) -> Tokenizer | TokenizerRecipe:
    if bool(name) == (entries is not None):
        raise ValueError(
            "name a tokenizer with --tokenizer gpt2, characters or FILE, or make one with --train-tokenizer"
        )
    if entries is not None:
        return BytePairRecipe(entries)
    if name == "characters":
        return CharacterRecipe()
    if name == "gpt2":
        return gpt2_tokenizer()
    if not Path(name).exists():
        raise ValueError(f"there is no file {name}, and no tokenizer of that name{nearest(name, TOKENIZERS)}")
    return load_tokenizer(Path(name))
