import gzip
import json
from collections import Counter

import pytest
from region_files import put_npz

from vlbench.data.vqa import EXPECTED, vqa
from vlbench.errors import DataAbsent, DataError

ASKED = [
    {"question_id": 82, "image_id": 8, "question": "Why?"},
    {"question_id": 72, "image_id": 7, "question": "Who?"},
    {"question_id": 81, "image_id": 8, "question": "Where?"},
]
FILE = "OpenEnded_mscoco_val2014_questions.json"
VAL = {"val": "val2014"}


def put(root, content, name=FILE):
    (root / name).write_text(json.dumps(content))
    return root


def test_questions_are_ordered_by_image_and_id(tmp_path):
    rows = vqa(root=put(tmp_path, {"questions": ASKED}), parts=VAL).splits["val"]
    assert list(rows["id"]) == ["7", "8"]
    assert list(rows["questions"]) == [["Who?"], ["Where?", "Why?"]]
    assert set(rows.columns) == {"id", "question", "questions"}


def test_the_official_header_changes_nothing(tmp_path):
    header = {"info": {"version": "2.0"}, "license": {}, "data_subtype": "val2014"}
    put(tmp_path, {"questions": ASKED})
    put(tmp_path, {**header, "questions": ASKED}, name=f"v2_{FILE}")
    first, second = (vqa(root=tmp_path, parts=VAL, version=v).splits["val"] for v in (1, 2))
    assert first["questions"].key == second["questions"].key


def test_so_many_images_are_expected_as_the_part_of_a_split_has(tmp_path):
    put(tmp_path, {"questions": ASKED})
    data = vqa(root=tmp_path, parts={"test": "val2014"}, files={"test": FILE})
    assert data.missing_rows() == {"test": EXPECTED["val"] - 2}


def test_a_file_may_be_compressed_and_have_another_name(tmp_path):
    (tmp_path / "asked.gzip").write_bytes(gzip.compress(json.dumps({"questions": ASKED}).encode()))
    data = vqa(root=tmp_path, parts=VAL, files={"val": "asked.gzip"})
    assert len(data.splits["val"]) == 2
    assert data.expected == {"val": EXPECTED["val"]}


DAMAGED = [
    ({"questions": [*ASKED, ASKED[0]]}, "the id 82 occurs twice among its questions"),
    ({"questions": [{"question_id": 1, "image_id": 2}]}, "KeyError: 'question'"),
    ({"questions": [ASKED[0] | {"image_id": "x"}]}, "ValueError"),
    ({"questions": [ASKED[0] | {"question": None}]}, "None is not a text"),
    ([], "TypeError"),
    ({}, "KeyError: 'questions'"),
]


@pytest.mark.parametrize(("content", "message"), DAMAGED)
def test_a_damaged_file_is_named(tmp_path, content, message):
    with pytest.raises(DataError, match=rf"^{FILE} is not VQA's, or not whole .*{message}"):
        vqa(root=put(tmp_path, content), parts=VAL)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    from vlbench.data import coco_files

    monkeypatch.setattr(coco_files, "MOST_ANNOTATIONS", 1000)
    (tmp_path / FILE).write_bytes(gzip.compress(b" " * 1001))
    with pytest.raises(DataError, match="unpacks to more than 1000 bytes"):
        vqa(root=tmp_path, parts=VAL)


def captioned(root, part, content):
    (root / "annotations").mkdir(exist_ok=True)
    return put(root, content, name=f"annotations/captions_{part}.json")


def test_captions_of_the_test_images_come_from_a_results_file(tmp_path):
    put(tmp_path, {"questions": ASKED}, name="OpenEnded_mscoco_test2015_questions.json")
    results = [{"image_id": 8, "caption": "b"}, {"image_id": 7, "caption": "a"}]
    captioned(tmp_path, "test2015_neuraltalk2_results", results)
    features = put_npz(tmp_path, 7, 8)
    data = vqa(root=tmp_path, coco=tmp_path, features=features, parts={"test": "test2015"})
    assert list(data.splits["test"]["captions"]) == [["a"], ["b"]]
    assert [len(p.regions.vectors) for p in data.splits["test"]["picture"]] == [1, 1]


@pytest.mark.parametrize("captions", [[{"image_id": 7, "caption": "a"}], [], "x"])
def test_captions_that_are_not_there_are_named(tmp_path, captions):
    captioned(tmp_path, "val2014", captions)
    with pytest.raises(DataError, match=r"^captions_val2014\.json (has no caption of im|is not C)"):
        vqa(root=put(tmp_path, {"questions": ASKED}), coco=tmp_path, parts=VAL)


def test_the_official_files_and_splits_are_named(tmp_path):
    with pytest.raises(DataAbsent, match=r"VQA 1 not found; .*OpenEnded_mscoco_train2014"):
        vqa(root=tmp_path)
    with pytest.raises(ValueError, match="no split 'dev'; there are val"):
        vqa(root=tmp_path, parts=VAL, files={"dev": "x"})


REAL = {"val": "vqa_questions_valid.gzip", "test": "vqa_questions_test.gzip"}


def test_the_real_files_have_as_many_questions_as_they_are_said_to(real_data):
    parts = dict.fromkeys(REAL, "train2014")
    splits = vqa(root=real_data / "vqa_v2", parts=parts, files=REAL).splits
    found = {name: (len(rows), sum(map(len, rows["questions"]))) for name, rows in splits.items()}
    assert found == {"val": (8260, 8977), "test": (2878, 2962)}


def test_an_image_of_vqa_has_three_questions(real_data):
    """The real file with the official header has one image; its questions make it one of VQG."""
    root = real_data / "vqa_v2" / "tiny_with_official_header"
    split = vqa(root=root, parts={"train": "train2014"}, files={"train": "questions.json"})
    (questions,) = split.splits["train"]["questions"]
    assert questions == [
        "What is this photo taken looking through?",
        "What position is this man playing?",
        "What color is the players shirt?",
    ]


def test_two_images_have_real_regions_and_real_questions(real_data, tmp_path):
    """131486 and 578174: LXMERT's 36 regions of bottom-up attention, and questions of VQA v2."""
    asked = []
    for name in REAL.values():
        with gzip.open(real_data / "vqa_v2" / name) as file:
            asked += json.load(file)["questions"]
    own = [question for question in asked if question["image_id"] in {131486, 578174}]
    put(tmp_path, {"questions": own}, name="asked.json")
    features = real_data / "bottom_up_features" / "lxmert_tsv" / "train2014_obj36.tsv"
    data = vqa(
        root=tmp_path, features=features, parts={"test": "train2014"}, files={"test": "asked.json"}
    )
    rows = data.splits["test"]
    assert dict(zip(rows["id"], rows["questions"], strict=True)) == {
        "131486": ["Is this person color coordinated?"],
        "578174": ["Can the skateboarder jump as high as the silver car's taillights?"],
    }
    shapes = Counter((*p.regions.vectors.shape, *p.regions.boxes.shape) for p in rows["picture"])
    assert shapes == {(36, 2048, 36, 4): 2}
    for picture in rows["picture"]:
        boxes, (width, height) = picture.regions.boxes, picture.regions.size
        assert boxes.min() >= 0
        assert boxes[:, 2].max() <= width
        assert boxes[:, 3].max() <= height
