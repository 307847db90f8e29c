import warnings
from math import sqrt

import numpy as np
import pytest
import torch
from attack_fakes import SIDE, Brightness, SmallNet, greys, noise
from fakes import Reader, labelled_images
from tiny_joint import CPU, adapter
from torch import nn

from vlbench.boards.joins import compare, items_of
from vlbench.data.cifar import cifar10
from vlbench.data.image_folder import image_folder
from vlbench.data.records import Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.intervals import wilson
from vlbench.probes.generalization.robustness import Sample, robustness
from vlbench.probes.generalization.rpgd import GOALS, Descent
from vlbench.probes.generalization.victims import AttackRun
from vlbench.system.digests import digest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import foolbox

# What the README beside ResNet-2B's weights says, of all 10,000 test images, at RADIUS.
CLEAN, ATTACKED, RADIUS = 0.6925, 0.5482, 2 / 255

GREYS = [0.1, 0.2, 0.3, 0.45, 0.55, 0.7, 0.8, 0.9]


class Undecided(Reader):
    """Has the same logits for every image, and a gradient of 0."""

    def class_names(self):
        return [f"class {i}" for i in range(4)]

    def logits(self, pixels):
        return 0.0 * pixels.mean((1, 2, 3), keepdim=True)[:, :, 0, 0].expand(-1, 4) + 0.3


class UndecidedFeatures(Undecided):
    class_names = logits = None

    def encode_images(self, pixels):
        return super().logits(pixels)


class Brighter(Brightness):
    """Takes every image for brighter than it is."""

    def logits(self, pixels):
        return super().logits(pixels + 0.2)


class NoGradient(Brightness):
    def logits(self, pixels):
        return super().logits(pixels.detach())


def probe(model, data, engine=None, **params):
    """Return the outcome; settings of the descent may stand beside the probe's own."""
    descent = Descent(**{name: params.pop(name) for name in Descent._fields if name in params})
    usual = {"epsilons": {"linf": [0, 0.1]}, "target_offset": 1, "sample": None}
    engine = engine or Engine.for_tests()
    return robustness(model, data, engine, attack=descent, **usual | params)


def values(outcome, metric="success"):
    return {tuple(s.at.values()): s.value for s in outcome.scores if s.metric == metric}


def score(outcome, metric, *at):
    (found,) = [s for s in outcome.scores if s.metric == metric and tuple(s.at.values()) == at]
    return found


@pytest.mark.parametrize("goal", ["untargeted", "targeted"])
def test_an_attack_succeeds_where_epsilon_exceeds_the_margin(goal):
    found = values(probe(Brightness(), greys(*GREYS), epsilons={"linf": [0.06, 0.25, 0.5]}))
    assert [found["linf", goal, e] for e in (0.06, 0.25, 0.5)] == [2 / 8, 4 / 8, 1.0]


def test_a_margin_in_l2_is_longer_by_the_root_of_the_number_of_pixels():
    root = sqrt(3 * SIDE**2)
    sizes = [0.06 * root, 0.25 * root]
    found = values(probe(Brightness(), greys(*GREYS), epsilons={"l2": sizes}))
    assert list(found.values()) == [2 / 8, 4 / 8] * 2


def test_what_was_wrong_before_counts_as_success_but_not_given_that_it_was_right():
    data = greys(0.1, 0.2, 0.8)
    (test,) = data.splits.values()
    wrong = Split({"image": test["image"], "label": value_column([0, 1, 1])})
    outcome = probe(Brightness(), Data(splits={"test": wrong}, classes=data.classes))
    assert score(outcome, "clean_accuracy").value == pytest.approx(2 / 3)
    assert values(outcome)["linf", "untargeted", 0.1] == pytest.approx(1 / 3)
    given = score(outcome, "success_given_correct", "linf", "untargeted", 0.1)
    assert (given.value, given.n) == (0.0, 2)


