"""A row whose questions people judge, its sheets, and people who fill them in."""

import csv
import io
from dataclasses import replace

import pyarrow as pa
from PIL import Image
from planted_boards import result

from vlbench.boards.board import save_artifacts
from vlbench.probes.question_generation.rating.sheets import sample_questions, write_sheets

STEPS = ("1", "2", "3")


def questions(count=4, digests=None, **more):
    """Rows of the artifact: what each step asks about each image, as no step would."""
    return [
        {
            "id": f"i{i}",
            "digest": digests[i] if digests else f"d{i}",
            "step": step,
            "floor": None,
            "seed": None,
            "caption": f"Caption, of {i}",
            "question": f"what is {step} of {i} ?",
            "references": [f"Who is {i}?"],
        }
        | more
        for i in range(count)
        for step in STEPS
    ]


def row_with(output, rows, task="t"):
    """A row of a board in `output`, which keeps these questions."""
    table = pa.Table.from_pylist(rows)
    saved = save_artifacts(output, task, "m", {"questions": table})
    return replace(result("m"), task=task, artifacts=saved)


def sheets(folder, count=4, seed=0):
    """Write the sheets about so many images into a folder; return the folder."""
    row = row_with(folder / "boards", questions(count))
    shown = sample_questions(row, questions(count), STEPS, images=count, seed=seed)
    images = {one.digest: Image.new("RGB", (8, 8), "red") for one in shown}
    write_sheets(folder / "judged", row, shown, images, seed)
    return folder / "judged"


def filled(folder, name, answer, raters=("anna", "ben", "chloe")):
    """Each rater fills in a sheet: `answer` takes the cells of a line, and the rater's name."""
    header, *lines = csv.reader(
        io.StringIO((folder / "sheets" / f"{name}.csv").read_text("utf-8-sig"), newline="")
    )
    for rater in raters:
        cells = [dict(zip(header, line, strict=True)) | {"rater": rater} for line in lines]
        rows = [[*line[:-1], answer(own)] for line, own in zip(lines, cells, strict=True)]
        write_filled(folder / "filled" / rater / f"{name}.csv", [header, *rows])


def write_filled(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as sheet:
        csv.writer(sheet).writerows(rows)


def fill_all(folder, answer=lambda _: "3"):
    for name in ("readability", "caption_relevance", "image_relevance"):
        filled(folder, name, answer)
    return folder
