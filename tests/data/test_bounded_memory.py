"""Images of a data set are never in memory together, neither encoded nor decoded."""

import tarfile

import numpy as np
import pytest
import torch
from foil_files import image_bytes
from PIL import Image

from vlbench.data import table, webdataset
from vlbench.engine import Engine

COUNT, SIDE, ENCODED = 36, 1500, 8 << 20


class MeanColour:
    def preprocess(self, image):
        pixels = torch.from_numpy(np.array(image.reduce(8)).transpose(2, 0, 1))
        return pixels.float() / 255

    def encode_images(self, pixels):
        return pixels.mean((2, 3))


def jpeg(i):
    """Return a JPEG of 8 MB decoded; zeros behind its end, which are ignored, make it 8 MB."""
    return image_bytes(Image.new("RGB", (SIDE, SIDE), (i, 0, 90)), "JPEG")


def shards(root, count):
    (root / "test").mkdir(parents=True)
    (root / "classnames.txt").write_text("one\n")
    (root / "test/nshards.txt").write_text("1")
    with (root / "test/0.tar").open("wb") as file:
        for i in range(count):
            for name, content, size in ((f"{i}.jpg", jpeg(i), ENCODED), (f"{i}.cls", b"0", 1)):
                info = tarfile.TarInfo(name)
                info.size = size
                file.write(info.tobuf())
                file.write(content)
                file.seek(-(-(file.tell() + size - len(content)) // 512) * 512)
        file.truncate(file.tell() + 1024)
    return lambda: webdataset.images(root=root, splits={"test": "test"})


def files(root, count):
    root.mkdir()
    for i in range(count):
        with (root / f"{i}.jpg").open("wb") as file:
            file.write(jpeg(i))
            file.truncate(ENCODED)
    (root / "test.csv").write_text("image\n" + "\n".join(f"{i}.jpg" for i in range(count)))
    return lambda: table.images(root=root, test="test.csv", label="")


@pytest.mark.parametrize("put", [shards, files])
def test_images_that_memory_cannot_hold_are_extracted(put, tmp_path, little_memory):
    engine, model = Engine.for_tests(), MeanColour()
    few, many = put(tmp_path / "few", 2), put(tmp_path / "many", COUNT)
    # What is imported and allocated once comes before the limit.
    engine.features(model.encode_images, few().splits["test"]["image"])
    with little_memory():
        found = engine.features(model.encode_images, many().splits["test"]["image"])
    assert found.shape == (COUNT, 3)
    assert found[:, 0].diff().min() >= 0
    assert found[-1, 0] * 255 == pytest.approx(COUNT - 1, abs=2)
