from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from fakes import PlantedFeatures, labelled_images
from scoring import metric_values as values
from torch.nn.functional import normalize

from vlbench.data.images import DIGITS
from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.pass_checks import REPEATED
from vlbench.errors import DataError, SpecError, UnknownNameError
from vlbench.probes.generalization.zero_shot import vectors_by_rule, zero_shot

RAW, NORMALISED = "accuracy_raw_prompt_mean", "accuracy_normalised_texts"
METRICS = ["accuracy", NORMALISED, RAW]
CHANCE = dict.fromkeys(METRICS, 1 / 7) | {"accuracy_top5": 5 / 7}  # of seven classes


class PlantedTowers(PlantedFeatures):
    """Gives image number i row i of [N, D] features, and each text the vector planted for it."""

    def __init__(self, images, texts):
        super().__init__(images)
        self.texts = texts

    def encode_texts(self, texts):
        return torch.stack([self.texts[text] for text in texts])

    def similarity(self, images, texts):
        return normalize(images, dim=1) @ normalize(texts, dim=1).T


class Contrary(PlantedTowers):
    """Finds the opposite similar."""

    def similarity(self, images, texts):
        return -super().similarity(images, texts)


class DotProduct(PlantedTowers):
    """Compares by the dot product, to which the length of a text counts."""

    def similarity(self, images, texts):
        return images @ texts.T


class Listener(PlantedTowers):
    """Remembers the texts, and gives each the same vector."""

    def __init__(self, images):
        super().__init__(images, {})
        self.heard = []

    def encode_texts(self, texts):
        self.heard += texts
        return torch.ones(len(texts), 2)


class CutsTexts(PlantedTowers):
    """Reads four words of a text."""

    context_length = 4

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


def probe(model, data, **params):
    return zero_shot(model, data, Engine.for_tests(), **params)


def animals(*counts):
    """Return so many test images of each class; they are numbers 1, 2, ..., after one of train."""
    names = ["cat", "dog", "eel", "fox", "gnu", "hen", "ibis"][: len(counts)]
    return labelled_images(*[1] * len(counts), test=counts, classes=names)


def texts_of(data, vectors, prompt="a photo of a {}."):
    named = zip(data.classes, vectors, strict=True)
    return {prompt.format(name): vector for name, vector in named}


def reading(data, prompt="a photo of a {}."):
    """Return a model for which each class is an axis."""
    axes = torch.eye(len(data.classes))
    label = [label for split in ("train", "test") for label in data.splits[split]["label"]]
    return PlantedTowers(axes[label], texts_of(data, axes, prompt))


def by_numpy(images, texts, right, normalised):
    """Return top-1 and top-5 shares for [N, D] images and [C, P, D] texts, in float64."""
    images, texts = images.double().numpy(), texts.double().numpy()
    if normalised:
        texts = texts / np.linalg.norm(texts, axis=-1, keepdims=True)
    means = texts.mean(1)
    cosines = images @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    places = (-cosines).argsort(1).argsort(1)[range(len(right)), right]
    return (places == 0).mean(), (places < 5).mean()


def test_a_model_that_knows_every_name_is_always_right():
    data = animals(3, 1, 4, 2, 2, 5, 3)
    found = values(probe(reading(data), data))
    assert found == dict.fromkeys([*METRICS, "accuracy_top5"], 1.0)


def test_a_model_that_takes_cats_for_dogs_is_right_on_the_rest():
    data = animals(3, 2, 5)
    model = reading(data)
    # The model's own similarity decides.
    contrary = Contrary(model.features, model.texts)
    assert values(probe(contrary, data))["accuracy"] == 0.0
    cat, dog, eel = model.texts.values()
    model.texts = texts_of(data, [dog, cat, eel])
    assert values(probe(model, data)) == dict.fromkeys(METRICS, 0.5)


def test_images_that_are_all_the_same_score_chance_whatever_the_texts():
    data = animals(7, 2, 1)
    model = PlantedTowers(torch.eye(3)[[0] * 13], texts_of(data, torch.eye(3)))
    assert values(probe(model, data)) == pytest.approx(dict.fromkeys(METRICS, 1 / 3))