def test_models_that_are_right_about_other_images_are_compared_given_that_they_were():
    data = greys(*GREYS[:6])
    rows = []
    for name, model in (("a", Brightness()), ("b", Brighter())):
        outcome = probe(model, data, epsilons={"linf": [0.06]})
        own = score(outcome, "success_given_correct", "linf", "untargeted", 0.06)
        rows.append(items_of(name, outcome.items, own))
        assert own.value == pytest.approx(rows[-1].credit.sum() / own.n)
    first, second = rows
    found = compare(first, second, higher_is_better=False)
    values = [float(one.formula(one.values.sum(0))) for one in rows]
    assert found.difference == pytest.approx(values[0] - values[1])
    assert first.values[:, 1].sum() != second.values[:, 1].sum()


def test_a_model_that_is_never_right_is_skipped_before_any_attack():
    (test,) = greys(0.1, 0.2).splits.values()
    wrong = Split({"image": test["image"], "label": value_column([1, 1])})
    why = "classifies none of 2 images correctly, so there is nothing to attack"
    with pytest.raises(CannotDo, match=why):
        probe(Brightness(), Data(splits={"test": wrong}, classes=["dark", "bright"]))


def test_at_epsilon_0_success_is_one_minus_clean_accuracy_exactly():
    outcome = probe(SmallNet(), noise(50), epsilons={"linf": [0], "l2": [0]})
    clean = score(outcome, "clean_accuracy").value
    found = values(outcome)
    assert found["linf", "untargeted", 0.0] == found["l2", "untargeted", 0.0] == 1 - clean


def test_a_model_that_cannot_decide_scores_chance_under_every_attack():
    data, sizes = noise(12, classes=4), {"linf": [0, 0.1], "l2": [0.5]}
    outcome = probe(Undecided(), data, epsilons=sizes, steps=3)
    assert {k[1]: v for k, v in values(outcome).items()} == {"untargeted": 0.75, "targeted": 0.25}
    assert all(s.value == s.chance for s in outcome.scores if s.chance is not None)
    assert outcome.counts["ties"] == 12 * 5
    assert any("the attack has no gradient to follow," in note for note in outcome.notes)
    given = values(outcome, "success_given_correct")
    assert {k[1]: v for k, v in given.items()} == {"untargeted": 0.75, "targeted": 0.25}


def test_a_model_whose_features_are_all_equal_scores_chance():
    outcome = probe(UndecidedFeatures(), labelled_images(5, 2, 3), steps=3)
    assert score(outcome, "clean_accuracy").value == pytest.approx(1 / 3)
    assert values(outcome)["linf", "untargeted", 0.1] == pytest.approx(2 / 3)
    assert values(outcome)["linf", "targeted", 0.1] == pytest.approx(1 / 3)


@pytest.fixture
def runs(monkeypatch):
    """The predictions on every image after each attack, by norm, goal and epsilon."""
    done, predictions = {}, AttackRun.predictions

    def remembered(self, attack):
        done[attack and attack[:3]] = found = predictions(self, attack)
        return found

    monkeypatch.setattr(AttackRun, "predictions", remembered)
    return done


def by_foolbox(model, data, norm, goal, epsilon):
    """Return which images fall of batches of 10 fall where foolbox is called itself."""
    (split,) = data.splits.values()
    pixels = torch.stack([model.preprocess(image) for image in split["image"]])
    right = torch.tensor(list(split["label"]))
    net = nn.Module()
    net.forward = model.logits
    known = foolbox.PyTorchModel(net.eval(), bounds=(0, 1), device=pixels.device)
    kind = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[norm]
    attack = kind(steps=20, rel_stepsize=0.1, random_start=True)
    fallen = []
    for number, (x, y) in enumerate(zip(pixels.split(10), right.split(10), strict=True)):
        away = foolbox.criteria.Misclassification(y)
        towards = foolbox.criteria.TargetedMisclassification((y + 1) % len(data.classes))
        parts = digest([0, norm, goal, epsilon, number])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(parts.removeprefix("sha256:")[:15], 16))
            criterion = away if goal == "untargeted" else towards
            fallen += attack(known, x, criterion, epsilons=epsilon)[2].tolist()
    return fallen


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("epsilon", [0.02, 0.3])
def test_attacks_succeed_on_the_same_images_as_foolbox_called_directly(norm, epsilon, runs):
    model, data = SmallNet(), noise(25)
    outcome = probe(model, data, epsilons={norm: [epsilon]}, steps=20, rel_stepsize=0.1)
    found = {goal: runs.get((norm, goal, epsilon), runs[None]) for goal in GOALS}
    fallen = {goal: by_foolbox(model, data, norm, goal, epsilon) for goal in GOALS}
    assert outcome.counts["ties"] == 0
    assert (1 - found["untargeted"].right).tolist() == fallen["untargeted"]
    assert found["targeted"].target.tolist() == fallen["targeted"]
    assert values(outcome)[norm, "targeted", epsilon] == np.mean(fallen["targeted"])


