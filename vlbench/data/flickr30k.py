"""Loader of Flickr30k Entities: images, captions, phrases and the boxes that they name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree as ET

import pyarrow as pa

from vlbench.data.coco_files import first_repeated, is_number, lines_of, phrases_of, read_text
from vlbench.data.images import sized_images
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading
from vlbench.data.records import Data, Split
from vlbench.data.regions import region_features
from vlbench.data.tables import box_tensor, column_from, in_memory
from vlbench.errors import DataAbsent, DataError
from vlbench.system.files import MOST_TEXT, read_bytes

# `[/EN#197/people/other A man]`: the chain, its types, the words.
PHRASE = re.compile(r"\[/EN#(\d+)((?:/[a-z]+)+) ([^\[\]]+)\]")
SIDES = ("xmin", "ymin", "xmax", "ymax")
HOME = "github.com/BryanPlummer/flickr30k_entities (annotations.zip, and the lists of images)"
IMAGES_HOME = "shannon.cs.illinois.edu/DenotationGraph"
EXPECTED = {"train": 29_783, "val": 1_000, "test": 1_000}
CAPTIONS = 5
SPLITS = tuple(EXPECTED)
# Folders of images, in this order of preference: the original, then folders of common archives.
FOLDERS = ("flickr30k-images", "flickr30k_images/flickr30k_images", "flickr30k_images", "images")
_MENTION = {
    "start": pa.int32(),
    "stop": pa.int32(),
    "boxes": pa.list_(pa.int32()),
    "chain": pa.int32(),
    "types": pa.list_(pa.string()),
}
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "size": pa.list_(pa.int32()),
        "boxes": pa.list_(pa.list_(pa.float32())),
        "words": pa.list_(pa.list_(pa.string())),
        "phrases": pa.list_(pa.list_(pa.struct(_MENTION))),
    }
)
UNRELATED = "UNRELATED_CAPTIONS"
Row = dict[str, Any]
Dropped = dict[str, int]


class Mention(NamedTuple):
    """Words start..stop of a caption that belong to a chain; chain 0 is `notvisual`."""

    start: int
    stop: int
    chain: int
    types: list[str]


class ParsedCaption(NamedTuple):
    """The words of a caption, and its phrases."""

    words: list[str]
    mentions: list[Mention]


class Annotation(NamedTuple):
    """The file and (W, H) of an image, its boxes (xyxy pixels), and the box indices of each chain.

    Boxes are as in the file: pixels count from 1.
    """

    image: str
    size: tuple[int, int]
    boxes: list[list[int]]
    chains: dict[int, list[int]]


def parse_sentences(text: str, name: str) -> list[ParsedCaption]:
    """Return the captions of a file, one per line. Raises DataError with the file and the line."""
    lines = text.removesuffix("\n").split("\n")
    return [_parse_caption(line, f"{name}, line {i}") for i, line in enumerate(lines, 1)]


def parse_annotation(content: bytes, name: str) -> Annotation:
    """Return the annotation in an XML file. Raises DataError, naming the file.

    A chain that is only a scene, or that has no box, has an empty list. A box may belong to several
    chains.
    """
    try:
        root = ET.fromstring(content)  # noqa: S314 - expat itself refuses exponential expansion
    except (ET.ParseError, ValueError, LookupError) as error:
        raise DataError(f"{name} is not a complete XML file ({error}); fetch it again") from error
    image = (root.findtext("filename") or "").strip()
    size = _number(root, "size/width", name), _number(root, "size/height", name)
    boxes: list[list[int]] = []
    chains: dict[int, list[int]] = {}
    for thing in root.iterfind("object"):
        lists = [chains.setdefault(_whole(part.text, name), []) for part in thing.iterfind("name")]
        corners = thing.find("bndbox")
        if corners is None:
            continue
        box = [_number(corners, side, name) for side in SIDES]
        if not (0 <= box[0] < box[2] <= size[0] and 0 <= box[1] < box[3] <= size[1]):
            raise DataError(f"{name}: box {box} has no area or leaves the image of {size}")
        for chain in lists:
            chain.append(len(boxes))
        boxes.append(box)
    return Annotation(image, size, boxes, chains)


def _parse_caption(line: str, where: str) -> ParsedCaption:
    words: list[str] = []
    mentions: list[Mention] = []
    for text, chain, types, phrase in _parts(line):
        if "[" in text or "]" in text:
            raise DataError(f"{where}: the markup of a phrase is not closed: {text.strip()}")
        words += text.split()
        start = len(words)
        words += phrase.split()
        if chain:
            number = _whole(chain, f"{where}: a phrase's chain")
            mentions.append(Mention(start, len(words), number, types.split("/")[1:]))
    if not words:
        raise DataError(f"{where}: a caption has no words")
    return ParsedCaption(words, mentions)


def _parts(line: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the text before each phrase, its chain, types and words; at the end the last text."""
    pieces = PHRASE.split(line)
    for i in range(0, len(pieces) - 1, 4):
        yield pieces[i], pieces[i + 1], pieces[i + 2], pieces[i + 3]
    yield pieces[-1], "", "", ""


