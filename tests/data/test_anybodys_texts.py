"""Captions, questions, regions and word tests beside anybody's images, by YAML alone."""

import csv
import json

import datasets
import numpy as np
import pyarrow as pa
import pytest
from foil_files import image_bytes
from PIL import Image
from pyarrow import parquet
from runs import evaluate
from sources import write
from tar_shards import put_split

from vlbench.cli import main
from vlbench.data import hub, table, webdataset
from vlbench.data.corpora import WordTests
from vlbench.errors import DataAbsent, DataError
from vlbench.probes.question_generation.inputs import select_asked

CAPTIONS = [
    ["A dog near a cat.", "the dog sees a red hat"],
    ["A boat near a cup.", "the boat sees a fish"],
    ["A rose near a tree.", "the rose sees an owl"],
]
NOUNS = {"dog", "cat", "hat", "boat", "cup", "fish", "rose", "tree", "owl"}
NAMES = ["animal", "thing"]
LABELS = [0, 1, 1]

ADAPTER = """\
import torch

class Length:
    def __init__(self, *, device, dtype=torch.float32):
        pass

    def score_pairs(self, pictures, texts):
        colours = [picture.image.getpixel((0, 0))[0] for picture in pictures]
        return torch.tensor([float(len(t) + c) for t, c in zip(texts, colours)])

class Colour:
    def __init__(self, *, device, dtype=torch.float32):
        pass

    def preprocess(self, image):
        return torch.tensor(image.getpixel((0, 0))).float()[:, None, None] / 255

    def encode_images(self, pixels):
        return pixels.flatten(1)
"""
MODELS = 'length: {adapter: "ours:Length"}\ncolour: {adapter: "ours:Colour"}\n'
NOUN_COUNT = """\
version: 1
probe: noun_count
data: {data}
params: {{k: [1, 2], nouns: {{pipeline: of_this_test, split: test}}}}
primary: {{metric: prefers_reference}}
"""
WORD_SPACE = """\
version: 1
probe: word_space
data: {data}
params: {{skip_gram: {{vector_size: 1, epochs: 1}}, vocabulary: 20, seed: 0}}
primary: {{metric: visual_word_accuracy}}
"""


def image(i):
    return image_bytes(Image.new("RGB", (4, 3), (90 * LABELS[i], i, 7)), "PNG")


