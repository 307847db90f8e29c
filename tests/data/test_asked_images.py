import pytest
from PIL import Image

from vlbench.data.asked_images import AskedImage, Sources, asked_data, asked_split, captions_of
from vlbench.errors import DataAbsent, DataError

NOTHING = Sources(None, [], None)


def image(name="7", questions=("Who?",), ratings=None, captions=()):
    rated = ratings or [None] * len(questions)
    return AskedImage(name, list(questions), list(rated), list(captions))


def test_a_split_has_the_columns_that_its_source_has():
    plain = asked_split([image()], NOTHING)
    assert set(plain.columns) == {"id", "question", "questions"}
    whole = asked_split([image(ratings=[3], captions=["a", "b"])], NOTHING)
    assert set(whole.columns) - set(plain.columns) == {"ratings", "caption", "captions"}
    assert (whole["caption"][0], whole["question"].kind, whole["caption"].kind) == (
        *("a", "text", "text"),
    )


def test_an_image_without_a_question_is_left_out():
    assert list(asked_split([image("7", []), image("8")], NOTHING)["id"]) == ["8"]


def test_images_without_a_question_are_counted_and_so_are_those_not_rated():
    rows = {"val": [image("7", []), image("8")], "test": [image("9", ratings=[3]), image("5")]}
    data = asked_data(rows, dict.fromkeys(rows, NOTHING), {"val": 2})
    assert data.dropped == {"images without a question": 1}
    assert data.missing_rows() == {"val": 1}
    assert data.notes == ["not rated: the questions of 1 image of test"]


def test_images_that_two_splits_share_are_counted():
    rows = {"train": [image("7"), image("8")], "val": [image("8")], "test": [image("9")]}
    data = asked_data(rows, dict.fromkeys(rows, NOTHING), {})
    assert data.notes == ["both in train and in val: 1 image"]


def test_rows_without_images_are_known_by_the_ids_of_theirs():
    split = asked_split([image("9"), image("5")], NOTHING)
    assert split["question"].select([1]).examples().ids == ["5"]


def test_equal_questions_have_one_key_and_others_another():
    first, same, other = (
        asked_split([image(questions=[text])], NOTHING)["questions"].key for text in "aab"
    )
    assert first == same != other


@pytest.fixture
def coco(tmp_path):
    """Images 7, in one part of COCO, and 8 in another."""
    for part, number in (("train2014", 7), ("val2014", 8)):
        (tmp_path / part).mkdir()
        Image.new("RGB", (number, 4)).save(tmp_path / part / f"COCO_{part}_{number:012d}.jpg")
    return tmp_path


def test_images_are_found_by_their_numbers_in_every_part(coco):
    sources = Sources(coco, ["train2014", "val2014"], None)
    split = asked_split([image("8"), image("7")], sources)
    assert [one.size for one in split["image"]] == [(8, 4), (7, 4)]
    assert split["picture"][0].image.size == (8, 4)
    assert split["picture"][0].regions is None


def test_an_image_without_its_file_is_named(coco):
    with pytest.raises(DataError, match=r"train2014/9 is missing \(1 of 2 images in the quest"):
        asked_split([image("7"), image("9")], Sources(coco, ["train2014"], None))


def test_without_images_and_regions_there_is_nothing_to_ask_about(tmp_path):
    with pytest.raises(DataAbsent, match=r"COCO's images not found; .*train2014"):
        asked_split([image()], Sources(tmp_path, ["train2014"], None))


def test_captions_are_those_of_the_first_file_that_has_the_image():
    files = [{7: ["a", " "]}, {7: ["b"], 8: [""]}]
    assert captions_of(7, files, "a.json") == ["a"]
    for number in (8, 9):
        with pytest.raises(DataError, match=rf"^a\.json has no caption of image {number}$"):
            captions_of(number, files, "a.json")
