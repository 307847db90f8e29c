"""Each file of each set that vlbench.data reads, absent or damaged: an error names it.

The sets are those of the fuzzing, which breaks their files at random.
"""

import re
import shutil

import pytest
from data_files import MADE

from vlbench.errors import DataAbsent, DataError

DAMAGES = {
    "empty": lambda _: b"",
    "a web page": lambda _: b"<html>404</html>",
    "cut short": lambda content: content[: len(content) * 2 // 3],
    "no UTF-8": lambda content: b"\xff\xfe" + content,
}
# What is said of a damaged file after its name, by format.
JSON = r"is not \w+'s, or not whole \("
FOILS = r"is no UTF-8: byte 0|does not fit \(JSONDecodeError"
SAID = {
    "cifar10": "is not a batch of CIFAR",
    "cifar100": "is not a batch of CIFAR",
    "idx": "begins with|is cut off in its header|holds",
    "idx.gz": "begins with|cannot be unpacked",
    "mat": "is not a file of SVHN",
    "mat, packed": "is not a file of SVHN",
    "cub": "is no UTF-8: byte 0|, line|lacks image",
    "imagenet": "is no UTF-8: byte 0|has [06]+8? wnids, not 1,000",
    "tar shards": "is no UTF-8: byte 0|is damaged|: .* is no number of shards|, line 1, is no name",
    "table": "cannot be read as CSV|: no column is named 'image'",
    "table, parquet": "cannot be read as parquet",
    "items": "is no table",
    "save_to_disk": "is no UTF-8: byte 0|is not what save_to_disk writes|cannot be read as Arrow",
    "hub parquet": "cannot be read as parquet",
    "coco": rf"{JSON}|is no UTF-8: byte 0|, line 1: no category",
    "karpathy": JSON,
    **dict.fromkeys(["sugar_crepe", "aro", "whats_up", "whats_up, pairs"], FOILS),
    "winoground": rf"{FOILS}|has no item",
    "captions": "is no JSON|is no UTF-8: byte 0",
    "flickr30k": "is no UTF-8: byte 0|is not a complete XML file|, line|: not an|has 1 cap|: size",
    "vqg": rf"{JSON}|is no UTF-8: byte 0|has no column",
    "vqa": JSON,
    "vqa.gz": JSON,
    "tsv": "is no UTF-8: byte 0|, line [12]: ",
    "npz": r"cannot be read \(.*fetch it again",
    "hdf5": "is not a complete HDF5 file|is not a plain pickle",
    "questions": "is no UTF-8: byte 0|, line [14]: wanted",
    "pairs": "is no UTF-8: byte 0|, line 1: wanted",
    "judged pairs": "is no UTF-8: byte 0|has no word pairs|, line [13]: [12] cells",
    "judged csv": "is no UTF-8: byte 0|has no word pairs|, line [12]: [12] cells",
    "visual words": "is no UTF-8: byte 0|, line [12]: wanted",
    "corpus": ", line 1, is no UTF-8",
    "corpus.gz": "breaks off after line",
    "corpus.bz2": "breaks off after line",
}
# Where another file is named, which no longer fits the damaged one.
OTHERS = {
    ("cub", "images.txt", "cut short"): "^images/B/ is absent .*images.txt",
    ("cub", "classes.txt", "empty"): "^image_class_labels.txt, from 0: label 0 is not in",
    ("flickr30k", "val.txt", "a web page"): "the list of its split names it",
    (
        "tar shards",
        "classnames.txt",
        "a web page",
    ): r"^test/1\.tar: b: the label is 1, not in 0",
    ("tsv", "objects_vocab.txt", "a web page"): r"an object that objects_vocab\.txt lacks",
    **{
        ("imagenet", "LOC_val_solution.csv", damage): "has no wnid .*, nor in a list of labels"
        for damage in ("empty", "a web page", "cut short")
    },
}
# What is no damage: files that may end anywhere, and that may be empty.
WHOLE = {
    ("cub", "images.txt", "empty"),
    *(("tar shards", f"test/{name}", "cut short") for name in ("0.tar", "1.tar", "nshards.txt")),
    ("tar shards", "classnames.txt", "cut short"),
    ("table", "test.csv", "cut short"),
    ("coco", "coco_class_name.txt", "cut short"),
    *(("flickr30k", "val.txt", damage) for damage in ("empty", "cut short")),
    ("flickr30k", "UNRELATED_CAPTIONS", "empty"),
    ("vqg", "coco_test_all.csv", "cut short"),
    ("tsv", "features.tsv", "empty"),
    *(("tsv", "objects_vocab.txt", damage) for damage in ("empty", "cut short")),
    ("npz", "42.npz", "no UTF-8"),
    ("pairs", "a.txt", "cut short"),
    *(("corpus", "a.txt", damage) for damage in ("empty", "a web page", "cut short")),
    ("corpus.gz", "a.gz", "empty"),
}

ABSENT = {
    ("cifar10", "test_batch"): r"CIFAR-10 is absent; .*kriz/cifar.*cifar-10-batches-py",
    ("cifar10", "batches.meta"): r"batches\.meta",
    ("idx", "t10k-images-idx3-ubyte"): r"^MNIST is absent; .*ubyte\.gz",
    ("mat", "test_32x32.mat"): r"housenumbers; put it at .*\{train,test\}_32x32\.mat",
    ("cub", "classes.txt"): r"^CUB-200-2011 is absent; get it from vision\.caltech",
    ("imagenet", "val"): r"^ImageNet \(validation images\) is absent; .*image-net",
    ("imagenet", "LOC_synset_mapping.txt"): r"^ImageNet's LOC_synset_mapping\.txt is absent",
    ("imagenet", "LOC_val_solution.csv"): r"^the list of labels .*LOC_val_solution\.csv",
    ("table", "test.csv"): r"the table test\.csv is absent; .* put it at .*test",
    (
        "coco",
        "coco_class_name.txt",
    ): r"fine-grained names is absent; get it from github\.com/jiasenlu",
    (
        "coco",
        "annotations/captions_val2017.json",
    ): r"^COCO 2017 is absent; .*captions_val2017\.json$",
    ("coco", "val2017"): r"^COCO 2017 is absent; get it from cocodataset.*val2017$",
    ("karpathy", "dataset_coco.json"): r"Karpathy's split of COCO is absent; .*caption_datasets",
    ("karpathy", "val2014"): r"COCO 2014 is absent; .*val2014$",
    ("sugar_crepe", "add_att.json"): r"SugarCrepe is absent; .*sugar-crepe.*add_att\.json",
    ("sugar_crepe", "val2017"): r"COCO's val2017 is absent; .*val2017\.zip",
    ("aro", "visual_genome_attribution.json"): r"^ARO is absent; .*visual_genome_attribution\.json",
    ("aro", "images"): r"the images of ARO is absent; .*images$",
    ("whats_up, pairs", "vg_qa_two_obj.json"): r"^What'sUp is absent; .*vg_qa_two_obj\.json$",
    ("whats_up, pairs", "vg_images"): r"images of What'sUp's vg_two is absent; .*vg_images$",
    ("winoground", "examples.jsonl"): r"^Winoground is absent; .*terms.*data/examples\.jsonl$",
    ("winoground", "images"): r"the images of Winoground is absent; .*/images$",
    ("captions", "captions.json"): r"captions captions\.json .* is absent",
    ("flickr30k", "val.txt"): r"Flickr30k Entities is absent; .*val\.txt$",
    ("flickr30k", "flickr30k-images"): r"^Flickr30k's images is absent; get it from shannon",
    ("vqg", "coco_test_all.csv"): r"VQG's coco is absent; .*coco_test_all\.csv",
    (
        "vqg",
        "annotations/captions_train2014.json",
    ): r"COCO's captions is absent; .*captions_train2014",
    ("vqg", "train2014"): r"COCO's images is absent; .*train2014",
    ("vqa", "asked.json"): r"VQA 1 is absent; .*asked\.json",
    ("vqa", "annotations"): r"captions of COCO's images is absent",
    ("vqa", "test2015"): r"COCO's images is absent; .*test2015",
    ("hdf5", "val_imgid2idx.pkl"): r"^the index of region features is absent; .*idx\.pkl$",
    ("tsv", "features.tsv"): "region features is absent",
    ("tar shards", "test"): r"tar shards test is absent; .* put it at .*test/0\.tar",
    ("tar shards", "classnames.txt"): r"^classnames\.txt, one class a line is absent",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "set").mkdir()
    return tmp_path / "set"


@pytest.mark.parametrize(("name", "gone"), ABSENT)
def test_what_is_absent_says_where_to_get_it(name, gone, folder):
    MADE[name].put(folder)
    lost = folder / gone
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    with pytest.raises(DataAbsent, match=ABSENT[name, gone]):
        MADE[name].load(folder)


@pytest.mark.parametrize(("name", "file"), [(name, f) for name in SAID for f in MADE[name].files])
def test_a_damaged_file_is_named(name, file, tmp_path):
    named = rf"^{re.escape(file.removeprefix('annotations/'))}.*({SAID[name]})"
    for damage, change in DAMAGES.items():
        folder = tmp_path / damage / "set"
        folder.mkdir(parents=True)
        MADE[name].put(folder)
        (folder / file).write_bytes(change((folder / file).read_bytes()))
        if (name, file, damage) in WHOLE:
            MADE[name].load(folder)
            continue
        with pytest.raises(DataError, match=OTHERS.get((name, file, damage), named)):
            MADE[name].load(folder)
