"""What the small models can do on rows that they have not seen, through their own adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from transformers import AutoTokenizer

from tiny import bert, cnn, eyes, foils, sight, uniter, visualbert, words
from tiny.world import Examples, World
from vlbench.adapter_kit.regions import RegionBatch, pad_regions
from vlbench.capabilities import Picture
from vlbench.code.functions import load_object
from vlbench.data.scenes.world import NOUNS

ADAPTERS = [Path(__file__).resolve().parents[2] / "model_adapters"]
CPU = torch.device("cpu")
AT_ONCE = 200

# In the words of the captions, as the task zero_shot_scenes asks.
PROMPT = "a picture of a {} ."

# How the classifiers are attacked: harder than in training; at most the first so many rows.
ATTACK_STEPS = 20
ATTACKED = 400
MEASURE_SEED = 1


class Measure(NamedTuple):
    """A share of n answers that were right, 0..1, and what blind answers would reach.

    `stderr` is given for what is no share.
    """

    value: float
    n: int
    chance: float
    stderr: float | None = None


def measure_clip(folder: Path, world: World) -> dict[str, Measure]:
    """Return the zero-shot accuracy on `objects`."""
    model = load_object("open_clip:OpenClip", ADAPTERS)(device=CPU, architecture=str(folder))
    with torch.inference_mode():
        texts = model.encode_texts([PROMPT.format(name) for name in world.classes])
        seen = vectors(model, world.objects.images)
        guesses = model.similarity(seen, texts).argmax(1)
    return {"zero_shot_accuracy": share(guesses == world.objects.labels, 1 / len(world.classes))}


def measure_classifier(folder: Path, world: World) -> dict[str, Measure]:
    """Return the accuracy on `objects`, and under PGD in the Linf ball of the robust training."""
    model = load_object("timm_cnn:TimmCnn", ADAPTERS)(
        device=CPU, architecture=str(folder), resize=world.objects.images.shape[-1]
    )
    rng = torch.Generator().manual_seed(MEASURE_SEED)
    options: dict[str, Any] = {"radius": cnn.RADIUS, "step": cnn.RADIUS / 4, "rng": rng}
    plain, robust = [], []
    for i, (pixels, labels) in enumerate(_parts(model, world.objects)):
        plain.append(model.logits(pixels).argmax(1) == labels)
        if i * AT_ONCE < ATTACKED:
            attacked = cnn.attack(model.logits, pixels, labels, steps=ATTACK_STEPS, **options)
            robust.append(model.logits(attacked).argmax(1) == labels)
    chance = 1 / len(world.classes)
    attack = f"accuracy_under_pgd{ATTACK_STEPS}_linf_{round(cnn.RADIUS * 255)}_255"
    return {
        "accuracy": share(torch.cat(plain), chance),
        attack: share(torch.cat(robust), chance),
    }


def measure_eyes(folder: Path, world: World) -> dict[str, Measure]:
    """Return how well a linear probe names the nouns of `objects` by its vectors.

    Half of the images train the probe. Chance is the share of the most frequent noun.
    """
    model = load_object("timm_cnn:TimmCnn", ADAPTERS)(
        device=CPU, architecture=str(folder), resize=eyes.SIDE, squash=True
    )
    seen, names = vectors(model, world.objects.images), world.objects.facts
    nouns = torch.tensor([next(i for i, n in enumerate(NOUNS) if n in f.things[0]) for f in names])
    return {"linear_probe_accuracy": linear_probe(seen, nouns)}


def linear_probe(states: Tensor, answers: Tensor) -> Measure:
    """Return the accuracy of a linear classifier of states [N, D], trained on a half of them."""
    order = torch.randperm(len(states), generator=torch.Generator().manual_seed(MEASURE_SEED))
    trained, tested = order.chunk(2)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probe.fit(states[trained].numpy(), answers[trained].numpy())
    right = probe.predict(states[tested].numpy()) == answers[tested].numpy()
    most = answers[tested].bincount().max() / len(answers[tested])
    return share(torch.from_numpy(right), float(most))


def measure_bert(folder: Path, world: World) -> dict[str, Measure]:
    """Return how many masked tokens are filled in right, of captions and of questions of `scenes`.

    Blind is the most frequent token.
    """
    adapter = load_object("hf_text:HfText", ADAPTERS)(device=CPU, architecture=str(folder))
    questions = [text for five in world.scenes.questions for text in five]
    texts = {"": bert.captions(world), "_of_questions": questions}
    return {f"masked_token_accuracy{of}": _filled(adapter, some) for of, some in texts.items()}


def _filled(adapter: Any, texts: list[str]) -> Measure:
    """Return how many masked tokens of texts are filled in right."""
    tokenizer, model = adapter.masked_lm()
    tokens = bert.encode(tokenizer, texts)
    chosen = bert.choose(tokens, torch.Generator().manual_seed(MEASURE_SEED))
    masked = tokens.masked_fill(chosen, words.MASK)
    right = []
    with torch.inference_mode():
        for rows in torch.arange(len(tokens)).split(AT_ONCE):
            seen = (tokens[rows] != words.PAD).long()
            guesses = model(input_ids=masked[rows], attention_mask=seen).logits.argmax(-1)
            right.append((guesses == tokens[rows])[chosen[rows]])
    commonest = tokens[chosen].bincount().max() / chosen.sum()
    return share(torch.cat(right), float(commonest))


def measure_visualbert(folder: Path, world: World) -> dict[str, Measure]:
    """Return how well it fills in and judges single captions of `scenes`.

    Tokens are masked as for `measure_bert`, shown with the caption's own image and with the next
    one's; a caption is judged right where it is held to match its own image, or not the next one.
    """
    adapter = load_object("visualbert:VisualBert", ADAPTERS)(device=CPU, architecture=str(folder))
    five = [len(captions) for captions in world.scenes.captions]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = bert.encode(tokenizer, [text for texts in world.scenes.captions for text in texts])
    chosen = bert.choose(tokens, torch.Generator().manual_seed(MEASURE_SEED))
    masked = tokens.masked_fill(chosen, words.MASK)
    seen = pad_regions(world.scenes.regions, [sight.WIDTH], CPU)
    own = torch.arange(len(five)).repeat_interleave(torch.tensor(five))
    filled: dict[bool, list[Tensor]] = {True: [], False: []}
    judged = []
    with torch.inference_mode():
        for rows in torch.arange(len(tokens)).split(AT_ONCE):
            for true, images in ((True, own[rows]), (False, (own[rows] + 1) % len(five))):
                types = torch.zeros_like(tokens[rows])
                regions = RegionBatch(*(part[images] for part in seen[:3]), [])
                shown = [visualbert.inputs(t[rows], types, regions) for t in (masked, tokens)]
                guesses = adapter.model(**shown[0]).prediction_logits[:, : tokens.shape[1]]
                filled[true].append((guesses.argmax(-1) == tokens[rows])[chosen[rows]])
                matches = adapter.model(**shown[1]).seq_relationship_logits.argmax(-1) == 0
                judged.append(matches == true)
    commonest = float(tokens[chosen].bincount().max() / chosen.sum())

    def states(regions: RegionBatch) -> Tensor:
        nothing = torch.full((len(regions.mask), 1), words.START)
        shown = visualbert.inputs(nothing, torch.zeros_like(nothing), regions)
        return adapter.model.visual_bert(**shown).last_hidden_state[:, 1:]

    return {
        "linear_probe_accuracy": _probed(states, world.scenes),
        "masked_token_accuracy": share(torch.cat(filled[True]), commonest),
        "masked_token_accuracy_with_another_image": share(torch.cat(filled[False]), commonest),
        "sentence_image_accuracy": share(torch.cat(judged), 0.5),
    }


def measure_uniter(folder: Path, world: World) -> dict[str, Measure]:
    """Return how well it judges single captions of `scenes`, and tells them from foils.

    A caption is judged right where its log-odds are above 0 with its own image, and are not
    with the next image. Of a caption and a foil of it, each made where it can be, the one of the
    higher score is taken for the caption; ties count half.
    """
    weights = str(folder / uniter.WEIGHTS)
    options = {"device": CPU, "architecture": str(folder), "weights": weights}
    model = load_object("uniter:Uniter", ADAPTERS)(**options)
    pictures = [Picture(None, regions) for regions in world.scenes.regions]
    rng = Random(MEASURE_SEED)  # noqa: S311 - no secret
    every = [
        (i, caption) for i, one in enumerate(world.scenes.facts) for caption in foils.captions(one)
    ]
    texts, rows = [" ".join(caption.words) for _, caption in every], [row for row, _ in every]
    own = _scores(model, [pictures[row] for row in rows], texts)
    others = _scores(model, [pictures[(row + 1) % len(pictures)] for row in rows], texts)

    def states(regions: RegionBatch) -> Tensor:
        nothing = torch.full((len(regions.mask), 1), words.START)
        everything = torch.cat([torch.ones_like(nothing), regions.mask], 1)
        return model.network(uniter.inputs(nothing, regions, everything)).states[-1][:, 1:]

    measured = {
        "linear_probe_accuracy": _probed(states, world.scenes),
        "sentence_image_accuracy": share(torch.cat([own > 0, others <= 0]), 0.5),
    }
    for kind in ("noun", "attribute", "order"):
        made = [foils.FOILS[kind](world.scenes.facts[row], c, rng) for row, c in every]
        at = [i for i, foil in enumerate(made) if foil]
        false = [" ".join(foil.words) for foil in made if foil]
        ahead = own[at] - _scores(model, [pictures[rows[i]] for i in at], false)
        measured[f"caption_above_{kind}_foil"] = share((ahead.sign() + 1) / 2, 0.5)
    return measured


def _probed(states: Callable[[RegionBatch], Tensor], examples: Examples) -> Measure:
    """Return how well a linear probe names the nouns of things by the states of their proposals.

    `states` returns them, [N, R, D], for regions without a text.
    """
    found, nouns = [], []
    with torch.inference_mode():
        for i in range(0, len(examples.regions), AT_ONCE):
            regions = pad_regions(examples.regions[i : i + AT_ONCE], [sight.WIDTH], CPU)
            found.append(states(regions)[regions.mask.bool()])
            several = examples.facts[i : i + AT_ONCE]
            nouns += [shown[0] for facts in several for shown in facts.names]
    things = torch.tensor(nouns) > 0
    return linear_probe(torch.cat(found)[things], torch.tensor(nouns)[things])


def _scores(model: Any, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
    """Return the scores of pairs, some at once."""
    starts = range(0, len(texts), AT_ONCE)
    with torch.inference_mode():
        parts = [
            model.score_pairs(pictures[i : i + AT_ONCE], texts[i : i + AT_ONCE]) for i in starts
        ]
    return torch.cat(parts)


def _parts(model: Any, examples: Examples) -> list[tuple[Tensor, Tensor]]:
    """Return pixels as the adapter makes them of pictures, and labels, some at once."""
    pixels = _pixels(model, examples.images)
    return list(zip(pixels, examples.labels.split(AT_ONCE), strict=True))


def _pixels(model: Any, images: Tensor) -> tuple[Tensor, ...]:
    pictures = [Image.fromarray(array) for array in images.permute(0, 2, 3, 1).numpy()]
    return torch.stack([model.preprocess(picture) for picture in pictures]).split(AT_ONCE)


def vectors(model: Any, images: Tensor) -> Tensor:
    """Return what a model encodes images uint8 [N, 3, 64, 64] as, float32 [N, D]."""
    with torch.inference_mode():
        return torch.cat([model.encode_images(pixels) for pixels in _pixels(model, images)])


def share(right: Tensor, chance: float) -> Measure:
    """Return the share of answers [N] that are right; one of 0.5 is half right."""
    return Measure(float(right.double().mean()), len(right), chance)
