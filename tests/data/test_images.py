import pickle
import struct
from functools import partial

import numpy as np
import pytest
import torch
from foil_files import image_bytes
from PIL import Image
from torchvision.transforms.v2.functional import to_dtype

import vlbench.system.digests
from vlbench.data.hub_sets import streamed_images
from vlbench.data.images import (
    array_images,
    decode_image,
    file_images,
    labelled,
    read_image,
    require_whole,
    sized_images,
)
from vlbench.errors import DataError

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (3, 5, 4, 3), np.uint8)
GREY = RNG.integers(0, 256, (3, 5, 4), np.uint8)


def saved(folder, arrays, suffix):
    names = [f"{i}{suffix}" for i in range(len(arrays))]
    for name, array in zip(names, arrays, strict=True):
        Image.fromarray(array).save(folder / name)
    return names


def encoded(array, form, **options):
    return image_bytes(Image.fromarray(array), form, **options)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".ppm", ".tiff", ".PNG"])
def test_lossless_files_and_an_array_of_the_same_pixels_have_one_key(tmp_path, suffix):
    files = file_images(tmp_path, saved(tmp_path, COLOUR, suffix))
    assert files.key == array_images(COLOUR).key
    assert np.array_equal(np.asarray(files[1]), COLOUR[1])


def test_grey_files_and_a_grey_array_have_one_key(tmp_path):
    assert file_images(tmp_path, saved(tmp_path, GREY, ".png")).key == array_images(GREY).key


def test_grey_images_become_three_equal_channels():
    image = array_images(GREY)[2]
    assert image.mode == "RGB"
    assert np.array_equal(np.asarray(image), np.stack([GREY[2]] * 3, axis=-1))


def test_the_key_does_not_know_folder_or_name(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    saved(tmp_path, COLOUR, ".jpg")
    (tmp_path / "0.jpg").rename(tmp_path / "elsewhere" / "moved.jpg")
    moved = file_images(tmp_path, ["elsewhere/moved.jpg"])
    assert moved.key == streamed_images([(encoded(COLOUR[0], "JPEG"), "0.jpg")]).key


def test_the_key_knows_the_order_and_the_shape():
    turned = COLOUR.reshape(3, 4, 5, 3)
    assert len({array_images(a).key for a in (COLOUR, COLOUR[::-1], turned, COLOUR[:2])}) == 4


def test_two_encodings_of_one_lossy_image_have_two_keys():
    blobs = [encoded(COLOUR[0], "JPEG", quality=q) for q in (60, 90)]
    assert len({streamed_images([(blob, "a.jpg")]).key for blob in blobs}) == 2


def test_digests_of_pixels_are_remembered(tmp_path, monkeypatch):
    names = saved(tmp_path, COLOUR, ".png")
    monkeypatch.setattr(vlbench.system.digests, "SETTLED_NS", -1)
    token = vlbench.system.digests.memory.set(tmp_path / "memory.sqlite")
    first = file_images(tmp_path, names).key
    monkeypatch.setattr("vlbench.data.images.pixels_digest", None)
    assert file_images(tmp_path, names).key == first
    vlbench.system.digests.memory.reset(token)


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
def test_digests_of_parts_are_those_of_the_whole(tmp_path, monkeypatch, at_once):
    names = saved(tmp_path, COLOUR, ".png")
    monkeypatch.setattr("vlbench.data.images.AT_ONCE", at_once)
    assert file_images(tmp_path, names).key == array_images(COLOUR).key


def test_digests_are_remembered_as_far_as_they_are_known(tmp_path, monkeypatch):
    names = [*saved(tmp_path, COLOUR, ".png"), "broken.png"]
    (tmp_path / "broken.png").write_bytes(b"nothing")
    monkeypatch.setattr(vlbench.system.digests, "SETTLED_NS", -1)
    monkeypatch.setattr("vlbench.data.images.AT_ONCE", 3)
    with vlbench.system.digests.remembered_in(tmp_path / "memory.sqlite"):
        with pytest.raises(DataError, match=r"^broken\.png cannot be decoded"):
            file_images(tmp_path, names)
        monkeypatch.setattr("vlbench.data.images.pixels_digest", None)
        assert len(file_images(tmp_path, names[:3])) == 3


def test_a_truncated_jpeg_names_the_file_relative_to_the_root(tmp_path):
    (tmp_path / "cat.jpg").write_bytes(encoded(RNG.integers(0, 256, (64, 64), np.uint8), "JPEG"))
    (tmp_path / "cat.jpg").write_bytes((tmp_path / "cat.jpg").read_bytes()[:-900])
    column = file_images(tmp_path, ["cat.jpg"])
    with pytest.raises(DataError, match=r"^cat\.jpg cannot be decoded as an image \(OSError\)"):
        column[0]


def test_a_truncated_png_is_found_with_the_key(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(COLOUR[0], "PNG")[:60])
    with pytest.raises(DataError, match=r"^a\.png cannot be decoded"):
        file_images(tmp_path, ["a.png"])


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "GIF", "PNG"])
def test_an_image_that_breaks_off_anywhere_is_not_whole(form):
    pixels = np.random.default_rng(1).integers(0, 256, (40, 50, 3), np.uint8)
    whole = encoded(pixels, form)
    require_whole(whole, "a")
    for part in (0.1, 0.5, 0.9):
        with pytest.raises(DataError, match=r"^a cannot be decoded as an image"):
            require_whole(whole[: int(part * len(whole))], "a")


