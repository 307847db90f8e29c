"""What'sUp: prepositions of place. Kamath et al. 2023, arXiv:2310.19785.

The files are read as by `dataset_zoo/aro_datasets.py` of github.com/amitakamath/whatsup_vlms (MIT)
at commit 7c1f255, whose README links to them. A file of controlled images has items with the keys
`image_path` and `caption_options` (four, the first is right). The files of COCO and Visual Genome
have lists of an image's id, the right caption and a wrong caption.

Known fault: controlled_images/pillow_left_of_chair.jpeg and pillow_right_of_chair.jpeg are
exchanged (issue 4 of the repository). They are read unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from vlbench.data.coco_files import is_number, sound_text
from vlbench.data.foils import (
    COCO_VAL2017,
    Foiled,
    foil_data,
    image_file,
    read_json_items,
    require_text,
)
from vlbench.data.images import published_images
from vlbench.data.presence import begin_reading, require_files, require_images
from vlbench.data.records import Data

HOME = "github.com/amitakamath/whatsup_vlms (the drive that its README names)"

Name = Literal["controlled_images", "controlled_clevr", "coco_one", "coco_two", "vg_one", "vg_two"]
# The prepositions in names of files: the first two are opposite, and so are the last two.
IN_NAMES = {
    "controlled_images": ("left_of", "right_of", "on", "under"),
    "controlled_clevr": ("left_of", "right_of", "in-front_of", "behind"),
}
# The category of captions with these words (the first match), and of all other captions.
IN_CAPTIONS = {
    "coco_two": ({"left of": "left", "right of": "right", "above": "above"}, "below"),
    "vg_two": (
        {"left of": "left", "right of": "right", "front of": "front", "behind": "behind"},
        "top",
    ),
}


class Subset(NamedTuple):
    """A file, the folder of its images, its number of items, and the images' name and home."""

    file: str
    folder: str
    expected: int
    images: str = "What'sUp"
    home: str = HOME


SUBSETS: Mapping[str, Subset] = {
    "controlled_images": Subset("controlled_images_dataset.json", "controlled_images", 412),
    "controlled_clevr": Subset("controlled_clevr_dataset.json", "controlled_clevr", 408),
    "coco_one": Subset("coco_qa_one_obj.json", "val2017", 2247, "COCO val2017", COCO_VAL2017),
    "coco_two": Subset("coco_qa_two_obj.json", "val2017", 440, "COCO val2017", COCO_VAL2017),
    "vg_one": Subset("vg_qa_one_obj.json", "vg_images", 1160, "Visual Genome"),
    "vg_two": Subset("vg_qa_two_obj.json", "vg_images", 291, "Visual Genome"),
}


def whats_up(*, root: Path, subset: Name, images: Path | None = None, pixels: bool = True) -> Data:
    """Return the items of one of the six files, in its order; the category is the preposition.

    The columns are listed in `vlbench.data.foils.foil_data`. Controlled images have three foils;
    `cluster` is the two objects, shared by four items with all prepositions, and `pair` is shared
    by the two items with opposite prepositions. Raises DataAbsent and DataError.

    Args:
        root: folder with the files and the folders of images, as `data` of a clone.
        subset: name of the file: controlled_images, controlled_clevr, coco_one, coco_two, vg_one or
            vg_two.
        images: folder of the subset's images; None: the one in `root`. Images are identified by
            their names.
        pixels: whether images are read; recorded answers do not need them.
    """
    if subset not in SUBSETS:
        raise ValueError(f"no subset '{subset}'; there are {', '.join(SUBSETS)}")
    source = SUBSETS[subset]
    file, folder = root / source.file, images or root / source.folder
    require_files("What'sUp", HOME, file)
    what = f"the images of What'sUp's {subset}"
    absent = require_images(what, source.home, folder, pixels=pixels)
    begin_reading()
    parse = partial(_controlled if subset in IN_NAMES else _photo_item, subset)
    items = read_json_items(file, parse)
    column = partial(published_images, source.images, folder, listed=source.file, absent=absent)
    return foil_data(items, column, source.expected)


def _controlled(subset: str, entry: Mapping[str, Any]) -> Foiled:
    """Return an item of four captions, whose file name contains the objects and the preposition."""
    path = PurePosixPath(sound_text(entry["image_path"]))
    options = entry["caption_options"]
    if not isinstance(options, list) or len(options) != 4:
        raise ValueError(f"{options!r:.80} must be four captions")
    caption, *foils = map(require_text, options)
    prepositions = IN_NAMES[subset]
    places = [place for place in prepositions if f"_{place}_" in path.stem]
    if not places:
        raise ValueError(f"{path.name!r:.80} has no preposition of {subset}")
    first, *_, last = path.stem.split("_")
    objects = f"{first} {last}"
    opposite = prepositions[:2] if places[0] in prepositions[:2] else prepositions[2:]
    pair = f"{objects}, {' or '.join(opposite)}"
    return Foiled(image_file(path.name), caption, foils, places[0], objects, pair)


def _photo_item(subset: str, entry: Sequence[Any]) -> Foiled:
    """Return an item of an image of COCO or Visual Genome."""
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError(f"{entry!r:.80} must be an id and two captions")
    number, caption, foil = entry
    digits = str(number)
    if type(number) not in (int, str) or not is_number(digits):
        raise ValueError(f"{number!r:.40} is not an id of an image")
    name = f"{digits:0>12}.jpg" if subset.startswith("coco") else f"{digits}.jpg"
    return Foiled(name, require_text(caption), [require_text(foil)], _preposition(subset, caption))


def _preposition(subset: str, caption: str) -> str:
    """Return the last word of a caption of one object; for two, the preposition between them."""
    if subset not in IN_CAPTIONS:
        return caption.rsplit(maxsplit=1)[-1]
    phrases, otherwise = IN_CAPTIONS[subset]
    return next((place for words, place in phrases.items() if words in caption), otherwise)
