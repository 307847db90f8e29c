import hashlib
import pickle
import struct

import datasets
import hub_cache
import numpy as np
import pytest
from foil_files import image_bytes
from huggingface_hub.errors import HfHubHTTPError
from PIL import Image
from PIL import Image as PilImage
from scipy.io import savemat

from vlbench.data import hub_sets
from vlbench.data.cifar import cifar10, cifar100
from vlbench.data.hub_sets import encoded_digest, streamed_images
from vlbench.data.images import array_images, file_images
from vlbench.data.mnist import fashion_mnist, mnist
from vlbench.data.records import labels
from vlbench.data.svhn import svhn
from vlbench.errors import DataAbsent, DataError

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (3, 32, 32, 3), np.uint8)
GREY = RNG.integers(0, 256, (3, 28, 28), np.uint8)
VALUES = [2, 0, 1]
DIGITS = [str(digit) for digit in range(10)]
LOADERS = [cifar10, cifar100, mnist, fashion_mnist, svhn]


def png(pixels):
    return {"bytes": image_bytes(PilImage.fromarray(pixels), "PNG"), "path": None}


def table(pixels, names, image="image", label="label"):
    features = {image: datasets.Image(), label: datasets.ClassLabel(names=names)}
    rows = {image: [png(picture) for picture in pixels], label: VALUES}
    return datasets.Dataset.from_dict(rows, datasets.Features(features))


class Hub:
    """Stands for datasets.load_dataset: it has one set, and notes what is asked of it."""

    def __init__(self, pixels=COLOUR, names=DIGITS, **columns):
        test = table(pixels, names, **columns)
        self.tables = datasets.DatasetDict(train=test.select([0, 1]), test=test, extra=test)
        self.asked = []

    def __call__(self, repository, configuration=None, *, revision):
        self.asked.append((repository, configuration, revision))
        return self.tables


def connect(monkeypatch, hub):
    monkeypatch.setattr(datasets, "load_dataset", hub)
    return hub


def failing(error):
    def load_dataset(*_, **__):
        raise error

    return load_dataset


def cifar_files(root, names, folder, files, keys):
    (root / folder).mkdir(parents=True)
    planes = COLOUR.transpose(0, 3, 1, 2).reshape(3, 3072)
    batch = {b"data": planes, keys[1]: VALUES}
    (root / folder / files[0]).write_bytes(pickle.dumps({keys[0]: names}, 2))
    (root / folder / files[1]).write_bytes(pickle.dumps(batch, 2))
    return root


def mnist_files(root):
    root.mkdir(exist_ok=True)
    images = struct.pack(">iiii", 2051, 3, 28, 28) + GREY.tobytes()
    (root / "t10k-images-idx3-ubyte").write_bytes(images)
    (root / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">ii", 2049, 3) + bytes(VALUES))
    return root


def assert_same(ours, original):
    assert ours.classes == original.classes
    columns = ours.splits["test"].columns, original.splits["test"].columns
    assert {k: c.key for k, c in columns[0].items()} == {k: c.key for k, c in columns[1].items()}


def test_cifar10_of_the_hub_is_that_of_the_batches(tmp_path, monkeypatch):
    connect(monkeypatch, Hub(names=["airplane", "sea_bird", "cat"], image="img"))
    names, keys = [b"airplane", b"sea_bird", b"cat"], (b"label_names", b"labels")
    files = "cifar-10-batches-py", ("batches.meta", "test_batch"), keys
    original = cifar10(root=cifar_files(tmp_path / "files", names, *files))
    assert_same(cifar10(root=tmp_path, download=True), original)


def test_cifar100_of_the_hub_has_fine_labels_and_a_crab(tmp_path, monkeypatch):
    connect(monkeypatch, Hub(names=["cra", "oak_tree", "sea"], image="img", label="fine_label"))
    names, keys = [b"crab", b"oak_tree", b"sea"], (b"fine_label_names", b"fine_labels")
    files = "cifar-100-python", ("meta", "test"), keys
    original = cifar100(root=cifar_files(tmp_path / "files", names, *files))
    assert_same(cifar100(root=tmp_path, download=True), original)


