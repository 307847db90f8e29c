"""A sample of rows of both sets, drawn anew, and the parts that draw them."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from numpy.random import default_rng
from PIL import Image
from scenes_reader import Truth, answer_is_true, caption_is_true

from vlbench.capabilities import Picture
from vlbench.cli import main
from vlbench.data.records import Data, Split
from vlbench.data.scenes import contact_sheet, loaders
from vlbench.data.scenes.drawing import draw
from vlbench.data.scenes.facts import Group
from vlbench.data.scenes.grammar import Sentence, enumerate_groups, name
from vlbench.data.scenes.layout import several, single
from vlbench.data.scenes.loaders import _columns
from vlbench.data.scenes.rows import drawing, row, sizes
from vlbench.data.scenes.shapes import SHAPES
from vlbench.data.scenes.storage import kept
from vlbench.data.scenes.world import CATEGORIES, COLOURS, NOUNS, TYPICAL, plural
from vlbench.digests import digest
from vlbench.errors import OutputError

# Another generator, Pillow's drawing included, is another VERSION.
PINNED = "sha256:59e4f8f847cfa06ed06c89b4b07eab8f2f3e0fac816a2735f505df6a00af9c29"

SAMPLE = [("objects", i) for i in range(0, 3000, 60)] + [("scenes", i) for i in range(0, 6000, 60)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "rows"
    return kept(folder, lambda: (row(name, 0, i) for name, i in SAMPLE))


@pytest.fixture
def rows(table):
    return {name: column.stored for name, column in _columns(table).items()}


def test_captions_and_answers_are_true_of_the_drawing(rows):
    for i in range(len(SAMPLE)):
        truth = Truth(rows, i)
        said = zip(rows["words"][i], rows["phrases"][i], strict=True)
        asked = zip(rows["questions"][i], rows["answers"][i], strict=True)
        assert all(caption_is_true(truth, *caption) for caption in said)
        assert all(answer_is_true(truth, *pair) for pair in asked)


def test_captions_of_another_image_are_not_true_of_the_drawing(rows):
    several = range(50, len(SAMPLE) - 1)
    told = [
        caption_is_true(Truth(rows, i), rows["words"][i + 1][j], rows["phrases"][i + 1][j])
        for i in several
        for j in range(5)
        if max(b for p in rows["phrases"][i + 1][j] for b in (*p.boxes, 0)) < len(rows["boxes"][i])
    ]
    assert np.mean(told) < 0.1


def test_left_is_never_right(rows):
    for i in range(len(SAMPLE)):
        for words, phrases in zip(rows["words"][i], rows["phrases"][i], strict=True):
            turned = " ".join(words).replace("to the left of", "to the right of").split()
            assert turned == words or not caption_is_true(Truth(rows, i), turned, phrases)


def test_a_changed_generator_needs_a_new_version(table):
    assert digest(dict(table.digests)) == PINNED


def test_another_process_draws_the_same():
    code = f"""
