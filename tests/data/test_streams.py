import hashlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from vlbench.data.images import array_images, file_images
from vlbench.data.streams import encoded_digest, streamed_images
from vlbench.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), np.uint8)


class Source(list):
    """Pairs that are counted as they are read."""

    read = 0

    def __getitem__(self, i):
        self.read += 1
        return super().__getitem__(i)


def encoded(form, i=0):
    stored = BytesIO()
    Image.fromarray(PIXELS[i]).save(stored, form)
    return stored.getvalue()


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
    column = streamed_images([(encoded("JPEG")[:-30], "a")], ["its digest"])
    assert column.stored.size(0) == (4, 5)


@pytest.mark.parametrize(
    "stored", [b"", b"nothing", b"\xff\xd8\xff", b"RIFF1234WEBP", encoded("JPEG")[:-30]]
)
def test_what_is_no_image_is_named_with_the_key(stored):
    with pytest.raises(DataError, match=r"^shard 3, key k cannot be decoded as an image"):
        streamed_images([(stored, "shard 3, key k")])
