"""Pairs of scenes without drawings, and scorers of which it is known what they do not see.

A picture is the number of its pair and its side, of which a scorer knows all facts, less those that
it is blind to. A text scores how many of its facts are true, less how many are not.
"""

import re
from functools import cache

import torch

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.data.scenes import pairs
from vlbench.data.scenes.pair_questions import pair_question
from vlbench.data.scenes.pairs import CATEGORIES
from vlbench.data.scenes.world import COLOURS, SEEN_NOUNS, plural

pair = cache(pairs.pair)

PAIRS = 20 * len(CATEGORIES)
SIDES = [(number, side) for number in range(PAIRS) for side in (0, 1)]
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}

# What each scorer does not see, and, written before any of them ran, the categories in which it is
# right in one half alone.
BLIND_TO = {
    "nothing": (),
    "order": ("swapped_attributes", "left_right", "above_below"),
    "colour": ("attribute", "swapped_attributes"),
    "place": ("left_right", "above_below"),
    "number": ("count",),
}

# "one thing , a van" tells by its number alone that it is wrong for a van and a dog: who does not
# see it has both images tied for this caption, and finds the image of the other.
NUMBER_IN_PRESENCE = {"image_accuracy": 3 / 4, "image_score": 1 / 2, "group_score": 1 / 2}


def column(values, kind="value"):
    made = value_column(range(len(values)), kind)
    return Column(made.key, kind, values, made.rows, names=[str(one) for one in values])


def foil_rows():
    sides = [pair(0, "test", number).sides[side] for number, side in SIDES]
    others = [pair(0, "test", number).sides[1 - side] for number, side in SIDES]
    columns = {
        "image": column(SIDES, "image"),
        "picture": column(SIDES, "picture"),
        "caption": value_column([side.caption for side in sides], "text"),
        "foils": value_column([[other.caption] for other in others]),
        "category": value_column([pair(0, "test", number).category for number, _ in SIDES]),
        "cluster": value_column([str(number) for number, _ in SIDES]),
        "words": value_column([sorted(side.words) for side in sides]),
    }
    return Data(splits={"test": Split(columns)})


def twin_rows():
    both = foil_rows().splits["test"]
    first, second = (both.select(range(side, len(both), 2)).columns for side in (0, 1))
    kept = ("image", "picture", "caption", "words")
    columns = {name: first[name] for name in (*kept, "category")}
    return Data(splits={"test": Split(columns | {f"{name}_2": second[name] for name in kept})})


def facts_of_text(text):
    """Return what a caption says: nouns, their colours, numbers, and places of two."""
    related = re.search(r"(\w+) (?:to the )?(left of|right of|above|below) an? (\w+)", text)
    if related:
        subject, relation, other = related.groups()
        return {("is", subject), ("is", other), ("place", relation, subject, other)}
    facts = set()
    for article, colour, noun in re.findall(rf"\b(an?) (?:({'|'.join(COLOURS)}) )?(\w+)", text):
        if article and noun != "drawing":
            facts |= {("is", noun)} | ({("colour", noun, colour)} if colour else set())
    counted = re.search(rf"\b({'|'.join(NUMBERS)}) (\w+)", text)
    if counted:
        number, noun = NUMBERS[counted[1]], counted[2]
        facts |= {("number", noun, number)} | (set() if noun == "thing" else {("is", noun)})
    return facts


def facts_of_scene(scene):
    """Return all that captions of pairs may say of a scene."""
    things = scene.things
    nouns = [thing.noun for thing in things]
    facts = {("is", noun) for noun in nouns} | {("is", plural(noun)) for noun in nouns}
    facts |= {("colour", thing.noun, thing.colour) for thing in things}
    facts |= {("number", plural(noun), nouns.count(noun)) for noun in nouns}
    facts |= {("number", "thing", len(things))}
    for a in things:
        for b in things:
            (ax, ay), (bx, by) = a.centre, b.centre
            holds = {"left of": ax < bx, "right of": ax > bx, "above": ay < by, "below": ay > by}
            facts |= {("place", name, a.noun, b.noun) for name, is_so in holds.items() if is_so}
    return facts