from vlbench.data.scenes.rows import row
from vlbench.digests import digest
print(digest([[repr(row(name, 0, i))] for name, i in {SAMPLE[::15]}]))
"""
    ours = digest([[repr(row(name, 0, i))] for name, i in SAMPLE[::15]])
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    run = [sys.executable, "-c", code]
    theirs = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert theirs.stdout.strip() == ours


def test_the_seed_and_the_row_decide_what_is_drawn():
    digests = [row("scenes", seed, i)[1] for seed, i in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_without_a_thing_only_its_box_changes():
    for i in range(0, 6000, 60):
        scene, drawn, _ = drawing("scenes", 0, i)
        if len(scene.things) > 1:
            rest = type(scene)(scene.things[:-1], scene.backdrop)
            changed = np.asarray(drawn.image, int) != np.asarray(draw(rest).image, int)
            rows_, columns = (np.flatnonzero(changed.any((2, axis))) for axis in (1, 0))
            left, top, right, bottom = drawn.boxes[-1]
            assert left - 1 < columns[0] < left + 4
            assert right - 5 < columns[-1] < right
            assert top - 1 < rows_[0] < top + 4
            assert bottom - 5 < rows_[-1] < bottom


def test_what_is_in_front_hides_what_is_behind():
    drawn = draw(_stacked())
    assert drawn.hidden[1, 0] == 1
    assert drawn.hidden[0, 1] == 0
    assert drawn.visible == [0, 1]
    assert drawn.boxes[0] == (0, 0, 0, 0)


def test_twins_share_a_noun_and_are_one_category_fewer():
    scene = several(4, "dog", twins=True, rng=default_rng(0))
    nouns = Counter(thing.noun for thing in scene.things)
    assert sorted(nouns.values()) == [1, 1, 2]
    assert len({thing.category for thing in scene.things}) == 3


def test_every_noun_has_a_shape_that_begins_with_its_body():
    assert set(SHAPES) == set(NOUNS)
    assert {parts[0].tone for parts in SHAPES.values()} == {"body"}
    assert max(np.abs(part.points).max() for parts in SHAPES.values() for part in parts) <= 1.2


def test_typical_colours_are_of_categories_and_colours_that_there_are():
    assert set(TYPICAL) == set(CATEGORIES)
    assert {colour for colours in TYPICAL.values() for colour in colours} <= set(COLOURS)


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        ("dog", "dogs"),
        ("puppy", "puppies"),
        ("bench", "benches"),
        ("fish", "fish"),
        ("oak", "oaks"),
    ],
)
def test_plurals_are_english(noun, many):
    assert plural(noun) == many


def test_an_enumeration_has_stanford_dependencies():
    sentence, scene = Sentence(), several(3, "dog", twins=False, rng=default_rng(0))
    groups = [Group((i,), (thing,)) for i, thing in enumerate(scene.things)]
    head = enumerate_groups(sentence, groups, default_rng(0), exact=True)
    relations = [arc.relation for arc in sentence.arcs if arc.head == head]
    assert relations[-4:] == ["punct", "conj", "cc", "conj"]
    assert [sentence.words[p.stop - 1] for p in sentence.phrases] == [g.noun for g in groups]


def test_a_bare_noun_phrase_is_the_noun():
    sentence, thing = Sentence(), single("owl", default_rng(0)).things[0]
    name(sentence, Group((0,), (thing,)), default_rng(0), exact=True, bare=True)
    assert (sentence.words, sentence.tags) == (["the", "owl"], ["DET", "NOUN"])
    assert [tuple(arc) for arc in sentence.arcs] == [("det", 1, 0)]


def test_a_picture_is_the_image_with_its_proposals(rows):
    picture = rows["picture"][3]
    assert isinstance(picture, Picture)
    assert (picture.image.mode, picture.image.size) == ("RGB", (64, 64))
    assert picture.regions.size == (64, 64)
    assert np.array_equal(picture.regions.vectors, rows["regions"][3].vectors)


def test_columns_of_other_content_have_other_keys(table):
    keys = [column.key for column in _columns(table).values()]
    assert len(set(keys)) == len(keys)


def test_a_slice_of_a_column_is_a_list_of_its_values(rows):
    assert rows["nouns"][2:4] == [rows["nouns"][2], rows["nouns"][3]]


def test_what_is_kept_is_not_drawn_again(tmp_path):
    first = kept(tmp_path / "rows", lambda: [row("objects", 0, 7)])
    again = kept(tmp_path / "rows", lambda: pytest.fail("drawn again"))
    assert first.digests == again.digests
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


def test_of_two_runs_at_once_one_is_kept(tmp_path):
    def while_another_run_ends():
        kept(tmp_path / "rows", lambda: [row("objects", 0, 7)])
        return [row("objects", 0, 7)]

    table = kept(tmp_path / "rows", while_another_run_ends)
    assert table.values("nouns") == [["goldfish"]]
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


def test_a_run_that_is_cut_off_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        kept(tmp_path / "rows", lambda: (1 / 0 for _ in range(1)))
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot write .*file/rows"):
        kept(tmp_path / "file" / "rows", list)


def test_a_folder_in_the_way_is_named(tmp_path):
    (tmp_path / "rows" / "other").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"cannot write .*rows"):
        kept(tmp_path / "rows", lambda: [row("objects", 0, 7)])


def test_a_contact_sheet_shows_as_many_images_as_asked(table):
    data = Data(splits={"test": Split(_columns(table)).select(range(8))})
    assert contact_sheet(data, "test", 8).size == (6 * 192, 2 * 246)
    assert contact_sheet(data, "test", 2).size == (2 * 192, 246)
    assert contact_sheet(data, "test", 99).size == (6 * 192, 2 * 246)


@pytest.mark.slow
@pytest.mark.usefixtures("scenes_drawn")
def test_show_writes_a_sheet_of_the_world_and_says_what_is_on_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["show", "scenes"]) == 0
    assert "3600 train, 550 val, 1850 test images of dog, bird" in capsys.readouterr().out
    with Image.open(tmp_path / "scenes.png") as sheet:
        assert sheet.size == (6 * 192, 4 * 246)
    assert main(["show", "objects", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["file"], shown["splits"]["train"]) == ("objects.png", 1600)


def test_drawing_says_how_far_it_is(monkeypatch, caplog):
    monkeypatch.setattr(loaders, "NEWS", 2)
    caplog.set_level("INFO", logger="vlbench")
    assert len(list(islice(loaders._drawn("objects", 0), 4))) == 4
    first, then = caplog.messages
    assert first == "drawing objects, once: 0 of 3000 images"
    assert re.fullmatch(r"drawing objects, once: 2 of 3000 images, \d+ s left", then)


def test_a_contact_sheet_of_nothing_is_refused(table):
    with pytest.raises(ValueError, match="0 images asked"):
        contact_sheet(Data(splits={"test": Split(_columns(table))}), "test", 0)


def test_3000_objects_and_6000_scenes_are_planned():
    assert [sum(sizes(name).values()) for name in ("objects", "scenes")] == [3000, 6000]


def _stacked():
    """Return a small cup right behind a large one."""
    scene = several(2, "cup", twins=True, rng=default_rng(0))
    first = replace(scene.things[0], noun="mug", radius=3.0, centre=(32.0, 32.0), angle=0.0)
    second = replace(first, radius=16.0)
    return replace(scene, things=[first, second])
