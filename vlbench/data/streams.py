"""Images read one at a time from a table or an archive: only their digests are held.

Their names may lie about their format, so their first bytes say what it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from io import BytesIO

from PIL.Image import Image

from vlbench.data.images import (
    DecodedImages,
    decode_image,
    image_column,
    image_size,
    pixels_digest,
    require_whole,
)
from vlbench.data.records import Column

# How the encoded bytes of lossy formats begin; any other format is compared by its pixels.
LOSSY = (b"\xff\xd8\xff", b"GIF8", b"RIFF")


def streamed_images(
    source: Sequence[tuple[bytes, str]], digests: Sequence[str] | None = None
) -> Column:
    """Return the images of a source that reads encoded bytes, and their name, on each access.

    `digests` are those of `encoded_digest`, where they are known; otherwise each image is read once
    for them, and raises DataError by its name where it is none.
    """
    if digests is None:
        digests = [encoded_digest(*source[i]) for i in range(len(source))]
    return image_column(DecodedImages(source, _decode, _size), digests)


def encoded_digest(encoded: bytes, name: str) -> str:
    """Return the digest of an image's pixels where its format is lossless, else of its bytes.

    Raises DataError, with its name, for what is no whole image.
    """
    if not encoded.startswith(LOSSY):
        return pixels_digest(decode_image(encoded, name))
    require_whole(encoded, name)
    return hashlib.sha256(encoded).hexdigest()


def _decode(pair: tuple[bytes, str]) -> Image:
    return decode_image(*pair)


def _size(pair: tuple[bytes, str]) -> tuple[int, int]:
    encoded, name = pair
    return image_size(BytesIO(encoded), name)