def test_goals_that_nobody_asked_for_are_not_attacked():
    outcome = probe(Brightness(), greys(*GREYS), goals=["untargeted"])
    assert {at[1] for at in values(outcome)} == {"untargeted"}
    both = values(probe(Brightness(), greys(*GREYS)))
    assert values(outcome).items() < both.items()


def test_success_never_falls_as_epsilon_grows():
    sizes = {"linf": [0, 0.01, 0.05, 0.2], "l2": [0, 0.1, 0.5, 3]}
    found = values(probe(SmallNet(), noise(40), epsilons=sizes, steps=20, rel_stepsize=0.1))
    curves = np.array(list(found.values())).reshape(4, 4)
    assert (np.diff(curves) >= 0).all()
    assert (curves[:, -1] > curves[:, 0]).all()


def test_images_are_drawn_in_the_order_of_the_papers_code(runs):
    whole = noise(30)
    probe(SmallNet(), whole, sample=Sample(12, 42), epsilons={"linf": [0.2]}, steps=5)
    some = runs.copy()
    # np.random.seed(42); np.random.permutation(30)[:12], by NumPy's oldest generator
    rows = [27, 15, 23, 17, 8, 9, 28, 24, 12, 0, 4, 16]
    drawn = Data(splits={"test": whole.splits["test"].select(rows)}, classes=whole.classes)
    probe(SmallNet(), drawn, epsilons={"linf": [0.2]}, steps=5)
    assert all(torch.equal(some[at].right, runs[at].right) for at in runs)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_attack_that_succeeds_in_the_end_succeeds_with_early_stop_too(norm, runs):
    data, params = noise(30), {"epsilons": {norm: [0.05]}, "steps": 20, "rel_stepsize": 0.1}
    full = values(probe(SmallNet(), data, **params))
    at_the_end = {goal: runs[norm, goal, 0.05] for goal in GOALS}
    early = probe(SmallNet(), data, **params, early_stop=True)
    assert values(early) == {}
    stopped = values(early, "success_early_stop")
    assert all(stopped[at] >= full[at] > 0 for at in full)
    assert (runs[norm, "untargeted", 0.05].right <= at_the_end["untargeted"].right).all()
    assert (runs[norm, "targeted", 0.05].target >= at_the_end["targeted"].target).all()


def test_each_score_says_what_it_takes_to_judge_it():
    outcome = probe(Brightness(), greys(*GREYS[:6]), epsilons={"linf": [0.06]})
    found = score(outcome, "success", "linf", "untargeted", 0.06)
    assert (found.n, found.chance, found.unit) == (6, 0.5, "fraction")
    assert found.higher_is_better is False
    assert found.ci95 == wilson(2, 6).ci95
    given = score(outcome, "success_given_correct", "linf", "untargeted", 0.06)
    assert (given.chance, given.higher_is_better) == (0.5, False)
    clean = score(outcome, "clean_accuracy")
    assert (clean.chance, clean.floors) == (0.5, {"majority_class": 4 / 6})
    assert clean.higher_is_better is True


SIZES = [[], [0.1, 0.1], [-0.1, 0.1], [0.1, float("nan"), 0.2]]
UNSORTED = r"epsilons of l2 are .*; use some of 0 or more, asc"
GOALS_OF_NONE = [[], ["both"], ["targeted", "targeted"]]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        *(({"epsilons": {"linf": [0.1], "l2": sizes}}, UNSORTED) for sizes in SIZES),
        *(({"goals": goals}, "use some of untargeted, targeted") for goals in GOALS_OF_NONE),
        ({"epsilons": {}}, "no epsilons; give some under linf or l2"),
        ({"epsilons": {"l1": [1]}}, "no norm is named 'l1'; there are linf, l2"),
        ({"target_offset": 4}, "target_offset 4 is a multiple of the 2 classes"),
        ({"steps": 0}, "batch_size 10, steps 0, rel_stepsize 0.025: the first two must be 1 or"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"rel_stepsize": 0.0}, "rel_stepsize 0.0: .* the last above 0"),
    ],
)
def test_what_cannot_be_attacked_with_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        probe(Brightness(), greys(0.1), **params)


