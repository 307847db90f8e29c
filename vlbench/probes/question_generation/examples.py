"""Examples of BERT-gen's attention: a table and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import torch

from vlbench.capabilities import Regions
from vlbench.data.records import value_column
from vlbench.drawing.sheets import save_figure
from vlbench.errors import CannotDo
from vlbench.probes.question_generation.bert_gen import Example, greedy
from vlbench.probes.question_generation.inputs import AskedImages
from vlbench.probes.question_generation.steps import STEPS, Asker, QuestionInputs, Trainings

# The kinds of attended input.
WORD, REGION = "word", "region"

ATTENTION = "#f16913"

# Characters of a caption per line, and the distance of lines as a fraction of the height.
ACROSS, DOWN = 30, 0.11

LEGEND = "attention of the last layer, mean over heads and tokens; the darker the more, by panel"

# The steps that the paper's figure shows.
DRAWN = ("1", "2", "3")


@dataclass(frozen=True)
class AskerAttention:
    """Reads the attention of a network while it generates questions."""

    asker: Asker

    def looks(
        self, regions: Sequence[Any], names: Sequence[str], captions: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the question of each image, its tokens, and their attention.

        `kinds` and `places` identify column k of `weights`, float32 [T, K]: a token of the caption,
        or the number of a region. Attention to [CLS], [SEP] and the question is left out.
        """
        self.asker.network.module.set_attn_implementation("eager")
        return [self._look(*inputs) for inputs in zip(regions, names, captions, strict=True)]

    def _look(self, regions: Any, name: str, caption: str) -> dict[str, Any]:
        asker = self.asker
        (source,) = asker.sources([regions], [name], [caption])
        network, most = asker.network, asker.texts.most
        (tokens_said,) = greedy(network, [source], most)
        question = [*tokens_said, asker.texts.end][:most]
        with torch.no_grad():
            inputs, chosen = network.one_pass([Example(source, question)])
            attentions = network.run(inputs, chosen, output_attentions=True).attentions
        if not attentions:
            kind = type(network.module).__name__
            raise CannotDo(f"{kind} returns no attention")
        weights = attentions[-1][0].mean(0)[chosen[0]].float().cpu()
        count = 0 if source.objects is None else len(source.objects)
        tokens = source.caption or []
        columns = [*range(1, 1 + count), *range(source.length - len(tokens), source.length)]
        token_texts = asker.texts.tokenizer.convert_ids_to_tokens
        return {
            "question": asker.texts.question(tokens_said),
            "tokens": token_texts(question),
            "kinds": [REGION] * count + [WORD] * len(tokens),
            "places": [*map(str, range(count)), *token_texts(list(tokens))],
            "weights": weights[:, columns],
        }


