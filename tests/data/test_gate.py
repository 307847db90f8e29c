"""Each rule about rows, at the door of each source of rows. A loader without a line here fails."""

import ast
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from row_sources import SOURCES, encoded, load, row, with_column

import vlbench.data
from vlbench.data import table
from vlbench.data.captioned_folder import captioned_folder
from vlbench.data.gate import columns_of
from vlbench.data.image_folder import image_folder
from vlbench.data.records import labels
from vlbench.errors import DataError
from vlbench.run.extraction import of_folder

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
LABELLED, CAPTIONED = with_column("label"), with_column("caption")
# Those that read texts from cells of their own, and images from files that somebody names.
TABLES = ["csv", "parquet", "hub", "saved"]


def test_each_source_of_rows_has_a_line():
    found = set()
    for file in Path(vlbench.data.__file__).parent.rglob("*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "Unpack" in ast.unparse(node.args):
                found.add((f"vlbench.data.{file.stem}", node.name))
    assert found == {(one.load.__module__, one.load.__name__) for one in SOURCES.values()}


PETS = [row(1), row(2, name="2 cats"), row(9, "dog")]


def test_the_same_rows_are_the_same_data_in_each_source(tmp_path):
    found = [load(name, tmp_path / name, PETS, ["label"]) for name in LABELLED]
    assert len({data.digest() for data in found}) == 1
    assert found[0].classes == ["cat", "dog"]
    assert labels(found[0].splits["test"]).tolist() == [0, 0, 1]
    assert set(found[0].splits["test"].columns) == {"image", "label"}


@pytest.mark.parametrize("name", CAPTIONED)
def test_captions_stay_as_they_are(name, tmp_path):
    given = " a caf\u0065\u0301\u2028on\x85two \x0c"
    (split,) = load(name, tmp_path / "set", [row(1, caption=[given])], ["caption"]).splits.values()
    assert [*split["captions"]] == [[given]]
    assert (split["caption"][0], split["caption"].kind) == (given, "text")
    assert split["picture"][0].image.getpixel((0, 0)) == (1, 0, 0)


@pytest.mark.parametrize("name", [one for one in CAPTIONED if one != "csv"])
def test_blank_captions_are_none_of_several(name, tmp_path):
    rows = [row(1, caption=["one", " ", "two"])]
    split = load(name, tmp_path / "set", rows, ["caption"]).splits["test"]
    assert [*split["captions"]] == [["one", "two"]]
    assert "label" not in split.columns


@pytest.mark.parametrize("name", LABELLED)
def test_two_spellings_of_a_class_are_one(name, tmp_path):
    rows = [row(1, COMPOSED), row(2, DECOMPOSED), row(3, "thé")]
    data = load(name, tmp_path / "set", rows, ["label"])
    assert list(data.classes) == [COMPOSED, "thé"]
    assert labels(data.splits["test"]).tolist() == [0, 0, 1]


def test_two_spellings_of_a_folder_or_a_file_are_one(tmp_path):
    put_halves = [row(1, COMPOSED), row(2, DECOMPOSED), row(3, "thé"), row(4, "thé")]
    SOURCES["folders"].put(tmp_path, put_halves, "all")
    assert list(image_folder(root=tmp_path / "all", halves=0).classes) == [COMPOSED, "thé"]
    assert sorted(set(of_folder(tmp_path / "all").labels or ())) == [COMPOSED, "thé"]
    SOURCES["folders"].put(tmp_path, [row(1, COMPOSED)], "train")
    SOURCES["folders"].put(tmp_path, [row(1, DECOMPOSED)], "test")
    assert list(image_folder(root=tmp_path).classes) == [COMPOSED]


@pytest.mark.parametrize(("listed", "stored"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_an_image_is_found_in_either_spelling_of_its_file(listed, stored, tmp_path):
    (tmp_path / f"{stored}.png").write_bytes(encoded(1))
    (tmp_path / "test.csv").write_text(f"image,label\n{listed}.png,cat\n", "utf-8")
    assert table.images(root=tmp_path, test="test.csv").splits["test"]["image"][0].size == (4, 3)
    (tmp_path / f"{listed}.txt").write_text("a cup")
    assert list(captioned_folder(root=tmp_path).splits["test"]["caption"]) == ["a cup"]


@pytest.mark.parametrize("name", LABELLED)
def test_a_name_may_have_any_letters(name, tmp_path):
    given = ["cat\u200dfish", "חתול", "a.b", "CAT", "c" * 200]
    rows = [row(i, text) for i, text in enumerate(given)]
    assert sorted(load(name, tmp_path / "set", rows, ["label"]).classes) == sorted(given)


@pytest.mark.parametrize("name", LABELLED)
def test_blanks_at_the_ends_of_a_class_are_cut_and_said(name, tmp_path):
    data = load(name, tmp_path / "set", [row(1, "cat "), row(2, "dog")], ["label"])
    assert data.classes == ["cat", "dog"]
    assert data.notes == ["data: blanks are cut from the ends of 1 class name, such as 'cat '"]


def absent(name):
    """Ask for a column by a name that is nearly its own; a tar has no header, but rows."""
    (kind, column), *_ = SOURCES[name].columns.items()
    told = f"no column is named '{column[:-1]}'; did you.*{column}|1 has no .{column[:-1]}"
    return [name], PETS, (), {kind: column[:-1]}, told


# The sources, their rows, the columns that are read and how these are named, and what is said.
REFUSED = [
    ([one for one in CAPTIONED if one != "captioned folder"], [row(1), row(2, caption=[""])],
     ["caption"], {}, r"(row [12]|test/0\.tar: 2) has no caption"),
    (LABELLED, [row(1, "cat"), row(2, "cat ")], ["label"], {},
     "two classes are named 'cat', except for spaces around it"),
    (LABELLED, [row(1, "c\x1bat")], ["label"], {},
     r"the class 'c\\x1bat' contains a control character"),
    (LABELLED, PETS, ["label"], {"classes": ["cat", "yak"]},
     "no class is named 'dog'|not the classes that the data list: '(dog|yak)'"),
    (TABLES, [row(1, name="a"), row(2, name="a")], ["item"], {},
     r"test[^:]*: two rows have the item 'a'; give each row its own"),
    (TABLES[1:], [row(1, key="a"), row(2, key=None)], (), {"item": "key"},
     r", row [12]: the item is missing"),
    (["parquet"], [row(1, 0), row(2, 1)], ["label"], {},
     "row 1: the label is 0, not a text; list the names as `cla"),
    *((TABLES, [row(1, word="a"), row(2, word=" ")], (), {kind: "word"},
       rf"row [12](:| has) .*{kind}")
      for kind in ("caption", "category", "cluster", "caption_2", "foil")),
    *map(absent, SOURCES),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rows", "kinds", "options", "message"),
    [(name, *rule) for names, *rule in REFUSED for name in names],
)
def test_rows_that_break_a_rule_are_refused_by_name(tmp_path, name, rows, kinds, options, message):
    with pytest.raises(DataError, match=message):
        load(name, tmp_path / "set", rows, kinds, **options)


@pytest.mark.parametrize("name", LABELLED)
def test_classes_may_be_listed_in_an_order_of_their_own(name, tmp_path):
    data = load(name, tmp_path / "set", PETS, ["label"], classes=["dog", "cat"])
    assert (data.classes, data.class_order) == (["dog", "cat"], "listed")
    assert labels(data.splits["test"]).tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", TABLES)
def test_a_column_has_one_spelling(name, tmp_path):
    rows = [row(1, **{DECOMPOSED: "a"})]
    read = load(name, tmp_path / "set", rows, caption=f" {COMPOSED} ").splits["test"]
    assert [*read["caption"]] == ["a"]
    with pytest.raises(DataError, match=rf"two columns are named '{COMPOSED}'"):
        load(name, tmp_path / "twice", [row(1, **{DECOMPOSED: "a", f"{COMPOSED} ": "b"})])


def test_an_empty_name_is_no_column():
    named = {"image": "img", "label": "", "caption": ["a", "", "b"], "item": "id", "question": [""]}
    assert columns_of(named) == {"image": ["img"], "caption": ["a", "b"], "item": ["id"]}
    with pytest.raises(DataError, match="`image` names no column"):
        columns_of({"image": ""})
    with pytest.raises(DataError, match=r"the column of the item 'i\\x07d' contains a control"):
        columns_of({"item": "i\x07d"})


@pytest.mark.parametrize("name", with_column("item", "label"))
def test_items_name_the_examples(name, tmp_path):
    split = load(name, tmp_path / "set", PETS, ["item", "label"]).splits["test"]
    assert split["image"].examples().ids == ["1", "2 cats", "9"]


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_one_image_are_one_image_with_all_captions(name, tmp_path):
    rows = [
        row(level, caption=[f"{level} {n}"], name=f"{level}") for level in (1, 2) for n in range(3)
    ]
    mixed = [rows[i] for i in (0, 3, 1, 4, 2, 5)]
    for given in (rows, mixed):
        root = tmp_path / str(given is rows)
        split = load(name, root, given, ["caption", "item"]).splits["test"]
        assert [*split["captions"]] == [["1 0", "1 1", "1 2"], ["2 0", "2 1", "2 2"]]
        assert split["picture"].examples().ids == ["1", "2"]
        assert split["picture"][1].image.getpixel((0, 0)) == (2, 0, 0)


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_one_image_with_two_labels_are_two_examples(name, tmp_path):
    rows = [row(1, "cat"), row(2, "dog", name="b"), row(1, "dog", name="c")]
    split = load(name, tmp_path / "set", rows, ["caption", "label"]).splits["test"]
    assert labels(split).tolist() == [0, 1, 1]


@pytest.mark.parametrize("name", with_column("foil"))
def test_foils_are_items_of_their_own(name, tmp_path):
    rows = [row(1, foil="a dog", kind="x"), row(1, foil="a yak", kind="x", name="b")]
    data = load(name, tmp_path / "set", rows, ["caption", "foil"], category="kind", cluster="kind")
    split = data.splits["test"]
    assert [*split["foils"]] == [["a dog"], ["a yak"]]
    assert [*split["category"]] == [*split["cluster"]] == ["x", "x"]


@pytest.mark.parametrize("name", with_column("image_2"))
def test_second_images_are_numbered(name, tmp_path):
    more = {"caption": "caption", "image_2": ["image", "image"], "caption_2": "name"}
    split = load(name, tmp_path / "set", PETS, **more).splits["test"]
    assert split["image_3"][1].getpixel((0, 0)) == split["picture_2"][1].image.getpixel((0, 0))
    assert (split["caption_2"][1], split["caption_2"].kind) == ("2 cats", "text")


@pytest.fixture
def regions(tmp_path):
    """The regions of images `1` and `2`, each of its own number."""
    (tmp_path / "regions").mkdir()
    for i, width in ((1, 4), (2, 40)):
        arrays = {"x": np.full((1, 3), i), "boxes": [[0, 0, 2, 2]], "image_w": width, "image_h": 3}
        np.savez(tmp_path / f"regions/{i}.npz", **arrays)
    return tmp_path / "regions"


@pytest.mark.parametrize("name", [one for one in SOURCES if one != "folders"])
def test_regions_are_found_by_the_name_of_an_item_or_a_file(name, tmp_path, regions):
    kinds = [kind for kind in ("caption", "item") if kind in SOURCES[name].columns]
    split = load(name, tmp_path / "set", [row(1), row(2)], kinds, regions=regions).splits["test"]
    assert torch.equal(split["regions"][0].vectors, torch.ones(1, 3))
    assert split["picture"][0].regions.size == (4, 3)
    with pytest.raises(DataError, match=r"2\.npz is for an image of \(40, 3\), .* is \(4, 3\)"):
        split["picture"][1]
    with pytest.raises(DataError, match=r"no regions of image 7(\.png)? \(missing for 1 of 2 ima"):
        load(name, tmp_path / "other", [row(1), row(7)], kinds, regions=regions)


@pytest.mark.parametrize("name", with_column("item"))
def test_two_splits_of_the_same_names_have_no_regions(name, tmp_path, regions):
    source = SOURCES[name]
    for level, split in enumerate(("train", "test"), 1):
        (tmp_path / "set").mkdir(exist_ok=True)
        source.put(tmp_path / "set", [row(level, name="1")], split)
    if "splits" in source.arguments:
        both = {"splits": {"train": "train", "test": "test"}}
    else:
        both = {"train": source.arguments["test"].replace("test", "train")}
    if name == "saved":
        pytest.skip("save_to_disk writes all splits at once")
    named = {kind: source.columns[kind] for kind in ("item", "caption")}
    with pytest.raises(DataError, match="the images 1 of train and 1 of test would both have the"):
        source.load(
            root=tmp_path / "set", label="", regions=regions, **source.arguments | both, **named
        )


@pytest.mark.parametrize("name", ["hub", "saved"])
def test_regions_are_not_found_by_the_numbers_of_rows(name, tmp_path, regions):
    with pytest.raises(DataError, match=r"^test: the images have no names, so .* as `item`$"):
        load(name, tmp_path / "set", PETS, regions=regions)


@pytest.mark.parametrize("name", SOURCES)
def test_a_picture_that_is_damaged_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setattr("row_sources.encoded", lambda _: b"\x89PNG no image")
    kinds = [*SOURCES[name].columns][:1]
    with pytest.raises(DataError, match="cannot be decoded as an image"):
        load(name, tmp_path / "set", [row(1)], kinds)


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_numbers_mean_classes_where_none_of_the_names_is_a_number(name, tmp_path):
    rows = [row(1, "1"), row(2, "0"), row(3, "yak")]
    data = load(name, tmp_path / "set", rows, ["label"], classes=["cat", "yak"])
    assert labels(data.splits["test"]).tolist() == [1, 0, 1]
    with pytest.raises(DataError, match=r"^test\.\w+, row 2: no class is named '0'"):
        load(name, tmp_path / "set", rows, ["label"], classes=["1", "yak", "dog"])
