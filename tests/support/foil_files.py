"""Small images and JSON files in the formats of the sets of foils."""

import json
from io import BytesIO

from PIL import Image


def put_images(folder, *names, size=(8, 6)):
    """Write an image of another colour for each name."""
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (40 * i, 0, 255 - 40 * i)).save(folder / name)
    return folder


def put_json(file, content):
    """Write JSON, or a text as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def image_bytes(image, form, **options):
    """Return what a file of an image would contain."""
    stored = BytesIO()
    image.save(stored, form, **options)
    return stored.getvalue()
