"""What each loader reads is pinned: rows, columns, keys of contents, and a digest of all values.

A difference is a reader that changed its mind: where it has a reason, the changelog gives it, and
this file run as a script writes `pinned.json` anew. A key digests the pixels of arrays and the
bytes of files; of images only the size is looked at besides, since decoders differ, and files that
the test makes have no key here, since packers differ.
"""

import json
import os
import tempfile
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import MADE
from PIL import Image

from vlbench.data.caption_results import result_captions
from vlbench.data.cifar import cifar10
from vlbench.data.coco import coco
from vlbench.data.corpora import Corpus
from vlbench.data.cub import cub
from vlbench.data.flickr30k import flickr30k
from vlbench.data.image_folder import image_folder
from vlbench.data.mnist import fashion_mnist
from vlbench.data.records import Data, Split, value_column
from vlbench.data.regions import region_features
from vlbench.data.svhn import svhn
from vlbench.data.vqg import read_vqg
from vlbench.data.word_files import read_pairs, read_questions
from vlbench.system.digests import digest

PINNED = Path(__file__).with_name("pinned.json")

# What the test makes, without what has pins of its own.
FORMATS = sorted(set(MADE) - {"scenes", "items"})

# Values that are read of each column: the first ones.
LOOKED_AT = 300


def _features(file: Path):
    features = region_features(file)
    return {name: features[name] for name in features}


def _captions(folder: Path):
    file = folder / "captions_val2014_fakecap_results.json"
    images = [entry["image_id"] for entry in json.loads(file.read_text())]
    return result_captions(file, Split({"id": value_column(images)}))


REAL = {
    "cifar10_lossless_subset": lambda folder: cifar10(root=folder),
    "coco_mini": lambda folder: coco(root=folder, splits=["train", "val"]),
    "cub_200_2011_sample": lambda folder: cub(root=folder),
    "fashion_mnist_full": lambda folder: fashion_mnist(root=folder),
    "flickr30k_entities/sample": lambda folder: flickr30k(root=folder),
    "cifar10_image_folder": lambda folder: image_folder(root=folder),
    "svhn/derived_format2": lambda folder: svhn(root=folder),
    "vqg": lambda folder: [list(read_vqg(file)) for file in sorted(folder.glob("*.csv"))],
    "caption_eval": _captions,
    "text/glove/gensim_test_glove.txt": lambda file: list(Corpus(file)),
    "text/questions-words.txt": read_questions,
    "text/word-sim": lambda folder: [read_pairs(file) for file in sorted(folder.glob("EN-*"))],
    "bottom_up_features/lxmert_tsv/train2014_obj36.tsv": _features,
    "bottom_up_features/rosita_npz/features": _features,
}


def _plain(value):  # noqa: PLR0911 - one line for each kind of value
    """Return any value that a loader gives in what `digest` takes."""
    if isinstance(value, Image.Image):
        return [value.mode, *value.size]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray | torch.Tensor):
        return [list(value.shape), np.asarray(value).ravel().tolist()]
    if is_dataclass(value):
        return _plain(vars(value))
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


def told(read, *, real):
    """Return what was read in a few lines: whole values, and keys where no packer has a say."""
    if not isinstance(read, Data):
        return {"length": len(read), "values": _short(_plain(read))}
    columns = {
        f"{split}.{name}": [
            f"{len(column)} x {column.kind}",
            *([column.key[7:19]] if real else []),
            _short([_plain(column[row]) for row in range(min(LOOKED_AT, len(column)))]),
        ]
        for split, rows in read.splits.items()
        for name, column in rows.columns.items()
    }
    return columns | {"classes": [f"{len(read.classes)} names", _short(list(read.classes))]}


def _short(value):
    return digest(value).removeprefix("sha256:")[:12]


def _made(name, folder):
    MADE[name].put(folder)
    return told(MADE[name].load(folder), real=False)


@pytest.mark.parametrize("name", REAL)
def test_real_files_are_read_as_before(name, real_data):
    assert told(REAL[name](real_data / name), real=True) == json.loads(PINNED.read_text())[name]


@pytest.mark.parametrize("name", FORMATS)
def test_files_that_the_test_makes_are_read_as_before(name, tmp_path):
    assert _made(name, tmp_path) == json.loads(PINNED.read_text())[f"made: {name}"]


if __name__ == "__main__":
    data = Path(os.environ["VLBENCH_DATA"]).absolute()
    pinned = {name: told(read(data / name), real=True) for name, read in REAL.items()}
    for name in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            pinned[f"made: {name}"] = _made(name, Path(folder))
    PINNED.write_text(json.dumps(pinned, indent=1) + "\n")
