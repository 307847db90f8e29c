"""Image columns: PIL images in mode RGB, decoded on each access and identified by their content.

A key digests decoded pixels if the source is lossless, so that all containers of a data set have
the same key, and encoded bytes otherwise. EXIF rotation is ignored, as in torchvision.
"""

import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from PIL.Image import Image
from PIL.TiffImagePlugin import TiffImageFile

from vlbench.data.records import Column, Split, value_column
from vlbench.errors import DataAbsent, DataError
from vlbench.system.digests import bytes_digest, digest, file_digests
from vlbench.system.files import MOST_IMAGE, read_bytes

LOSSLESS = (".png", ".bmp", ".ppm", ".pgm", ".pbm", ".pnm", ".tif", ".tiff")
SUFFIXES = (*LOSSLESS, ".jpg", ".jpeg", ".jfif", ".gif", ".webp")

# The accepted formats: Pillow would pass EPS to Ghostscript, whatever the file's name.
FORMATS = ("JPEG", "PNG", "BMP", "PPM", "TIFF", "GIF", "WEBP")

# Pillow's exceptions for truncated files and for files that are not images.
UNDECODABLE = (
    *(OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, MemoryError),
    *(TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError),
    *(PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning),
)

# The number of files whose digests are looked up together.
AT_ONCE = 10_000

# This number of pixels takes 700 MB during decoding; Pillow itself would only warn.
MOST_PIXELS = 89_478_485

# Tags of TIFF: bits per channel, meaning of grey values, storage of channels.
BITS, MEANING, STORED = 258, 262, 284
WHITE_IS_ZERO, SEPARATELY = 0, 2

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, eq=False)
class DecodedImages(Sequence[Any]):
    """Images decoded from `source` on each access and not kept.

    `measure` reads (W, H) without decoding, if the source has a header.
    """

    source: Sequence[Any] | Pixels
    decode: Callable[[Any], Image]
    measure: Callable[[Any], tuple[int, int]] | None = None

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.source)

    def __getitem__(self, i: Any) -> Any:
        """Return image i, or the list of images of a slice."""
        if isinstance(i, slice):
            return [self[row] for row in range(*i.indices(len(self)))]
        return self.decode(self.source[i])

    def size(self, i: int) -> tuple[int, int]:
        """Return (W, H) of image i."""
        return self.measure(self.source[i]) if self.measure else self[i].size


@dataclass(frozen=True, eq=False)
class _Chosen(Sequence[Any]):
    """Some rows of a source of images."""

    source: Sequence[Any] | Pixels
    rows: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        return self.source[self.rows[i]]


def file_images(root: Path, names: Sequence[str], *, listed: str = "") -> Column:
    """Return the images of files, named relative to `root` with slashes.

    `listed` is the file that lists the names, for errors. A missing file raises DataError now; a
    file that cannot be decoded raises it at the latest when the image is read. Both errors name
    the file relative to `root`, because a result may quote them.
    """
    # Unlike Path.is_file, os.path.isfile returns False for an invalid file name.
    exists = map(os.path.isfile, _paths(root, names))
    absent = [name for name, is_file in zip(names, exists, strict=True) if not is_file]
    if absent:
        which = f"{len(absent)} of {len(names)} images{listed and f' in {listed}'} are"
        raise DataError(f"{absent[0]:.200} is missing ({which}); fetch the images")
    pixels, encoded = list[str](), list[str]()
    for name in names:
        (pixels if name.lower().endswith(LOSSLESS) else encoded).append(name)
    digests = _file_digests(root, pixels, "rgb pixels", partial(_filepixels_digest, root))
    digests |= _file_digests(root, encoded, "bytes", partial(_file_bytes_digest, root))
    decode, measure = partial(read_image, root), partial(_size_in_file, root)
    stored = DecodedImages(list(names), decode, measure)
    return replace(image_column(stored, [digests[name] for name in names]), names=list(names))


