import warnings
from math import sqrt

import numpy as np
import pytest
import torch
from fakes import Reader, labelled_images
from PIL import Image
from torch import nn

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.digests import digest
from vlbench.engine import Engine
from vlbench.engine.passes import Place
from vlbench.engine.store import Store
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.statistics import wilson
from vlbench.probes.generalization.attacks import runs as runs_module
from vlbench.probes.generalization.attacks.rpgd import GOALS, Attack, perturb
from vlbench.probes.generalization.attacks.runs import Work
from vlbench.probes.generalization.robustness import robustness

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import foolbox

SIDE = 4
GREYS = [0.1, 0.2, 0.3, 0.45, 0.55, 0.7, 0.8, 0.9]


class Brightness(Reader):
    """Names what is brighter than one half class 1: the margin is the distance from one half."""

    def class_names(self):
        return ["dark", "bright"]

    def logits(self, pixels):
        margin = pixels.mean((1, 2, 3)) - 0.5
        return torch.stack([-margin, margin], 1)


class SmallNet(Reader):
    """A convolution and a linear layer, drawn with a seed."""

    def __init__(self, classes=3, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.kernel = torch.randn(8, 3, 3, 3, generator=generator)
        self.weight = torch.randn(classes, 8, generator=generator)
        self.classes = classes

    def class_names(self):
        return [f"class {i}" for i in range(self.classes)]

    def logits(self, pixels):
        inside = nn.functional.conv2d(pixels - 0.5, self.kernel).tanh()
        return inside.mean((2, 3)) @ self.weight.T


class Undecided(Reader):
    """Has the same logits for every image, and a gradient of 0."""

    def class_names(self):
        return [f"class {i}" for i in range(4)]

    def logits(self, pixels):
        return 0.0 * pixels.mean((1, 2, 3), keepdim=True)[:, :, 0, 0].expand(-1, 4) + 0.3


class UndecidedFeatures(Undecided):
    class_names = None

    def encode_images(self, pixels):
        return super().logits(pixels)

    logits = None


class NoGradient(Brightness):
    def logits(self, pixels):
        return super().logits(pixels.detach())


def greys(*values, side=SIDE):
    """Return test images of one grey each: class 1 is brighter than one half."""
    pixels = [np.full((side, side, 3), round(v * 255), np.uint8) for v in values]
    return pictures(pixels, [int(v > 0.5) for v in values], ["dark", "bright"])


def noise(count, classes=3, side=8):
    """Return test images of noise, labelled in turn."""
    pixels = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
    names = [f"class {i}" for i in range(classes)]
    return pictures(pixels, [i % classes for i in range(count)], names)


def pictures(pixels, label, classes):
    stored = [Image.fromarray(p) for p in pixels]
    images = Column(digest([p.tolist() for p in pixels]), "image", stored, range(len(stored)))
    return Data(
        splits={"test": Split({"image": images, "label": value_column(label)})}, classes=classes
    )


def probe(model, data, engine=None, **params):
    usual = {"epsilons": {"linf": [0, 0.1]}, "target_offset": 1, "images": None}
    return robustness(model, data, engine or Engine.for_tests(), **usual | params)


def values(outcome, metric="success"):
    return {tuple(s.at.values()): s.value for s in outcome.scores if s.metric == metric}


def score(outcome, metric, *at):
    (found,) = [s for s in outcome.scores if s.metric == metric and tuple(s.at.values()) == at]
    return found


@pytest.mark.parametrize("goal", ["untargeted", "targeted"])
def test_an_image_falls_where_epsilon_exceeds_its_margin(goal):
    found = values(probe(Brightness(), greys(*GREYS), epsilons={"linf": [0.06, 0.25, 0.5]}))
    assert [found["linf", goal, e] for e in (0.06, 0.25, 0.5)] == [2 / 8, 4 / 8, 1.0]


def test_a_margin_in_l2_is_longer_by_the_root_of_the_number_of_pixels():
    root = sqrt(3 * SIDE**2)
    sizes = [0.06 * root, 0.25 * root]
    found = values(probe(Brightness(), greys(*GREYS), epsilons={"l2": sizes}))
    assert list(found.values()) == [2 / 8, 4 / 8] * 2


def test_what_was_wrong_before_counts_as_fallen_but_not_given_that_it_was_right():
    data = greys(0.1, 0.2, 0.8)
    (test,) = data.splits.values()
    wrong = Split({"image": test["image"], "label": value_column([0, 1, 1])})
    outcome = probe(Brightness(), Data(splits={"test": wrong}, classes=data.classes))
    assert score(outcome, "clean_accuracy").value == pytest.approx(2 / 3)
    assert values(outcome)["linf", "untargeted", 0.1] == pytest.approx(1 / 3)
    given = score(outcome, "success_given_correct", "linf", "untargeted", 0.1)
    assert (given.value, given.n) == (0.0, 2)


def test_at_epsilon_0_success_is_one_minus_clean_accuracy_exactly():
    outcome = probe(SmallNet(), noise(50), epsilons={"linf": [0], "l2": [0]})
    clean = score(outcome, "clean_accuracy").value
    found = values(outcome)
    assert found["linf", "untargeted", 0.0] == found["l2", "untargeted", 0.0] == 1 - clean


def test_a_model_that_cannot_decide_scores_chance_under_every_attack():
    data, sizes = noise(12, classes=4), {"linf": [0, 0.1], "l2": [0.5]}
    outcome = probe(Undecided(), data, epsilons=sizes, steps=3)
    assert {k[1]: v for k, v in values(outcome).items()} == {"untargeted": 0.75, "targeted": 0.25}
    assert all(s.value == s.chance for s in outcome.scores)
    assert outcome.counts["ties"] == 12 * 5
    assert any("descent is blind" in note for note in outcome.notes)
    assert any("no image was classified rightly" in note for note in outcome.notes)


def test_a_model_whose_features_are_all_alike_scores_chance():
    outcome = probe(UndecidedFeatures(), labelled_images(5, 2, 3), steps=3)
    assert score(outcome, "clean_accuracy").value == pytest.approx(1 / 3)
    assert values(outcome)["linf", "untargeted", 0.1] == pytest.approx(2 / 3)
    assert values(outcome)["linf", "targeted", 0.1] == pytest.approx(1 / 3)


@pytest.fixture
def runs(monkeypatch):
    """What each attack did, image by image: by norm, goal and epsilon."""
    done, run = {}, Work.run

    def remembered(self, attack):
        done[attack and attack[:3]] = seen = run(self, attack)
        return seen

    monkeypatch.setattr(Work, "run", remembered)
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
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.3])
def test_the_same_images_fall_as_by_foolbox_called_directly(norm, epsilon, runs):
    model, data = SmallNet(), noise(25)
    outcome = probe(model, data, epsilons={norm: [epsilon]}, steps=20, rel_stepsize=0.1)
    seen = {goal: runs.get((norm, goal, epsilon), runs[None]) for goal in GOALS}
    fallen = {goal: by_foolbox(model, data, norm, goal, epsilon) for goal in GOALS}
    assert outcome.counts["ties"] == 0
    assert (1 - seen["untargeted"].right).tolist() == fallen["untargeted"]
    assert seen["targeted"].target.tolist() == fallen["targeted"]
    assert values(outcome)[norm, "targeted", epsilon] == np.mean(fallen["targeted"])