@pytest.mark.parametrize("images", [0, 4])
def test_more_images_than_there_are_are_refused(images):
    with pytest.raises(TooFewRows, match=f"the test split has 3 images, {images} requested"):
        probe(Brightness(), greys(0.1, 0.2, 0.3), sample=Sample(images))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"differentiable": False}, "this model has no gradient"),
        ({"ragged": True}, "attacked at one size"),
    ],
)
def test_a_model_that_says_it_cannot_be_attacked_is_skipped_before_any_attack(said, message):
    with pytest.raises(CannotDo, match=message):
        probe(type("Says", (Brightness,), said)(), greys(0.1))


class RootOfNothing(Brightness):
    """Has an infinite gradient: that of the root at 0."""

    def logits(self, pixels):
        return super().logits(pixels) * (pixels * 0).sqrt().sum((1, 2, 3))[:, None]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NoGradient(), r"no gradient reaches the pixels: .* differentiable = Fal"),
        (RootOfNothing(), "the gradient at the pixels is NaN or infinite"),
    ],
)
def test_a_gradient_that_is_cut_off_or_not_finite_is_an_error(model, message):
    with pytest.raises(ValueError, match=message):
        probe(model, greys(0.1))


@pytest.fixture
def lossless(real_data):
    return cifar10(root=real_data / "cifar10_lossless_subset")


@pytest.fixture
def lossy(real_data):
    return image_folder(root=real_data / "cifar10_image_folder")


@pytest.fixture
def robust(real_data):
    file = real_data / "weights/cifar10_resnet_adversarial/resnet2b.pth"
    return adapter("cifar_resnets:ResNet2B")(device=CPU, weights=str(file))


def attacked(model, data, epsilons, sample):
    """Return clean accuracy, accuracies under attack by epsilon, and those of targeted attacks."""
    usual = {"target_offset": 8, "batch_size": 50, "steps": 10, "rel_stepsize": 0.25}
    outcome = probe(model, data, epsilons={"linf": epsilons}, sample=sample, **usual)
    found = values(outcome)
    untargeted = [1 - v for (_, goal, _), v in found.items() if goal == "untargeted"]
    targeted = [v for (_, goal, _), v in found.items() if goal == "targeted"]
    return score(outcome, "clean_accuracy").value, untargeted, targeted


def margin(fraction, n):
    """Return two standard errors of a fraction of n images."""
    return 2 * sqrt(fraction * (1 - fraction) / n)


def test_a_robust_network_is_as_published_on_lossless_images(robust, lossless):
    clean, (same, small, left), towards = attacked(robust, lossless, [0, 1 / 255, RADIUS], None)
    # These images are easier than most, so the fraction left of the 148 that are right is compared.
    assert clean == same == 0.74
    assert left / clean == pytest.approx(ATTACKED / CLEAN, abs=margin(ATTACKED / CLEAN, 148))
    assert clean > small > left
    assert towards == sorted(towards)


def test_a_robust_network_is_as_published_on_lossy_images(robust, lossy):
    clean, (left,), _ = attacked(robust, lossy, [RADIUS], Sample(400))
    assert clean == pytest.approx(CLEAN, abs=margin(CLEAN, 400))
    assert left == pytest.approx(ATTACKED, abs=margin(ATTACKED, 400))


@pytest.mark.parametrize("images", ["lossless", "lossy"])
def test_a_plain_network_loses_nearly_every_image(real_data, images, request):
    file = real_data / "weights/cifar10_resnet_akamaster/resnet20-12fca82f.th"
    plain = adapter("cifar_resnets:ResNet20")(device=CPU, weights=str(file))
    data = request.getfixturevalue(images)
    clean, (left,), (towards,) = attacked(plain, data, [RADIUS], Sample(25))
    assert clean > 0.7
    assert left < 0.05
    assert towards > 0.8