def test_more_pixels_than_memory_holds_are_refused(monkeypatch):
    monkeypatch.setattr("vlbench.data.images.MOST_PIXELS", 19)
    with pytest.raises(DataError, match=r"^a\.png cannot be decoded as an image \(ValueError\)"):
        decode_image(encoded(COLOUR[0], "PNG"), "a.png")


def test_an_image_of_another_size_is_named(tmp_path):
    names = saved(tmp_path, COLOUR[:2], ".png")
    sized = partial(sized_images, tmp_path, names, listed="", sized_in="a.json")
    assert sized([(4, 5), [4, 5]]).key == file_images(tmp_path, names).key
    with pytest.raises(DataError, match=r"^1\.png is 4x5 pixels, but 5x4 in a\.json; fetch both"):
        sized([(4, 5), (5, 4)])
    (tmp_path / "0.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"^0\.png cannot be decoded"):
        sized([(4, 5), (4, 5)])


EVERY_GREY = np.arange(2**16, dtype=np.uint16).reshape(256, 256)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_sixteen_bits_of_grey_are_the_nearest_levels_to_torchvisions_floats(kind, order):
    red, *_ = decode_image(encoded(EVERY_GREY.astype(order), kind), "a").split()
    exact = to_dtype(torch.from_numpy(EVERY_GREY), torch.float64, scale=True).numpy()
    assert np.abs(np.asarray(red) / 255 - exact).max() <= 0.5 / 255


def test_eight_bits_kept_in_sixteen_are_refused_and_black_is_black():
    grey = GREY[0].astype(np.uint16)
    message = rf"^a\.png has 16 bits of grey, but no value above {grey.max()}: .*8-bit image$"
    with pytest.raises(DataError, match=message):
        decode_image(encoded(grey, "PNG"), "a.png")
    assert decode_image(encoded(grey * 0, "PNG"), "a.png").getextrema() == ((0, 0),) * 3
    assert np.array_equal(decode_image(encoded(grey * 257, "PNG"), "a.png").split()[0], GREY[0])


def tiff(pixels, meaning, stored):
    """The bytes of a TIFF of uint16 pixels [channels, H, W]."""
    channels, height, width = pixels.shape
    data = pixels.astype("<u2").tobytes()
    tags = {256: width, 257: height, 258: 16, 259: 1, 262: meaning, 273: 8}
    tags |= {277: channels, 278: height, 279: len(data) // channels, 284: stored}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    head = struct.pack("<2sHI", b"II", 42, 8 + len(data))
    return head + data + struct.pack("<H", len(tags)) + entries + bytes(4)


def test_sixteen_bits_whose_zero_is_white_are_turned_round():
    image = decode_image(tiff(np.array([[[0, 256, 65535]]]), 0, 1), "a.tif")
    assert [image.getpixel((x, 0))[0] for x in range(3)] == [255, 254, 0]


REFUSED = [
    (b"<html>", r".*\(UnidentifiedImageError\); fetch it again$"),
    (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n", "cannot be decoded"),  # never run
    (tiff(np.zeros((3, 2, 2)), 2, 2), "has 16 bits in separate channels; save it with"),
    # Of 32 bits, and never clipped.
    *(
        (encoded(GREY[0].astype(x) * n, "TIFF"), f"has pixels of mode {mode}; save it with 8 bits")
        for x, mode in [(np.int32, "I"), (np.float32, "F")]
        for n in (1, 256)
    ),
]


@pytest.mark.parametrize(("stored", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_image_of_8_or_16_bits_is_refused(stored, message):
    with pytest.raises(DataError, match=rf"^a\.png {message}"):
        decode_image(stored, "a.png")


def test_a_transparent_palette_keeps_its_colours():
    red = Image.new("P", (2, 2), 1)
    red.putpalette([0, 0, 0, 255, 0, 0])
    stored = image_bytes(red, "PNG", transparency=b"\xff\x00")
    assert decode_image(stored, "a.png").getpixel((0, 0)) == (255, 0, 0)


def test_an_absent_file_is_named_with_how_many(tmp_path):
    saved(tmp_path, COLOUR[:1], ".png")
    with pytest.raises(DataError, match=r"^1\.png is missing \(2 of 3 images are\)"):
        file_images(tmp_path, ["0.png", "1.png", "2.png"])
    with pytest.raises(DataError, match=r"^1\.png is missing \(2 of 3 images in a\.txt are\)"):
        file_images(tmp_path, ["0.png", "1.png", "2.png"], listed="a.txt")


def test_a_file_that_vanished_is_named_without_its_root(tmp_path):
    with pytest.raises(DataError, match=r"^gone\.png cannot be read \(No such file"):
        read_image(tmp_path, "gone.png")


@pytest.mark.parametrize("wrong", [COLOUR.astype(float), COLOUR[..., :2], COLOUR[0, 0]])
def test_only_bytes_of_grey_or_colour_are_images(wrong):
    with pytest.raises(ValueError, match=r"images are uint8 \[N, H, W\] or"):
        array_images(wrong)


def test_labels_that_do_not_fit_are_named():
    images = array_images(GREY)
    with pytest.raises(DataError, match="train: 3 images, but 2 labels"):
        labelled(images, [0, 1], classes=2, where="train")
    with pytest.raises(DataError, match=r"train: label 2 is not in 0\.\.1"):
        labelled(images, [0, 1, 2], classes=2, where="train")


def test_images_travel_to_other_processes(tmp_path):
    names = saved(tmp_path, COLOUR, ".png")
    column = pickle.loads(pickle.dumps(file_images(tmp_path, names)))  # noqa: S301 - our own
    assert np.array_equal(np.asarray(column[2]), COLOUR[2])


def test_a_slice_is_a_list_of_images():
    assert [image.size for image in array_images(GREY).stored[1:]] == [(4, 5), (4, 5)]


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "\ud800"])
def test_what_can_be_no_name_of_a_file_is_absent(tmp_path, name):
    with pytest.raises(DataError, match=r"is missing \(1 of 1 images in a\.txt are\)"):
        file_images(tmp_path, [name], listed="a.txt")