def test_success_never_falls_as_epsilon_grows():
    sizes = {"linf": [0, 0.01, 0.05, 0.2], "l2": [0, 0.1, 0.5, 3]}
    found = values(probe(SmallNet(), noise(40), epsilons=sizes, steps=20, rel_stepsize=0.1))
    curves = np.array(list(found.values())).reshape(4, 4)
    assert (np.diff(curves) >= 0).all()
    assert (curves[:, -1] > curves[:, 0]).all()


def test_images_are_drawn_in_the_order_of_the_papers_code(runs):
    whole = noise(30)
    probe(SmallNet(), whole, images=12, epsilons={"linf": [0.2]}, steps=5)
    some = runs.copy()
    # np.random.seed(42); np.random.permutation(30)[:12], by NumPy's oldest generator
    rows = [27, 15, 23, 17, 8, 9, 28, 24, 12, 0, 4, 16]
    drawn = Data(splits={"test": whole.splits["test"].select(rows)}, classes=whole.classes)
    probe(SmallNet(), drawn, epsilons={"linf": [0.2]}, steps=5)
    assert all(torch.equal(some[at].right, runs[at].right) for at in runs)


def test_every_batch_size_of_the_engine_gives_the_same():
    data = noise(25)
    found = [
        probe(SmallNet(), data, Engine(Place(torch.device("cpu"), batch_size=size)), steps=5)
        for size in (1, 7)
    ]
    assert found[0] == found[1]