def put_all(root):
    """Write three captioned images as shards, as parquet of the hub, and as a CSV table."""
    members = [
        [(f"{i}.png", image(i)), (f"{i}.cls", b"%d" % LABELS[i]), (f"{i}.txt", lines(i))]
        for i in range(3)
    ]
    put_split(root / "shards", [[*members[0], *members[1]], members[2]], names=NAMES)
    types = {
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=NAMES),
        "captions": datasets.List(datasets.Value("string")),
    }
    rows = {"image": [{"bytes": image(i), "path": None} for i in range(3)], "label": LABELS}
    (root / "hub").mkdir()
    stored = datasets.Dataset.from_dict(rows | {"captions": CAPTIONS}, datasets.Features(types))
    stored.to_parquet(root / "hub/test-00000-of-00001.parquet")
    (root / "table").mkdir()
    with (root / "table/test.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "label", "first", "second"])
        for i in range(3):
            (root / f"table/{i}.png").write_bytes(image(i))
            writer.writerow([f"{i}.png", NAMES[LABELS[i]], *CAPTIONS[i]])
    return root


def lines(i):
    return "\n".join(CAPTIONS[i]).encode()


DATA = {
    "shards": {
        "loader": "vlbench.data.webdataset:images",
        "splits": {"test": "test"},
        "caption": "txt",
    },
    "hub": {
        "loader": "vlbench.data.hub:images",
        "repository": "a/b",
        "revision": "c",
        "splits": {"test": "test"},
        "caption": "captions",
    },
    "table": {
        "loader": "vlbench.data.table:images",
        "test": "test.csv",
        "caption": ["first", "second"],
    },
}


@pytest.fixture
def ours(tmp_path):
    """A source with a task of captions for each kind of file."""
    put_all(tmp_path)
    for name, data in DATA.items():
        text = json.dumps(data | {"root": f"../../{name}"})
        write(tmp_path / f"ours/tasks/noun_count_{name}.yaml", NOUN_COUNT.format(data=text))
    write(tmp_path / "ours/model_adapters/ours.py", ADAPTER)
    write(tmp_path / "ours/model_adapters/models.yaml", MODELS)
    return tmp_path / "ours"


def tagged(_):
    """Stand in for a spaCy pipeline, which is not installed here."""
    return lambda texts: [
        ["NOUN" if word in NOUNS else "X" for word in words] for words in texts
    ], ["of this test"]


def test_captions_of_every_source_give_the_same_row(ours, tmp_path, monkeypatch):
    monkeypatch.setattr("vlbench.probes.captioning.nouns._spacy_tagger", tagged)
    monkeypatch.setattr("vlbench.probes.captioning.nouns.RARE", 0)
    tasks = [f"noun_count_{name}" for name in DATA]
    found = evaluate(ours, "length", tasks, cache_dir=tmp_path / "cache")
    assert [result.status for result in found] == ["ok"] * 3, found[0].reason
    assert len({result.provenance["data"].split()[-1] for result in found}) == 1
    assert len({str(result.scores) for result in found}) == 1
    assert found[0].counts["clusters"] == 3


def test_captions_are_told_by_data(ours, capsys):
    assert main(["data", "noun_count_shards", "--include-path", str(ours)]) == 0
    assert "test: 0: A dog near a cat.: animal" in capsys.readouterr().out


WORDS = "the animal sees the thing near the dog and the cat and the animal likes a thing"


def put_texts(folder):
    (folder / "corpus.txt").write_text("\n".join([WORDS] * 20))
    (folder / "questions.txt").write_text(": family\ndog cat animal thing\n")
    pairs = ["dog\tcat\t9", "animal\tthing\t1", "the\tnear\t2", "dog\tthing\t3", "cat\tthe\t4"]
    (folder / "pairs.tsv").write_text("\n".join(pairs))
    return folder


@pytest.mark.parametrize("name", DATA)
def test_word_tests_beside_anybodys_images_run(ours, tmp_path, name, capsys):
    put_texts(tmp_path)
    texts = {"corpus": "corpus.txt", "analogies": "questions.txt", "word_pairs": ["pairs.tsv"]}
    beside = {
        k: f"../../{v}" if isinstance(v, str) else [f"../../{v[0]}"] for k, v in texts.items()
    }
    data = {k: v for k, v in DATA[name].items() if k != "caption"}
    text = json.dumps(data | {"root": f"../../{name}", "texts": beside})
    write(ours / "tasks/word_space_mine.yaml", WORD_SPACE.format(data=text))
    (found,) = evaluate(ours, "colour", "word_space_mine", cache_dir=tmp_path / "cache")
    assert found.status == "ok", found.reason
    assert found.primary_score.value == 1
    assert found.counts["pairs_pairs"] == 5
    assert found.counts["visual_words_in_corpus"] == 2
    assert main(["data", "word_space_mine", "--include-path", str(ours)]) == 0
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["word_pairs", "1", "0", "unknown", "-", "-"] in told


def test_absent_word_tests_are_named_before_images_are_read(tmp_path):
    texts = WordTests(tmp_path / "none.txt", tmp_path / "none", [])
    for load in (
        lambda: table.images(root=put_all(tmp_path) / "table", test="test.csv", texts=texts),
        lambda: webdataset.images(root=tmp_path / "shards", splits={"test": "test"}, texts=texts),
        lambda: hub.images(root=tmp_path, repository="", revision="", splits={}, texts=texts),
    ):
        with pytest.raises(DataAbsent, match=r"^the corpus none\.txt not found"):
            load()


def test_visual_words_need_classes_of_test_images(tmp_path):
    texts = WordTests(
        *(put_texts(tmp_path) / name for name in ("corpus.txt", "questions.txt")), word_pairs=[]
    )
    root = put_all(tmp_path) / "table"
    with pytest.raises(DataError, match="visual words are names of classes, so the"):
        table.images(root=root, test="test.csv", label="", texts=texts)


def test_questions_and_regions_of_a_table_are_what_question_generation_reads(tmp_path):
    put_all(tmp_path)
    rows = [
        {"image": f"{i}.png", "captions": CAPTIONS[i], "asked": ["who?", "where?"][: i + 1]}
        for i in range(3)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "table/test.parquet")
    (tmp_path / "regions").mkdir()
    for i in range(3):
        arrays = {"x": np.ones((2, 5)), "boxes": [[0, 0, 2, 2], [1, 1, 3, 3]]}
        np.savez(tmp_path / f"regions/{i}.npz", **arrays, image_w=4, image_h=3)
    data = table.images(
        root=tmp_path / "table",
        test="test.parquet",
        label="",
        caption="captions",
        question="asked",
        regions=tmp_path / "regions",
    )
    found = select_asked(data.splits["test"], [])
    assert found.questions == [["who?"], ["who?", "where?"], ["who?", "where?"]]
    assert found.captions == CAPTIONS
    assert found.split["regions"][2].vectors.shape == (2, 5)
    assert found.split["picture"][0].image.size == (4, 3)
