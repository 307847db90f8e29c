import shutil
import tarfile
from itertools import chain

import numpy as np
import pytest
import torch
from PIL import Image

from vlbench.data import flickr30k as module
from vlbench.data.coco_files import Phrase
from vlbench.data.flickr30k import EXPECTED, flickr30k, read_rows
from vlbench.errors import DataError

SENTENCES = """[/EN#1/people A man] and [/EN#2/people/other two dogs] in [/EN#3/scene the park] .
[/EN#0/notvisual It] is [/EN#4/clothing a hat]
Nobody
Somebody
Anybody
"""
CORNERS = "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>"
BOX = f"<object>{{}}{CORNERS}</object>"
FLAGS = "<object><name>{}</name><scene>{}</scene><nobndbox>{}</nobndbox></object>"
SIZE = "<size><width>40</width><height>30</height><depth>3</depth></size>"


def name(*chains):
    return "".join(f"<name>{number}</name>" for number in chains)


def xml(*things):
    return f"<annotation><filename>7.jpg</filename>{SIZE}{''.join(things)}</annotation>"


THINGS = (
    BOX.format(name(2), 1, 1, 11, 11),
    BOX.format(name(1, 2), 5, 6, 40, 30),
    FLAGS.format(3, 1, 1),
    FLAGS.format(4, 0, 1),
)


def put(root, *, sentences=SENTENCES, annotation=None, images="flickr30k-images", ids=("7",)):
    """One image, 7, whose dogs have two boxes, of which one is the man's too."""
    for folder in ("Sentences", "Annotations", images):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "val.txt").write_text("\n".join(ids) + "\n")
    (root / "Sentences/7.txt").write_text(sentences)
    (root / "Annotations/7.xml").write_text(annotation or xml(*THINGS))
    Image.new("RGB", (40, 30), (9, 8, 7)).save(root / images / "7.jpg")
    return root


def load(root, **options):
    return flickr30k(root=root, splits=["val"], **options).splits["val"]


def put_regions(file, **changed):
    """Two regions of an image of 40 x 30."""
    arrays = {"x": np.eye(2, 5), "boxes": np.array([[0, 0, 9, 9], [1, 2, 30, 20.5]])}
    np.savez(file, **(arrays | {"image_w": 40, "image_h": 30} | changed))
    return file


def test_words_between_blanks_are_the_caption(tmp_path):
    rows = load(put(tmp_path))
    assert rows["captions"][0][0] == "A man and two dogs in the park ."
    assert [" ".join(words) for words in rows["words"][0]] == rows["captions"][0]
    assert rows["caption"][0] == rows["captions"][0][0]


def test_a_phrase_has_all_boxes_of_its_chain_and_a_box_may_be_of_two(tmp_path):
    first, second, third, *_ = load(put(tmp_path))["phrases"][0]
    assert first[:2] == [Phrase(0, 2, (1,)), Phrase(3, 5, (0, 1))]
    assert third == []
    assert second[1] == Phrase(2, 4, ())


def test_a_scene_and_what_is_not_visual_have_no_boxes(tmp_path):
    rows = load(put(tmp_path))
    assert rows["phrases"][0][0][2] == Phrase(6, 8, ())
    assert rows["phrases"][0][1][0] == Phrase(0, 1, ())
    assert rows["chains"][0] == [[1, 2, 3], [0, 4], [], [], []]
    assert rows["types"][0][0] == [["people"], ["people", "other"], ["scene"]]
    assert rows["types"][0][1] == [["notvisual"], ["clothing"]]


def test_boxes_count_from_zero_unless_told_otherwise(tmp_path):
    put(tmp_path)
    assert load(tmp_path)["boxes"][0].tolist() == [[0, 0, 10, 10], [4, 5, 39, 29]]
    assert load(tmp_path, origin=0)["boxes"][0].tolist() == [[1, 1, 11, 11], [5, 6, 40, 30]]


def test_an_image_without_boxes_has_none(tmp_path):
    boxes = load(put(tmp_path, annotation=xml()))["boxes"][0]
    assert boxes.shape == (0, 4)
    assert boxes.dtype == torch.float32


def test_unrelated_captions_are_left_out(tmp_path):
    put(tmp_path)
    (tmp_path / "UNRELATED_CAPTIONS").write_text("# format: <imageID> <sentence number>\n7 1\n9 2")
    rows = load(tmp_path)
    assert rows["captions"][0] == ["It is a hat", "Nobody", "Somebody", "Anybody"]
    assert rows["chains"][0] == [[0, 4], [], [], []]
    told = flickr30k(root=tmp_path, splits=["val"]).dropped
    assert told == {"captions that UNRELATED_CAPTIONS lists": 1}


@pytest.mark.parametrize("folder", ["flickr30k_images/flickr30k_images", "images", "elsewhere"])
def test_images_lie_where_copies_unpack_or_where_told(tmp_path, folder):
    put(tmp_path, images=folder)
    rows = load(tmp_path, images=tmp_path / folder if folder == "elsewhere" else None)
    assert rows["image"][0].size == rows["picture"][0].image.size == (40, 30)
    assert rows["picture"][0].regions is None


def test_regions_stand_in_for_absent_images(tmp_path):
    put(tmp_path)
    shutil.rmtree(tmp_path / "flickr30k-images")
    rows = load(tmp_path, regions=put_regions(tmp_path / "7.npz"))
    picture = rows["picture"][0]
    assert picture.image is None
    assert picture.regions.boxes.tolist() == [[0, 0, 9, 9], [1, 2, 30, 20.5]]
    assert "image" not in rows.columns
    assert torch.equal(rows["regions"][0].vectors, torch.eye(2, 5))