def test_texts_that_are_all_the_same_score_chance_whatever_the_images():
    data = animals(100, 2, 3, 1, 2, 1, 1)
    rng = torch.Generator().manual_seed(0)
    text = torch.randn(64, generator=rng)
    images = torch.randn(117, 64, generator=rng)
    images -= (images @ text).outer(text) / text.square().sum()
    outcome = probe(PlantedTowers(images, texts_of(data, [text] * 7)), data)
    assert values(outcome) == pytest.approx(CHANCE)
    assert outcome.notes == []


def test_two_names_with_one_vector_share_the_credit():
    data = animals(2, 2, 4)
    model = reading(data)
    model.texts["a photo of a dog."] = model.texts["a photo of a cat."]
    # A cat is half right; a dog is at right angles to all three: a third; an eel is right.
    assert values(probe(model, data))["accuracy"] == pytest.approx((2 / 2 + 2 / 3 + 4) / 8)


def test_a_long_vector_of_one_prompt_counts_more_in_the_mean_of_raw_vectors():
    # dog is (1, 0) and 9 x (0, 1): at 45 degrees as a mean of directions, at 84 of raw vectors.
    # cat is at 70 degrees. An image at 50 is nearer to dog by directions, to cat by raw vectors.
    data, angle = animals(0, 1), torch.deg2rad(torch.tensor([0.0, 0.0, 50.0, 70.0]))
    *images, cat = torch.stack([angle.cos(), angle.sin()], dim=1)
    dog, long = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 9.0])
    texts = {"cat": cat, "a cat": cat, "dog": dog, "a dog": long}
    model = PlantedTowers(torch.stack(images), texts)
    assert values(probe(model, data, prompts=["{}", "a {}"])) == {"accuracy": 1.0, RAW: 0.0}


def test_a_similarity_that_depends_on_other_texts_is_refused():
    class Softmax(PlantedTowers):
        def similarity(self, images, texts):
            return super().similarity(images, texts).softmax(1)

    data = animals(1, 1, 1)
    model = reading(data)
    with pytest.raises(SpecError, match=r"Softmax\.similarity must depend only on the two"):
        probe(Softmax(model.features, model.texts), data)


def test_every_score_is_numpys_on_random_vectors():
    data, rng = animals(*[40] * 7), torch.Generator().manual_seed(3)
    images = torch.randn(7 + 280, 6, generator=rng)
    texts = torch.randn(7, 3, 6, generator=rng) * torch.rand(7, 3, 1, generator=rng)
    prompts = ["{}", "a {}", "the {} is a {}"]
    named = [prompt.replace("{}", name) for name in data.classes for prompt in prompts]
    model = PlantedTowers(images, dict(zip(named, texts.flatten(0, 1), strict=True)))
    found, right = values(probe(model, data, prompts=prompts)), labels(data.splits["test"])
    first, among = by_numpy(images[7:], texts, right, normalised=True)
    raw, _ = by_numpy(images[7:], texts, right, normalised=False)
    assert found == pytest.approx({"accuracy": first, "accuracy_top5": among, RAW: raw})
    assert first != raw


def test_one_prompt_is_compared_as_the_model_made_it_and_several_as_a_mean_of_length_one():
    # The long dog is nearest to every image by the dot product, and to its own by the direction.
    data = animals(1, 1, 2)
    vectors = torch.eye(3) * torch.tensor([1.0, 9.0, 1.0])
    texts = [texts_of(data, vectors, prompt) for prompt in ("a {}", "the {}")]
    model = DotProduct(reading(data).features + 0.5, texts[0] | texts[1])
    one, several = (values(probe(model, data, prompts=p)) for p in ("a {}", ["a {}", "the {}"]))
    assert one == {"accuracy": 1 / 4, NORMALISED: 1.0, RAW: 1.0}
    assert several == {"accuracy": 1.0, RAW: 1.0}


def test_the_lengths_of_texts_do_not_matter_to_a_cosine():
    data, rng = animals(*[30] * 7), torch.Generator().manual_seed(5)
    images, texts = torch.randn(217, 6, generator=rng), torch.randn(7, 6, generator=rng)
    long = texts * torch.logspace(-9, 9, 7)[:, None]
    towers = [PlantedTowers(images, texts_of(data, one)) for one in (texts, long)]
    found, scaled = (values(probe(model, data)) for model in towers)
    assert found == scaled
    assert found["accuracy"] == found[NORMALISED]
    assert 0 < found["accuracy"] < 1


