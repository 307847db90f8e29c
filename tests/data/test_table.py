import csv

import pyarrow as pa
import pytest
import torch
from foil_fakes import Noise
from PIL import Image
from pyarrow import parquet

from vlbench.data.table import images, questions
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.probes.matching.choice import choice
from vlbench.probes.matching.retrieval import retrieval_in_pools

ROWS = [
    {"image": "test/cat/a.png", "label": "cat", "text": "a cat", "id": "one"},
    {"image": "test/cat/b.jpg", "label": "cat", "text": "a cat, again", "id": "two"},
    {"image": "test/dog/c.png", "label": "dog", "text": "a dog", "id": "three"},
]


@pytest.fixture
def root(tmp_path):
    for level, row in enumerate(ROWS):
        file = tmp_path / row["image"]
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 8), (level * 40, 0, 0)).save(file)
    write(tmp_path / "test.csv", ROWS)
    return tmp_path


def write(file, rows):
    if file.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), file)
        return
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def changed(**values):
    return [{**ROWS[0], **values}, *ROWS[1:]]


def test_classes_are_those_of_the_first_table(root):
    write(root / "train.csv", ROWS[:2])
    assert images(root=root, test="train.csv").classes == ["cat"]
    with pytest.raises(DataError, match=r"^test\.csv, row 3: no class is named 'dog'; there are"):
        images(root=root, train="train.csv", test="test.csv")


def test_a_number_is_no_class_where_the_table_names_them(root):
    write(root / "train.csv", changed(label="01"))
    write(root / "test.csv", changed(label="1"))
    with pytest.raises(DataError, match=r"^test\.csv, row 1: no class is named '1'"):
        images(root=root, train="train.csv", test="test.csv")


def test_a_byte_order_mark_is_no_part_of_a_name(root):
    file = root / "test.csv"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert images(root=root, test="test.csv").classes == ["cat", "dog"]


WRONG_VALUES = [
    ({"image": "test/cat/gone.png"}, r"gone\.png is missing \(1 of 3 images in {} are\)"),
    ({"image": "../a.png"}, r"{}, row 1: the path \.\./a\.png is outside the root"),
    ({"image": "/etc/a.png"}, "row 1: the path /etc/a.png is outside the root"),
    ({"image": ""}, "{}, row 1: the image is '', not a text"),
    ({"label": " "}, "{}, row 1: the label is ' ', not a text"),
]


@pytest.mark.parametrize("name", ["test.csv", "test.parquet"])
@pytest.mark.parametrize(("values", "message"), WRONG_VALUES)
def test_a_value_that_cannot_be_is_named_with_table_and_row(root, name, values, message):
    write(root / name, changed(**values))
    with pytest.raises(DataError, match=message.format(name.replace(".", r"\."))):
        images(root=root, test=name, item="id")


