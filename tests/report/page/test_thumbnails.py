"""Thumbnails: what is in them."""

import base64
from io import BytesIO

import pytest
from PIL import Image, ImageCms

from vlbench.report.page.thumbnails import thumbnail


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "GIF"])
@pytest.mark.parametrize("side", [20, 60])
def test_a_thumbnail_has_pixels_only(kind, side):
    given, exif = BytesIO(), Image.Exif()
    exif[270] = "planted"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    own = {"comment": b"planted", "exif": exif, "xmp": b"planted", "icc_profile": profile}
    Image.new("RGB", (side, side), "red").save(given, kind, **own)
    made = base64.b64decode(thumbnail(Image.open(given)).partition(",")[2])
    assert [one for one in (b"planted", b"ICC", b"iCCP", b"Exif") if one in made] == []