def test_many_images_are_compared_in_blocks_alike(monkeypatch):
    data, rng = animals(9, 8, 7), torch.Generator().manual_seed(0)
    texts = texts_of(data, torch.randn(3, 4, generator=rng))
    model = PlantedTowers(torch.randn(27, 4, generator=rng), texts)
    whole = probe(model, data)
    monkeypatch.setattr("vlbench.probes.generalization.zero_shot.BLOCK", 15)
    assert probe(model, data) == whole


def test_other_prompts_and_names_can_be_given():
    data = replace(animals(2, 2), class_order="listed")
    model = reading(data)
    model.texts = dict(zip(["das Katze", "das Hund"], torch.eye(2), strict=True))
    outcome = probe(model, data, prompts="das {}", class_names=["Katze", "Hund"])
    assert values(outcome) == dict.fromkeys(METRICS, 1.0)


def test_names_in_another_order_are_paired_by_name():
    data = animals(2, 2, 2)
    assert values(probe(reading(data), data, class_names=["eel", "cat", "dog"]))["accuracy"] == 1


def numbered(*names, order=""):
    """Return data of classes in the order of texts, and a model that reads `one` as the class 1."""
    data = replace(labelled_images(*[1] * len(names), classes=sorted(names)), class_order=order)
    return data, reading(data)


def test_numbers_are_paired_by_value():
    data, model = numbered(*map(str, range(12)))
    padded = [f"{i:02}" for i in range(12)]
    model.texts = {f"a photo of a {i:02}.": model.texts[f"a photo of a {i}."] for i in range(12)}
    assert values(probe(model, data, class_names=padded))["accuracy"] == 1


WORDS = [*DIGITS, "ten", "eleven"]


def test_names_of_outputs_are_paired_by_the_numbers_of_classes():
    data, model = numbered(*map(str, range(12)), order="output numbers")
    said = [model.texts[f"a photo of a {i}."] for i in range(12)]
    model.texts = {f"a photo of a {word}.": said[i] for i, word in enumerate(WORDS)}
    assert values(probe(model, data, class_names=WORDS))["accuracy"] == 1


def test_names_that_could_be_of_any_class_are_refused_with_both_orders():
    data, model = numbered(*map(str, range(12)))
    message = "class_names 'zero', 'one', 'two' and 9 more .* classes '0', '1', '10' and 9 more"
    with pytest.raises(ValueError, match=message):
        probe(model, data, class_names=WORDS)


def test_each_class_can_be_given_its_name():
    data = animals(2, 2)
    model = reading(data)
    model.texts = dict(zip(["a photo of a cat.", "a photo of a Hund."], torch.eye(2), strict=True))
    assert values(probe(model, data, class_names={"dog": "Hund"}))["accuracy"] == 1


@pytest.mark.parametrize("class_names", [None, ["number_one", "number_zero"]])
def test_a_prompt_has_blanks_for_the_underscores_of_a_class(class_names):
    data = labelled_images(1, 1, classes=["number_zero", "number_one"])
    model = reading(data)
    model.texts = {text.replace("_", " "): vector for text, vector in model.texts.items()}
    assert values(probe(model, data, class_names=class_names))["accuracy"] == 1


@pytest.mark.parametrize(
    ("prompts", "first", "count"),
    [("openai_imagenet", "a bad photo of a cat.", 80), ("simple_imagenet", "itap of a cat.", 7)],
)
def test_open_clips_prompts_can_be_named(prompts, first, count):
    model = Listener(torch.eye(2)[[0, 1, 0, 1]])
    probe(model, animals(1, 1), prompts=prompts)
    assert (model.heard[REPEATED], len(set(model.heard))) == (first, 2 * count)


def test_texts_that_the_model_cuts_are_counted():
    data, prompts = animals(1, 1), ["a {}", "a very furry {}", "a very furry old {}"]
    knows = reading(data)
    texts = [texts_of(data, torch.eye(2), prompt) for prompt in prompts]
    model = CutsTexts(knows.features, texts[0] | texts[1] | texts[2])
    assert probe(model, data, prompts=prompts).counts["truncated_texts"] == 2


