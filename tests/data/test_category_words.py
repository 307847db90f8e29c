import json
import re

import pytest
from coco_words import ANNOTATED, HELD_OUT

from vlbench.catalog.catalog import load_catalog
from vlbench.data.category_words import read_class_names, singulars, word_lists
from vlbench.data.coco_files import Named
from vlbench.errors import DataError

VSEP = [task for task in load_catalog().tasks.values() if task.file.parent.name == "vsep"]

NAMES = """person, man, woman, child,  player, people, baby, pitcher, driver
car, jeep, taxi
bus, trolley
train, locomotive
truck, pickup
boat, canoe,  sailboat, surfboard
airplane, plane, air plane
bird, goose, duck
dog, puppy, wolf , bulldog
cat
sheep, ewe, cattle
cow, calf, cattle, ewe
bear
mouse
remote
sports ball, ball, baseball, soccer
surfboard
wine glass
bowl, plate
knife
orange
hot dog
pizza
chair, seat, recliner
couch, sofa, recliner
bed
stop sign
traffic light, stop light
toilet
skis, ski
teddy bear"""
CATEGORIES = [line.split(",")[0] for line in NAMES.splitlines()]

# Sentences and what they name, by the rules.
SENTENCES = {
    "Two men and three women .": "person:man",
    "People feed the geese": "person:people bird:goose",
    "Children play with puppies": "person:child dog:puppy",
    "mice run from the cats": "mouse:mouse cat:cat",
    "a pack of wolves": "dog:wolf",
    "Knives lie on plates": "knife:knife bowl:plate",
    "two calves in the mud": "cow:calf",
    "buses and taxis wait": "bus:bus car:taxi",
    "A man's dog": "person:man dog:dog",
    "CATS SLEEP": "cat:cat",
    "he eats a hot dog": "hot dog:hot dog",
    "hot dogs on a plate": "hot dog:hot dog bowl:plate",
    "a dog eats a hot dog": "dog:dog hot dog:hot dog",
    "it is hot , dogs pant": "dog:dog",
    "a stop sign": "stop sign:stop sign",
    "a stop-sign": "stop sign:stop sign",
    "stop lights at night": "traffic light:stop light",
    "two wine glasses": "wine glass:wine glass",
    "a teddy bear": "teddy bear:teddy bear",
    "a bear and a teddy bear": "bear:bear teddy bear:teddy bear",
    "a stuffed bear": "",
    "an air plane": "airplane:air plane",
    "three surf boards": "surfboard:surfboard",
    "a sail boat": "boat:sailboat",
    "a bull dog": "dog:bulldog",
    "she goes to pick up a cat": "cat:cat",
    "an orange on a plate": "orange:orange bowl:plate",
    "an orange cat": "cat:cat",
    "an orange and white cat": "cat:cat",
    "a cat in bright orange": "cat:cat",
    "some oranges": "orange:orange",
    "slices of orange and an orange slice": "orange:orange",
    "a surfboard": "surfboard:surfboard",
    "cattle near a recliner": "cow:cattle couch:recliner",
    "train tracks": "",
    "a train on train tracks": "train:train",
    "a bus stops at a bus stop": "bus:bus",
    "a baby elephant near a baby": "person:baby",
    "a baseball player catches the baseball": "person:player sports ball:baseball",
    "a pitcher of water": "",
    "a remote beach": "",
    "a license plate": "",
    "the toilet seat is up": "toilet:toilet",
    "a soccer ball": "sports ball:sports ball",
    "a man skis": "person:man skis:skis",
    "a carpet , a catalogue and a mandolin": "",
    "": "",
}


@pytest.fixture
def names(tmp_path):
    (tmp_path / "names.txt").write_text(NAMES)
    return read_class_names(tmp_path / "names.txt", CATEGORIES)


def test_a_sentence_names_what_a_reader_says(names):
    found = {
        sentence: " ".join(f"{name.category}:{name.word}" for name in names.named(sentence))
        for sentence in SENTENCES
    }
    assert found == SENTENCES


def test_a_category_is_named_by_its_first_word_at_its_characters(names):
    sentence = "On a sofa , a woman and a man"
    found = names.named(sentence)
    assert found == [Named("couch", "sofa", 5, 9), Named("person", "woman", 14, 19)]
    assert [sentence[name.start : name.end] for name in found] == ["sofa", "woman"]


COUNTED = [
    ("a man , a woman and a child", 3),
    ("a dog and two dogs", 1),
    ("a hot dog and a dog", 2),
    ("a stuffed bear", 0),
]