@pytest.mark.parametrize("load", [mnist, fashion_mnist])
def test_grey_sets_of_the_hub_are_those_of_the_files(tmp_path, monkeypatch, load):
    connect(monkeypatch, Hub(GREY))
    assert_same(load(root=tmp_path, download=True), load(root=mnist_files(tmp_path / "files")))


def test_svhn_of_the_hub_has_zero_for_the_ten_of_the_files(tmp_path, monkeypatch):
    connect(monkeypatch, Hub())
    ours = svhn(root=tmp_path, download=True)
    content = {"X": COLOUR.transpose(1, 2, 3, 0), "y": np.array([[2], [10], [1]], np.uint8)}
    savemat(tmp_path / "test_32x32.mat", content)
    assert_same(ours, svhn(root=tmp_path))


def test_rows_and_splits_are_those_of_the_hub_without_extra(tmp_path, monkeypatch):
    connect(monkeypatch, Hub())
    data = svhn(root=tmp_path, download=True)
    assert [(name, len(split)) for name, split in data.splits.items()] == [
        ("train", 2),
        ("test", 3),
    ]
    assert labels(data.splits["test"]).tolist() == VALUES
    assert np.array_equal(np.asarray(data.splits["test"]["image"][2]), COLOUR[2])
    assert data.missing_rows() == {"train": 73_255, "test": 26_029}


def test_images_are_decoded_when_asked_for_in_slices_too(tmp_path, monkeypatch):
    connect(monkeypatch, Hub())
    column = pickle.loads(pickle.dumps(svhn(root=tmp_path, download=True).splits["test"]["image"]))  # noqa: S301 - our own
    assert [image.mode for image in column.stored[1:]] == ["RGB", "RGB"]
    assert np.array_equal(np.stack([np.asarray(image) for image in column]), COLOUR)


SETS = [
    (cifar10, "CIFAR10", {"image": "img"}),
    (cifar100, "CIFAR100", {"image": "img", "label": "fine_label"}),
    (mnist, "MNIST", {}),
    (fashion_mnist, "FASHION_MNIST", {}),
    (svhn, "SVHN", {}),
]


@pytest.mark.parametrize(("load", "name", "columns"), SETS)
def test_the_revision_asked_for_is_the_pinned_one(tmp_path, monkeypatch, load, name, columns):
    hub, source = connect(monkeypatch, Hub(**columns)), getattr(hub_sets, name)
    load(root=tmp_path, download=True)
    assert hub.asked == [(source.repository, source.configuration, source.revision)]
    assert len(bytes.fromhex(source.revision)) == 20


def test_files_win_over_the_hub(tmp_path, monkeypatch):
    hub = connect(monkeypatch, Hub(GREY))
    assert list(mnist(root=mnist_files(tmp_path), download=True).splits) == ["test"]
    assert hub.asked == []


@pytest.mark.parametrize("load", LOADERS)
def test_nothing_is_downloaded_unasked(tmp_path, monkeypatch, load):
    hub = connect(monkeypatch, Hub())
    with pytest.raises(DataAbsent, match=r"get it from the hub \(--download\) or [a-z]"):
        load(root=tmp_path)
    assert hub.asked == []


@pytest.mark.parametrize("load", LOADERS)
def test_offline_the_set_and_its_revision_are_named(tmp_path, monkeypatch, load):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    message = r"\([a-z-]+/[a-z0-9_]+, revision [0-9a-f]{40}: the hub cannot be reached\) not found"
    with pytest.raises(DataAbsent, match=message):
        load(root=tmp_path, download=True)


