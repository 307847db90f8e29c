"""Train the small models of vlbench's synthetic world, model_adapters/tiny/, from scratch.

Run: python scripts/train_tiny.py [--only NAME ...] [--output DIR] [--steps-scale F] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiny import (
    bert,
    captioner,
    card,
    clip,
    cnn,
    eyes,
    measures,
    uniter,
    visualbert,
    vlm,
    word2vec,
    world,
)
from tiny.measures import Measure
from tiny.training import Plan, Training
from tiny.vlm_measures import measure_vlm
from tiny.world import World, of_categories

from vlbench.data.scenes.world import CATEGORIES, HELD_OUT

FOLDER = Path(__file__).resolve().parents[1] / "model_adapters" / "tiny"
MEASURED = ("val", "test")
BOTH = ("objects", "scenes")
NOT_REAL = "it has seen nothing but the drawings of this world: photographs mean nothing to it"
NO_OTHER_WORDS = "it knows the words of this world's captions, and every other word only as letters"
SHORT = "it reads at most 30 tokens of a text"
NO_OTHER_QUESTIONS = NO_OTHER_WORDS.replace("captions", "captions and questions")
LONG = f"it reads at most {bert.POSITIONS - 2} tokens of a text"
SEEN = tuple(category for category in CATEGORIES if category not in HELD_OUT)
EIGHT = (
    f"it names {len(SEEN)} of the {len(CATEGORIES)} categories of this world, and no finer nouns; "
    f"it was shown no {', '.join(HELD_OUT)}"
)
NOT_SEEN = f"it was shown no {', '.join(HELD_OUT)}, and no caption of one"
ALL_READ = f"no category is new to it: its texts name all {len(CATEGORIES)} of this world"
ONLY_CROPS = "it reads only proposals of scenes, each 16 x 16 pixels and a box"


@dataclass(frozen=True, kw_only=True)
class Model:
    """How a small model is trained and measured, and the words of its card."""

    folder: str
    train: Callable[[World, Path, Plan], Training]
    measure: Callable[[Path, World], dict[str, Measure]]
    plan: Plan
    library: str
    configurations: Sequence[str]
    learns: str
    cannot: Sequence[str]
    reads_images: bool = True
    reads_texts: bool = False
    reads_questions: bool = False
    # The number of other worlds of `scenes` used for training besides train.
    others: int = 0
    categories: Sequence[str] = SEEN
    # Whether it is also measured on images of categories it was not trained on.
    answers_unseen: bool = True


# In the order of training: tiny-rn-robust and tiny-vlm start from the weights of tiny-rn, and
# tiny-captioner sees through tiny-eyes.
MODELS = {
    "tiny-clip": Model(
        folder="clip",
        train=clip.train_clip,
        measure=measures.measure_clip,
        plan=Plan(steps=1400, batch=64, rate=1e-3, decay=0.1),
        library="open_clip_torch",
        configurations=BOTH,
        learns="to tell an image's captions from those of others (contrastive, two a step)",
        cannot=(NOT_REAL, NOT_SEEN, NO_OTHER_WORDS, SHORT),
        others=2,
        reads_texts=True,
    ),
    "tiny-eyes": Model(
        folder="eyes",
        train=eyes.train_eyes,
        measure=measures.measure_eyes,
        plan=Plan(steps=2600, batch=192, rate=3e-3, decay=0.05),
        library="timm",
        configurations=("scenes",),
        learns=(
            "to tell two varied views of a proposal from those of others (contrastive), and to "
            "draw a thumbnail of each; no label, no text"
        ),
        others=3,
        cannot=(NOT_REAL, NOT_SEEN, "it names nothing"),
    ),
    "tiny-rn": Model(
        folder="rn",
        train=cnn.train_plain,
        measure=measures.measure_classifier,
        plan=Plan(steps=900, batch=64, rate=3e-3, decay=0.05),
        library="timm",
        configurations=("objects",),
        learns="to name the category of the one thing in an image (cross-entropy)",
        answers_unseen=False,
        cannot=(NOT_REAL, EIGHT, "it withstands no attack: see its accuracy under PGD"),
    ),
    "tiny-rn-robust": Model(
        folder="rn-robust",
        train=cnn.train_robust,
        measure=measures.measure_classifier,
        plan=Plan(steps=600, batch=64, rate=2e-3, decay=0.05),
        library="timm",
        configurations=("objects",),
        learns=(
            "from tiny-rn's weights, to name the category under PGD: Linf, "
            f"radius {round(cnn.RADIUS * 255)}/255, {cnn.ATTACK_STEPS} steps an image"
        ),
        answers_unseen=False,
        cannot=(NOT_REAL, EIGHT, "larger attacks, and other than Linf ones, it was not taught"),
    ),
    "tiny-bert": Model(
        folder="bert",
        train=bert.train_bert,
        measure=measures.measure_bert,
        plan=Plan(steps=1500, batch=128, rate=3e-3, decay=0.01),
        library="transformers",
        configurations=BOTH,
        categories=CATEGORIES,
        learns=(
            "to fill in 15 % of the tokens of captions, and of questions about images of another "
            "world (masked language model): one sentence, or whole documents of five sentences"
        ),
        cannot=("it has seen no image", ALL_READ, NO_OTHER_QUESTIONS, LONG),
        reads_images=False,
        reads_texts=True,
        reads_questions=True,
    ),
    "tiny-visualbert": Model(
        folder="visualbert",
        train=visualbert.train_visualbert,
        measure=measures.measure_visualbert,
        plan=Plan(steps=4600, batch=32, rate=1.5e-3, decay=0.01),
        library="transformers",
        configurations=("scenes",),
        learns=(
            "to fill in tokens of a true caption, by the proposals of its image "
            f"({visualbert.LOOKS_SHARE:.0%} of the words for what things are and look like, "
            f"{visualbert.SHARE:.0%} of others; of these {visualbert.MASKED:.0%} masked, "
            f"{visualbert.REPLACED:.0%} replaced, the rest left); and to tell a caption of the "
            f"image from one of another ({visualbert.TRUE:.0%} are true), read alone, or in "
            f"{visualbert.TWO:.0%} of the steps after a true one; and to name what proposals show"
        ),
        others=6,
        cannot=(
            ONLY_CROPS,
            NOT_SEEN,
            NO_OTHER_WORDS,
            SHORT,
        ),
        reads_texts=True,
    ),
    "tiny-uniter": Model(
        folder="uniter",
        train=uniter.train_uniter,
        measure=measures.measure_uniter,
        plan=Plan(steps=5400, batch=32, rate=1.5e-3, decay=0.01),
        library="transformers",
        configurations=("scenes",),
        learns=(
            "to tell a true caption from a foil (one noun, one attribute, the order of two names "
            "or a word for a place changed) and from a caption of another image; beside it, at "
            "each word, whether the image has it and where the named thing is, from the facts of "
            "the drawing; to tell images and captions apart by the attention of words to "
            "proposals (contrastive); and to name what proposals show"
        ),
        others=6,
        cannot=(
            ONLY_CROPS,
            "its attention was taught where things are: it says nothing of attention untaught",
            NOT_SEEN,
            NO_OTHER_WORDS,
            SHORT,
        ),
        reads_texts=True,
    ),
    "tiny-vlm": Model(
        folder="vlm",
        train=vlm.train_vlm,
        measure=measure_vlm,
        plan=Plan(steps=1200, batch=16, rate=1.5e-3, decay=0.05),
        library="transformers",
        configurations=BOTH,
        learns=(
            "from tiny-rn's weights for its vision encoder: to give the image token at "
            "the centre of a thing the words for it; to answer yes or no whether a caption is "
            "true, of true ones, foils (one noun, one attribute, the order of two names or a word "
            "for a place changed) and captions of other images, with the same asked of each word; "
            "and to write captions"
        ),
        cannot=(NOT_REAL, NOT_SEEN, NO_OTHER_WORDS, "it knows no questions but those it was asked"),
        others=1,
        reads_texts=True,
    ),
    "tiny-word2vec": Model(
        folder="word2vec",
        train=word2vec.train_word2vec,
        measure=word2vec.measure_word2vec,
        plan=Plan(
            steps=10,
            batch=10_000,
            rate=0.025,
            decay=0.0,
            optimizer="gensim's own; a step is an epoch, a batch words, the loss a text's",
        ),
        library="gensim",
        configurations=BOTH,
        categories=CATEGORIES,
        learns="which words stand near each other in a caption (skip-gram, 5 negative samples)",
        cannot=(
            "it has seen no image",
            ALL_READ,
            "a word is the same in every caption",
            "it knows no others",
        ),
        reads_images=False,
        reads_texts=True,
    ),
    "tiny-captioner": Model(
        folder="captioner",
        train=captioner.train_captioner,
        measure=captioner.measure_captioner,
        plan=Plan(
            steps=4000,
            batch=250,
            rate=4e-3,
            decay=0.0,
            optimizer=(
                "Adam in three stages, at 1, 1 and 0.6 times the rate, falling by 0, 30 and 22 % "
                "an epoch; a batch is of texts"
            ),
        ),
        library="pycocoevalcap",
        configurations=("scenes",),
        learns=(
            "to list the nouns of an image's captions, then to say the captions, word by word "
            "(cross-entropy), from the sum of the vectors that tiny-eyes gives its proposals"
        ),
        others=6,
        cannot=(
            "it sees no pixel but through tiny-eyes, which knows drawings alone",
            NOT_SEEN,
            "it says the words of this world's captions and no others",
            "it says at most 20 words, the full stop included, and ends longer captions there",
        ),
        reads_texts=True,
    ),
}


def main(words: Sequence[str] | None = None) -> None:
    """Train the models that the command line names, and write them with their cards."""
    options = _parser().parse_args(words)
    whole = world.read("train", options.limit)
    held_out = {split: world.read(split, options.limit) for split in MEASURED}
    for name in [name for name in MODELS if name in (options.only or MODELS)]:
        model = MODELS[name]
        steps = max(1, round(model.plan.steps * options.steps_scale))
        plan = replace(model.plan, steps=steps, seed=options.seed)
        folder = options.output / model.folder
        folder.mkdir(parents=True, exist_ok=True)
        # With few rows, from a single world.
        worlds = model.others if options.limit is None else 0
        seen = of_categories(world.with_others(whole, worlds), model.categories)
        shown = {split: of_categories(rows, model.categories) for split, rows in held_out.items()}
        if model.answers_unseen and model.categories == SEEN:
            shown["test_of_held_out"] = world.holding(held_out["test"], HELD_OUT)
        told = model.train(seen, folder, plan)
        measured = {split: model.measure(folder, rows) for split, rows in shown.items()}
        card.write(folder, _card(name, model, plan, told, seen, measured))
        print(f"{name}: {told.wall_seconds} s, {measured['test']}", flush=True)


def _card(
    name: str,
    model: Model,
    plan: Plan,
    told: Training,
    split: World,
    measured: Mapping[str, Mapping[str, Measure]],
) -> dict[str, Any]:
    """Return the content of a model's card."""
    parts = [getattr(split, name) for name in model.configurations]
    images = sum(len(part.labels) for part in parts) if model.reads_images else 0
    texts = sum(len(five) for part in parts for five in part.captions) if model.reads_texts else 0
    scenes = len(split.scenes.captions)
    return {
        "name": name,
        "made_by": f"python scripts/train_tiny.py --only {name} --seed {plan.seed}",
        "licence": "Apache-2.0",
        "data": card.data(model.configurations, model.categories, images, texts)
        | card.questions(scenes if model.reads_questions else 0)
        | card.others(model.others),
        "learns": model.learns,
        "training": card.training(told, plan),
        "held_out": card.held_out(measured),
        "cannot": list(model.cannot),
        "libraries": {"python": sys.version.split()[0], **card.versions([model.library])},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=MODELS, metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--output", type=Path, default=FOLDER, help="where the folders are written")
    parser.add_argument("--steps-scale", type=float, default=1.0, help="of the steps of each model")
    parser.add_argument("--limit", type=int, help="rows of each configuration at most")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and every draw")
    return parser


if __name__ == "__main__":
    main()