@pytest.mark.parametrize(("sentence", "count"), COUNTED)
def test_fine_grained_classes_are_counted(names, sentence, count):
    assert names.count(sentence) == count


def test_a_compound_of_a_category_that_the_list_lacks_names_nothing(tmp_path):
    (tmp_path / "names.txt").write_text("dog")
    names = read_class_names(tmp_path / "names.txt", ["dog"])
    assert names.named("a soccer ball and a dog") == [Named("dog", "dog", 20, 23)]


def test_the_caption_keeps_its_own_form_between_the_characters(names):
    (name,) = names.named("Two Women")
    assert name == Named("person", "woman", 4, 9)


def test_a_word_may_be_the_plural_of_several():
    assert list(singulars("knives")) == ["knives", "knif", "knife", "kniv", "knive"]
    assert list(singulars("wine glasses")) == ["wine glasses", "wine glass", "wine glasse"]


WRONG_LISTS = [
    ("dog, puppy\nhound, cat\n", r"^names\.txt, line 2: unknown or repeated category: 'hound'"),
    ("dog\ndog\n", r"line 2: unknown or repeated category: 'dog'"),
    ("dog\n", r"^names\.txt, line 1: the file ends here, but 2 categories are expected"),
    ("dog\n\ncat\n", r"line 2: unknown or repeated category: ''"),
]


@pytest.mark.parametrize(("lines", "message"), WRONG_LISTS)
def test_a_list_that_does_not_fit_is_named_with_its_line(tmp_path, lines, message):
    (tmp_path / "names.txt").write_text(lines)
    with pytest.raises(DataError, match=message):
        read_class_names(tmp_path / "names.txt", ["dog", "cat"])


def real_names(real_data):
    instances = json.loads((real_data / "coco_mini/annotations/instances_val2017.json").read_text())
    categories = [category["name"] for category in instances["categories"]]
    return read_class_names(real_data / "coco_mini/coco_class_name.txt", categories)


def test_the_real_list_has_409_names_of_which_the_last_line_that_has_one_wins(real_data):
    names = real_names(real_data)
    assert len(names.names) == 409
    found = [names.names[name] for name in ("surfboard", "cattle", "ewe", "recliner", "bison")]
    assert found == ["surfboard", "cow", "cow", "couch", "cow"]
    assert names.names["motor bike"] == "motorcycle"


# Right, found and annotated: what was measured by hand. Without the rules: 173, 182, 175 and
# 88, 94, 89.
@pytest.mark.parametrize(
    ("sample", "counts"), [(ANNOTATED, (175, 177, 175)), (HELD_OUT, (89, 91, 89))]
)
def test_words_of_real_captions_are_found_as_a_reader_finds_them(real_data, sample, counts):
    names = real_names(real_data)
    texts = json.loads((real_data / "caption_eval/captions_val2017.json").read_text())
    captions = {annotation["id"]: annotation["caption"] for annotation in texts["annotations"]}
    right = found = annotated = 0
    for line in sample.strip().splitlines():
        number, _, said = line.partition(" ")
        caption = captions[int(number)]
        truth = {_place(caption, pair) for pair in said.split(", ") if pair}
        ours = names.named(caption)
        right += sum(any(_agree(name, place) for place in truth) for name in ours)
        found, annotated = found + len(ours), annotated + len(truth)
    assert (right, found, annotated) == counts


def _place(caption, pair):
    category, word = pair.split(":")
    return (category, *re.search(rf"\b{word}\b", caption).span())


def _agree(name, place):
    return name.category == place[0] and name.start < place[2] and place[1] < name.end


@pytest.mark.parametrize("name", [task.name for task in VSEP if task.name.endswith("_coco")])
def test_a_task_states_how_well_words_are_found(name):
    (spec,) = (task for task in VSEP if task.name == name)
    stated = spec.document.values["x-mentions"]
    assert "precision 89/91, recall 89/89 on 70 held-out captions" in stated
    assert "175/177 and 175/175 on the 130" in stated


LISTS = word_lists()
SETS = [one for one in LISTS if isinstance(one, frozenset)] + [*LISTS.kinds_of.values()]


def test_compounds_are_two_lower_case_words():
    assert all(len(pair.split()) == 2 and pair == pair.lower() for pair in LISTS.compounds)


def test_all_other_exceptions_are_single_lower_case_words():
    assert all(word.isalpha() and word.islower() for words in SETS for word in words)


def test_a_noun_that_is_also_a_verb_is_modified_only_in_the_singular():
    assert {"stop", "stations", "station"} <= LISTS.heads
    assert "stops" not in LISTS.heads
