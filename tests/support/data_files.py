"""Small right sets of files in every format that vlbench.data reads, and real ones."""

import bz2
import csv
import gzip
import hashlib
import io
import json
import pickle
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import datasets
import numpy as np
import pyarrow as pa
from foil_files import image_bytes
from PIL import Image
from planted_boards import result
from pyarrow import parquet
from region_files import BOXES, VECTORS, butd, lxmert, put_ban, put_tsv
from scipy.io import savemat
from tar_shards import put_split

from vlbench.boards.artifacts import read_items, read_table
from vlbench.capabilities import Regions
from vlbench.data import hub, table, webdataset
from vlbench.data.aro import visual_genome_attribution
from vlbench.data.caption_results import result_captions
from vlbench.data.cifar import cifar10, cifar100
from vlbench.data.coco import coco
from vlbench.data.corpora import Corpus
from vlbench.data.cub import cub
from vlbench.data.flickr30k import flickr30k
from vlbench.data.image_folder import image_folder
from vlbench.data.imagenet import imagenet
from vlbench.data.karpathy import karpathy
from vlbench.data.mnist import mnist
from vlbench.data.records import Data, Split, value_column
from vlbench.data.regions import region_features
from vlbench.data.scenes.rows import row
from vlbench.data.scenes.storage import open_rows, read_digests, write_once
from vlbench.data.sugar_crepe import COUNTS, sugar_crepe
from vlbench.data.svhn import svhn
from vlbench.data.vqa import vqa
from vlbench.data.vqg import vqg
from vlbench.data.whats_up import whats_up
from vlbench.data.winoground import winoground
from vlbench.data.word_files import read_pairs, read_questions, read_visual_words
from vlbench.data.word_pairs import read_judged
from vlbench.metrics.items import Examples, item_table
from vlbench.results import artifact_bytes

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)


class Format(NamedTuple):
    """How a set is written into a folder, which of its files are broken, and how it is loaded."""

    put: Callable[[Path], object]
    files: Sequence[str]
    load: Callable[[Path], object]