def sized_images(
    root: Path, names: Sequence[str], sizes: Sequence[Sequence[int]], *, listed: str, sized_in: str
) -> Column:
    """Return `file_images`. Raises DataError for the first whose (W, H) differs from `sizes`.

    `sized_in` names the source of `sizes` for the error. Only headers of files are read for this,
    and their sizes are stored like digests.
    """
    images = file_images(root, names, listed=listed)
    texts = _file_digests(root, names, "size", partial(_file_size, root))
    for name, (width, height) in zip(names, sizes, strict=True):
        if texts[name] != f"{width}x{height}":
            message = f"{name} is {texts[name]} pixels, but {width}x{height} in {sized_in}"
            raise DataError(f"{message}; fetch both again")
    return images


def array_images(pixels: Pixels) -> Column:
    """Return the images of an array, uint8 [N, H, W] (grey) or [N, H, W, 3]."""
    if pixels.dtype != np.uint8 or pixels.shape[3:] not in {(), (3,)} or pixels.ndim < 3:
        message = f"images are uint8 [N, H, W] or [N, H, W, 3], not {pixels.dtype} {pixels.shape}"
        raise ValueError(message)
    stored = DecodedImages(pixels, _from_array)
    return image_column(stored, [pixels_digest(image) for image in stored])


def labelled(images: Column, labels: Sequence[int], *, classes: int, where: str) -> Split:
    """Return a split of images and labels.

    Raises DataError, naming `where`, for labels that fit neither the images nor the classes.
    """
    if len(images) != len(labels):
        raise DataError(f"{where}: {len(images)} images, but {len(labels)} labels")
    wrong = [label for label in labels if not 0 <= label < classes]
    if wrong:
        raise DataError(f"{where}: label {wrong[0]} is not in 0..{classes - 1}")
    return Split({"image": images, "label": value_column([int(label) for label in labels])})


def read_image(root: Path, name: str) -> Image:
    """Return the image of a file, RGB. Raises DataError with its name relative to `root`."""
    try:
        encoded = read_bytes(root / name, MOST_IMAGE)
    except OSError as error:
        raise DataError(f"{name} cannot be read ({error.strerror})") from error
    return decode_image(encoded, name)


def decode_image(encoded: bytes, name: str) -> Image:
    """Return the image of encoded bytes, RGB: the first frame, without alpha channel."""
    with _opened(BytesIO(encoded), name) as image:
        image.load()
        return _rgb(image, name)


def image_size(source: Path | BytesIO, name: str) -> tuple[int, int]:
    """Return (W, H) in the header of an image. Raises DataError with its name."""
    with _opened(source, name) as image:
        return image.size


