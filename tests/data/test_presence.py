"""Every shipped loader of a task says that its data are there before it reads a file of them."""

import pytest

from vlbench.catalog.loaders import shipped_loaders
from vlbench.data import (
    aro,
    blink,
    captioned_folder,
    cifar,
    coco,
    corpora,
    cub,
    digits,
    flickr30k,
    hub,
    image_folder,
    imagenet,
    karpathy,
    mmvp,
    mnist,
    pope,
    scenes,
    sugar_crepe,
    svhn,
    table,
    vqa,
    vqg,
    webdataset,
    whats_up,
    winoground,
    word_pairs,
)
from vlbench.data.presence import absence, require_files
from vlbench.data.scenes import loaders as of_scenes
from vlbench.errors import DataAbsent


def sugar_crepe_inside(root):
    """Load SugarCrepe with COCO's images in its own folder."""
    return sugar_crepe.sugar_crepe(root=root, images=root / "val2017")


def pope_inside(root):
    return pope.pope(root=root, images=root / "val2014")


# The files that each loader asks for: empty here, so that whatever read one would fail.
BATCHES = [f"data_batch_{i}" for i in range(1, 6)]
IDX = [
    f"{part}-{kind}-ubyte.gz"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
]
COCO = [f"annotations/{kind}_val2017.json" for kind in ("instances", "captions")]
LOADERS = {
    "cifar10": (cifar.cifar10, ["batches.meta", "test_batch", *BATCHES], {}),
    "cifar100": (cifar.cifar100, ["meta", "train", "test"], {}),
    "mnist": (mnist.mnist, IDX, {}),
    "fashion_mnist": (mnist.fashion_mnist, IDX, {}),
    "svhn": (svhn.svhn, ["train_32x32.mat"], {}),
    "cub": (cub.cub, cub.LISTS, {}),
    "coco": (coco.coco, ["coco_class_name.txt", "val2017/1.jpg", *COCO], {"splits": ["val"]}),
    "captioned_folder": (captioned_folder.captioned_folder, ["a.png", "a.txt"], {}),
    "karpathy": (karpathy.karpathy, [karpathy.COCO.file], {}),
    "karpathy_flickr30k": (karpathy.karpathy_flickr30k, [karpathy.FLICKR30K.file], {}),
    "flickr30k": (
        flickr30k.flickr30k,
        ["Sentences/1.txt", "Annotations/1.xml", "test.txt", f"{flickr30k.FOLDERS[0]}/1.jpg"],
        {"splits": ["test"]},
    ),
    "imagenet": (imagenet.imagenet, [imagenet.SYNSETS, "val/n01440764/1.JPEG"], {}),
    "vqa": (vqa.vqa, ["q.json"], {"parts": {"val": "val2014"}, "files": {"val": "q.json"}}),
    "vqg": (vqg.vqg, ["bing_val_all.csv"], {"source": "bing", "splits": ["val"]}),
    "sugar_crepe": (
        sugar_crepe_inside,
        ["val2017/1.jpg", *(f"{name}.json" for name in sugar_crepe.COUNTS)],
        {},
    ),
    "visual_genome_relation": (
        aro.visual_genome_relation,
        ["images/1.jpg", "visual_genome_relation.json"],
        {},
    ),
    "visual_genome_attribution": (
        aro.visual_genome_attribution,
        ["images/1.jpg", "visual_genome_attribution.json"],
        {},
    ),
    "whats_up": (
        whats_up.whats_up,
        ["val2017/1.jpg", "coco_qa_one_obj.json"],
        {"subset": "coco_one"},
    ),
    "pope": (
        pope_inside,
        ["val2014/1.jpg", *(f"coco_pope_{name}.json" for name in pope.NEGATIVES)],
        {},
    ),
    "blink": (blink.blink, ["val_answers.json"], {}),
    "blink_images": (
        blink.blink_images,
        [f"{task}/val-00000-of-00001.parquet" for task in blink.ONE_IMAGE],
        {},
    ),
    "mmvp": (mmvp.mmvp, ["Questions.csv", "MMVP Images/1.jpg"], {}),
    "questions": (table.questions, ["test.csv"], {"test": "test.csv"}),
    "winoground": (winoground.winoground, ["data/examples.jsonl", "images/1.png"], {}),
    "image_folder": (image_folder.image_folder, ["test/a/1.png"], {}),
    "table": (table.images, ["test.csv"], {"test": "test.csv"}),
    "webdataset": (webdataset.images, ["test/0.tar"], {"splits": {"test": "test"}}),
    "word_pairs": (word_pairs.word_pairs, ["pairs.csv"], {}),
    "hub": (
        hub.images,
        ["test.parquet"],
        {"repository": "a/b", "revision": "0", "splits": {"test": "test"}},
    ),
}


# Those whose data are in vlbench or a library; the last reads a file of gensim.
INSIDE = [digits.digits, *(getattr(scenes, name) for name in ("objects", "scenes"))]
INSIDE += [of_scenes.foils, of_scenes.foils_and_phrases, of_scenes.twins]
INSIDE += [of_scenes.pair_questions, word_pairs.gensim_word_pairs]


def test_each_loader_of_files_has_a_line():
    there = {name for several in shipped_loaders().values() for name in several}
    functions = [loader for loader, *_ in LOADERS.values()] + INSIDE
    lines = {f"{one.__module__}:{one.__name__}" for one in functions}
    # Beside ImageNet, with a test below, SugarCrepe and POPE with their images elsewhere, and logs,
    # which the run gives by the model.
    assert there - lines == {
        "vlbench.data.corpora:imagenet_and_corpus",
        "vlbench.data.pope:pope",
        "vlbench.data.recorded_items:recorded_items",
        "vlbench.data.sugar_crepe:sugar_crepe",
    }


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_says_what_to_get_and_reads_no_file_that_is_there(name, tmp_path):
    loader, files, arguments = LOADERS[name]
    missing = absence(lambda: loader(root=tmp_path / "none", **arguments))
    assert missing.where_to_get
    assert missing.where_to_put
    for file in (tmp_path / file for file in files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert absence(lambda: loader(root=tmp_path, **arguments)) is None


@pytest.mark.parametrize("loader", INSIDE[:-1])
def test_data_of_vlbench_itself_are_there_and_nothing_is_drawn(loader, tmp_path, monkeypatch):
    monkeypatch.setattr("vlbench.data.scenes.table.pinned_digests", lambda *_: None)
    assert absence(loader) is None
    assert not (tmp_path / "cache").exists()


def test_a_loader_that_says_nothing_reads_its_data():
    read = []
    assert absence(lambda: read.append(1)) is None
    assert read == [1]


def test_texts_beside_imagenet_are_missed_first(tmp_path):
    texts = {"corpus": tmp_path / "c", "analogies": tmp_path / "a", "word_pairs": [tmp_path / "w"]}
    missing = absence(lambda: corpora.imagenet_and_corpus(root=tmp_path, **texts))
    assert missing.where_to_put == str(tmp_path / "c")


def test_the_first_file_that_is_absent_is_named(tmp_path):
    (tmp_path / "a").touch()
    require_files("it", "there", tmp_path / "a")
    with pytest.raises(DataAbsent, match=r"^it not found; get it from there; put it at .*/b$"):
        require_files("it", "there", tmp_path / "a", tmp_path / "b")
