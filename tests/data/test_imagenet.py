import json

import pytest
from PIL import Image

from vlbench.data.imagenet import imagenet
from vlbench.data.records import labels
from vlbench.errors import DataAbsent, DataError

# Sorted by wnid, tench is class 0 and bolete class 999; 997 between them are made up.
WORDS = ["n01440764 tench, Tinca tinca", "n01443537 goldfish, Carassius auratus"]
WORDS += [f"n02{i:06d} made up {i}" for i in range(997)] + ["n13054560 bolete"]


def put(root, *names, words=WORDS):
    root.mkdir(exist_ok=True)
    for width, name in enumerate(names, 1):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (width, 5)).save(root / name)
    (root / "LOC_synset_mapping.txt").write_text("\n".join(words) + "\n")
    return root


def rows(data):
    split = data.splits["test"]
    widths = [image.width for image in split["image"]]
    return list(zip(widths, labels(split).tolist(), split["wnid"], strict=True))


ORDERED = [(2, 0, "n01440764"), (3, 0, "n01440764"), (1, 999, "n13054560")]
VALIDATION = [f"ILSVRC2012_val_0000000{i}.JPEG" for i in (3, 1, 2)]


def test_a_folder_a_wnid_is_read_in_the_order_of_classes(tmp_path):
    folders = ["n13054560", "n01440764", "n01440764"]
    root = put(tmp_path, *[f"{f}/{v}" for f, v in zip(folders, VALIDATION, strict=True)])
    assert rows(imagenet(root=root)) == ORDERED


def test_flat_images_take_their_wnid_from_the_solution(tmp_path):
    root = put(tmp_path, *[f"ILSVRC/Data/CLS-LOC/val/{name}" for name in VALIDATION])
    (root / "LOC_val_solution.csv").write_text(
        "ImageId,PredictionString\nILSVRC2012_val_00000003,n13054560 85 1 499 272 \n"
        "ILSVRC2012_val_00000002,n01440764 0 0 9 9 n01440764 1 1 2 2 \n"
        "ILSVRC2012_val_00000001,n01440764 131 0 499 254 \n"
    )
    assert rows(imagenet(root=root)) == ORDERED


def test_flat_images_take_their_wnid_from_a_list_of_labels(tmp_path):
    root = put(tmp_path, *VALIDATION)
    labels_file = root / "imagenet_2012_validation_synset_labels.txt"
    labels_file.write_text("n01440764\nn01440764\nn13054560\n")
    assert rows(imagenet(root=root)) == ORDERED


def test_flat_images_may_begin_with_their_wnid(tmp_path):
    root = put(
        tmp_path,
        "images/n13054560_bolete.JPEG",
        "images/n01440764_a.JPEG",
        "images/n01440764_b.jpeg",
    )
    assert rows(imagenet(root=root)) == ORDERED


def test_all_layouts_of_the_same_images_have_one_key(tmp_path):
    flat = put(tmp_path / "flat", *VALIDATION)
    (flat / "LOC_val_solution.csv").write_text(
        "ILSVRC2012_val_00000003,n13054560 1\nILSVRC2012_val_00000002,n01440764 1\n"
        "ILSVRC2012_val_00000001,n01440764 1\n"
    )
    folders = ["n13054560", "n01440764", "n01440764"]
    deep = put(
        tmp_path / "deep", *[f"val/{f}/{v}" for f, v in zip(folders, VALIDATION, strict=True)]
    )
    assert imagenet(root=flat).digest() == imagenet(root=deep).digest()


def test_classes_are_all_synonyms_sorted_by_wnid(tmp_path):
    root = put(tmp_path, "n01440764_a.JPEG", words=[w.replace(" ", " : ", 1) for w in WORDS[::-1]])
    classes = imagenet(root=root).classes
    assert (classes[0], classes[1], classes[999]) == (
        "tench, Tinca tinca",
        "goldfish, Carassius auratus",
        "bolete",
    )


def test_a_part_of_the_set_says_what_it_lacks(tmp_path):
    assert imagenet(root=put(tmp_path, "n01440764_a.JPEG")).missing_rows() == {"test": 49_999}


def test_train_images_are_read_where_they_are_asked_for(tmp_path):
    root = put(tmp_path, "val/n01440764/b.JPEG", "train/n01440764/a.JPEG", "train/n01443537/c.JPEG")
    data = imagenet(root=root, train=True)
    assert list(data.splits["train"]["wnid"]) == ["n01440764", "n01443537"]
    assert data.missing_rows() == {"test": 49_999, "train": 1_281_165}
    assert list(imagenet(root=root).splits) == ["test"]


def test_absent_train_images_say_where_to_put_them(tmp_path):
    root = put(tmp_path, "val/n01440764/b.JPEG")
    with pytest.raises(DataAbsent, match=r"train/<wnid>/\*\.JPEG"):
        imagenet(root=root, train=True)


def test_an_image_that_the_labels_lack_is_named(tmp_path):
    (put(tmp_path, *VALIDATION) / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n")
    with pytest.raises(DataError, match=r"^ILSVRC2012_val_0000000\d\.JPEG has no wnid"):
        imagenet(root=tmp_path)


def test_a_wnid_that_the_list_lacks_is_named(tmp_path):
    with pytest.raises(DataError, match=r"^n99999999_a\.JPEG: wnid n99999999 is not in LOC_"):
        imagenet(root=put(tmp_path, "n99999999_a.JPEG"))


def test_the_real_sample_agrees_with_the_class_index_of_keras(real_data):
    root = real_data / "imagenet_sample"
    split = imagenet(root=root).splits["test"]
    index = json.loads((root / "imagenet_class_index.json").read_text())
    assert [index[str(i)][0] for i in labels(split)] == list(split["wnid"])
    assert len(set(split["wnid"])) == len(split) == 60
    first = Image.open(root / "images/n01440764_tench.JPEG").convert("RGB")
    assert split["image"][0].tobytes() == first.tobytes()
