import csv
import json

import pytest
from region_files import put_npz

from vlbench.data.vqg import EXPECTED, read_vqg, vqg
from vlbench.errors import DataError

HEADER = ["image_id", "image_url", "questions"]


def put(root, *rows, name="coco_test_all.csv", header=HEADER):
    with (root / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return root / name


def asked(root, cell, **row):
    header = [*HEADER, *row]
    (image,) = read_vqg(put(root, ["7", "u", cell, *row.values()], header=header))
    return image


def test_questions_stand_between_dashes(tmp_path):
    image = asked(tmp_path, "Who, where?---Why?----How so?--- When? ")
    assert (image.id, image.questions) == ("7", ["Who, where?", "Why?", "How so?", "When?"])


def test_neither_none_nor_nothing_is_a_question(tmp_path):
    image = asked(tmp_path, "none---Who?------None", ratings="3---2---1---1")
    assert (image.questions, image.ratings) == (["Who?"], [2])


@pytest.mark.parametrize(
    ("ratings", "expected"), [("3---1", [3, 1]), ("y---1", [None, 1]), ("3", [None, None])]
)
def test_a_question_has_its_rating_where_each_has_one(tmp_path, ratings, expected):
    assert asked(tmp_path, "Who?---Why?", ratings=ratings).ratings == expected


def test_columns_are_found_by_their_names(tmp_path):
    header = ["image_id", "image_url", "query_term", "questions", "captions"]
    file = put(tmp_path, ["a-7", "u", "rain---", "Who?", "A cat---A dog"], header=header)
    (image,) = read_vqg(file)
    assert (image.questions, image.captions) == (["Who?"], ["A cat", "A dog"])


DAMAGED = [
    ("image_id,question\n1,Who?\n", r"^coco_test_all\.csv has no column questions; it has im"),
    ("image_id,questions\n1,a,b\n", r"^coco_test_all\.csv, line 2: 3 columns, not 2$"),
    ("image_id,questions\n1,a\n1,b\n", r"^coco_test_all\.csv has image 1 twice"),
    ('image_id,questions\n1,"a\n', r"^coco_test_all\.csv, line 2: unexpected end of data"),
    (f"image_id,questions\n1,{'a' * 200_000}\n", r"line 2: field larger than field limit"),
]


@pytest.mark.parametrize(("content", "message"), DAMAGED)
def test_a_damaged_file_is_named(tmp_path, content, message):
    file = tmp_path / "coco_test_all.csv"
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        list(read_vqg(file))


@pytest.fixture
def coco(tmp_path):
    """Captions of COCO: image 7 has two in train2014, image 8 one in val2014."""
    (tmp_path / "annotations").mkdir()
    texts = {"train2014": [(2, 7, "b"), (1, 7, "a"), (3, 7, " ")], "val2014": [(9, 8, "c")]}
    for part, rows in texts.items():
        annotations = [{"id": i, "image_id": image, "caption": text} for i, image, text in rows]
        file = tmp_path / f"annotations/captions_{part}.json"
        file.write_text(json.dumps({"annotations": annotations}))
    return tmp_path


def test_captions_are_cocos_in_the_order_of_their_ids(coco):
    put(coco, ["8", "u", "Who?"], ["7", "u", "Why?---Where?"], ["9", "u", "none"])
    rows = vqg(root=coco, coco=coco, features=put_npz(coco, 7, 8), splits=["test"]).splits["test"]
    assert list(rows["id"]) == ["8", "7"]
    assert list(rows["captions"]) == [["c"], ["a", "b"]]
    assert list(rows["caption"]) == ["c", "a"]
    assert list(rows["questions"]) == [["Who?"], ["Why?", "Where?"]]
    assert list(rows["question"]) == ["Who?", "Why?"]
    assert [float(picture.regions.vectors[0, 0]) for picture in rows["picture"]] == [8.0, 7.0]
    assert "ratings" not in rows.columns
    assert rows["regions"].examples().ids == rows["picture"].examples().ids == ["8", "7"]


def test_an_image_without_captions_is_named(coco):
    put(coco, ["6", "u", "Who?"])
    with pytest.raises(DataError, match=r"captions_train2014\.json or .* no caption of image 6$"):
        vqg(root=coco, coco=coco, splits=["test"])


def test_two_files_of_one_image_are_named(coco):
    put(coco, ["7", "u", "Who?"])
    for part in ("train2014", "val2014"):
        (coco / part).mkdir()
        (coco / part / f"COCO_{part}_000000000007.jpg").touch()
        (coco / part / "notes_7.txt").touch()
    message = r"^image 7 has two files, train2014/COCO_train.*7\.jpg and val2014/COCO_val.*; keep"
    with pytest.raises(DataError, match=message):
        vqg(root=coco, coco=coco, splits=["test"])


def test_an_image_of_no_number_has_no_captions_of_coco(coco):
    put(coco, ["a7", "u", "Who?"])
    with pytest.raises(DataError, match=r"^coco_test_all\.csv: 'a7' is not an image id of COCO$"):
        vqg(root=coco, coco=coco, splits=["test"])


def test_what_a_source_does_not_have_is_refused(tmp_path):
    with pytest.raises(ValueError, match="images of bing are not from COCO"):
        vqg(root=tmp_path, source="bing", coco=tmp_path)
    with pytest.raises(ValueError, match="no split 'dev'; there are train, val, test"):
        vqg(root=tmp_path, splits=["dev"])


# Images and questions of each split, as SOURCES.md and a count of the cells have them.
COUNTS = {
    "coco": {"train": (2500, 12494), "val": (1242, 6203), "test": (1248, 6234)},
    "flickr": {"train": (2057, 10392), "val": (1039, 5236), "test": (1043, 5329)},
    "bing": {"train": (998, 4939), "val": (479, 2364), "test": (446, 2201)},
}


@pytest.mark.parametrize("source", COUNTS)
def test_the_real_files_have_as_many_questions_as_they_are_said_to(real_data, source):
    data = vqg(root=real_data / "vqg", source=source)
    found = {
        name: (len(split), sum(map(len, split["questions"]))) for name, split in data.splits.items()
    }
    assert found == COUNTS[source]
    assert data.expected == EXPECTED
    assert ["ratings" in split.columns for split in data.splits.values()] == [False, False, True]
    assert ("captions" in data.splits["test"].columns) is (source == "bing")


def test_all_real_questions_together_are_those_of_the_paper_but_for_dead_links(real_data):
    assert sum(n for splits in COUNTS.values() for _, n in splits.values()) == 55_392
    rows = vqg(root=real_data / "vqg", splits=["test"]).splits["test"]
    assert rows["questions"][0][2] == "I wonder if she made that bag?"
    assert rows["ratings"][1] == [2, 2, 1, 3, 3]
    # Three questions and five ratings: nobody knows which are whose.
    assert [None, None, None] in list(rows["ratings"])


@pytest.fixture
def small_coco(real_data, tmp_path):
    """A folder like COCO's, of 20 of its images and their captions, as if all were of train2014."""
    mini = real_data / "coco_mini"
    (tmp_path / "train2014").symlink_to(mini / "train2017")
    (tmp_path / "annotations").mkdir()
    for part in ("train2014", "val2014"):
        file = tmp_path / f"annotations/captions_{part}.json"
        file.symlink_to(mini / "annotations" / "captions_train2017.json")
    return tmp_path


def test_three_real_images_have_real_captions_and_real_questions(real_data, small_coco):
    captions = json.loads((small_coco / "annotations/captions_train2014.json").read_text())
    there = {str(image["id"]) for image in captions["images"]}
    for split in EXPECTED:
        file = real_data / "vqg" / f"coco_{split}_all_clean.csv"
        with file.open(newline="", encoding="utf-8") as lines:
            own = [row[:3] for row in csv.reader(lines) if row[0] in there]
        put(small_coco, *own, name=f"coco_{split}_all.csv")
    splits = vqg(root=small_coco, coco=small_coco).splits
    ids = {name: list(rows["id"]) for name, rows in splits.items()}
    assert ids == {"train": ["256353"], "val": ["196393"], "test": ["790"]}
    assert splits["val"]["questions"][0][0] == "Is the cat going to eat the bird?"
    own = sorted((a["id"], a["caption"]) for a in captions["annotations"] if a["image_id"] == 790)
    assert splits["test"]["captions"][0] == [caption for _, caption in own]
    assert splits["test"]["caption"][0] == own[0][1]
    assert splits["test"]["picture"][0].image.size == splits["test"]["image"][0].size
    assert splits["test"]["image"].examples().ids == ["train2014/000000000790.jpg"]
