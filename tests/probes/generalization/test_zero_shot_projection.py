import pytest
import torch
from fakes import PlantedFeatures, ReadsTheLabel, labelled_images
from torch.nn.functional import normalize

from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.generalization.zero_shot_projection import (
    LabelledFeatures,
    ProjectionTraining,
    train_projection,
    zero_shot_projection,
)


class Planted:
    """Gives the prompt of class i row i of [K, D] vectors."""

    def __init__(self, vectors):
        self.vectors = vectors

    def encode_texts(self, texts):
        return self.vectors[[int(text.split()[-1].rstrip(".")) for text in texts]]


TRAINING = ProjectionTraining._fields


def probe(model, data, words, **params):
    """Return the outcome; parameters of the training may stand beside those of the probe."""
    training = ProjectionTraining(**{k: params.pop(k) for k in TRAINING if k in params})
    engine = Engine.for_tests()
    return zero_shot_projection(model, data, engine, words=words, training=training, **params)


def randoms(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def linear_world(n_classes=40, width=3, per_class=12):
    """Return images whose features are a fixed map of their class's words, and these words."""
    words = 3 * normalize(randoms(n_classes, width))
    data = labelled_images(*[per_class] * n_classes)
    features = (words @ randoms(width, width, seed=1)).repeat_interleave(per_class, 0)
    return PlantedFeatures(features, features), data, Planted(words)


def test_a_linear_map_carries_over_to_unseen_classes():
    (score,) = probe(*linear_world(), trials=4, learning_rate=0.05).scores
    assert score.chance == 1 / 12
    assert score.value > 0.9
    assert score.floors["shuffled_words"] < 0.25


class RemembersPrompts(Planted):
    """Remembers the prompts, which end in a letter and a stop."""

    texts = ()

    def encode_texts(self, texts):
        self.texts += tuple(texts)
        return self.vectors[["abcdefghij".index(text[-2]) for text in texts]]


def test_names_stand_in_the_prompt_in_lower_case_as_in_the_code():
    names = [f"T-Shirt {letter}" for letter in "ABCDEFGHIJ"]
    words, data = RemembersPrompts(randoms(10, 4)), labelled_images(*[3] * 10, classes=names)
    probe(ReadsTheLabel(), data, words, trials=1, epochs=1, prompt="A photo of a {}.")
    assert {*words.texts} == {f"A photo of a t-shirt {letter}." for letter in "abcdefghij"}


def test_classes_of_one_vector_are_tied():
    words = torch.ones(10, 4)
    outcome = probe(ReadsTheLabel(), labelled_images(*[3] * 10), Planted(words), trials=3)
    assert outcome.scores[0].value == pytest.approx(1 / 3)
    assert outcome.counts["classes_without_own_vector"] == 9


@pytest.mark.parametrize(("seen", "unseen"), [({}, 3), ({"seen_fraction": 0.5}, 5)])
def test_each_trial_sees_seventy_percent_of_the_classes_or_another_fraction(seen, unseen):
    data, words = labelled_images(*[2] * 10), Planted(randoms(10, 4))
    (score,) = probe(ReadsTheLabel(), data, words, trials=4, epochs=1, **seen).scores
    assert score.chance == 1 / unseen
    assert score.floors["majority_class"] == pytest.approx(1 / unseen)
    assert len(score.draws) == 4


def test_a_seed_draws_the_same_trials_and_another_seed_others():
    world = linear_world(per_class=4)
    draws = [probe(*world, trials=3, epochs=1, seed=seed).scores[0].draws for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize(("n_classes", "parts"), [(2, "1 seen and 1"), (3, "2 seen and 1")])
def test_too_few_classes_for_a_split_are_refused(n_classes, parts):
    with pytest.raises(ValueError, match=f"{n_classes} classes are {parts} unseen; 2 or more"):
        probe(ReadsTheLabel(), labelled_images(*[2] * n_classes), Planted(randoms(3, 4)))


def test_a_trial_without_images_is_refused():
    data = labelled_images(0, 0, 0, 9, test=[9, 0, 0, 0])
    why = r"trial \d+ has no train or no test images of seen classes"
    with pytest.raises(TooFewRows, match=why):
        probe(ReadsTheLabel(), data, Planted(randoms(4, 4)))


def test_no_trials_are_refused():
    with pytest.raises(ValueError, match=r"trials 0, epochs 20, batch_size 80: all must be 1"):
        probe(ReadsTheLabel(), labelled_images(2, 2, 2, 2), Planted(randoms(4, 4)), trials=0)


def test_the_map_is_that_of_the_loss_written_out():
    # One epoch of one batch: the step follows the gradient of the mean over images of
    # (sum over c of max(0, 1 - p_y + p_c) - 1) / (K - 1).
    images, words = LabelledFeatures(randoms(6, 3), torch.arange(6) % 3), randoms(4, 5, seed=1)
    training = ProjectionTraining(1, 6, 1e-3, 5e-4)
    rng = torch.Generator().manual_seed(0)
    found = train_projection(images, words, training, rng, torch.device("cpu"))
    bound = 1 / 3**0.5
    start = torch.empty(5, 3).uniform_(-bound, bound, generator=torch.Generator().manual_seed(0))
    weight = start.clone().requires_grad_()
    p = (images.features @ weight.T @ words.T).softmax(1)
    own = p.gather(1, images.label[:, None])
    loss = (((1 - own + p).clamp(min=0).sum(1) - 1) / 3).mean()
    adam = torch.optim.Adam([weight], lr=1e-3, weight_decay=5e-4)
    loss.backward()
    adam.step()
    assert torch.allclose(found, weight, atol=1e-6)
    assert not torch.equal(found, start)


def test_a_tenth_epoch_halves_the_step():
    images, words = LabelledFeatures(randoms(6, 3), torch.arange(6) % 3), randoms(4, 5, seed=1)
    ends = []
    for epochs in (10, 11, 20, 21):
        training = ProjectionTraining(epochs, 6, 1e-3, 0.0)
        rng = torch.Generator().manual_seed(0)
        ends.append(train_projection(images, words, training, rng, torch.device("cpu")))
    # Adam steps by about the learning rate while the gradient keeps its sign.
    steps = [(ends[i + 1] - ends[i]).abs().median() for i in (0, 2)]
    assert steps[0].item() == pytest.approx(5e-4, rel=0.2)
    assert steps[1].item() == pytest.approx(2.5e-4, rel=0.2)


def test_a_map_that_exists_is_found_and_the_global_generator_is_left_as_it_was():
    words, label = torch.eye(4), torch.arange(80) % 4
    features = words[label] @ torch.linalg.qr(randoms(4, 4)).Q
    training = ProjectionTraining(epochs=15, batch_size=16, learning_rate=0.1)
    rng = torch.Generator().manual_seed(0)
    images = LabelledFeatures(features, label)
    state = torch.get_rng_state()
    found = train_projection(images, words, training, rng, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), state)
    assert ((features @ found.T @ words.T).argmax(1) == label).all()
