import gzip
import hashlib
import struct

import numpy as np
import pytest
from PIL import Image

from vlbench.data.mnist import fashion_mnist, mnist
from vlbench.data.records import labels
from vlbench.errors import DataAbsent, DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 28, 28), np.uint8)
IMAGES = struct.pack(">iiii", 2051, 3, 28, 28) + PIXELS.tobytes()
LABELS = struct.pack(">ii", 2049, 3) + bytes([7, 2, 1])


def put(root, images=IMAGES, labels=LABELS, prefix="t10k"):
    root.mkdir(exist_ok=True)
    (root / f"{prefix}-images-idx3-ubyte").write_bytes(images)
    (root / f"{prefix}-labels-idx1-ubyte").write_bytes(labels)
    return root


def test_idx_files_give_their_pixels_and_labels(tmp_path):
    split = mnist(root=put(tmp_path)).splits["test"]
    assert np.array_equal(np.asarray(split["image"][2])[..., 0], PIXELS[2])
    assert labels(split).tolist() == [7, 2, 1]


def test_packed_and_unpacked_files_are_the_same_data(tmp_path):
    put(tmp_path / "packed", gzip.compress(IMAGES), gzip.compress(LABELS))
    for path in list((tmp_path / "packed").iterdir()):
        path.rename(path.with_name(path.name + ".gz"))
    packed, plain = mnist(root=tmp_path / "packed"), mnist(root=put(tmp_path / "plain"))
    assert packed.digest() == plain.digest()


def test_a_split_needs_images_and_labels(tmp_path):
    put(tmp_path, prefix="train")
    (put(tmp_path) / "t10k-images-idx3-ubyte").unlink()
    data = mnist(root=tmp_path)
    assert list(data.splits) == ["train"]
    assert data.missing_rows() == {"train": 59_997}


def test_the_first_train_images_alone_are_taken_where_they_are_asked_for(tmp_path):
    put(put(tmp_path), prefix="train")
    whole, few = fashion_mnist(root=tmp_path), fashion_mnist(root=tmp_path, train=2)
    assert labels(few.splits["train"]).tolist() == [7, 2]
    assert [len(data.splits["test"]) for data in (whole, few)] == [3, 3]
    assert (whole.expected["train"], few.expected["train"]) == (60_000, 2)


def test_classes_are_the_published_names(tmp_path):
    assert mnist(root=put(tmp_path)).classes[9] == "nine"
    assert fashion_mnist(root=tmp_path).classes[::9] == ("T-shirt/top", "Ankle boot")


REFUSED = [
    (LABELS, "begins with 00000801, not 00000803"),
    (IMAGES[:9], "is cut off in its header"),
    (IMAGES[:-1], r"contains 2351 bytes, not the 2352 of \(3, 28, 28\)"),
    (IMAGES + b"xx", r"contains more than 2352 bytes, not the 2352 of \(3, 28, 28\)"),
    (
        struct.pack(">iiii", 2051, 60_001, 28, 28),
        "declares 60001 items, but the set has at most 60000",
    ),
    (struct.pack(">iiii", 2051, 3, 2, 2) + bytes(12), r"images of \(2, 2\) pixels, not 28x28"),
]


@pytest.mark.parametrize(("images", "message"), REFUSED)
def test_images_of_another_form_are_named(tmp_path, images, message):
    with pytest.raises(DataError, match="^t10k-images-idx3-ubyte:? " + message):
        mnist(root=put(tmp_path, images))


def test_a_packed_file_is_unpacked_no_further_than_its_header_says(tmp_path, little_memory):
    packed = gzip.compress(IMAGES + bytes(400 << 20), 1)
    (put(tmp_path, packed) / "t10k-images-idx3-ubyte").rename(
        tmp_path / "t10k-images-idx3-ubyte.gz"
    )
    with (
        little_memory(),
        pytest.raises(DataError, match=r"ubyte\.gz contains more than 2352 bytes"),
    ):
        mnist(root=tmp_path)


def test_the_real_test_set_is_the_published_one(real_data):
    packed = (real_data / "mnist/t10k-images-idx3-ubyte.gz").read_bytes()
    md5 = hashlib.md5(packed, usedforsecurity=False).hexdigest()
    assert md5 == "9fb629c4189551a2d022fa330f9573f3"
    data = mnist(root=real_data / "mnist")
    assert data.missing_rows() == {}
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(labels(data.splits["test"])).tolist() == counts


def test_real_images_have_the_bytes_of_their_file(real_data):
    content = gzip.decompress((real_data / "mnist/t10k-images-idx3-ubyte.gz").read_bytes())
    image = mnist(root=real_data / "mnist").splits["test"]["image"][9_999]
    assert np.asarray(image)[..., 2].tobytes() == content[-784:]


def test_real_garments_are_those_of_the_sprite(real_data, tmp_path):
    for kind in ("images-idx3", "labels-idx1"):
        source = real_data / f"fashion_mnist/derived_from_sprite/sprite900-{kind}-ubyte.gz"
        (tmp_path / f"t10k-{kind}-ubyte.gz").symlink_to(source)
    split = fashion_mnist(root=tmp_path).splits["test"]
    sprite = Image.open(real_data / "fashion_mnist/fashion-mnist-sprite.png").convert("RGB")
    assert split["image"][0].tobytes() == sprite.crop((0, 0, 28, 28)).tobytes()
    assert np.bincount(labels(split)).tolist() == [90] * 10


def test_real_labels_alone_are_absent_data(real_data):
    with pytest.raises(DataAbsent, match="Fashion-MNIST not found"):
        fashion_mnist(root=real_data / "fashion_mnist")
