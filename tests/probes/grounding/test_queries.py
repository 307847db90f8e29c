import pytest
from grounding_fakes import Scene, data_of, two_things

from vlbench.errors import DataError, TooFewRows
from vlbench.probes.grounding.queries import WordTarget, first_images, image_queries

SPLIT = data_of([two_things(i, 0, 1) for i in range(3)]).splits["test"]


def test_a_query_has_the_characters_of_its_word_and_the_boxes_of_its_target():
    found = image_queries(SPLIT, 2, [[WordTarget(1, 4, (1, 0)), WordTarget(0, 1, (0,))]])
    (text,) = found["texts"]
    ((first, second),) = found["queries"]
    assert text[first.start : first.stop] == "thing1"
    assert (first.group, first.target, second.group, second.target) == (1, 0, 0, 1)
    assert found["targets"] == [[[20, 0, 44, 24], [0, 0, 10, 10]], [[0, 0, 10, 10]]]


def test_queries_of_the_same_boxes_share_a_target():
    found = image_queries(SPLIT, 0, [[WordTarget(0, 1, (0,)), WordTarget(0, 4, (0,))]])
    assert len(found["targets"]) == 1


def test_a_word_that_its_caption_lacks_is_bad_data():
    split = data_of([Scene(["a", "b"], [])]).splits["test"]
    split["words"].stored[0][0][1] = "c"
    with pytest.raises(DataError, match="the caption 'a b' has no word 'c'"):
        image_queries(split, 0, [[WordTarget(0, 1, (0,))]])


def test_the_first_images_are_read_or_all():
    assert len(first_images(SPLIT, 2)) == 2
    assert len(first_images(SPLIT, None)) == len(first_images(SPLIT, 9)) == 3


@pytest.mark.parametrize("images", [0, 1])
def test_fewer_than_two_images_cannot_be_halved(images):
    with pytest.raises(TooFewRows, match=rf"{images} images?; two halves need two"):
        first_images(SPLIT, images)