def test_a_call_depends_on_its_seed_and_batch_and_leaves_torchs_generator_alone():
    model, pixels = SmallNet(), torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    state, label = torch.get_rng_state(), torch.tensor([0, 1, 2, 0])
    attack = Attack("linf", "untargeted", 0.1, 1, 0.01, 0)
    first, again = (perturb(model.logits, pixels, label, attack, 3) for _ in range(2))
    other = perturb(model.logits, pixels, label, attack, 4)
    reseeded = perturb(model.logits, pixels, label, attack._replace(seed=1), 3)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, reseeded)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("norm", "length"), [("linf", torch.inf), ("l2", 2)])
@pytest.mark.parametrize("early_stop", [False, True])
def test_no_image_moves_further_than_epsilon_or_out_of_0_to_1(norm, length, early_stop):
    model, pixels = SmallNet(), torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    attack = Attack(norm, "targeted", 0.4, 20, 0.1, 0, early_stop)
    moved = perturb(model.logits, pixels, torch.arange(6) % 3, attack, 0)
    away = torch.linalg.vector_norm((moved - pixels).flatten(1), ord=length, dim=1)
    assert away.max() <= 0.4 * (1 + 1e-5)
    assert away.min() > 0.05
    assert (moved.min() >= 0, moved.max() <= 1) == (True, True)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_image_that_falls_in_the_end_has_fallen_with_early_stop_too(norm, runs):
    data, params = noise(30), {"epsilons": {norm: [0.05]}, "steps": 20, "rel_stepsize": 0.1}
    full = values(probe(SmallNet(), data, **params))
    at_the_end = {goal: runs[norm, goal, 0.05] for goal in GOALS}
    early = probe(SmallNet(), data, **params, early_stop=True)
    assert values(early) == {}
    stopped = values(early, "success_early_stop")
    assert all(stopped[at] >= full[at] > 0 for at in full)
    assert (runs[norm, "untargeted", 0.05].right <= at_the_end["untargeted"].right).all()
    assert (runs[norm, "targeted", 0.05].target >= at_the_end["targeted"].target).all()


def test_with_early_stop_an_image_that_falls_at_the_start_stays_there():
    model, pixels = SmallNet(), torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    wrong = (model.logits(pixels).argmax(1) + 1) % 3
    attack = Attack("linf", "untargeted", 1e-5, 1, 0.1, 0, early_stop=True)
    once = perturb(model.logits, pixels, wrong, attack, 0)
    assert torch.equal(perturb(model.logits, pixels, wrong, attack._replace(steps=50), 0), once)