def test_what_is_made_of_a_damaged_download_goes_with_it(tmp_path, monkeypatch):
    cache = hub_cache.empty_cache(monkeypatch, tmp_path / "hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    blob = hub_cache.damaged(cache, "datasets--ylecun--mnist")
    test = table(GREY, DIGITS)
    datasets.DatasetDict(train=test, test=test).save_to_disk(tmp_path / "made")
    hub = connect(monkeypatch, Hub())
    hub.tables = datasets.load_from_disk(tmp_path / "made")
    with pytest.raises(DataError, match=r"datasets--ylecun--mnist/blobs/0+ is damaged"):
        mnist(root=tmp_path, download=True)
    assert not blob.exists()
    assert list(tmp_path.glob("made/*/*.arrow")) == []


def test_a_connection_that_fails_is_a_hub_out_of_reach(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    connect(monkeypatch, failing(ConnectionError("Couldn't reach")))
    with pytest.raises(DataAbsent, match="the hub cannot be reached"):
        mnist(root=tmp_path, download=True)


@pytest.mark.parametrize(
    "kind", [OSError, HfHubHTTPError.__bases__[0], datasets.exceptions.DatasetGenerationError]
)
def test_any_other_failure_of_the_hub_is_told(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    connect(monkeypatch, failing(kind("No space left on device")))
    message = (
        rf"^ylecun/mnist, revision 77f32.*, cannot be downloaded .*\({kind.__name__}: No space left"
    )
    with pytest.raises(DataError, match=message):
        mnist(root=tmp_path, download=True)


def test_another_revision_in_the_cache_is_not_taken(tmp_path, monkeypatch):
    hub = connect(monkeypatch, Hub(GREY))
    hub.tables.save_to_disk(tmp_path / "saved")
    hub.tables = datasets.load_from_disk(tmp_path / "saved")
    message = r"cannot be reached, and the cache has only extra, test, train\)"
    with pytest.raises(DataAbsent, match=message):
        mnist(root=tmp_path, download=True)


PIXELS = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), np.uint8)


class Source(list):
    """Pairs that are counted as they are read."""

    read = 0

    def __getitem__(self, i):
        self.read += 1
        return super().__getitem__(i)


def encoded(form, i=0):
    return image_bytes(Image.fromarray(PIXELS[i]), form)


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_images_are_their_pixels_whatever_they_are_called(form):
    column = streamed_images([(encoded(form, i), f"{i}.jpg") for i in range(3)])
    assert column.key == array_images(PIXELS).key
    assert np.array_equal(np.asarray(column[2]), PIXELS[2])


@pytest.mark.parametrize("form", ["JPEG", "GIF", "WEBP"])
def test_lossy_images_are_their_bytes(tmp_path, form):
    stored, name = encoded(form), f"a.{form.lower()}"
    (tmp_path / name).write_bytes(stored)
    assert encoded_digest(stored, "a.png") == hashlib.sha256(stored).hexdigest()
    assert streamed_images([(stored, "a")]).key == file_images(tmp_path, [name]).key


def test_images_are_read_once_for_the_key_and_again_only_as_asked_for():
    source = Source((encoded("PNG", i), str(i)) for i in range(3))
    column = streamed_images(source)
    assert source.read == 3
    assert [image.size for image in column.stored[1:]] == [(4, 5), (4, 5)]
    assert source.read == 5


def test_known_digests_spare_the_reading():
    source = Source((encoded("PNG", i), str(i)) for i in range(3))
    known = [encoded_digest(*pair) for pair in source]
    assert streamed_images(source, known).key == array_images(PIXELS).key
    assert source.read == 0


def test_sizes_are_in_the_header():
    assert streamed_images([(encoded("JPEG")[:-30], "a")], ["its digest"]).stored.size(0) == (4, 5)


@pytest.mark.parametrize(
    "stored", [b"", b"nothing", b"\xff\xd8\xff", b"RIFF1234WEBP", encoded("JPEG")[:-30]]
)
def test_what_is_no_image_is_named_with_the_key(stored):
    with pytest.raises(DataError, match=r"^shard 3, key k cannot be decoded as an image"):
        streamed_images([(stored, "shard 3, key k")])
