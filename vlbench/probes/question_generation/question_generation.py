"""Visual question generation with BERT-gen. arXiv:2002.10832.

A masked language model of text learns to ask about captions (step 1), then about images through a
linear layer with all other weights frozen (step 2), then about both (step 3, from steps 1 and 2).
Ablations train all weights in step 2, and train step 3 without the earlier steps. Question j is
trained with caption j modulo the number of captions. Each test image gets one question, by greedy
decoding, with its first caption; the question is scored against all of the image's questions. The
paper does not state how captions and questions are paired, nor the longest question.

Floors of all steps are the most frequent train question, and the question of the train image with
the nearest caption (`nearest_caption`). Steps that read images have the step with another test
image (`another_image`), and step 1 has the step with that image's caption (`another_caption`). Step
2 also has step 1 with W drawn and untrained (`untrained_projection`). `cider_gain_from_image` is
CIDEr minus the CIDEr of `another_image`: a step with a gain above 0 uses its image.
`cider_gain_over_constant` and `cider_gain_over_nearest_caption` are CIDEr minus the CIDEr of the
most frequent question and of the nearest caption's question, paired by image. `people` scores each
of an image's questions against its other questions. People and steps are compared by
`cider_leave_one_out`, in which each reference is also left out in turn for steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vlbench.capabilities import MaskedLanguageModel, RegionEncoder
from vlbench.data.records import Split, TrainAndTestRows
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.probes.question_generation.bert_gen import BOX, BertGen, marks_of
from vlbench.probes.question_generation.examples import attention_artifacts, draw_similarity
from vlbench.probes.question_generation.inputs import (
    AskedImages,
    ObjectReader,
    Objects,
    Texts,
    object_sizes,
    pairs_of,
    require_room,
    select_asked,
)
from vlbench.probes.question_generation.measures import (
    QUESTION_METRICS,
    Measures,
    QuestionMetrics,
    System,
    most_frequent_question,
    questions_of_nearest_captions,
    simplify,
)
from vlbench.probes.question_generation.scores import (
    ANOTHER,
    ANOTHER_CAPTION,
    FREQUENT,
    NEAREST,
    UNTRAINED,
    Measurements,
    outcome,
    similarity_rows,
)
from vlbench.probes.question_generation.similarity import similarities
from vlbench.probes.question_generation.steps import STEPS, QuestionInputs, TrainingData, Trainings
from vlbench.probes.question_generation.training import PAPER_TRAINING, BertGenTraining
from vlbench.results import Outcome, Positive
from vlbench.system.digests import digest

# Number of images whose attention is drawn.
EXAMPLES = 8


class Questions(NamedTuple):
    """The questions that count: cut to `max_question` tokens with the end, and naming a thing.

    `things` are columns that list the things in an image: if given, a question counts only if it
    names one of these things.
    """

    max_question: Positive = 20
    things: Sequence[str] = ()


ALL_QUESTIONS = Questions()


def question_generation(  # noqa: PLR0913 - the YAML fills all but three
    model: MaskedLanguageModel,
    data: TrainAndTestRows,
    engine: Engine,
    *,
    images: Positive | None = None,
    regions: Positive | None = None,
    encoder: RegionEncoder | None = None,
    questions: Questions = ALL_QUESTIONS,
    training: BertGenTraining = PAPER_TRAINING,
    metrics: Sequence[str] = QUESTION_METRICS,
    seeds: Sequence[int] = (0,),
) -> Outcome:
    """Return scores of each step's questions, and its similarity of images and their captions.

    If `questions` lists `things`, `noun_accuracy` is how often a step's question names a thing.

    Raises CannotDo for a model without learned positions, without the special tokens, or with too
    few positions for the longest X and a question; DataError for an image without regions, with
    another number of regions, with a box outside the image, or without a caption; TooFewRows for a
    split with fewer than two images that have questions.

    Args:
        images: number of test images, from the first on; None takes all.
        regions: number of regions of each image; None takes as many as it has.
        encoder: region encoder that computes region vectors; None: the region vectors of the data.
        questions: longest question in tokens (`max_question`), and columns that list `things`, of
            which a question must name one.
        training: `epochs`, `batch_size`, `learning_rate`, `projection_learning_rate` of W (null:
            the same), `warm_up` as a fraction of the updates.
        metrics: caption metrics except spice; with the suffix `_ptb` they use Penn Treebank words.
        seeds: seeds of the trainings, one or more; scores are means over them.
    """
    longest, things = questions
    if longest < 1 or not seeds:
        raise ValueError(f"max_question {longest}, seeds {list(seeds)}: must be 1 or more")
    tokenizer, _ = model.masked_lm()
    texts = Texts(tokenizer, marks_of(tokenizer).end, longest)
    splits = [data.splits["train"], _first_rows(data.splits["test"], images)]
    all_images = sum(map(len, splits))
    if encoder:
        splits = [engine.encode_regions(encoder, split) for split in splits]
    train, test = (select_asked(split, things) for split in splits)
    reader = ObjectReader(regions)
    material, sizes = _material(engine, train, test, texts, reader)
    trainings = [Trainings(model, engine, material, training, texts, seed=seed) for seed in seeds]
    _require(trainings[0].untrained(), material, test, sizes, texts)
    of_test = QuestionInputs.of(test)
    systems = [*_without_model(engine, train, test), *_of_steps(trainings, of_test)]
    alike = similarities(trainings, of_test)
    drawn = attention_artifacts(trainings[0], test, EXAMPLES)
    if engine.is_main:
        drawn["similarity_by_layer"] = draw_similarity(similarity_rows(alike))
    with QuestionMetrics(metrics) as opened:
        measures = Measures(opened, test, train)
        measured = [measures(system) for system in systems]
        people = measures.against_people(systems) if "cider" in metrics else []
    counts = {"train_questions": len(material.pairs), **_counts(train, test, texts)}
    counts["images_without_question"] = all_images - len(train.captions) - len(test.captions)
    return outcome(Measurements(test, measured, people, alike, list(seeds)), counts, drawn)


def _first_rows(split: Split, images: int | None) -> Split:
    return split if images is None else split.select(range(min(images, len(split))))


def _counts(train: AskedImages, test: AskedImages, texts: Texts) -> dict[str, int]:
    """Return the sizes of the data, and the number of test questions that occur in training.

    Questions are compared after `simplify`, as in the score `questions_seen_in_training`.
    """
    every, of_test = ([one for those in part.questions for one in those] for part in (train, test))
    trained = {*map(simplify, every)}
    return {
        "train_images": len(train.captions),
        "truncated_texts": texts.cut(every),
        "test_questions": len(of_test),
        "test_questions_seen_in_training": sum(
            simplify(question) in trained for question in of_test
        ),
    }


def _material(
    engine: Engine, train: AskedImages, test: AskedImages, texts: Texts, reader: ObjectReader
) -> tuple[TrainingData, tuple[list[int], list[int]]]:
    """Return the training data, and the number of regions of each train and test image."""
    shapes = [object_sizes(split, reader, engine) for split in (train, test)]
    widths = [shape[0][1] for shape in shapes]
    if widths[0] != widths[1]:
        raise DataError(f"region vectors of train and test differ in width: {widths}")
    column, pairs = train.split["regions"], pairs_of(train, texts)
    content = [column.key, list(column.rows), [list(pair) for pair in pairs]]
    objects = Objects(column, train.ids, reader)
    material = TrainingData(pairs, objects, digest(content), widths[0] - BOX)
    sizes = [[count for count, _ in shape] for shape in shapes]
    return material, (sizes[0], sizes[1])


def _require(
    network: BertGen,
    material: TrainingData,
    test: AskedImages,
    sizes: tuple[list[int], list[int]],
    texts: Texts,
) -> None:
    """Raise CannotDo, before any training, for a model that cannot generate questions."""
    of_train = [sizes[0][pair.image] for pair in material.pairs]
    captions = texts.captions([group[0] for group in test.captions])
    every = [*(pair.caption for pair in material.pairs), *captions]
    require_room(network, [*of_train, *sizes[1]], every, texts.most)
    network.require_left_to_right()


def _without_model(engine: Engine, train: AskedImages, test: AskedImages) -> list[System]:
    """Return the floors of all steps, which need no model."""
    frequent = [most_frequent_question(train.questions)] * len(test.captions)
    captions = [group[0] for group in test.captions]
    nearest = questions_of_nearest_captions(train, captions, engine)
    return [System("", FREQUENT, [frequent]), System("", NEAREST, [nearest])]


def _of_steps(trainings: Sequence[Trainings], inputs: QuestionInputs) -> list[System]:
    """Return the questions of each step, and of its floors."""
    systems = []
    for step in STEPS:
        ways = {"": (step, inputs)}
        if step.images:
            ways[ANOTHER] = (step, inputs.with_other_images())
        else:
            ways[ANOTHER_CAPTION] = (step, inputs.with_other_captions())
        if step.name == "2":
            # After step 1, W has its initial values.
            ways[UNTRAINED] = (STEPS[0], inputs)
        for floor, (after, what) in ways.items():
            asked_by_seed = [seed.questions(step, after, what) for seed in trainings]
            systems.append(System(step.name, floor, asked_by_seed))
    return systems
