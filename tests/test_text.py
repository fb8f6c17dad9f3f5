"""Tokenizers and sources of documents: what each promises, and what is refused in one line."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusal import refused
from torsor.text import (
    BytePairRecipe,
    BytePairs,
    CharacterRecipe,
    CharacterTokenizer,
    HubDocuments,
    JsonLines,
    ParquetFiles,
    Source,
    TextFiles,
    Tokenizer,
    gpt2_tokenizer,
    load_tokenizer,
)

WORDS = "In 1998 we didn't know what 12345 is;\r\n\tnaïve café — 日本語 हिन्दी 🙂\n\n"
DOCUMENTS = [f"{WORDS} {number} the cat sat on the mat, again and again" for number in range(40)]
REAL = Path(os.environ.get("TORSOR_DATA", "data"))
TRAIN_IN_ANOTHER_PROCESS = """
import json, sys
from torsor.text import BytePairRecipe
print(BytePairRecipe(entries=330).train(json.loads(sys.argv[1])).sha256)
"""


@pytest.fixture(scope="module")
def byte_pairs() -> BytePairs:
    return BytePairRecipe(entries=330).train(DOCUMENTS)


@pytest.fixture(scope="module")
def other_byte_pairs() -> BytePairs:
    """As others make them: one special token, the last, and no rule for digits."""
    definition = json.loads(json.dumps(BytePairRecipe(entries=300).train(DOCUMENTS).content()))
    vocabulary = {token: number - 3 for token, number in definition["model"]["vocab"].items() if number >= 3}
    end = {**definition["added_tokens"][0], "content": "<|endoftext|>", "id": len(vocabulary)}
    definition["model"]["vocab"] = {**vocabulary, "<|endoftext|>": len(vocabulary)}
    definition["pre_tokenizer"] = {**definition["decoder"], "add_prefix_space": False, "use_regex": True}
    return BytePairs({**definition, "added_tokens": [end]})


@pytest.fixture
def tokenizers(byte_pairs, other_byte_pairs) -> dict[str, Tokenizer]:
    return {
        "byte pairs": byte_pairs,
        "byte pairs of others": other_byte_pairs,
        "characters": CharacterRecipe().train(DOCUMENTS),
    }


KINDS = ("byte pairs", "byte pairs of others", "characters")
every_tokenizer = pytest.mark.parametrize("name", KINDS)
known_text = st.text(alphabet=sorted(set("".join(DOCUMENTS))), max_size=60)


# Tokenizers


@every_tokenizer
@given(text=known_text)
def test_decoding_undoes_encoding(tokenizers, name, text):
    tokenizer = tokenizers[name]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(text=st.text(max_size=60))
def test_byte_pairs_encode_any_text_of_whole_characters(tokenizers, text):
    for name in ("byte pairs", "byte pairs of others"):
        assert tokenizers[name].decode(tokenizers[name].encode(text)) == text


@every_tokenizer
@given(text=known_text)
def test_tokens_lie_in_the_vocabulary_are_not_special_and_their_bytes_sum_to_those_of_the_text(tokenizers, name, text):
    tokenizer = tokenizers[name]
    tokens = tokenizer.encode(text)
    assert set(tokens) <= set(range(tokenizer.vocabulary)) - set(tokenizer.special)
    assert sum(tokenizer.bytes_per_token[token] for token in tokens) == len(text.encode())
    assert len(tokenizer.bytes_per_token) == tokenizer.vocabulary
    assert all(tokenizer.bytes_per_token[token] == 0 for token in tokenizer.special)


@every_tokenizer
def test_several_texts_are_encoded_as_each_alone(tokenizers, name):
    tokenizer = tokenizers[name]
    assert tokenizer.encode_all(DOCUMENTS) == [tokenizer.encode(text) for text in DOCUMENTS]
    assert tokenizer.encode_all([]) == []


@every_tokenizer
def test_a_saved_tokenizer_loaded_has_the_same_sha256_and_encodes_alike(tokenizers, name, tmp_path):
    tokenizer = tokenizers[name]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path / "tokenizer.json")
    assert type(loaded) is type(tokenizer)
    assert loaded.sha256 == tokenizer.sha256
    assert loaded.encode(WORDS) == tokenizer.encode(WORDS)
    assert (loaded.begin, loaded.special, loaded.vocabulary) == (
        tokenizer.begin,
        tokenizer.special,
        tokenizer.vocabulary,
    )


def test_the_order_in_which_a_definition_was_written_does_not_change_the_sha256(byte_pairs):
    content = byte_pairs.content()
    assert BytePairs(dict(reversed(content.items()))).sha256 == byte_pairs.sha256


def test_tokenizers_that_differ_in_a_token_or_a_rule_have_different_sha256(tokenizers):
    content = json.loads(json.dumps(tokenizers["byte pairs"].content()))
    content["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": r"\s+"}
    others = [
        BytePairs(content),
        BytePairRecipe(entries=329).train(DOCUMENTS),
        CharacterTokenizer("ab"),
        CharacterTokenizer("ba"),
    ]
    assert len({each.sha256 for each in [*tokenizers.values(), *others]}) == 7


@every_tokenizer
def test_a_text_that_spells_a_special_token_holds_no_boundary(tokenizers, name):
    tokenizer = tokenizers[name]
    spelt = "<|bos|>" if name == "byte pairs" else "<|endoftext|>" if name == "byte pairs of others" else "\0"
    if name == "characters":
        with refused(r"symbols of the vocabulary only, got '\\x00' at position 3"):
            tokenizer.encode(f"the{spelt}")
        return
    assert not set(tokenizer.encode(f"the{spelt}the")) & set(tokenizer.special)
    assert tokenizer.decode(tokenizer.encode(f"the{spelt}the")) == f"the{spelt}the"


def test_the_special_tokens_come_first_then_the_256_bytes(byte_pairs):
    assert byte_pairs.begin == 0
    assert byte_pairs.special == (0, 1, 2)
    assert byte_pairs.vocabulary == 330
    vocabulary = byte_pairs.content()["model"]["vocab"]
    assert [vocabulary[token] for token in ("<|bos|>", "<|eos|>", "<|pad|>")] == [0, 1, 2]
    assert (byte_pairs.bytes_per_token[3:259] == 1).all()
    assert (byte_pairs.bytes_per_token[259:] > 1).all()
    assert BytePairRecipe().entries == 32_768


def test_the_special_token_with_the_smallest_number_begins_a_document(other_byte_pairs):
    assert other_byte_pairs.special == (other_byte_pairs.begin,) == (297,)


def test_no_token_holds_more_than_two_digits_or_crosses_from_a_word_to_its_neighbour():
    text = "1234567 12 1999 don't DON'T x_y  two  blanks हिन्दी\n\nend.\n" * 50
    tokenizer = BytePairRecipe(entries=301).train([text])
    tokens = [tokenizer.decode([token]) for token in tokenizer.encode(text)]
    assert {"12", "34", "56", "19", " don", "'t", "'T", " blanks", " हिन्दी", ".\n", " "} <= set(tokens)
    assert all(sum(each.isdigit() for each in token) <= 2 for token in tokens)
    assert all(" " not in token.strip(" ") for token in tokens)


def test_the_same_documents_give_the_same_tokenizer_in_another_process_and_with_other_threads(byte_pairs):
    for threads in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", TRAIN_IN_ANOTHER_PROCESS, json.dumps(DOCUMENTS)],
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == byte_pairs.sha256, done.stderr


def test_a_recipe_learns_from_the_beginning_of_each_document_and_of_all():
    assert "zq" not in learned(BytePairRecipe(entries=262, per_document=6), ["ababab" + "zq" * 9] * 3)
    assert "zq" not in learned(BytePairRecipe(entries=261, characters=6), ["ababab", "zq" * 9])
    assert "zq" in learned(BytePairRecipe(entries=262), ["ababab" + "zq" * 9])


def learned(recipe, documents) -> set[str]:
    tokenizer = recipe.train(documents)
    return {tokenizer.decode([token]) for token in range(259, tokenizer.vocabulary)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BytePairRecipe(entries=258), "entries must be at least 259, the bytes and 3 special tokens, got 258"),
        (lambda: BytePairRecipe(characters=0), "characters and per_document must be at least 1, got 0 and 10000"),
        (
            lambda: BytePairRecipe(entries=500).train(["ab"]),
            "entries must be at most 260, .* these documents give, got",
        ),
        (lambda: BytePairRecipe(entries=260).train(["a\ud800"]), r"whole characters, got '\\ud800' at position 1"),
        (lambda: CharacterRecipe().train([]), "symbols must hold at least one character, got none"),
        (lambda: CharacterTokenizer("aba"), "symbols must hold each character once, got 'a' 2 times"),
        (lambda: CharacterTokenizer("a\udc00"), r"symbols must be of whole characters, got '\\udc00' at position 1"),
        (lambda: CharacterTokenizer("ab").encode("abc"), "of the vocabulary only, got 'c' at position 2"),
        (lambda: CharacterTokenizer("ab").decode([3]), r"tokens must be in 0 \.\. 2, got 3"),
    ],
)
def test_what_makes_no_tokenizer_is_refused_in_one_line(make, message):
    with refused(message):
        make()


def test_what_byte_pairs_cannot_encode_or_decode_is_refused_in_one_line(byte_pairs):
    with refused(r"the text must be of whole characters, got '\\ud83d' at position 2"):
        byte_pairs.encode("ab\ud83d")
    for wrong in (-1, 330):
        with refused(rf"tokens must be in 0 \.\. 329, got {wrong}"):
            byte_pairs.decode([5, wrong])


def changed(**parts):
    def change(definition):
        return {
            **definition,
            **{name: part(definition[name]) if callable(part) else part for name, part in parts.items()},
        }

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(model=None), "must be a byte-pair encoding with a vocabulary"),
        (changed(model=lambda model: {**model, "type": "WordPiece"}), "must be a byte-pair encoding"),
        (
            changed(model=lambda model: {**model, "merges": [["a", "zzz"]]}),
            "merges must be of tokens of its vocabulary",
        ),
        (changed(model=lambda model: {**model, "vocab": {**model["vocab"], "zzz": 999}}), "without a gap"),
        (changed(normalizer={"type": "Lowercase"}), "change no text before it encodes it, got normalizer Lowercase"),
        (changed(decoder=None), "decoder None"),
        (changed(pre_tokenizer={"type": "Whitespace"}), "pre_tokenizer Whitespace"),
        (changed(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}), "add no space before it"),
        (changed(pre_tokenizer={"type": "ByteLevel"}), "the package tokenizers does not take it: missing field"),
        (changed(added_tokens=[]), "must have a special token to begin a document, got none"),
        (changed(added_tokens=lambda added: [{**added[0], "special": False}]), "must be special, '<.bos.>' is not"),
    ],
)
def test_a_definition_that_would_change_a_text_or_fail_is_refused_in_one_line(byte_pairs, change, message, tmp_path):
    (tmp_path / "theirs.json").write_text(json.dumps(change(byte_pairs.content())))
    with refused(f"theirs.json is no tokenizer: .*{message}"):
        load_tokenizer(tmp_path / "theirs.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read .*theirs.json: No such file"),
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[]", "one J"),
    ],
)
def test_a_file_that_holds_no_tokenizer_is_refused_in_one_line(content, message, tmp_path):
    if content is not None:
        (tmp_path / "theirs.json").write_bytes(content)
    with refused(message):
        load_tokenizer(tmp_path / "theirs.json")


def test_without_the_package_the_line_says_what_to_install(byte_pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for make in (lambda: BytePairs(byte_pairs.content()), lambda: BytePairRecipe(entries=260).train(["ab"])):
        with pytest.raises(ImportError, match=r"pip install 'torsor\[text\]'"):
            make()
    CharacterRecipe().train(["ab"]).encode("ba")  # which needs nothing


# Sources


TEXTS = ["first\r\nline", "", "zweites — 文書", "last\n"]


class FakeHub:
    """In the place of the packages huggingface_hub and datasets."""

    def __init__(self, monkeypatch, rows, before=lambda: None):
        self.rows, self.before, self.asked = rows, before, []
        monkeypatch.setitem(sys.modules, "huggingface_hub", hub := ModuleType("huggingface_hub"))
        monkeypatch.setitem(sys.modules, "datasets", datasets := ModuleType("datasets"))
        hub.HfApi, datasets.load_dataset = lambda: self, self.load_dataset
        for variable in ("HF_HUB_OFFLINE", "TORSOR_OFFLINE"):
            monkeypatch.delenv(variable, raising=False)

    def dataset_info(self, repository, revision, timeout):
        self.before()
        return SimpleNamespace(sha=f"commit of {revision}")

    def load_dataset(self, *arguments, **named):
        self.asked.append((arguments, named))
        return self

    def skip(self, start):
        return iter(self.rows[start:])

    def __iter__(self):
        return iter(self.rows)


def parquet_file(path: Path, texts, name="text"):
    from pyarrow import parquet, table

    parquet.write_table(table({name: texts, "id": list(range(len(texts)))}), path, row_group_size=2)


@pytest.fixture(params=["JSON lines", "parquet", "text files", "separated text", "hub"])
def source(request, tmp_path, monkeypatch) -> Source:
    """Every kind of source, of the same documents in two files."""
    folder = tmp_path / "documents" / "inner"
    folder.mkdir(parents=True)
    if request.param == "JSON lines":
        for name, texts in (("a.jsonl", TEXTS[:1]), ("b.jsonl", TEXTS[1:])):
            lines = [json.dumps({"id": 1, "text": text}, ensure_ascii=bool(len(text) % 2)) for text in texts]
            (folder / name).write_text("\n \n".join(lines))
        return JsonLines(tmp_path / "documents")
    if request.param == "parquet":
        parquet_file(folder / "a.parquet", TEXTS[:1])
        parquet_file(folder / "b.parquet", TEXTS[1:])
        return ParquetFiles(tmp_path / "documents")
    if request.param == "text files":
        for number, text in enumerate(TEXTS):
            (folder / f"{number}.txt").write_bytes(text.encode())
        (folder / "not.bin").write_bytes(b"\xff")
        return TextFiles(tmp_path / "documents")
    if request.param == "separated text":
        monkeypatch.setattr("torsor.text.text_files._CHUNK", 3)
        (folder / "a.txt").write_bytes("<|end|>".join(TEXTS[:2]).encode())
        (folder / "b.txt").write_bytes("<|end|>".join(TEXTS[2:]).encode())
        return TextFiles(tmp_path / "documents", separator="<|end|>")
    FakeHub(monkeypatch, [{"text": text, "id": 1} for text in TEXTS])
    return HubDocuments("someone/something")


def test_a_source_gives_its_documents_in_order_unchanged_and_again(source):
    assert list(source.documents()) == TEXTS == list(source.documents())


def test_documents_from_a_start_are_all_but_the_first_so_many(source):
    for start in range(6):
        assert list(source.documents(start)) == TEXTS[start:]


def test_the_description_fixes_the_documents_and_is_json(source, tmp_path):
    described = source.description()
    assert json.loads(json.dumps(described)) == described
    assert source.description() == described
    if isinstance(source, HubDocuments):
        assert described["commit"] == "commit of main"
        return
    assert str(tmp_path) not in json.dumps(described)
    for path in (tmp_path / "documents" / "inner").iterdir():
        if path.suffix != ".bin":
            before = path.read_bytes()
            path.write_bytes(before.replace(b"l", b"L") + b"e" * (b"l" not in before))
            assert source.description() != described, path
            path.write_bytes(before)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{"body": 1, "id": 2}', "line 2 of .*a.jsonl has no field 'text'; it has 'body', 'id'"),
        (b'{"text": "a"}\n"text"', "line 2 of .* has no field 'text'; it has no fields at all"),
        (b'{"text": "a"}\n\n{"text": 7}', "the field 'text' of line 3 of .* must be a text, got 7"),
        (b'{"text": "a"}\n{"text"', "line 2 of .*a.jsonl is not JSON"),
        (b'{"text": "a\xff"}', "line 1 of .*a.jsonl must be UTF-8, got byte 0xff at 11"),
    ],
)
def test_a_line_that_holds_no_document_is_refused_with_its_number(content, message, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(content)
    with refused(message):
        list(JsonLines(tmp_path / "a.jsonl").documents())


def test_the_field_may_have_another_name(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"body": "b", "text": "t"}')
    assert list(JsonLines(tmp_path / "a.jsonl", field="body").documents()) == ["b"]
    parquet_file(tmp_path / "a.parquet", ["p"], name="body")
    assert list(ParquetFiles(tmp_path / "a.parquet", field="body").documents()) == ["p"]


def test_a_parquet_file_without_the_column_without_text_or_cut_short_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    parquet_file(path, ["p"] * 5, name="body")
    with refused("a.parquet has no column 'text'; it has 'body', 'id'"):
        list(ParquetFiles(path).documents())
    with refused("the column 'id' of row 0 of .*a.parquet must be a text, got 0"):
        list(ParquetFiles(path, field="id").documents())
    parquet_file(path, ["p", None])
    with refused("the column 'text' of row 1 of .*a.parquet must be a text, got None"):
        list(ParquetFiles(path).documents())
    for content in (path.read_bytes()[:-5], b"text"):
        path.write_bytes(content)
        with refused("a.parquet is not a whole parquet file"):
            list(ParquetFiles(path).documents())


def test_without_pyarrow_the_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'torsor\[hub\]'"):
        list(ParquetFiles(tmp_path).documents())


@pytest.mark.parametrize("chunk", [1, 2, 7, 2**20])
def test_a_text_file_that_is_not_utf8_is_refused_with_the_byte_and_its_place(chunk, tmp_path, monkeypatch):
    monkeypatch.setattr("torsor.text.text_files._CHUNK", chunk)
    for content, place in (("文書 ".encode() + b"\xff.", 7), ("文".encode() + "書".encode()[:2], 3)):
        (tmp_path / "a.txt").write_bytes(content)
        for separator in (None, "|"):
            with refused(f"a.txt must be UTF-8, got byte 0x{content[place]:02x} at {place}"):
                list(TextFiles(tmp_path, separator).documents())


def test_a_source_without_a_file_is_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"")
    with refused("there is no file or folder .*nowhere"):
        list(JsonLines(tmp_path / "nowhere").documents())
    with refused("must hold files that end in .jsonl or .ndjson, got none"):
        JsonLines(tmp_path).description()
    with refused("separator must have at least one character, got none"):
        TextFiles(tmp_path, separator="")


# The hub, in whose place stands another


def test_the_hub_is_asked_for_the_commit_that_the_description_names(monkeypatch):
    hub = FakeHub(monkeypatch, [{"body": "b"}])
    source = HubDocuments("someone/something", "small", split="test", field="body", revision="v2")
    assert list(source.documents()) == ["b"]
    assert source.description()["commit"] == "commit of v2"
    assert hub.asked == [
        (("someone/something", "small"), {"split": "test", "revision": "commit of v2", "streaming": True})
    ]


def endless():
    threading.Event().wait(30)


def test_a_hub_that_does_not_answer_is_one_line_after_the_patience_is_over(monkeypatch):
    FakeHub(monkeypatch, [], before=endless)
    started = time.monotonic()
    with refused("the hub's someone/something has not answered for 0.1 s"):
        HubDocuments("someone/something", patience=0.1).description()
    assert time.monotonic() - started < 5


def test_a_hub_that_falls_silent_in_the_middle_is_one_line_too(monkeypatch):
    def rows():
        yield {"text": "a"}
        endless()

    FakeHub(monkeypatch, rows())
    documents = HubDocuments("someone/something", patience=0.1).documents()
    assert next(documents) == "a"
    with refused("has not answered for 0.1 s"):
        next(documents)


def test_what_the_hub_cannot_do_is_one_line(monkeypatch):
    def fail():
        raise ConnectionError("no\nroute")

    source = HubDocuments("someone/something")
    FakeHub(monkeypatch, [], before=fail)
    with refused("the hub's someone/something cannot be read: ConnectionError: no route"):
        source.description()
    FakeHub(monkeypatch, [{"text": "a"}, {"body": "b"}])
    with refused("document 1 of the hub's someone/something has no field 'text'; it has 'body'"):
        list(source.documents())
    FakeHub(monkeypatch, [{"text": None}])
    with refused("the field 'text' of document 0 of .* must be a text, got None"):
        list(source.documents())
    with refused("patience must be positive, got 0"):
        HubDocuments("someone/something", patience=0)


def test_a_hub_that_is_left_ends_its_thread(monkeypatch):
    threads = set(threading.enumerate())
    FakeHub(monkeypatch, [{"text": str(number)} for number in range(5000)])
    documents = HubDocuments("someone/something").documents()
    assert next(documents) == "0"
    documents.close()
    for thread in set(threading.enumerate()) - threads:
        thread.join(timeout=5)
        assert not thread.is_alive()


@pytest.mark.parametrize("package", ["datasets", "huggingface_hub"])
def test_without_the_packages_of_the_hub_the_line_says_what_to_install(package, monkeypatch):
    FakeHub(monkeypatch, [])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"pip install 'torsor\[hub\]'"):
        list(HubDocuments("someone/something").documents())


@pytest.mark.parametrize("yes", ["1", "true", "ON"])
@pytest.mark.parametrize("variable", ["TORSOR_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_the_hub_is_not_asked(variable, yes, monkeypatch):
    FakeHub(monkeypatch, [])
    monkeypatch.setenv(variable, yes)
    with refused(f"the hub's someone/something is on the network, which {variable} forbids"):
        list(HubDocuments("someone/something").documents())


def test_a_variable_that_says_no_forbids_nothing(monkeypatch):
    FakeHub(monkeypatch, [{"text": "one"}])
    for variable in ("TORSOR_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(variable, "false")
    assert list(HubDocuments("someone/something").documents()) == ["one"]


# What is known of the real files


def real(*files: str):
    there = all((REAL / file).exists() for file in files)
    return pytest.mark.skipif(not there, reason=f"the folder TORSOR_DATA holds no {' and '.join(files)}")


@real("gpt2_bpe/tokenizer.json", "gpt2_bpe/vocab.bpe", "tinyshakespeare/input.txt")
def test_gpt2_s_tokenizer_is_the_same_from_one_file_and_from_two_and_its_counts_are_known(monkeypatch):
    monkeypatch.setenv("TORSOR_DATA", str(REAL))
    one, two = load_tokenizer(REAL / "gpt2_bpe/tokenizer.json"), gpt2_tokenizer()
    text = (REAL / "tinyshakespeare/input.txt").read_text()
    tokens = one.encode(text)
    assert two.encode(text[:20_000]) == one.encode(text[:20_000])
    assert len(tokens) == 338_025
    assert sum(one.bytes_per_token[tokens]) == len(text)
    for each in (one, two):
        assert (each.vocabulary, each.begin, each.special) == (50_257, 50_256, (50_256,))
        assert each.encode(WORDS) == one.encode(WORDS)
        assert each.decode(each.encode(WORDS)) == WORDS