def _number(element: ET.Element, path: str, name: str) -> int:
    return _whole(element.findtext(path), f"{name}: {path}")


def _whole(text: str | None, where: str) -> int:
    """Return the integer in a text."""
    if text is None or not is_number(text.strip()):
        raise DataError(f"{where} is not a number: {text!r:.40}")
    return int(text)


def flickr30k(
    *,
    root: Path,
    images: Path | None = None,
    regions: Path | None = None,
    splits: Sequence[str] = SPLITS,
    origin: Literal[0, 1] = 1,
) -> Data:
    """Return Flickr30k Entities in the official splits; only the files of `splits` are read.

    One row per image: `captions` (words joined by blanks; `caption` is the first), `words`,
    `phrases` (with the indices of all boxes of their chain), `chains` and `types` (one per phrase;
    chain 0 is `notvisual`), `boxes` (ground truth, float32 [n, 4] xyxy pixels) and `id`. A phrase
    that is not visual, or whose chain is only a scene or has no box, names no boxes. If the file
    UNRELATED_CAPTIONS exists, the captions in it are left out of their rows and counted in
    `dropped`. With `regions`, the images may be absent.

    Args:
        root: folder with Sentences, Annotations, and a list such as test.txt for each split.
        images: folder of the images; None: flickr30k-images, or another usual name, in `root`.
        regions: file or folder of region features (see `vlbench.data.regions`); None: the data have
            no regions.
        splits: splits to read: train, val, test, or several.
        origin: number of the first pixel in the files, subtracted from boxes; 0 leaves them
            unchanged, as BAN and VisualBERT do.
    """
    lists = {name: root / f"{name}.txt" for name in splits}
    needed = [root / "Sentences", root / "Annotations", *lists.values()]
    if unknown := [name for name in splits if name not in EXPECTED]:
        raise ValueError(f"no split '{unknown[0]}'; there are {', '.join(EXPECTED)}")
    if absent := [path for path in needed if not path.exists()]:
        raise DataAbsent("Flickr30k Entities", HOME, f"{root}/: {absent[0].name}")
    folders = [images] if images else [root / name for name in FOLDERS]
    folder = next(filter(Path.is_dir, folders), None)
    if folder is None and regions is None:
        raise DataAbsent("Flickr30k's images", IMAGES_HOME, str(folders[0]))
    begin_reading()
    unrelated = _read_unrelated(root / UNRELATED)
    ids = {name: _ids(file) for name, file in lists.items()}
    return Data(
        splits={
            name: _split(read_rows(root, ids[name], unrelated, origin), folder, regions, file.name)
            for name, file in lists.items()
        },
        expected={name: EXPECTED[name] for name in splits},
        dropped=_left_out(ids.values(), unrelated),
    )


def _left_out(splits: Iterable[Sequence[str]], unrelated: Collection[tuple[str, int]]) -> Dropped:
    """Return the number of captions that are unrelated to their images in these splits."""
    images = {image for ids in splits for image in ids}
    count = sum(image in images and 1 <= number <= CAPTIONS for image, number in unrelated)
    return {f"captions that {UNRELATED} lists": count} if count else {}


