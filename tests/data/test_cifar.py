import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vlbench.data.cifar import cifar10, cifar100
from vlbench.data.images import array_images
from vlbench.data.records import labels
from vlbench.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
PLANES = PIXELS.transpose(0, 3, 1, 2).reshape(4, 3072)
NAMES = [b"airplane", b"automobile", b"sea_bird"]


def text(value):
    return b"U" + bytes([len(value)]) + value


def python2_pickle(planes, values, key=b"labels", dtype=b"u1", fortran=b"\x89"):
    """Return the bytes that Python 2's cPickle wrote at protocol 2, opcode by opcode."""
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b")
    kind = b"cnumpy\ndtype\n" + text(dtype) + b"K\x00K\x01\x87R"
    kind += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    content = planes.tobytes("F" if fortran == b"\x88" else "C")
    state = b"(K\x01M" + struct.pack("<H", len(planes)) + b"M\x00\x0c\x86" + kind + fortran
    state += b"T" + struct.pack("<i", len(content)) + content + b"t"
    items = b"".join(b"K" + bytes([value]) for value in values)
    pair = text(b"data") + array + b"\x87R" + state + b"b" + text(key) + b"](" + items + b"e"
    return b"\x80\x02}(" + pair + b"u."


def put(root, batches, folder="cifar-10-batches-py", meta="batches.meta", key=b"label_names"):
    (root / folder).mkdir(exist_ok=True)
    (root / folder / meta).write_bytes(pickle.dumps({key: NAMES}, 2))
    for name, content in batches.items():
        (root / folder / name).write_bytes(content)
    return root


def pixels(split):
    return np.stack([np.asarray(image) for image in split["image"]])


@pytest.mark.parametrize("fortran", [b"\x89", b"\x88"])
def test_a_batch_of_python_2_gives_its_pixels_and_labels(tmp_path, fortran):
    batch = python2_pickle(PLANES, [0, 2, 1, 0], fortran=fortran)
    split = cifar10(root=put(tmp_path, {"test_batch": batch})).splits["test"]
    assert np.array_equal(pixels(split), PIXELS)
    assert labels(split).tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_batch_of_python_3_gives_its_pixels(tmp_path, protocol):
    batch = {b"data": PLANES, b"labels": [0, 1, 2, 0]}
    root = put(tmp_path, {"test_batch": pickle.dumps(batch, protocol)})
    assert np.array_equal(pixels(cifar10(root=root).splits["test"]), PIXELS)


def test_batches_of_train_are_joined_in_their_order(tmp_path):
    batches = {f"data_batch_{i}": python2_pickle(PLANES[i : i + 1], [0]) for i in (3, 1, 2)}
    data = cifar10(root=put(tmp_path, batches))
    assert list(data.splits) == ["train"]
    assert data.splits["train"]["image"].key == array_images(PIXELS[1:]).key


def test_a_part_of_the_set_says_what_it_lacks(tmp_path):
    data = cifar10(root=put(tmp_path, {"test_batch": python2_pickle(PLANES, [0, 0, 1, 1])}))
    assert data.missing_rows() == {"test": 9_996}


def test_the_first_test_images_alone_are_taken_where_they_are_asked_for(tmp_path):
    root = put(tmp_path, {"test_batch": python2_pickle(PLANES, [0, 0, 1, 1])})
    data = cifar10(root=root, test=3)
    assert (len(data.splits["test"]), data.missing_rows()) == (3, {})


def test_the_root_may_be_the_folder_of_batches(tmp_path):
    put(tmp_path, {"test_batch": python2_pickle(PLANES, [0, 0, 1, 1])})
    data = cifar10(root=tmp_path / "cifar-10-batches-py")
    assert data.classes == ["airplane", "automobile", "sea bird"]


def test_cifar100_has_the_fine_labels(tmp_path):
    batches = {"train": python2_pickle(PLANES, [1, 1, 2, 0], key=b"fine_labels")}
    root = put(tmp_path, batches, "cifar-100-python", "meta", b"fine_label_names")
    data = cifar100(root=root)
    assert labels(data.splits["train"]).tolist() == [1, 1, 2, 0]
    assert data.expected == {"train": 50_000}


class Malice:
    def __reduce__(self):
        return os.mkdir, ("/tmp/vlbench-was-run",)  # noqa: S108 - never made


def test_a_malicious_batch_runs_nothing(tmp_path):
    root = put(tmp_path, {"test_batch": pickle.dumps({b"data": Malice()}, 2)})
    with pytest.raises(DataError, match=r"^test_batch is not a batch of CIFAR .*posix\.mkdir"):
        cifar10(root=root)
    assert not Path("/tmp/vlbench-was-run").exists()  # noqa: S108 - never made


def test_malicious_class_names_run_nothing(tmp_path):
    root = put(tmp_path, {"test_batch": python2_pickle(PLANES, [0, 0, 1, 1])})
    (root / "cifar-10-batches-py/batches.meta").write_bytes(pickle.dumps(Malice(), 0))
    with pytest.raises(DataError, match=r"batches\.meta .*posix\.mkdir"):
        cifar10(root=root)


NO_BATCH = [
    b"\x80\x02}r\xff\xff\xff\x7f.",
    pickle.dumps([1, 2], 2),
    pickle.dumps({b"labels": [0]}, 2),
    pickle.dumps({b"data": PLANES, b"labels": [0.5] * 4}, 2),
    python2_pickle(PLANES[:, :3000], [0, 0, 1, 1]),
    python2_pickle(PLANES, [0, 0, 1, 1], dtype=b"O8"),
]
REFUSED = [
    *((content, "^test_batch is not a batch of CIFAR") for content in NO_BATCH),
    (b"cnumpy\nload\n(U\x05a.npytR.", r"it loads 'numpy\.load'"),
    (python2_pickle(PLANES, [0]), "test_batch: 4 images, but 1 labels"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_batch_is_named(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        cifar10(root=put(tmp_path, {"test_batch": content}))


def test_the_real_sample_is_200_test_images(real_data):
    data = cifar10(root=real_data / "cifar10_lossless_subset")
    counts = np.bincount(labels(data.splits["test"]))
    assert (list(data.splits), counts.min(), counts.max()) == (["test"], 14, 29)
    assert data.missing_rows() == {"test": 9_800}
    assert (data.classes[0], data.classes[9]) == ("airplane", "truck")


def test_real_images_look_like_their_jpegs(real_data):
    image = cifar10(root=real_data / "cifar10_lossless_subset").splits["test"]["image"][0]
    jpeg = Image.open(real_data / "cifar10_image_folder/test/airplane/0024.jpg")
    gap = np.asarray(image).astype(float) - np.asarray(jpeg)
    assert np.abs(gap).mean() < 10