def test_each_score_says_what_it_takes_to_judge_it():
    outcome = probe(reading(animals(1, 2, 3, 4, 5, 6)), animals(1, 2, 3, 4, 5, 6))
    by_metric = {score.metric: score for score in outcome.scores}
    first, five = by_metric["accuracy"], by_metric["accuracy_top5"]
    assert (first.n, first.chance, first.floors) == (21, 1 / 6, {"majority_class": 6 / 21})
    assert (five.n, five.chance, five.floors) == (21, 5 / 6, {"majority_classes": 20 / 21})
    assert first.ci95 == pytest.approx((0.8454, 1.0), abs=1e-4)
    # Five guesses among five classes are no score.
    assert "accuracy_top5" not in values(probe(reading(animals(*[1] * 5)), animals(*[1] * 5)))


NO_PLACE = "prompt 'openai' has no {} for the class's name; sets of prompts are openai_imagenet"
OF_IMAGENET = "openai_imagenet names ImageNet's classes in their order"
REFUSED = [
    ({"prompts": "openai"}, ValueError, NO_PLACE),
    ({"prompts": ["a {}", "openai"]}, ValueError, NO_PLACE),
    ({"prompts": []}, ValueError, "no prompts; sets of prompts are openai_imagenet, simple"),
    ({"class_names": ["cat"]}, ValueError, "1 class names for the 2 classes of the data"),
    ({"class_names": "openai_imagenet"}, ValueError, OF_IMAGENET),
    ({"class_names": "openai_imagenets"}, UnknownNameError, "did you mean openai_imagenet"),
    ({"class_names": {"dgo": ""}}, UnknownNameError, "no class is named 'dgo'; did you mean dog"),
]


