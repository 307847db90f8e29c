"""Examples of what BERT-gen looks at: a table, and a picture."""

from __future__ import annotations

from typing import Any

from vlbench.data.records import value_column
from vlbench.probes.question_generation.attention import AttentionReader, look_rows
from vlbench.probes.question_generation.pictures import draw_looks
from vlbench.probes.question_generation.reading import Asked
from vlbench.probes.question_generation.steps import STEPS, Shown, Trainings

# The steps that the paper's figure shows.
DRAWN = ("1", "2", "3")


def attention_artifacts(trainings: Trainings, test: Asked, examples: int) -> dict[str, Any]:
    """Return the attention of so many examples, spread evenly, as a table and a picture.

    Empty for no examples.
    """
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    count = min(examples, len(test.captions))
    rows = [k * len(test.captions) // count for k in range(count)]
    if not rows:
        return {}
    shown = Shown.of(test).select(rows)
    looks = {}
    for step in STEPS:
        if step.name in DRAWN:
            reader = AttentionReader(trainings.asker(step))
            regions = shown.regions if step.images else value_column([None] * count)
            looks[step.name] = trainings.engine.map(
                reader.looks, regions, shown.names, shown.captions
            )
    table = pa.Table.from_pylist(
        [
            line
            for step, of_step in looks.items()
            for name, look in zip(shown.names, of_step, strict=True)
            for line in look_rows(name, step, look)
        ]
    )
    if not trainings.engine.is_main:
        return {"attention": table}
    images = test.split.columns.get("image")
    seen = [None] * count if images is None else list(images.select(rows))
    return {"attention": table, "examples": draw_looks(seen, list(shown.regions), looks)}
