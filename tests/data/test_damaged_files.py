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
    "cut off": lambda content: content[: len(content) * 2 // 3],
    "not UTF-8": lambda content: b"\xff\xfe" + content,
}
# What is said of a damaged file after its name, by format.
JSON = r"is not \w+'s, or not whole \("
FOILS = r"is not UTF-8: byte 0|does not fit \(JSONDecodeError"
SAID = {
    "cifar10": "is not a batch of CIFAR",
    "cifar100": "is not a batch of CIFAR",
    "idx": "begins with|is cut off in its header|contains",
    "idx.gz": "begins with|cannot be unpacked",
    "mat": "is not a file of SVHN",
    "mat, packed": "is not a file of SVHN",
    "cub": "is not UTF-8: byte 0|, line|does not contain image",
    "imagenet": "is not UTF-8: byte 0|has [06]+8? wnids, not 1,000",
    "tar shards": "is not UTF-8: byte 0|is damaged|is not a number of shards|line 1, is not",
    "table": "cannot be read as CSV|: no column is named 'image'|is empty; its first line",
    "table, parquet": "cannot be read as parquet",
    "items": "is not a table",
    "save_to_disk": "is not UTF-8: byte 0|was not written by save_to_disk|cannot be read as Arrow",
    "hub parquet": "cannot be read as parquet",
    "coco": rf"{JSON}|is not UTF-8: byte 0|, line 1: unknown",
    "karpathy": JSON,
    **dict.fromkeys(["sugar_crepe", "aro", "whats_up", "whats_up, pairs"], FOILS),
    "winoground": rf"{FOILS}|has no item",
    "captions": "is not JSON|is not UTF-8: byte 0",
    "flickr30k": "is not UTF-8: byte 0|is not a complete XML file|, line|: not an|has 1 cap|: size",
    "vqg": rf"{JSON}|is not UTF-8: byte 0|has no column",
    "vqa": JSON,
    "vqa.gz": JSON,
    "tsv": "is not UTF-8: byte 0|, line [12]: ",
    "npz": r"cannot be read \(.*fetch it again",
    "hdf5": "is not a complete HDF5 file|is not a plain pickle",
    "questions": "is not UTF-8: byte 0|, line [14]: must be",
    "pairs": "is not UTF-8: byte 0|, line 1: must be",
    "judged pairs": "is not UTF-8: byte 0|has no word pairs|, line [13]: [12] cells",
    "judged csv": "is not UTF-8: byte 0|has no word pairs|, line [12]: [12] cells",
    "visual words": "is not UTF-8: byte 0|, line [12]: must be",
    "corpus": ", line 1, is not UTF-8",
    "corpus.gz": "is cut off after line",
    "corpus.bz2": "is cut off after line",
}
# Where another file is named, which no longer fits the damaged one.
OTHERS = {
    ("cub", "images.txt", "cut off"): "^images/B/ is missing .*images.txt",
    ("cub", "classes.txt", "empty"): "^image_class_labels.txt, from 0: label 0 is not in",
    ("flickr30k", "val.txt", "a web page"): "the list of its split names it",
    ("tar shards", "classnames.txt", "a web page"): r"^test/1\.tar: b: the label is 1, not in 0",
    ("tsv", "objects_vocab.txt", "a web page"): r"an object is not in objects_vocab\.txt",
    **{
        ("imagenet", "LOC_val_solution.csv", damage): "has no wnid .* a list of labels"
        for damage in ("empty", "a web page", "cut off")
    },
}
# What is no damage: files that may end anywhere, and that may be empty.
WHOLE = {
    ("cub", "images.txt", "empty"),
    *(("tar shards", f"test/{name}", "cut off") for name in ("0.tar", "1.tar", "nshards.txt")),
    ("tar shards", "classnames.txt", "cut off"),
    ("table", "test.csv", "cut off"),
    ("coco", "coco_class_name.txt", "cut off"),
    *(("flickr30k", "val.txt", damage) for damage in ("empty", "cut off")),
    ("flickr30k", "UNRELATED_CAPTIONS", "empty"),
    ("vqg", "coco_test_all.csv", "cut off"),
    ("tsv", "features.tsv", "empty"),
    *(("tsv", "objects_vocab.txt", damage) for damage in ("empty", "cut off")),
    ("npz", "42.npz", "not UTF-8"),
    ("pairs", "a.txt", "cut off"),
    *(("corpus", "a.txt", damage) for damage in ("empty", "a web page", "cut off")),
    ("corpus.gz", "a.gz", "empty"),
}

