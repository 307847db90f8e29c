"""POPE: is there such an object in the image? Li et al. 2023, arXiv:2305.10355.

The files are the three lists of github.com/AoiDragon/POPE (MIT), folder output/coco, with 3,000
questions each about 500 images of COCO's val2014. Half of the questions are about objects in the
image. The other objects are drawn at random, are COCO's most frequent objects, or co-occur most
often with the objects in the image.

There are two editions. The lists that LLaVA was evaluated on (arXiv:2310.03744, table 4) have 2,910
random questions, and spell 246 questions otherwise, such as "imange". Both are read; a note of the
data names the edition.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.data.foils import image_file, read_json_lines, require_text
from vlbench.data.images import published_images
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading, require_files, require_images
from vlbench.data.records import Data, Split, value_column

HOME = "github.com/AoiDragon/POPE (folder output/coco)"
COCO_VAL2014 = "cocodataset.org/#download (val2014.zip)"

# How absent objects are chosen, and the number of questions in each list.
NEGATIVES = ("random", "popular", "adversarial")
EACH = 3000
FIRST_RANDOM = 2910


class _Asked(NamedTuple):
    """A question: the name of its image, its text, and yes or no."""

    image: str
    text: str
    answer: str


def pope(*, root: Path, images: Path, pixels: bool = True) -> Data:
    """Return the questions of the three lists in turn; `category` is the list.

    Columns: `image`, `picture`, `question`, `options` (yes, no), `right_answers`, `category`.
    Raises DataAbsent and DataError.

    Args:
        root: folder with the lists, such as coco_pope_random.json.
        images: COCO's folder val2014; its images are identified by their names.
        pixels: whether images are read; recorded answers do not need them.
    """
    files = {name: root / f"coco_pope_{name}.json" for name in NEGATIVES}
    require_files("POPE", HOME, *files.values())
    absent = require_images("COCO's val2014", COCO_VAL2014, images, pixels=pixels)
    begin_reading()
    entries = [(name, one) for name, file in files.items() for one in read_json_lines(file, _item)]
    names = list(dict.fromkeys(entry.image for _, entry in entries))
    listed = f"coco_pope_{NEGATIVES[0]}.json to coco_pope_{NEGATIVES[-1]}.json"
    source = published_images("COCO val2014", images, names, listed=listed, absent=absent)
    stored = pictures(source, names, None)
    place = {name: i for i, name in enumerate(names)}
    rows = [place[entry.image] for _, entry in entries]
    split = {name: column.select(rows) for name, column in stored.items()}
    split["question"] = value_column([entry.text for _, entry in entries], "text")
    split["options"] = value_column([["yes", "no"]] * len(entries))
    split["right_answers"] = value_column([[entry.answer] for _, entry in entries])
    split["category"] = value_column([name for name, _ in entries])
    is_first = sum(name == "random" for name, _ in entries) == FIRST_RANDOM
    edition = "first, with 2,910 random questions" if is_first else "with 3,000 random questions"
    expected = (len(NEGATIVES) - 1) * EACH + (FIRST_RANDOM if is_first else EACH)
    notes = [f"POPE's edition: {edition}"]
    return Data(splits={"test": Split(split)}, expected={"test": expected}, notes=notes)


def _item(entry: Mapping[str, Any]) -> _Asked:
    answer = require_text(entry["label"])
    if answer not in ("yes", "no"):
        raise ValueError(f"the label {answer!r:.40} is neither yes nor no")
    return _Asked(image_file(entry["image"]), require_text(entry["text"]), answer)