def require_whole(encoded: bytes, name: str) -> None:
    """Raise DataError for encoded bytes that cannot be decoded.

    A JPEG is decoded at an eighth of its side, which takes a third of the time.
    """
    with _opened(BytesIO(encoded), name) as image:
        image.draft("RGB", ((image.width + 7) // 8, (image.height + 7) // 8))
        image.load()


@contextmanager
def _opened(source: Path | BytesIO, name: str) -> Iterator[Image]:
    """Open an image and read only its header. Raises DataError with its name, also later."""
    try:
        with PIL.Image.open(source, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.width}x{image.height} pixels")
            yield image
    except UNDECODABLE as error:
        # Pillow's own message may contain a path or a memory address, which differ between runs.
        kind = type(error).__name__
        raise DataError(f"{name} cannot be decoded as an image ({kind}); fetch it again") from error


def _rgb(image: Image, name: str) -> Image:
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    bits = max(tags.get(BITS, (16,)))
    if bits > 8 and tags.get(STORED) == SEPARATELY:
        # Pillow would read this wrongly without an error.
        raise DataError(
            f"{name} has {bits} bits in separate channels; save it with 8 bits per channel"
        )
    if image.mode.startswith("I;16"):
        grey = _eight_bits(np.asarray(image), bits, name)
        return _from_array(~grey if tags.get(MEANING) == WHITE_IS_ZERO else grey)
    if image.mode.startswith(("I", "F")):
        # Pillow would clip these to 0..255 without an error.
        raise DataError(f"{name} has pixels of mode {image.mode}; save it with 8 bits per channel")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _eight_bits(grey: np.ndarray[Any, Any], bits: int, name: str) -> Pixels:
    """Return grey values of `bits` bits as the nearest of 256 levels (16 bits: divided by 257).

    Raises DataError if all would be black: 8 bits are often stored in 16 without scaling.
    """
    if 0 < (largest := int(grey.max())) < 1 << (bits - 8):
        raise DataError(
            f"{name} has {bits} bits of grey, but no value above {largest}: it is too dark, or "
            "declares too many bits; save it as an 8-bit image"
        )
    most = (1 << bits) - 1
    return ((grey.astype(np.uint32) * 255 + most // 2) // most).astype(np.uint8)


def image_column(stored: DecodedImages, digests: Sequence[str]) -> Column:
    """Return the column of images with these digests of their contents."""
    key = digest(["images", *digests])
    return Column(key, "image", stored, range(len(stored)), digests=digests)


def named_images(
    collection: str, names: Sequence[str], images: Column | None, absent: DataAbsent | None
) -> Column:
    """Return images of a published collection, identified by their names there.

    If `images`, which have the pixels, is None, reading an image raises `absent`.
    """
    digests = [digest([collection, name]) for name in names]
    known_as = digest(["images by their names", *digests])
    if images is None:
        assert absent
        stored: Sequence[Any] = _AbsentImages(len(names), absent)
        return Column(known_as, "image", stored, range(len(names)), names, digests, known_as)
    return replace(images, digests=digests, known_as=known_as)


def published_images(
    collection: str, folder: Path, names: Sequence[str], *, listed: str, absent: DataAbsent | None
) -> Column:
    """Return the files of a published collection in a folder, identified by their names there.

    `listed` is as in `file_images`. If `absent` is given, no file is read, since recorded answers
    need none, and reading an image raises it.
    """
    read = None if absent else file_images(folder, names, listed=listed)
    return named_images(collection, names, read, absent)


@dataclass(frozen=True, eq=False)
class _AbsentImages(Sequence[Any]):
    """Images of which only the names are known."""

    number: int
    absent: DataAbsent

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, i: Any) -> Any:
        raise self.absent


def images_at(images: Column, rows: Sequence[int]) -> Column:
    """Return some images of a whole column as a whole column, as if there were no others."""
    stored = images.stored
    assert isinstance(stored, DecodedImages)
    chosen = replace(stored, source=_Chosen(stored.source, rows))
    column = image_column(chosen, [images.digests[row] for row in rows])
    return replace(column, names=[images.names[row] for row in rows] if images.names else ())


def _file_digests(
    root: Path, names: Sequence[str], how: str, compute: Callable[[Path], str]
) -> dict[str, str]:
    digests: dict[str, str] = {}
    # In parts: finished parts are stored, and a million paths and stats take half a gigabyte.
    for start in range(0, len(names), AT_ONCE):
        part = names[start : start + AT_ONCE]
        digests.update(zip(part, file_digests(_paths(root, part), how, compute), strict=True))
    return digests


def _paths(root: Path, names: Sequence[str]) -> list[str]:
    """Return the paths of files as texts: joining a million Paths takes longer than reading them.

    A name may be an absolute path.
    """
    folder = str(root)
    return [name if name.startswith("/") else f"{folder}/{name}" for name in names]


def _file_size(root: Path, path: Path) -> str:
    width, height = _size_in_file(root, path.relative_to(root).as_posix())
    return f"{width}x{height}"


def _size_in_file(root: Path, name: str) -> tuple[int, int]:
    return image_size(root / name, name)


def _filepixels_digest(root: Path, path: Path) -> str:
    return pixels_digest(read_image(root, path.relative_to(root).as_posix()))


def _file_bytes_digest(root: Path, path: Path) -> str:
    try:
        return bytes_digest(path)
    except OSError as error:
        name = path.relative_to(root).as_posix()
        raise DataError(f"{name} cannot be read ({error.strerror})") from error


def pixels_digest(image: Image) -> str:
    """Return the sha256 of an image's size and pixels, hexadecimal."""
    return hashlib.sha256(f"{image.width}x{image.height}".encode() + image.tobytes()).hexdigest()


def _from_array(pixels: Pixels) -> Image:
    return PIL.Image.fromarray(pixels).convert("RGB")