class Counted(SmallNet):
    """Counts its calls, and breaks after so many."""

    def __init__(self, breaks_after=10**9):
        super().__init__()
        self.calls, self.breaks_after = 0, breaks_after

    def logits(self, pixels):
        self.calls += 1
        if self.calls > self.breaks_after:
            raise RuntimeError("killed")
        return super().logits(pixels)


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    def attack(model):
        store = Store(tmp_path)
        engine = Engine(Place(torch.device("cpu")), store=store, identities={id(model): "a net"})
        return probe(model, noise(30), engine, steps=5)

    killed = Counted(breaks_after=18)  # within the second attack
    with pytest.raises(RuntimeError, match="killed"):
        attack(killed)
    rest, fresh = Counted(), Counted()
    resumed = attack(rest)
    assert resumed == probe(fresh, noise(30), steps=5)
    assert rest.calls == fresh.calls - 3 - 7  # three batches as they are, one attack of 5 steps


@pytest.mark.parametrize("library", ["eagerpy", "foolbox", "torch"])
def test_another_version_of_what_attacks_are_made_with_attacks_anew(library, tmp_path, monkeypatch):
    def attack():
        model, store = Counted(), Store(tmp_path)
        engine = Engine(Place(torch.device("cpu")), store=store, identities={id(model): "a net"})
        probe(model, noise(10), engine, steps=5)
        return model.calls

    monkeypatch.setattr(runs_module, "version", lambda _: "1")
    first, again = attack(), attack()
    monkeypatch.setattr(runs_module, "version", lambda name: "2" if name == library else "1")
    assert again < attack() == first


def test_each_score_says_what_it_takes_to_judge_it():
    outcome = probe(Brightness(), greys(*GREYS[:6]), epsilons={"linf": [0.06]})
    found = score(outcome, "success", "linf", "untargeted", 0.06)
    assert (found.n, found.chance, found.unit, found.higher_is_better) == (
        6,
        0.5,
        "fraction",
        False,
    )
    assert found.ci95 == wilson(2, 6).ci95
    given = score(outcome, "success_given_correct", "linf", "untargeted", 0.06)
    assert (given.chance, given.higher_is_better) == (None, False)
    clean = score(outcome, "clean_accuracy")
    assert (clean.chance, clean.floors, clean.higher_is_better) == (
        0.5,
        {"majority_class": 4 / 6},
        True,
    )


@pytest.mark.parametrize(
    "sizes", [[], [0.2, 0.1], [0.1, 0.1], [-0.1, 0.1], [float("nan")], [0.1, float("nan"), 0.2]]
)
def test_epsilons_that_are_empty_unsorted_or_negative_are_refused(sizes):
    with pytest.raises(ValueError, match=r"epsilons of l2 are .*; wanted some of 0 or more, asc"):
        probe(Brightness(), greys(0.1), epsilons={"linf": [0.1], "l2": sizes})


@pytest.mark.parametrize(
    ("params", "message"),
    [
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
    with pytest.raises(TooFewRows, match=f"the test split has 3 images, {images} asked"):
        probe(Brightness(), greys(0.1, 0.2, 0.3), images=images)


def test_a_model_that_says_it_has_no_gradient_is_skipped_before_any_attack():
    model = Brightness()
    model.differentiable = False
    with pytest.raises(CannotDo, match="no gradient flows through this model, which says"):
        probe(model, greys(0.1))


def test_a_model_that_keeps_each_pictures_size_is_skipped():
    model = Brightness()
    model.ragged = True
    with pytest.raises(CannotDo, match="attacked at one size"):
        probe(model, greys(0.1))


def test_a_model_that_cuts_the_gradient_off_is_found_in_the_first_batch():
    with pytest.raises(
        ValueError, match=r"no gradient reaches the pixels: .* differentiable = Fal"
    ):
        probe(NoGradient(), greys(0.1))


class RootOfNothing(Brightness):
    """Has a slope without end: that of the root at 0."""

    def logits(self, pixels):
        return super().logits(pixels) * (pixels * 0).sqrt().sum((1, 2, 3))[:, None]


def test_a_gradient_that_is_not_finite_is_an_error():
    with pytest.raises(ValueError, match="the gradient at the pixels is NaN or infinite"):
        probe(RootOfNothing(), greys(0.1))