def look_rows(name: str, step: str, look: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row of the table of attention for each token and each attended input."""
    return [
        {
            "id": name,
            "step": step,
            "question": look["question"],
            "token": t,
            "token_text": token,
            "kind": kind,
            "column": k,
            "text": place,
            "weight": float(look["weights"][t, k]),
        }
        for t, token in enumerate(look["tokens"])
        for k, (kind, place) in enumerate(zip(look["kinds"], look["places"], strict=True))
    ]


Look = Mapping[str, Any]


def draw_looks(
    images: Sequence[Any], regions: Sequence[Regions], looks: Mapping[str, Sequence[Look]]
) -> Path:
    """Draw a new PNG: a row per image, a column per step, shaded by attention."""
    figure, panels = _canvas(len(images), len(looks), 2.6, 3.3)
    figure.supxlabel(LEGEND, fontsize=8)
    for k, (step, of_step) in enumerate(looks.items()):
        for i, (image, boxes, look) in enumerate(zip(images, regions, of_step, strict=True)):
            panel = panels[i][k]
            panel.axis("off")
            _panel(panel, image, boxes, look)
            lines = wrap(f"{step}: {look['question']}", ACROSS)
            # Dollar signs of a question do not mark a formula.
            panel.set_title("\n".join(lines), fontsize=8, parse_math=False)
    return save_figure(figure)


def draw_similarity(rows: Iterable[Mapping[str, Any]]) -> Path:
    """Draw a new PNG of the cosines by layer of each step, from rows of `similarity_rows`."""
    figure, panels = _canvas(1, 1, 5.0, 3.6)
    panel = panels[0][0]
    of_step: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        of_step.setdefault(row["step"], []).append(row)
    for k, (step, group) in enumerate(of_step.items()):
        layers = [row["layer"] for row in group]
        of_caption, of_another = ([row[c] for row in group] for c in ("caption", "another_caption"))
        panel.plot(layers, of_caption, color=f"C{k}", marker="o", ms=4, label=f"step {step}")
        panel.plot(layers, of_another, color=f"C{k}", linestyle="--", lw=1)
        panel.set_xticks(layers)
    panel.set_xlabel("layer")
    panel.set_ylabel("cosine of [CLS], image and caption")
    panel.set_title("solid: own caption; dashed: another image's caption", fontsize=8)
    panel.legend(fontsize=8)
    return save_figure(figure)


def _canvas(down: int, across: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(down, across, squeeze=False)


def _panel(panel: Any, image: Any, regions: Regions, look: Look) -> None:
    width, height = regions.size
    if image is not None:
        panel.imshow(image, extent=(0, width, height, 0))
    panel.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    strengths = _strengths(look)
    for kind, place, strength in zip(look["kinds"], look["places"], strengths, strict=True):
        if kind == REGION:
            left, top, right, bottom = regions.boxes[int(place)].tolist()
            outline = [left, right, right, left, left], [top, top, bottom, bottom, top]
            panel.plot(*outline, color=ATTENTION, lw=1.0, alpha=0.15 + 0.85 * strength)
            panel.fill_between(
                [left, right], top, bottom, color=ATTENTION, alpha=0.5 * strength, lw=0
            )
    words = [
        (place, strength)
        for kind, place, strength in zip(look["kinds"], look["places"], strengths, strict=True)
        if kind == WORD
    ]
    _write(panel, words)


def _write(panel: Any, words: Sequence[tuple[str, float]]) -> None:
    """Write words below the panel, each shaded by its strength from 0 to 1."""
    column, line = 0, 0
    for word, strength in words:
        if column and column + len(word) > ACROSS:
            column, line = 0, line + 1
        # An alpha as two hexadecimal digits.
        face = f"{ATTENTION}{round(200 * strength):02x}"
        panel.text(
            column / ACROSS,
            -0.04 - DOWN * line,
            word,
            transform=panel.transAxes,
            fontsize=7,
            family="monospace",
            va="top",
            parse_math=False,
            bbox={"facecolor": face, "edgecolor": "none", "pad": 1.0},
        )
        column += len(word) + 1


def _strengths(look: Look) -> list[float]:
    """Return the mean attention of the question's tokens, scaled to a maximum of 1."""
    mean = look["weights"].mean(0)
    strengths: list[float] = (mean / mean.max().clamp(min=1e-12)).tolist()
    return strengths


def attention_artifacts(trainings: Trainings, test: AskedImages, examples: int) -> dict[str, Any]:
    """Return the attention of `examples` examples, spread evenly, as a table and a picture.

    Empty if `examples` is 0.
    """
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    count = min(examples, len(test.captions))
    rows = [k * len(test.captions) // count for k in range(count)]
    if not rows:
        return {}
    inputs = QuestionInputs.of(test).select(rows)
    looks = {}
    for step in STEPS:
        if step.name in DRAWN:
            reader = AskerAttention(trainings.asker(step))
            regions = inputs.regions if step.images else value_column([None] * count)
            looks[step.name] = trainings.engine.map(
                reader.looks, regions, inputs.names, inputs.captions
            )
    table = pa.Table.from_pylist(
        [
            line
            for step, of_step in looks.items()
            for name, look in zip(inputs.names, of_step, strict=True)
            for line in look_rows(name, step, look)
        ]
    )
    if not trainings.engine.is_main:
        return {"attention": table}
    images = test.split.columns.get("image")
    seen = [None] * count if images is None else list(images.select(rows))
    return {"attention": table, "examples": draw_looks(seen, list(inputs.regions), looks)}
