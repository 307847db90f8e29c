"""`vlbench init`: write a source of your own: a model, a task, images and a test."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

import PIL.Image
from PIL import ImageDraw
from PIL.Image import Image

from vlbench.commands import Answer
from vlbench.drawing.sheets import png
from vlbench.errors import UnknownNameError
from vlbench.system.files import write_whole

TEMPLATE = Path(__file__).with_name("template")

# The corners and colour of each class of images; each split has two images per class.
SHAPES = {"circle": (60, "red"), "square": (4, "lime"), "triangle": (3, "blue")}
SPLITS = ("train", "test")


def add_options(init: argparse.ArgumentParser) -> None:
    """Add the option for the folder."""
    init.add_argument("folder", type=Path, metavar="DIR", help="a new folder, or an empty one")


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the source, and return its content and the next commands."""
    folder = arguments.folder
    written = init(folder)
    images = sum(file.suffix == ".png" for file in written)
    place = shlex.quote(str(folder))
    return Answer(
        [
            *(f"wrote {file}" for file in written if file.suffix != ".png"),
            f"wrote {images} images below {folder / 'images'}",
            "next:",
            f"  vlbench check mean-colour --include-path {place}",
            f"  vlbench validate {place}",
            f"  vlbench --model mean-colour --tasks few_shot_mine --include-path {place}",
        ]
    )


def init(folder: Path) -> list[Path]:
    """Write a source into a folder, and return its files.

    Raises UnknownNameError for a file or a folder that is not empty, and OutputError.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what = "not empty" if folder.is_dir() else "a file"
        raise UnknownNameError(f"{folder} is {what}; name a new folder, or an empty one")
    copied = [file for file in TEMPLATE.rglob("*") if file.suffix in {".py", ".yaml"}]
    contents = {file.relative_to(TEMPLATE): file.read_bytes() for file in sorted(copied)}
    contents |= {place: png(image) for place, image in _draw_images()}
    for place, content in contents.items():
        write_whole(folder / place, content)
    return [folder / place for place in contents]


def _draw_images() -> Iterator[tuple[Path, Image]]:
    """Yield each image's path in the source, and a shape, each at a different position."""
    for name, (corners, colour) in SHAPES.items():
        for i in range(4):
            image = PIL.Image.new("RGB", (64, 64), "black")
            circle = (26 + 4 * i, 36 - 2 * i, 12 + 3 * i)
            ImageDraw.Draw(image).regular_polygon(circle, corners, fill=colour)
            yield Path("images", SPLITS[i // 2], name, f"{i}.png"), image
