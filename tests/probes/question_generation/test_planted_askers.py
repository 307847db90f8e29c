"""Askers that are known: which scores tell one that looks at the image from those that do not?"""

import numpy as np
import pytest
from question_fakes import toy_world

from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.probes.question_generation.inputs import select_asked
from vlbench.probes.question_generation.measures import (
    Measures,
    QuestionMetrics,
    System,
    most_frequent_question,
    other_rows,
    questions_of_nearest_captions,
)
from vlbench.probes.question_generation.scores import scores_of

NOUNS = ("hound", "pine", "ship", "chair", "plum", "crow")
COLOURS = ("red", "green", "blue", "black", "white")
TRAIN, TEST = 120, 80


def things(count, seed):
    """Draw a noun, which captions tell, and a colour, which they do not."""
    rng = np.random.default_rng(seed)
    return [(str(rng.choice(NOUNS)), str(rng.choice(COLOURS))) for _ in range(count)]


def split_of(world, split, drawn):
    """Return a split whose questions name the noun with the colour, or ask for nothing."""
    questions = [
        [f"why is the {noun} {colour} ?", f"who made the {colour} {noun} ?", "what is this ?"]
        for noun, colour in drawn
    ]
    columns = {
        **world.splits[split].columns,
        "captions": value_column([[f"a {noun} is here"] for noun, _ in drawn]),
        "questions": value_column(questions),
        "names": value_column([[noun] for noun, _ in drawn]),
    }
    return Split(columns)


def askers(train, test, drawn):
    """Return the questions of each asker, and of what it asks of another image."""
    captions = [own[0] for own in test.captions]
    nearest = questions_of_nearest_captions(train, captions, Engine.for_tests())
    frequent = [most_frequent_question(train.questions)] * TEST
    copied = ["is the {0} near the {0} ?".format(text.split()[1]) for text in captions]
    seen = [f"why is the {noun} {colour} ?" for noun, colour in drawn]
    other = other_rows(TEST)
    yield System("", "most_frequent_question", [frequent])
    yield System("", "nearest_caption", [nearest])
    # Those that see no image ask the same with another one.
    blind = {"constant": frequent, "nearest": nearest, "copier": copied}
    for name, questions in blind.items():
        yield System(name, "", [questions])
        yield System(name, "another_image", [questions])
    yield System("oracle", "", [seen])
    yield System("oracle", "another_image", [[seen[i] for i in other]])


@pytest.fixture(scope="module")
def scores():
    world, drawn = toy_world(TRAIN, TEST), {"train": things(TRAIN, 0), "test": things(TEST, 1)}
    # The question that names nothing is the most frequent one.
    train = select_asked(split_of(world, "train", drawn["train"]), ())
    test = select_asked(split_of(world, "test", drawn["test"]), ())
    test = test._replace(names=[frozenset({noun}) for noun, _ in drawn["test"]])
    systems = list(askers(train, test, drawn["test"]))
    with QuestionMetrics(["cider"]) as metrics:
        measures = Measures(metrics, test, train)
        every = scores_of([measures(one) for one in systems])
        every += scores_of(measures.against_people(systems))
    return {(score.metric, score.at["step"]): score for score in every}


GAINS = ("from_image", "over_constant", "over_nearest_caption")


def gain(scores, name, asker):
    return scores[f"cider_gain_{name}", asker]


@pytest.mark.parametrize("name", GAINS)
def test_who_sees_what_no_caption_tells_gains_by_every_measure(scores, name):
    assert gain(scores, name, "oracle").ci95[0] > 1


@pytest.mark.parametrize("asker", ["constant", "nearest", "copier"])
def test_who_sees_no_image_gains_nothing_from_it_and_a_floor_nothing_over_itself(scores, asker):
    found = gain(scores, "from_image", asker)
    assert (found.value, found.ci95) == (0, (0, 0))
    assert gain(scores, "over_constant", "constant").value == 0
    assert gain(scores, "over_nearest_caption", "nearest").value == 0


def test_the_nearest_captions_question_gains_over_the_constant_one(scores):
    assert gain(scores, "over_constant", "nearest").ci95[0] > 0
    assert gain(scores, "over_nearest_caption", "constant").ci95[1] < 0


def test_who_copies_the_captions_noun_into_both_sides_names_nothing(scores):
    assert scores["noun_accuracy", "copier"].value == 0
    assert scores["noun_accuracy", "oracle"].value == 1
    assert gain(scores, "over_nearest_caption", "copier").ci95[1] < 0


def test_the_oracle_beats_people_who_never_repeat_each_other(scores):
    # It says what one of three people says; people are judged without their own question.
    people, oracle = (scores["cider_leave_one_out", one] for one in ("people", "oracle"))
    assert oracle.ci95[0] > people.ci95[1]
    assert oracle.value < scores["cider", "oracle"].value