def _ids(file: Path) -> list[str]:
    """Return the images in a list. Raises DataError for an image that it contains twice."""
    ids = read_text(file).split()
    if repeated := first_repeated(ids):
        raise DataError(f"{file.name} has image {repeated} twice; fetch it again")
    return ids


def _read_unrelated(file: Path) -> set[tuple[str, int]]:
    """Return the image and the number (from 1) of each caption unrelated to its image."""
    if not file.is_file():
        return set()
    rows = [line.split() for line in lines_of(read_text(file)) if line[:1] != "#"]
    if wrong := [row for row in rows if len(row) != 2 or not is_number(row[1])]:
        raise DataError(f"{file.name}: not an image and a number: {' '.join(wrong[0])}")
    return {(image, int(number)) for image, number in rows}


def read_rows(
    root: Path, ids: Sequence[str], unrelated: Collection[tuple[str, int]] = (), origin: int = 1
) -> Iterator[Row]:
    """Yield a row of SCHEMA per image, read from its files.

    Raises DataError, also for an image without its five captions or with the XML of another image.
    """
    for name in ids:
        captions = _captions_of(root, name)
        related = [c for i, c in enumerate(captions, 1) if (name, i) not in unrelated]
        if not related:
            raise DataError(f"{UNRELATED} lists all captions of image {name}; fetch it again")
        file = f"Annotations/{name}.xml"
        image, size, boxes, chains = parse_annotation(_read(root, file), file)
        if image != f"{name}.jpg":
            raise DataError(f"{file} is for the image '{image:.40}'; fetch it again")
        yield {
            "id": name,
            "size": list(size),
            "boxes": [[float(side - origin) for side in box] for box in boxes],
            "words": [caption.words for caption in related],
            "phrases": [
                [{**m._asdict(), "boxes": chains.get(m.chain, [])} for m in caption.mentions]
                for caption in related
            ],
        }


def _captions_of(root: Path, name: str) -> list[ParsedCaption]:
    file = f"Sentences/{name}.txt"
    try:
        captions = parse_sentences(_read(root, file).decode("utf-8"), file)
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8: byte {error.start}") from error
    if len(captions) != CAPTIONS:
        raise DataError(f"{file} has {len(captions)} captions, not {CAPTIONS}; fetch it again")
    return captions


def _read(root: Path, name: str) -> bytes:
    try:
        return read_bytes(root / name, MOST_TEXT)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        message = f"{name} cannot be read ({why}), but the list of its split names it"
        raise DataError(message) from error


def _split(rows: Iterator[Row], folder: Path | None, regions: Path | None, listed: str) -> Split:
    table = in_memory(rows, SCHEMA)
    column = partial(column_from, table)
    names, sizes = map(table.values, ("id", "size"))
    images = None
    if folder is not None:
        files, sized_in = [f"{name}.jpg" for name in names], "its XML file in Annotations"
        images = sized_images(folder, files, sizes, listed=listed, sized_in=sized_in)
    by_id = dict(zip(names, sizes, strict=True))
    features = region_features(regions, by_id, numbered=True) if regions else None
    return Split(
        {
            **pictures(images, names, features, numbers=names),
            "id": column(["id"], str),
            "boxes": column(["boxes"], box_tensor),
            "captions": column(["words"], _captions),
            "caption": column(["words"], _caption, "text"),
            "words": column(["words"], list),
            "phrases": column(["phrases"], phrases_of),
            "chains": column(["phrases"], partial(_each, "chain")),
            "types": column(["phrases"], partial(_each, "types")),
        }
    )


def _captions(words: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(caption) for caption in words]


def _caption(words: Sequence[Sequence[str]]) -> str:
    return " ".join(words[0])


def _each(field: str, captions: Sequence[Sequence[Row]]) -> list[list[Any]]:
    return [[mention[field] for mention in mentions] for mentions in captions]
