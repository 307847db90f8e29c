"""What tiny-vlm reaches: it is opened by the adapter that a user opens it by."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from tiny import foils, vlm
from tiny.measures import ADAPTERS, CPU, MEASURE_SEED, Measure, share
from tiny.world import Examples, World
from vlbench.capabilities import Picture
from vlbench.code.functions import load_object

# Images measured, of each split, and at a time.
MEASURED, AT_ONCE = 200, 50

JUDGED = ("noun", "attribute")


def measure_vlm(folder: Path, world: World) -> dict[str, Measure]:
    """Return how well it judges and writes captions of `scenes`.

    A caption is judged right where the log-odds of yes are above 0 with its own image, and are not
    with the next image. Of a caption and a foil of it, each made where it can be, the one of
    the higher score is taken for the caption; ties count half. A caption is written token by token
    after the true ones, with its own image and with the next one.
    """
    options = {"device": CPU, "architecture": str(folder), "question": vlm.QUESTION}
    model = load_object("hf_vlm:HfVlm", ADAPTERS)(**options)
    examples, rng = world.scenes, Random(MEASURE_SEED)  # noqa: S311 - no secret
    right: dict[str, list[Tensor]] = {}
    captions = [foils.captions(facts) for facts in examples.facts[:MEASURED]]
    for row, own in enumerate(captions):
        others = captions[(row + 1) % len(captions)]
        made = {
            kind: [foils.FOILS[kind](examples.facts[row], one, rng) for one in own]
            for kind in JUDGED
        }
        parts = [own, others, *made.values()]
        texts = [one and " ".join(one.words) for part in parts for one in part]
        known = _scores(model, examples.images[row], [text for text in texts if text])
        scores = torch.tensor([known[text] if text else torch.nan for text in texts])
        true, other, *false = scores.split([len(part) for part in parts])
        judged = torch.cat([true > 0, other <= 0])
        right.setdefault("sentence_image_accuracy", []).append(judged)
        for kind, part in zip(JUDGED, false, strict=True):
            above = ((true - part).sign() + 1)[~part.isnan()] / 2
            right.setdefault(f"caption_above_{kind}_foil", []).append(above)
    judged_right = {name: share(torch.cat(found), 0.5) for name, found in right.items()}
    return judged_right | _written(model, examples)


def _scores(model: Any, image: Tensor, texts: list[str]) -> dict[str, float]:
    """Return the score of each text for one image."""
    shown = Picture(Image.fromarray(image.permute(1, 2, 0).numpy()), None)
    distinct = list(dict.fromkeys(texts))
    with torch.inference_mode():
        scores = model.score_pairs([shown] * len(distinct), distinct)
    return dict(zip(distinct, scores.tolist(), strict=True))


@torch.inference_mode()
def _written(model: Any, examples: Examples) -> dict[str, Measure]:
    """Return the share of tokens of first captions that it would write."""
    taught = vlm.lesson(model._prompts.tokenizer, examples)  # noqa: SLF001 - no other way in
    count = min(MEASURED, len(examples.facts))
    found: dict[str, list[Tensor]] = {"": [], "_with_another_image": []}
    every = []
    for rows in torch.arange(count).split(AT_ONCE):
        learnt = [vlm.written(taught.words, taught.captions[row][0]) for row in rows.tolist()]
        texts = vlm.side_by_side(learnt, len(rows))
        at = texts.targets != vlm.UNTAUGHT
        every.append(texts.targets[at])
        for name, shift in zip(found, (0, 1), strict=True):
            seen = vlm.look(model.model, examples.images[(rows + shift) % count])
            states = vlm.states(model.model, seen, texts.ids)
            guesses = model.model.lm_head(states[at]).argmax(-1)
            found[name].append(guesses == texts.targets[at])
    tokens = torch.cat(every)
    commonest = float(tokens.bincount().max() / len(tokens))
    return {
        f"written_token_accuracy{name}": share(torch.cat(parts), commonest)
        for name, parts in found.items()
    }