class Sees:
    """Scores a text by its facts; `blind_to` is one of BLIND_TO."""

    def __init__(self, blind_to="nothing"):
        self.blind_to = blind_to

    def score_pairs(self, pictures, texts):
        return torch.tensor([self._score(*one) for one in zip(pictures, texts, strict=True)])

    def _score(self, picture, text):
        number, place = picture.image
        side = pair(0, "test", number).sides[place]
        if self.blind_to == "order":
            told = [word in side.words or word == "" for word in text.split()]
            return float(2 * sum(told) - len(told))
        true = facts_of_scene(side.scene)
        told = [fact in true for fact in facts_of_text(text) if fact[0] != self.blind_to]
        return float(2 * sum(told) - len(told))


def question_rows(of=range(PAIRS)):
    asked = [(i, side, pair_question(pair(0, "test", i))) for i in of for side in (0, 1)]
    asked = [one for one in asked if one[2]]
    sides = [(number, side) for number, side, _ in asked]
    columns = {
        "image": column(sides, "image"),
        "picture": column(sides, "picture"),
        "question": value_column([one.text for *_, one in asked], "text"),
        "options": value_column([list(one.options) for *_, one in asked]),
        "right_answers": value_column([[one.right[side]] for _, side, one in asked]),
        "category": value_column([one.category for *_, one in asked]),
        "cluster": value_column([str(number) for number, *_ in asked]),
    }
    return Data(splits={"test": Split(columns)})


SAID = sorted([*COLOURS, *NUMBERS, *SEEN_NOUNS, "left", "right", "yes", "no"])


class Answers:
    """Answers questions about pairs in words, by letter and by likelihood.

    It `looks`, or has priors alone: the first option in the alphabet.
    """

    reads_text_alone = True

    def __init__(self, *, looks=True):
        self.looks = looks

    def known(self, picture, options):
        """Return what it would say."""
        if self.looks:
            number, side = picture.image or (None, None)
            return picture.image and pair_question(pair(0, "test", number)).right[side]
        return min(options)

    def score_answers(self, pictures, questions, answers):
        given = zip(pictures, questions, answers, strict=True)
        return torch.tensor([self._score(*one) for one in given])

    def _score(self, picture, question, answer):
        if self.looks:
            return -1.0 if answer == self.known(picture, []) else -3.0
        return -1.0 - SAID.index(answer)

    def answer(self, pictures, questions):
        return [self._say(*one) for one in zip(pictures, questions, strict=True)]

    def _say(self, picture, question):
        listed = re.findall(r"^([A-J])\. (.*)$", question, re.MULTILINE)
        if not listed:
            return f"{self.known(picture, [])}.".capitalize()
        letters = {text: letter for letter, text in listed}
        said = self.known(picture, [text for _, text in listed])
        return f"({letters.get(said, 'none')})"


class ReadsAlone:
    """Scores a text by itself."""

    def score_pairs(self, pictures, texts):
        scores = [hash_of(0, "", text) % 10007 for text in texts]
        assert len(pictures) == len(texts)
        return torch.tensor(scores, dtype=torch.float32)


class Always:
    """Scores every pair alike."""

    def score_pairs(self, pictures, texts):
        assert len(pictures) == len(texts)
        return torch.full((len(texts),), 0.3)


class Noise:
    """Scores pairs at random, each always alike."""

    def __init__(self, seed=0):
        self.seed = seed

    def score_pairs(self, pictures, texts):
        pairs = zip([one.image for one in pictures], texts, strict=True)
        rngs = [torch.Generator().manual_seed(hash_of(self.seed, *one)) for one in pairs]
        return torch.stack([torch.rand((), generator=rng) for rng in rngs])


def hash_of(seed, picture, text):
    number = seed
    for sign in f"{picture}{text}":
        number = (number * 131 + ord(sign)) % 2**31
    return number


def presence(*answers, clusters=None):
    """Return questions of yes and no, one for each image."""
    rows = [(i, 0) for i in range(len(answers))]
    columns = {
        "image": column(rows, "image"),
        "picture": column(rows, "picture"),
        "question": value_column(["is it there ?"] * len(rows), "text"),
        "right_answers": value_column([[answer] for answer in answers]),
    }
    if clusters:
        columns["cluster"] = value_column(clusters)
    return Data(splits={"test": Split(columns)})