def test_only_the_files_of_the_asked_splits_are_read(tmp_path):
    put(tmp_path)
    (tmp_path / "train.txt").write_text("no such file\n")
    data = flickr30k(root=tmp_path, splits=["val"])
    assert list(data.splits) == ["val"]
    assert data.missing_rows() == {"val": 999}


def test_columns_are_known_by_what_they_hold_and_not_by_where(tmp_path):
    one, same = load(put(tmp_path / "a")), load(put(tmp_path / "b", images="images"))
    other = load(put(tmp_path / "c", sentences=SENTENCES.replace("A man", "A boy")))
    differing = [name for name in one.columns if one[name].key != other[name].key]
    assert differing == ["captions", "caption", "words"]
    assert {name: c.key for name, c in one.columns.items()} == {
        name: c.key for name, c in same.columns.items()
    }


BROKEN = [
    ({"sentences": "A\n\nB\n"}, r"^Sentences/7\.txt, line 2: a caption has no words"),
    ({"sentences": "A\nB\nC\nD\n"}, r"^Sentences/7\.txt has 4 captions, not 5; fetch it again$"),
    (
        {"annotation": xml(*THINGS).replace("7.jpg", "8.jpg")},
        r"^Annotations/7\.xml is for the image '8\.jpg'; fetch it again$",
    ),
    (
        {"annotation": xml().replace("40", "41")},
        r"^7\.jpg is 40x30 pixels, but 41x30 in its XML file in Annotations; fetch both again$",
    ),
    ({"ids": ("7", "7")}, r"^val\.txt has image 7 twice; fetch it again$"),
    ({"ids": ("7", "8")}, r"^Sentences/8\.txt cannot be read \(No such file or directory\), but"),
]


@pytest.mark.parametrize(("files", "message"), BROKEN)
def test_a_file_that_is_not_whole_is_named(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        load(put(tmp_path, **files))


def test_an_absent_annotation_and_an_absent_image_are_named(tmp_path):
    put(tmp_path)
    (tmp_path / "flickr30k-images/7.jpg").unlink()
    with pytest.raises(DataError, match=r"^7\.jpg is missing \(1 of 1 images in val\.txt are\)"):
        load(tmp_path)
    (tmp_path / "Annotations/7.xml").unlink()
    with pytest.raises(DataError, match=r"^Annotations/7\.xml cannot be read"):
        load(tmp_path)


def test_a_split_that_is_none_is_named(tmp_path):
    with pytest.raises(ValueError, match="no split 'dev'; there are train, val, test"):
        flickr30k(root=tmp_path, splits=["dev"])


NOT_UNRELATED = [
    ("7 first\n", "UNRELATED_CAPTIONS: not an image and a number: 7 first"),
    ("7 1\n7 2\n7 3\n7 4\n7 5\n", "^UNRELATED_CAPTIONS lists all captions of image 7"),
]


@pytest.mark.parametrize(("unrelated", "message"), NOT_UNRELATED)
def test_what_cannot_be_unrelated_captions_is_named(tmp_path, unrelated, message):
    (put(tmp_path) / "UNRELATED_CAPTIONS").write_text(unrelated)
    with pytest.raises(DataError, match=message):
        load(tmp_path)


def test_regions_of_an_image_of_another_size_are_refused(tmp_path):
    rows = load(put(tmp_path), regions=put_regions(tmp_path / "7.npz", image_w=80))
    message = r"7\.npz is for an image of \(80, 30\), but the data set's image is"
    with pytest.raises(DataError, match=message):
        rows["picture"][0]


def test_the_real_sample_has_images_of_the_annotated_size(real_data):
    data = flickr30k(root=real_data / "flickr30k_entities/sample")
    assert {name: len(split) for name, split in data.splits.items()} == {
        "train": 15,
        "val": 2,
        "test": 2,
    }
    for split in data.splits.values():
        for image, boxes in zip(split["image"], split["boxes"], strict=True):
            assert (boxes[:, 2:].max(0).values < torch.tensor(image.size)).all()


class Unpacked(dict):
    """Stands for the folder of an unpacked archive: writing 63,566 files takes half a minute."""

    def __truediv__(self, name):
        return self[name]


@pytest.mark.nightly
def test_all_real_files_parse_to_the_official_numbers(real_data, monkeypatch):
    monkeypatch.setattr(module, "read_bytes", lambda content, _: content)
    source = real_data / "flickr30k_entities"
    root = Unpacked()
    with tarfile.open(source / "Flickr30kEntities_v1.0_full_annotations.tar.xz", "r|xz") as packed:
        for member in packed:
            if member.isfile():
                root[member.name.partition("/")[2]] = packed.extractfile(member).read()
    ids = [(source / f"splits/{name}.txt").read_text().split() for name in EXPECTED]
    assert [len(names) for names in ids] == list(EXPECTED.values())
    boxes = captions = chains = 0
    for row in read_rows(root, list(chain(*ids))):
        boxes += len(row["boxes"])
        captions += len(row["words"])
        chains += len({m["chain"] for mentions in row["phrases"] for m in mentions} - {0})
    assert (boxes, captions, chains) == (275_775, 158_915, 243_891)
