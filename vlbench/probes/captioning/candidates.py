"""The captions that probes change: a captioner's, or those of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vlbench.capabilities import ImageEncoder
from vlbench.data.caption_results import result_captions
from vlbench.data.records import Data, Split
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, counted
from vlbench.probes.captioning.captioner import Captioner, first_captions


class Images(NamedTuple):
    """The images of a test split that are read: the first so many, all for None."""

    split: str = "test"
    first: int | None = None

    def of(self, data: Data) -> Split:
        """Return the rows. Raises TooFewRows below two."""
        rows = data.splits[self.split]
        rows = rows.select(range(len(rows) if self.first is None else min(len(rows), self.first)))
        if len(rows) < 2:
            raise TooFewRows(
                f"{counted(len(rows), 'image')}; the control of another image needs two"
            )
        return rows

    def alone(self, data: Data) -> Data:
        """Return the data with no other rows in this split."""
        return replace(data, splits={**data.splits, self.split: self.of(data)})


TEST_IMAGES = Images()

# A captioner that is trained on the data, as in the paper.
PAPER_CAPTIONER = Captioner()


class CaptionSource(NamedTuple):
    """Where captions come from: a file in COCO's result format, or else a captioner.

    The captioner, before any model rewarded it, sees images through the `encoders`.
    """

    file: Path | None
    captioner: Captioner
    encoders: Sequence[ImageEncoder]

    def of(self, data: Data, images: Images, engine: Engine) -> list[str]:
        """Return the caption of each image, with single blanks between words.

        Raises what `result_captions` and `first_captions` raise.
        """
        if self.file is not None:
            return result_captions(self.file, images.of(data))
        found = first_captions(
            images.alone(data), engine, self.encoders, self.captioner, images.split
        )
        return [" ".join(text.split()) for text in found]