BROKEN = [
    ("test.csv", b"image,label\n", r"^test\.csv has no rows"),
    ("test.csv", b"", r"^test\.csv is empty; its first line must name the columns"),
    ("test.csv", b"image;label\na;b\n", r"separated by ';'; save it with ','"),
    ("test.tsv", b"image,label\na,b\n", r"separated by ','; save it with '\\t'"),
    (
        "test.csv",
        b"image,label\na.png\n",
        "line 2, .*it must have one cell for each of image, label",
    ),
    (
        "test.csv",
        b"image,label\n\na,b\na,b,c\n",
        r"^test\.csv, line 4, cannot .*quote a value that contains",
    ),
    ("test.csv", b"image,label\na,b\n\xff,a\n", "line 3, cannot be read as CSV: it is not UTF-8"),
    ("test.csv", b'image,label\n"a.png,a\n', "line 2, cannot be read as CSV"),
    ("test.csv", b'image,label\na,"b\nc,d\n', "line 2, cannot be read as CSV: unexpected end"),
    ("test.csv", b'image,label\n"a"b,c\n', "line 2, cannot be read as CSV: ',' expected after"),
    ("test.csv", b"image,label,label\na,b,c\n", r"^test\.csv: two columns are named 'label'"),
    ("test.txt", b"a", r"is not a table; give a file that ends in \.csv, \.tsv, \.xl"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_a_broken_table_is_named(root, name, content, message):
    (root / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        images(root=root, test=name)


def test_a_table_without_labels_is_told_how_to_read_none(root):
    write(root / "test.csv", [{"image": row["image"], "text": "a"} for row in ROWS])
    told = r"no column is named 'label'; .*; `label: \"\"` reads no labels"
    with pytest.raises(DataError, match=told):
        images(root=root, test="test.csv", caption="text")


def test_an_always_right_model_has_full_recall_on_a_row_per_caption(root):
    class Knows:
        score_kind = "logit"

        def score_pairs(self, pictures, texts):
            shown = [picture.image.getpixel((0, 0))[0] // 40 for picture in pictures]
            pairs = zip(shown, texts, strict=True)
            return torch.tensor([float(text.startswith(str(level))) for level, text in pairs])

    rows = [
        {"image": row["image"], "text": f"{level} in words {n}"}
        for n in range(5)
        for level, row in enumerate(ROWS)
    ]
    write(root / "test.csv", rows)
    data = images(root=root, test="test.csv", label="", caption="text")
    outcome = retrieval_in_pools(Knows(), data, Engine.for_tests(), pool=3, k=[1])
    recalls = {s.at["retrieve"]: (s.value, s.n) for s in outcome.scores if s.metric == "recall"}
    assert recalls == {"text": (1.0, 3), "image": (1.0, 15)}


def test_ten_foils_of_an_image_are_one_cluster(root):
    rows = [
        {"image": row["image"], "text": f"a {n}", "wrong": f"no {n}"}
        for row in ROWS
        for n in range(10)
    ]
    write(root / "test.csv", rows)
    data = images(root=root, test="test.csv", label="", caption="text", foil="wrong")
    outcome = choice(Noise(), data, Engine.for_tests())
    assert (outcome.counts["clusters"], outcome.scores[0].n) == (3, 30)


SWALLOWING = [
    ["image,text", 'test/cat/a.png,"a cat', "test/cat/b.jpg,again", 'test/dog/c.png,a TV"'],
    ["image,text", 'test/cat/a.png,"a cat', 'test/cat/b.jpg,a TV of 40"'],
    ["text,image", '"a cat,test/cat/a.png', 'a TV of 40",test/cat/b.jpg'],
    ["image,text", '"test/cat/a.png,a', "test/cat/b.jpg,b", 'test/dog/c.png",c'],
]


@pytest.mark.parametrize("lines", SWALLOWING)
def test_a_quote_that_swallows_rows_is_named_with_its_line(root, lines):
    (root / "test.csv").write_text("\n".join(lines) + "\n")
    message = r"^test\.csv, line 2, cannot .*: a quote is open there, and line 3 looks like a row"
    with pytest.raises(DataError, match=message):
        images(root=root, test="test.csv", label="", caption="text")


def test_a_caption_may_have_lines_with_commas(root):
    caption = 'a cat\nsleeping, of 40"\nsee dog.png, too'
    write(root / "test.csv", [{"image": row["image"], "text": caption} for row in ROWS])
    split = images(root=root, test="test.csv", label="", caption="text").splits["test"]
    assert list(split["caption"]) == [caption] * 3


def test_columns_of_questions_that_are_read_and_left_out_are_said(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    lines = ["image,question,answer,category,difficulty", "a.png,Is it red?,yes,colour,hard"]
    (tmp_path / "q.csv").write_text("\n".join(lines), "utf-8")
    data = questions(root=tmp_path, test="q.csv")
    assert [*data.splits["test"]["category"]] == ["colour"]
    assert "q.csv: image, question, answer, category read; difficulty not read" in data.notes
