import json

import pytest
from PIL import Image
from region_files import lxmert, put_tsv

from vlbench.data.karpathy import karpathy, karpathy_flickr30k
from vlbench.errors import DataError


def image(number, split="test", captions=("A dog sits.",), folder="val2014"):
    sentences = [
        {"raw": text, "tokens": text.lower().strip(".").split(), "imgid": 0, "sentid": i}
        for i, text in enumerate(captions)
    ]
    name = f"COCO_{folder}_{number:012}.jpg"
    return {
        "filepath": folder, "filename": name, "cocoid": number, "imgid": 0, "split": split,
        "sentids": [], "sentences": sentences,
    }  # fmt: skip


IMAGES = [
    image(139, captions=["A dog sits.", "Two cats"]),
    image(42),
    image(9, "restval"),
    image(5, "train", folder="train2014"),
    image(7, "val"),
]


def put(root, images=IMAGES):
    root.mkdir(exist_ok=True)
    content = images if isinstance(images, str) else json.dumps({"images": images, "dataset": "c"})
    (root / "dataset_coco.json").write_text(content)
    for one in IMAGES:
        (root / one["filepath"]).mkdir(exist_ok=True)
        Image.new("RGB", (40, 30)).save(root / one["filepath"] / one["filename"])
    return root


def test_train_and_restval_are_one_split_and_images_are_ordered_by_their_id(tmp_path):
    data = karpathy(root=put(tmp_path))
    ids = {name: list(split["id"]) for name, split in data.splits.items()}
    assert ids == {"train": [5, 9], "val": [7], "test": [42, 139]}
    assert data.missing_rows() == {"train": 113_285, "val": 4_999, "test": 4_998}


def test_captions_are_as_written_and_their_words_as_told_apart_in_the_file(tmp_path):
    test = karpathy(root=put(tmp_path)).splits["test"]
    assert test["captions"][1] == ["A dog sits.", "Two cats"]
    assert test["caption"][1] == "A dog sits."
    assert test["words"][1] == [["a", "dog", "sits"], ["two", "cats"]]
    assert test["image"][0].size == test["picture"][0].image.size == (40, 30)
    assert test["picture"].examples().ids[1] == "val2014/COCO_val2014_000000000139.jpg"


def test_splits_without_pictures_have_captions_alone(tmp_path):
    put(tmp_path)
    for file in tmp_path.glob("train2014/*"):
        file.unlink()
    splits = karpathy(root=tmp_path, pictured=["test"]).splits
    assert "picture" in splits["test"].columns
    assert set(splits["train"].columns) == {"id", "captions", "caption", "words"}


def test_regions_stand_in_for_images_where_a_split_has_them(tmp_path):
    put(tmp_path)
    file = put_tsv(tmp_path, *(lxmert(f"COCO_val2014_000000000{n}") for n in ("042", "139")))
    splits = karpathy(root=tmp_path, regions=file, with_regions=["test"]).splits
    assert splits["test"]["picture"][0].regions is not None
    assert splits["train"]["picture"][0].regions is None
    with pytest.raises(DataError, match=r"features\.tsv has no regions of image"):
        karpathy(root=tmp_path, regions=file)


REFUSED = [
    ([IMAGES[0], IMAGES[0]], r": the image 139 occurs twice"),
    ([IMAGES[0] | {"split": "dev"}], r"not whole \(KeyError: 'dev'\)"),
    ([IMAGES[0] | {"sentences": []}], r"image 139 has no sentence"),
    ([IMAGES[0] | {"cocoid": "139"}], r"'139' is not an id"),
    ([IMAGES[0] | {"filepath": ".."}], r"is not a file"),
    ([IMAGES[0] | {"filename": "a/b.jpg"}], r"is not a file"),
    ([IMAGES[0] | {"sentences": [{"raw": 1, "tokens": []}]}], r"1 is not a text"),
    ([IMAGES[0] | {"sentences": [{"raw": "\ud800", "tokens": []}]}], r"UnicodeEncodeError"),
    ("[]", r"not whole \(TypeError"),
]


@pytest.mark.parametrize(("images", "message"), REFUSED)
def test_a_file_that_does_not_fit_is_named(tmp_path, images, message):
    with pytest.raises(DataError, match=r"^dataset_coco\.json" + ".*" + message):
        karpathy(root=put(tmp_path, images))


def test_a_split_that_is_none_is_named(tmp_path):
    put(tmp_path)
    with pytest.raises(ValueError, match="no split 'dev'; there are train, val, test"):
        karpathy(root=tmp_path, pictured=["dev"])


def flickr(number, split="test", name=None, **more):
    """Return an image of Flickr30k's file, which has neither folders nor COCO's ids."""
    row = image(number, split) | {"filename": name or f"{number}.jpg"} | more
    return {key: value for key, value in row.items() if key not in {"filepath", "cocoid"}}


FLICKR = [flickr(77), flickr(1000), flickr(5, "train"), flickr(7, "val")]


def put_flickr(root, images=FLICKR):
    (root / "flickr30k-images").mkdir(parents=True)
    (root / "dataset_flickr30k.json").write_text(json.dumps({"images": images}))
    for one in FLICKR:
        Image.new("RGB", (40, 30)).save(root / "flickr30k-images" / one["filename"])
    return root


def test_images_of_flickr30k_are_known_by_the_number_in_their_file(tmp_path):
    data = karpathy_flickr30k(root=put_flickr(tmp_path))
    ids = {name: list(split["id"]) for name, split in data.splits.items()}
    assert ids == {"train": [5], "val": [7], "test": [77, 1000]}
    assert data.missing_rows() == {"train": 28_999, "val": 1_013, "test": 998}


def test_captions_of_flickr30k_are_as_written(tmp_path):
    test = karpathy_flickr30k(root=put_flickr(tmp_path), pictured=["test"]).splits["test"]
    assert (test["captions"][0], test["caption"][0]) == (["A dog sits."], "A dog sits.")
    assert test["picture"][0].image.size == (40, 30)
    assert test["image"].examples().ids[0] == "flickr30k-images/77.jpg"


def test_images_of_flickr30k_may_have_regions(tmp_path):
    file = put_tsv(tmp_path, *(lxmert(name) for name in ("77", "1000")))
    data = karpathy_flickr30k(root=put_flickr(tmp_path), regions=file, with_regions=["test"])
    assert data.splits["test"]["picture"][1].regions is not None
    assert data.splits["val"]["picture"][0].regions is None


REFUSED_FLICKR = [
    (flickr(1, name="../1.jpg"), r"'\.\./1\.jpg' is not a file of Flickr30k, whose names"),
    (flickr(1, name="one.jpg"), r"'one\.jpg' is not a file"),
    (flickr(77), r"the image 77 occurs twice"),
]


@pytest.mark.parametrize(("one", "message"), REFUSED_FLICKR)
def test_a_file_of_flickr30k_that_does_not_fit_is_named(tmp_path, one, message):
    with pytest.raises(DataError, match=r"^dataset_flickr30k\.json.*" + message):
        karpathy_flickr30k(root=put_flickr(tmp_path, [*FLICKR, one]))