def repacked(name: str, content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return a packed file whose unpacked content is changed."""
    if name.endswith(".gz"):
        return gzip.compress(change(gzip.decompress(content)), 1)
    if name.endswith(".bz2"):
        return bz2.compress(change(bz2.decompress(content)))
    if name.endswith(".npz"):
        return _rezipped(content, change)
    return change(content)


def _rezipped(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    odd = min(members, key=lambda name: len(change(name.encode())))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, change(member) if name == odd else member)
    return packed.getvalue()


def _read_all(data: Data) -> Data:
    for split in data.splits.values():
        for column in split.columns.values():
            for _ in column:
                pass
    return data


def _read_regions(file: Path) -> dict[str, Regions]:
    features = region_features(file, {"42": (40, 30)})
    return {name: features[name] for name in features}


def _picture(file: Path, size=(40, 30)) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(file)


def _cifar(folder: Path, key: str = "label_names", batch: str = "test_batch") -> None:
    planes = PIXELS.transpose(0, 3, 1, 2).reshape(4, 3072)
    labels = {b"labels": [0, 1, 2, 0], b"fine_labels": [0, 1, 2, 0]}
    meta = "batches.meta" if key == "label_names" else "meta"
    (folder / meta).write_bytes(pickle.dumps({key.encode(): [b"a", b"b", b"c_d"]}, 2))
    (folder / batch).write_bytes(pickle.dumps({b"data": planes, **labels}, 4))


def _mnist(folder: Path, suffix: str = "") -> None:
    pixels = PIXELS[:3, :28, :28, 0].tobytes()
    images = b"\0\0\x08\x03" + np.array([3, 28, 28], ">u4").tobytes() + pixels
    labels = b"\0\0\x08\x01" + np.array([3], ">u4").tobytes() + bytes([1, 2, 9])
    pack = gzip.compress if suffix else bytes
    (folder / f"t10k-images-idx3-ubyte{suffix}").write_bytes(pack(images))
    (folder / f"t10k-labels-idx1-ubyte{suffix}").write_bytes(pack(labels))


def _svhn(folder: Path, *, packed: bool = False) -> None:
    content = {"X": PIXELS.transpose(1, 2, 3, 0), "y": np.array([[10], [1], [2], [3]], np.uint8)}
    savemat(folder / "test_32x32.mat", content, do_compression=packed)


def _cub(folder: Path) -> None:
    for name in ("A/A_1.jpg", "B/B_2.jpg"):
        _picture(folder / "images" / name)
    (folder / "images.txt").write_text("1 A/A_1.jpg\n2 B/B_2.jpg\n")
    (folder / "image_class_labels.txt").write_text("1 1\n2 2\n")
    (folder / "train_test_split.txt").write_text("1 1\n2 0\n")
    (folder / "classes.txt").write_text("1 001.A\n2 002.B\n")


def _imagenet(folder: Path) -> None:
    names = "".join(f"n{i:08d} word{i}, other word\n" for i in range(1000))
    (folder / "LOC_synset_mapping.txt").write_text(names)
    rows = "".join(f"ILSVRC2012_val_{i:08d},n{i:08d} 1 2 3 4\n" for i in (1, 2))
    (folder / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + rows)
    for i in (1, 2):
        _picture(folder / f"val/ILSVRC2012_val_{i:08d}.jpg")


def _shards(folder: Path) -> None:
    jpeg, png = io.BytesIO(), io.BytesIO()
    Image.fromarray(PIXELS[0]).save(jpeg, "JPEG")
    Image.fromarray(PIXELS[1]).save(png, "PNG")
    one = [("a.jpg", jpeg.getvalue()), ("a.cls", b"0"), ("a.txt", b"A dog\nA pet")]
    two = [("b.png", png.getvalue()), ("b.cls", b"1"), ("b.txt", b"A cat")]
    put_split(folder, [one, two])


def _rows() -> datasets.Dataset:
    cells = [{"bytes": image_bytes(Image.fromarray(PIXELS[0]), "PNG"), "path": None}] * 3
    types = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}
    features = datasets.Features({**types, "text": datasets.Value("string")})
    rows = {"image": cells, "label": [0, 1, 1], "text": ["A dog", "A cat", "A caf\u00e9"]}
    return datasets.Dataset.from_dict(rows, features)


def _saved(folder: Path) -> None:
    datasets.DatasetDict(test=_rows()).save_to_disk(folder)


def _parquet(folder: Path) -> None:
    _rows().to_parquet(folder / "test-00000-of-00001.parquet")


def _read_hub(folder: Path) -> Data:
    named = {"repository": "a/b", "revision": "c", "splits": {"test": "test"}}
    with tempfile.TemporaryDirectory() as cache:
        return _read_all(hub.images(root=folder, caption="text", cache_dir=Path(cache), **named))


def _table_parquet(folder: Path) -> None:
    _table(folder)
    rows = csv.DictReader((folder / "test.csv").read_text().splitlines())
    parquet.write_table(pa.Table.from_pylist(list(rows)), folder / "test.parquet")


def _table(folder: Path) -> None:
    rows = [f"test/{name}.png,{name},A {name}" for name in ("cat", "dog")]
    (folder / "test.csv").write_text("\n".join(["image,label,caption", *rows]))
    for name in ("cat", "dog"):
        _picture(folder / f"test/{name}.png")


def _coco(folder: Path) -> None:
    names = ("000000000007.jpg", "000000000139.jpg")
    images = [
        {"id": int(name[:12]), "file_name": name, "width": 40, "height": 30} for name in names
    ]
    things = [
        {"id": i, "image_id": 139, "category_id": 17 + i, "bbox": [i, 2, 3, 4.5], "iscrowd": 0}
        for i in range(2)
    ]
    captions = [
        {"id": i, "image_id": (7, 139)[i % 2], "caption": "Two dogs near a cat"} for i in range(4)
    ]
    categories = [{"id": 17, "name": "dog"}, {"id": 18, "name": "cat"}]
    content = {"images": images, "annotations": things, "categories": categories}
    (folder / "annotations").mkdir()
    (folder / "annotations/instances_val2017.json").write_text(json.dumps(content))
    texts = {"images": images, "annotations": captions}
    (folder / "annotations/captions_val2017.json").write_text(json.dumps(texts))
    (folder / "coco_class_name.txt").write_text("dog, puppy\ncat, kitten\n")
    for name in names:
        _picture(folder / "val2017" / name)


def _captions(folder: Path, *parts: str) -> None:
    told = [{"id": i, "image_id": (7, 139)[i % 2], "caption": "A dog"} for i in range(4)]
    (folder / "annotations").mkdir()
    for part in parts:
        content = told if "results" in part else {"annotations": told}
        (folder / f"annotations/captions_{part}.json").write_text(json.dumps(content))


def _vqg(folder: Path) -> None:
    rows = ["image_id,image_url,questions,ratings", '7,u,"Who, where?---Why?",3---2']
    rows += ["139,u,none---How?----When?,1---y---2"]
    (folder / "coco_test_all.csv").write_text("\r\n".join(rows))
    _captions(folder, "train2014", "val2014")
    for number in (7, 139):
        _picture(folder / f"train2014/COCO_train2014_{number:012d}.jpg")


def _vqa(folder: Path, suffix: str = "", pack=bytes) -> None:
    asked = [{"question_id": i, "image_id": (7, 139)[i % 2], "question": "Who?"} for i in range(4)]
    content = json.dumps({"info": {"version": "1.0"}, "questions": asked}).encode()
    (folder / f"asked.json{suffix}").write_bytes(pack(content))
    _captions(folder, "test2015_neuraltalk2_results")
    for number in (7, 139):
        _picture(folder / f"test2015/COCO_test2015_{number:012d}.jpg")


def _read_vqa(suffix: str = "") -> Callable[[Path], Data]:
    options = {"parts": {"test": "test2015"}, "files": {"test": f"asked.json{suffix}"}}
    return lambda folder: _read_all(vqa(root=folder, coco=folder, **options))


def _karpathy(folder: Path) -> None:
    sentences = [{"raw": "Two dogs.", "tokens": ["two", "dogs"]}]
    names = [f"COCO_val2014_{number:012}.jpg" for number in (7, 139)]
    images = [
        {"filepath": "val2014", "filename": name, "cocoid": i, "split": "test"}
        | {"sentences": sentences * 2}
        for i, name in enumerate(names)
    ]
    (folder / "dataset_coco.json").write_text(json.dumps({"images": images}))
    for name in names:
        _picture(folder / "val2014" / name)


def _sugar_crepe(folder: Path) -> None:
    texts = {"caption": "Two dogs.", "negative_caption": "Two caf\u00e9s."}
    for i, name in enumerate(COUNTS):
        items = {str(n): {"filename": f"{(n + i) % 3:012}.jpg", **texts} for n in range(3)}
        (folder / f"{name}.json").write_text(json.dumps(items))
    for i in range(3):
        _picture(folder / "val2017" / f"{i:012}.jpg")


def _aro(folder: Path) -> None:
    texts = {"true_caption": "a red dog", "false_caption": "a tall caf\u00e9"}
    items = [
        {"image_path": f"{i % 2}.jpg", "attributes": ["red", "tall"], **texts}
        | {"bbox_x": i, "bbox_y": 1, "bbox_w": 9, "bbox_h": 7}
        for i in range(4)
    ]
    (folder / "visual_genome_attribution.json").write_text(json.dumps(items))
    for i in range(2):
        _picture(folder / "images" / f"{i}.jpg")


def _whats_up(folder: Path) -> None:
    names = [f"dog_{place}_caf\u00e9.jpeg" for place in ("left_of", "right_of", "on", "under")]
    items = [{"image_path": f"data/a/{name}", "caption_options": names} for name in names]
    (folder / "controlled_images_dataset.json").write_text(json.dumps(items))
    for name in names:
        _picture(folder / "controlled_images" / name)


def _whats_up_pairs(folder: Path) -> None:
    items = [[i % 2, "A dog in front of a caf\u00e9", "A dog behind a caf\u00e9"] for i in range(4)]
    (folder / "vg_qa_two_obj.json").write_text(json.dumps(items))
    for i in range(2):
        _picture(folder / "vg_images" / f"{i}.jpg")


def _winoground(folder: Path) -> None:
    texts = {"caption_0": "a caf\u00e9 in a dog", "caption_1": "a dog in a caf\u00e9"}
    items = [
        {"id": i, "image_0": f"{i}_0", "image_1": f"{i}_1", **texts, "collapsed_tag": "Object"}
        for i in range(2)
    ]
    (folder / "examples.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    for i in range(2):
        for side in range(2):
            _picture(folder / "images" / f"{i}_{side}.png")


def _results(folder: Path) -> None:
    entries = [{"image_id": i, "caption": "two dogs near a caf\u00e9"} for i in range(3)]
    (folder / "captions.json").write_text(json.dumps(entries))


def _read_results(folder: Path) -> list[str]:
    return result_captions(folder / "captions.json", Split({"id": value_column([0, 1, 2])}))


def _flickr(folder: Path) -> None:
    corners = "<xmin>1</xmin><ymin>2</ymin><xmax>11</xmax><ymax>21</ymax>"
    thing = f"<object><name>1</name><bndbox>{corners}</bndbox></object>"
    size = "<size><width>40</width><height>30</height><depth>3</depth></size>"
    for name in ("7", "8"):
        text = "[/EN#1/people A man] and [/EN#2/other a dog] .\n" * 5
        xml = f"<annotation><filename>{name}.jpg</filename>{size}{thing * 2}</annotation>"
        for kind, content in (("Sentences/7.txt", text), ("Annotations/7.xml", xml)):
            file = folder / kind.replace("7", name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
        _picture(folder / f"flickr30k-images/{name}.jpg")
    (folder / "val.txt").write_text("7\n8\n")
    (folder / "UNRELATED_CAPTIONS").write_text("# format\n7 1\n8 3\n")


def _tsv(folder: Path) -> None:
    put_tsv(folder, butd("41"), lxmert())
    (folder / "objects_vocab.txt").write_text("tree\ndog,puppy\n")


def _npz(folder: Path) -> None:
    arrays = {"x": VECTORS, "boxes": BOXES, "image_w": 40, "image_h": 30, "conf": np.ones(2)}
    np.savez(folder / "42.npz", **arrays)


def _scenes(folder: Path) -> None:
    write_once(folder / "scenes" / "rows", lambda: (row("objects", 0, i) for i in range(3)))


def _read_scenes(folder: Path) -> tuple[list[str], list[dict]]:
    rows = folder / "scenes/rows"
    return read_digests(rows), open_rows(rows).to_pylist()


def _image(suffix: str) -> Format:
    file = f"test/cat/a{suffix}"
    return Format(
        lambda folder: _picture(folder / file),
        [file],
        lambda folder: _read_all(image_folder(root=folder)),
    )


def _items(folder: Path) -> None:
    table = item_table(Examples(["a", "b"], ["x", "y"]), "accuracy", {}, [1, 0])
    (folder / "items.parquet").write_bytes(artifact_bytes(table)[1])


def _read_kept(folder: Path) -> pa.Table:
    checksum = hashlib.sha256((folder / "items.parquet").read_bytes()).hexdigest()
    saved = {"file": "items.parquet", "sha256": f"sha256:{checksum}"}
    row = result("m", artifacts={"items": saved})
    read_items(folder, row)
    return read_table(folder, row, "items", [])


def _text(name: str, text: str, read: Callable[[Path], object], pack=bytes) -> Format:
    return Format(
        lambda folder: (folder / name).write_bytes(pack(text.encode())),
        [name],
        lambda folder: list(read(folder / name)),
    )


def _whole(load: Callable[..., Data], **options) -> Callable[[Path], Data]:
    return lambda folder: _read_all(load(root=folder, **options))


ANNOTATIONS = ["annotations/instances_val2017.json", "annotations/captions_val2017.json"]
IDX = ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
LISTS = ["images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt"]
RESULTS = "annotations/captions_test2015_neuraltalk2_results.json"
LINES = "a line of caf\u00e9s\n\nanother one\n" * 5
FLICKR = ["val.txt", "UNRELATED_CAPTIONS", "Sentences/7.txt", "Annotations/7.xml"]

MADE: Mapping[str, Format] = {
    "cifar10": Format(_cifar, ["batches.meta", "test_batch"], _whole(cifar10)),
    "cifar100": Format(
        lambda folder: _cifar(folder, "fine_label_names", "test"),
        ["meta", "test"],
        _whole(cifar100),
    ),
    "idx": Format(_mnist, IDX, _whole(mnist)),
    "idx.gz": Format(lambda folder: _mnist(folder, ".gz"), [f"{n}.gz" for n in IDX], _whole(mnist)),
    "mat": Format(_svhn, ["test_32x32.mat"], _whole(svhn)),
    "mat, packed": Format(
        lambda folder: _svhn(folder, packed=True), ["test_32x32.mat"], _whole(svhn)
    ),
    "cub": Format(_cub, LISTS, _whole(cub)),
    "imagenet": Format(
        _imagenet, ["LOC_synset_mapping.txt", "LOC_val_solution.csv"], _whole(imagenet)
    ),
    "tar shards": Format(
        _shards,
        ["test/0.tar", "test/1.tar", "test/nshards.txt", "classnames.txt"],
        _whole(webdataset.images, splits={"test": "test"}, caption="txt"),
    ),
    "table": Format(_table, ["test.csv"], _whole(table.images, test="test.csv", caption="caption")),
    "table, parquet": Format(
        _table_parquet,
        ["test.parquet"],
        _whole(table.images, test="test.parquet", caption="caption"),
    ),
    "items": Format(_items, ["items.parquet"], _read_kept),
    "save_to_disk": Format(
        _saved,
        ["dataset_dict.json", "test/state.json", "test/data-00000-of-00001.arrow"],
        _read_hub,
    ),
    "hub parquet": Format(_parquet, ["test-00000-of-00001.parquet"], _read_hub),
    "coco": Format(_coco, [*ANNOTATIONS, "coco_class_name.txt"], _whole(coco, splits=["val"])),
    "karpathy": Format(_karpathy, ["dataset_coco.json"], _whole(karpathy)),
    "sugar_crepe": Format(
        _sugar_crepe,
        ["add_att.json", "swap_obj.json"],
        lambda folder: _read_all(sugar_crepe(root=folder, images=folder / "val2017")),
    ),
    "aro": Format(_aro, ["visual_genome_attribution.json"], _whole(visual_genome_attribution)),
    "whats_up": Format(
        _whats_up,
        ["controlled_images_dataset.json"],
        _whole(whats_up, subset="controlled_images"),
    ),
    "whats_up, pairs": Format(
        _whats_up_pairs, ["vg_qa_two_obj.json"], _whole(whats_up, subset="vg_two")
    ),
    "winoground": Format(_winoground, ["examples.jsonl"], _whole(winoground)),
    "captions": Format(_results, ["captions.json"], _read_results),
    "flickr30k": Format(_flickr, FLICKR, _whole(flickr30k, splits=["val"])),
    "vqg": Format(
        _vqg,
        ["coco_test_all.csv", "annotations/captions_train2014.json"],
        lambda folder: _read_all(vqg(root=folder, coco=folder, splits=["test"])),
    ),
    "vqa": Format(_vqa, ["asked.json", RESULTS], _read_vqa()),
    "vqa.gz": Format(
        lambda folder: _vqa(folder, ".gz", gzip.compress), ["asked.json.gz"], _read_vqa(".gz")
    ),
    "tsv": Format(_tsv, ["features.tsv", "objects_vocab.txt"], _read_regions),
    "npz": Format(_npz, ["42.npz"], _read_regions),
    "hdf5": Format(put_ban, ["val.hdf5", "val_imgid2idx.pkl"], _read_regions),
    "scenes": Format(_scenes, ["scenes/rows/rows.arrow", "scenes/rows/digests.json"], _read_scenes),
    "questions": _text("a.txt", ": b\nc d e f\ng h i j\n: k\nl m n o\n", read_questions),
    "pairs": _text("a.txt", "# w\tw\tn\ntiger\tcat\t7.35\ncar\tbus\t2\n", read_pairs),
    "judged pairs": _text("a.txt", "# w\tw\tn\na\tb\t7.35\nautomobile\tbus\t2\n", read_judged),
    "judged csv": _text("a.csv", 'word_a,word_b,score\n"a","b",1\nc,d,2\n', read_judged),
    "visual words": _text("a.txt", "n01440764\tTench\nn02012849\tcrane\n", read_visual_words),
    "corpus": _text("a.txt", LINES, Corpus),
    "corpus.gz": _text("a.gz", LINES, Corpus, gzip.compress),
    "corpus.bz2": _text("a.bz2", LINES, Corpus, bz2.compress),
    **{s: _image(s) for s in (".jpg", ".png", ".bmp", ".ppm", ".tiff", ".gif", ".webp")},
}


def _copies(*files: str) -> Callable[[Path], None]:
    """Return what copies real files, named relative to the folder of real records."""

    def put(folder: Path, real: Path) -> None:
        for file in files:
            source = real / file
            for found in sorted(source.rglob("*")) if source.is_dir() else [source]:
                if found.is_file():
                    place = folder / found.relative_to(source.parent)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(found, place)

    return put


def _few_coco(folder: Path, real: Path) -> None:
    """Copy the first three of the real images of val2017 and their annotations."""
    source = real / "coco_mini"
    (folder / "annotations").mkdir()
    for kind in ("instances", "captions"):
        content = json.loads((source / f"annotations/{kind}_val2017.json").read_text())
        content["images"] = sorted(content["images"], key=lambda image: image["id"])[:3]
        kept = {image["id"] for image in content["images"]}
        content["annotations"] = [a for a in content["annotations"] if a["image_id"] in kept]
        (folder / f"annotations/{kind}_val2017.json").write_text(json.dumps(content))
    shutil.copy(source / "coco_class_name.txt", folder)
    (folder / "val2017").mkdir()
    for image in content["images"]:
        shutil.copy(source / "val2017" / image["file_name"], folder / "val2017")


FLICKR_SAMPLE = "flickr30k_entities/sample"
REAL: Mapping[str, Format] = {
    "coco": Format(_few_coco, [*ANNOTATIONS, "coco_class_name.txt"], _whole(coco, splits=["val"])),
    "flickr30k": Format(
        _copies(
            *(f"{FLICKR_SAMPLE}/{n}" for n in ("Sentences", "Annotations", "flickr30k-images")),
            f"{FLICKR_SAMPLE}/test.txt",
        ),
        ["test.txt", "Sentences/7162685234.txt", "Annotations/7162685234.xml"],
        _whole(flickr30k, splits=["test"]),
    ),
    "svhn": Format(
        _copies("svhn/derived_format2/test_32x32.mat"), ["test_32x32.mat"], _whole(svhn)
    ),
    "npz": Format(
        _copies("bottom_up_features/rosita_npz/features/COCO_val2014_000000058350.jpg.npz"),
        ["COCO_val2014_000000058350.jpg.npz"],
        _read_regions,
    ),
    "tsv": Format(
        _copies("bottom_up_features/lxmert_tsv/train2014_obj36.tsv"),
        ["train2014_obj36.tsv"],
        _read_regions,
    ),
    "questions": Format(
        _copies("text/questions-words.txt"),
        ["questions-words.txt"],
        lambda folder: read_questions(folder / "questions-words.txt"),
    ),
    "pairs": Format(
        _copies("text/word-sim/EN-WS-353-ALL.txt"),
        ["EN-WS-353-ALL.txt"],
        lambda folder: read_pairs(folder / "EN-WS-353-ALL.txt"),
    ),
}