ABSENT = {
    ("cifar10", "test_batch"): r"CIFAR-10 not found; .*kriz/cifar.*cifar-10-batches-py",
    ("cifar10", "batches.meta"): r"batches\.meta",
    ("idx", "t10k-images-idx3-ubyte"): r"^MNIST not found; .*ubyte\.gz",
    ("mat", "test_32x32.mat"): r"housenumbers; put it at .*\{train,test\}_32x32\.mat",
    ("cub", "classes.txt"): r"^CUB-200-2011 not found; get it from vision\.caltech",
    ("imagenet", "val"): r"^ImageNet \(validation images\) not found; .*image-net",
    ("imagenet", "LOC_synset_mapping.txt"): r"^ImageNet's LOC_synset_mapping\.txt not found",
    ("imagenet", "LOC_val_solution.csv"): r"^the list of labels .*LOC_val_solution\.csv",
    ("table", "test.csv"): r"the table test\.csv not found; .* put it at .*test",
    (
        "coco",
        "coco_class_name.txt",
    ): r"fine-grained names not found; get it from github\.com/jiasenlu",
    (
        "coco",
        "annotations/captions_val2017.json",
    ): r"^COCO 2017 not found; .*captions_val2017\.json$",
    ("coco", "val2017"): r"^COCO 2017 not found; get it from cocodataset.*val2017$",
    ("karpathy", "dataset_coco.json"): r"Karpathy's split of COCO not found; .*caption_datasets",
    ("karpathy", "val2014"): r"COCO 2014 not found; .*val2014$",
    ("sugar_crepe", "add_att.json"): r"SugarCrepe not found; .*sugar-crepe.*add_att\.json",
    ("sugar_crepe", "val2017"): r"COCO's val2017 not found; .*val2017\.zip",
    ("aro", "visual_genome_attribution.json"): r"^ARO not found; .*visual_genome_attribution\.json",
    ("aro", "images"): r"the images of ARO not found; .*images$",
    ("whats_up, pairs", "vg_qa_two_obj.json"): r"^What'sUp not found; .*vg_qa_two_obj\.json$",
    ("whats_up, pairs", "vg_images"): r"images of What'sUp's vg_two not found; .*vg_images$",
    ("winoground", "examples.jsonl"): r"^Winoground not found; .*terms.*data/examples\.jsonl$",
    ("winoground", "images"): r"the images of Winoground not found; .*/images$",
    ("captions", "captions.json"): r"captions captions\.json .* not found",
    ("flickr30k", "val.txt"): r"Flickr30k Entities not found; .*val\.txt$",
    ("flickr30k", "flickr30k-images"): r"^Flickr30k's images not found; get it from shannon",
    ("vqg", "coco_test_all.csv"): r"VQG's coco not found; .*coco_test_all\.csv",
    (
        "vqg",
        "annotations/captions_train2014.json",
    ): r"COCO's captions not found; .*captions_train2014",
    ("vqg", "train2014"): r"COCO's images not found; .*train2014",
    ("vqa", "asked.json"): r"VQA 1 not found; .*asked\.json",
    ("vqa", "annotations"): r"captions of COCO's images not found",
    ("vqa", "test2015"): r"COCO's images not found; .*test2015",
    ("hdf5", "val_imgid2idx.pkl"): r"^the index of region features not found; .*idx\.pkl$",
    ("tsv", "features.tsv"): "region features not found",
    ("tar shards", "test"): r"tar shards test not found; .* put it at .*test/0\.tar",
    ("tar shards", "classnames.txt"): r"^classnames\.txt, one class per line not found",
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
