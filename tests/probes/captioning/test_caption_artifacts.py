from io import BytesIO

import numpy as np
import PIL.Image
from caption_fakes import captioned

from vlbench.capabilities import Picture
from vlbench.data.records import Split, value_column
from vlbench.probes.captioning.caption_artifacts import caption_table, example_table
from vlbench.probes.captioning.subjects import Subjects, references_of

ROWS = captioned(test=20).splits["test"]
FAVOURITES = [[f"first {i}" for i in range(20)], [f"second {i}" for i in range(20)]]
SCORES = {
    "favourites": np.array([np.arange(20) + 0.5, np.arange(20) + 0.25]),
    "ce": np.zeros((1, 20)),
    "reference": np.ones((1, 20)),
}
SUBJECTS = Subjects(ROWS, references_of(ROWS), ["before"] * 20, FAVOURITES)


def test_every_caption_stands_with_its_score():
    rows = caption_table(SUBJECTS, SCORES).to_pylist()
    assert len(rows) == 40
    assert rows[23] == {
        "id": "3.png",
        "digest": ROWS["picture"].examples().digests[3],
        "seed": 1,
        "reference": "a cup and a hat",
        "ce": "before",
        "favourites": "second 3",
        "reference_score": 1.0,
        "ce_score": 0.0,
        "favourites_score": 3.25,
    }


def test_twelve_images_are_drawn_and_stand_beside_their_captions():
    rows = example_table(SUBJECTS, SCORES, seed=0).to_pylist()
    assert len(rows) == 12
    for row in rows:
        number = int(row["id"].removesuffix(".png"))
        assert row["favourites"] == f"first {number}"
        image = PIL.Image.open(BytesIO(row["image"]))
        assert image.getpixel((0, 0)) == (0, number, 0)
    assert rows == example_table(SUBJECTS, SCORES, seed=0).to_pylist()
    assert rows != example_table(SUBJECTS, SCORES, seed=1).to_pylist()


def test_a_large_image_is_shrunk():
    large = PIL.Image.new("RGB", (1000, 500))
    pictures = value_column(range(20), "picture")
    pictures = type(pictures)("key", "picture", [Picture(large, None)] * 20, range(20))
    rows = Split({"picture": pictures, "captions": ROWS["captions"]})
    table = example_table(SUBJECTS._replace(rows=rows), SCORES, seed=0)
    assert PIL.Image.open(BytesIO(table["image"][0].as_py())).size == (192, 96)


def test_data_without_images_have_no_examples():
    pictures = type(ROWS["picture"])("key", "picture", [Picture(None, None)] * 20, range(20))
    rows = Split({"picture": pictures, "captions": ROWS["captions"]})
    assert example_table(SUBJECTS._replace(rows=rows), SCORES, seed=0) is None