@pytest.mark.parametrize(("params", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_prompts_and_names_that_are_none_are_refused(params, error, message):
    with pytest.raises(error, match=message):
        probe(reading(animals(1, 1)), animals(1, 1), **params)


class PlantedScores:
    """Scores image number i and a text by the number planted for them."""

    def __init__(self, scores):
        self.scores, self.batches = scores, []

    def score_pairs(self, pictures, texts):
        self.batches.append(len(texts))
        numbers = [picture.image.getpixel((0, 0))[1] for picture in pictures]
        return torch.tensor([self.scores(*pair) for pair in zip(numbers, texts, strict=True)])


def names_image(data, wrong=()):
    """Return a model that scores 1 for the class of an image, or for the next where it is wrong."""
    label = [label for split in ("train", "test") for label in data.splits[split]["label"]]

    def score(number, text):
        shift = int(number in wrong)
        return float(data.classes[(label[number] + shift) % len(data.classes)] in text)

    return PlantedScores(score)


SCORED = ["accuracy", "accuracy_scored"]


def test_a_scorer_is_right_where_it_scores_the_right_class_highest():
    data = animals(2, 2, 4)
    knows = probe(names_image(data), data)
    assert values(knows) == dict.fromkeys(SCORED, 1.0)
    assert knows.counts == {"n": 8, "ties": 0}
    outcome = probe(names_image(data, wrong=[3, 7]), data)
    assert values(outcome) == dict.fromkeys(SCORED, 6 / 8)
    kept = outcome.items.filter(pc.equal(outcome.items["metric"], "accuracy_scored"))
    assert kept["credit"].to_pylist() == [0, 1, 1, 1, 0, 1, 1, 1]


def test_a_scorer_that_scores_all_the_same_has_chance():
    data = animals(9, 1, 3, 2, 5, 1, 7)
    outcome = probe(PlantedScores(lambda *_: 0.3), data)
    expected = dict.fromkeys(SCORED, 1 / 7) | {"accuracy_top5": 5 / 7}
    assert values(outcome) == pytest.approx(expected)
    assert outcome.counts == {"n": 28, "ties": 28}


def test_a_class_has_the_mean_score_of_its_prompts():
    data = animals(1, 1)
    planted = {"a cat": 0.6, "one cat": 0.1, "a dog": 0.3, "one dog": 0.3}
    model = PlantedScores(lambda _, text: planted[text])
    assert values(probe(model, data, prompts=["a {}", "one {}"]))["accuracy_scored"] == 0.5
    assert values(probe(model, data, prompts="a {}"))["accuracy_scored"] == 0.5
    planted |= {"one cat": -0.1}
    items = probe(model, data, prompts=["a {}", "one {}"]).items
    assert items["credit"].to_pylist()[:2] == [0, 1]


def test_pairs_come_in_batches_of_the_engines_size():
    data = animals(2, 2, 2)
    model = PlantedScores(lambda *_: 0.3)
    settings = ComputeSettings(torch.device("cpu"), batch_size=4)
    zero_shot(model, data, Engine(settings))
    assert max(model.batches) == 4
    # Of the first batch, all are passed again and one alone; all once more with batches 2 and 4.
    assert sum(model.batches) == 18 + REPEATED + 1 + 2 * REPEATED


def test_tiny_text_vectors_are_normalised_too():
    vectors = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(0))
    found, tiny = (vectors_by_rule(scale * vectors) for scale in (1, 2.0**-45))
    assert all(torch.equal(found[rule], tiny[rule]) for rule in found)


def test_a_floor_is_of_accuracy_alone():
    data = animals(3, 3)
    scores = probe(reading(data), data, floors={"x": "image"}).scores
    found = {s.metric: set(s.floors) for s in scores}
    assert found.pop("accuracy") == {"majority_class", "x"}
    assert all("x" not in names for names in found.values())


class Names:
    """Names the class of an image, by likelihood or by letter; `prior` is what it says without."""

    reads_text_alone = True

    def __init__(self, prior="", *, looks=True):
        self.prior, self.looks = prior, looks

    def seen(self, picture):
        if picture.image is None or not self.looks:
            return self.prior
        return f"class {int(np.asarray(picture.image)[0, 0, 0])}"

    def score_answers(self, pictures, questions, answers):
        pairs = zip(map(self.seen, pictures), answers, strict=True)
        return torch.tensor([-1.0 if seen and seen in answer else -5.0 for seen, answer in pairs])

    def answer(self, pictures, questions):
        return [self.say(*one) for one in zip(pictures, questions, strict=True)]

    def say(self, picture, question):
        said = [line[0] for line in question.splitlines() if line[3:] == self.seen(picture)]
        return said[0] if said else "I cannot say."


@pytest.mark.parametrize("way", ["likelihood", "letter"])
def test_models_that_generate_are_asked_for_the_class(way):
    found = zero_shot(Names(), labelled_images(4, 4, 4), Engine.for_tests(), asked=way)
    values = {s.metric: s for s in found.scores}
    assert (values["accuracy"].value, found.asked_by) == (1.0, way)
    # Without an image all classes are tied by likelihood; by letter it names none.
    alone = 1 / 3 if way == "likelihood" else 0.0
    assert values["accuracy"].floors["text_alone"] == pytest.approx(alone)
    assert values["accuracy_gain_over_text_alone"].value == pytest.approx(1 - alone)
    assert values["accuracy_gain_from_image"].value > 0.2


def test_a_model_that_never_names_a_class_is_an_error():
    with pytest.raises(DataError, match="no reply names an option: 9 of 9 name no single option"):
        zero_shot(Names(looks=False), labelled_images(1, 1, 1), Engine.for_tests(), asked="letter")


@pytest.mark.parametrize("way", ["likelihood", "letter"])
def test_a_class_that_is_always_named_earns_chance_and_gains_nothing(way):
    model = Names("class 1", looks=False)
    found = zero_shot(model, labelled_images(4, 4, 4), Engine.for_tests(), asked=way)
    values = {s.metric: s.value for s in found.scores}
    gains = dict.fromkeys(["accuracy_gain_over_text_alone", "accuracy_gain_from_image"], 0)
    assert values == pytest.approx({"accuracy": 1 / 3} | gains)


def test_more_classes_than_letters_are_asked_by_likelihood_only():
    data = labelled_images(*[2] * 11)
    with pytest.raises(DataError, match="at most 10 options have a letter, not 11"):
        zero_shot(Names(), data, Engine.for_tests(), asked="letter")
    found = zero_shot(Names(), labelled_images(*[2] * 9), Engine.for_tests())
    assert found.asked_by == "likelihood"
