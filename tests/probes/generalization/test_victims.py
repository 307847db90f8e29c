import pytest
import torch
from attack_fakes import Brightness, SmallNet, greys, noise
from fakes import ReadsTheLabel, labelled_images
from scoring import with_scores
from torch import nn

from vlbench.data.records import Data, labels
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store
from vlbench.errors import CannotDo, TooFewRows
from vlbench.probes.generalization import transfer as transfer_probe
from vlbench.probes.generalization.rpgd import Attack, Descent
from vlbench.probes.generalization.victims import (
    AttackBatch,
    AttackRun,
    Victim,
    find_victim,
    pixels_of,
)

transfer = with_scores(transfer_probe.transfer)

PIXELS = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))


class Own(ReadsTheLabel):
    """Has a classifier with names, and features."""

    def __init__(self, names=("cat", "dog", "eel"), logits=None):
        super().__init__()
        self.names, self.count = names, logits or len(names)

    def class_names(self):
        if self.names[0] == "":
            raise CannotDo("nobody knows")
        return self.names

    def logits(self, pixels):
        return pixels.flatten(1)[:, : self.count]


class Headless(Own):
    """One class for many checkpoints, of which this has no head."""

    def logits(self, pixels):
        raise CannotDo("this checkpoint has no classification head")


class ClassifierAlone:
    preprocess, class_names = Own.preprocess, Own.class_names
    logits, names = Headless.logits, ("cat",)


def animals(*counts, names=("cat", "dog", "eel")):
    return labelled_images(*(counts or (20, 20, 20)), classes=names)


def find(model, data):
    return find_victim(model, data, Engine.for_tests(), PIXELS, seed=0)


def test_a_classifier_of_the_datas_classes_is_attacked_itself():
    victim = find(Own(), animals())
    assert torch.equal(victim.logits(PIXELS), PIXELS.flatten(1)[:, :3])
    assert victim.notes == ["the attack is on the model's own classifier"]


def test_its_outputs_are_put_in_the_order_of_the_datas_classes():
    victim = find(Own(("eel", "cat", "dog")), animals())
    assert torch.equal(victim.logits(PIXELS), PIXELS.flatten(1)[:, [1, 2, 0]])
    assert victim.notes[1] == "outputs and classes are paired by name, not by position"


def test_logits_of_another_shape_are_refused_with_it():
    flat = type("Flat", (Own,), {"logits": lambda _, pixels: pixels.mean((1, 2, 3))})
    with pytest.raises(ValueError, match=r"logits have shape \[3\]; they must be \[N, C\]"):
        find(flat(), animals())


@pytest.mark.parametrize("model", [ReadsTheLabel(), Headless()])
def test_a_model_without_a_classifier_gets_the_head_that_transfer_trains(model):
    data = animals()
    victim = find(model, data)
    assert "a linear head, trained on the unscaled features of 60 train images:" in victim.notes[0]
    assert victim.notes[1].startswith("20 steps of Adam move a weight by about 0.02 at most: ")
    right = torch.arange(3).repeat_interleave(20)
    pixels = torch.stack([model.preprocess(image) for image in data.splits["test"]["image"]])
    (choice,) = victim.choices(pixels, right)
    scores = transfer(model, data, Engine.for_tests()).scores
    assert float(choice.credit.mean()) == scores[0].value
    features = model.encode_images(pixels)
    by_torch = nn.functional.linear(features, victim.head["weight"], victim.head["bias"])
    torch.testing.assert_close(victim.logits(pixels), by_torch)


def test_without_train_images_there_is_no_head_to_learn():
    data = Data(splits={"test": animals().splits["test"]}, classes=["cat", "dog", "eel"])
    with pytest.raises(CannotDo, match="no classification head, and the data have no train images"):
        find(Headless(), data)
    with pytest.raises(CannotDo, match="has no classifier, and the data have no train images"):
        find(ReadsTheLabel(), data)


def test_a_checkpoint_with_neither_head_nor_features_says_what_it_lacks():
    with pytest.raises(CannotDo, match="this checkpoint has no classification head"):
        find(ClassifierAlone(), animals())


def test_a_class_without_train_images_is_named():
    data = labelled_images(5, 0, 4, test=[1, 2, 3], classes=["cat", "dog", "eel"])
    with pytest.raises(TooFewRows, match="class 'dog' has 2 test images, but no train image"):
        find(ReadsTheLabel(), data)


ATTACK = Attack("linf", "untargeted", 0.1, Descent(5, 0.3), 0)


def batches(data, size, classes):
    """Return batches of test images, whose target is the next class."""
    images, right = data.splits["test"]["image"], torch.from_numpy(labels(data.splits["test"]))
    parts = torch.arange(len(images)).split(size)
    return [
        AttackBatch(i, images.select(part.tolist()), right[part], (right[part] + 1) % classes)
        for i, part in enumerate(parts)
    ]


def predictions(model, store, attack=ATTACK):
    place = ComputeSettings(torch.device("cpu"))
    engine = Engine(place, store=store, identities={id(model): "a net"})
    victim = Victim(model.logits, None, "")
    return AttackRun(model, victim, batches(noise(30), 10, 3), engine).predictions(attack)


@pytest.mark.parametrize(
    ("greys_of", "attack", "right"),
    [((0.1, 0.8, 0.6), None, [1, 1, 1]), ((0.1, 0.8, 0.55), ATTACK, [1, 1, 0])],
)
def test_an_attack_changes_what_lies_within_epsilon_and_none_changes_nothing(
    greys_of, attack, right
):
    model, data = Brightness(), greys(*greys_of)
    run = AttackRun(model, Victim(model.logits, None, ""), batches(data, 2, 2), Engine.for_tests())
    found = run.predictions(attack)
    assert found.right.tolist() == right
    assert found.target.tolist() == [1 - one for one in right]
    assert not found.tied.any()


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


def test_a_killed_attack_resumes_at_the_batch_where_it_was(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        # foolbox takes 5 steps and looks at the result, as the run does: 7 calls per batch.
        predictions(Counted(breaks_after=9), Store(tmp_path))
    rest, fresh = Counted(), Counted()
    resumed, expected = predictions(rest, Store(tmp_path)), predictions(fresh, None)
    assert all(torch.equal(a, b) for a, b in zip(resumed, expected, strict=True))
    assert (rest.calls, fresh.calls) == (14, 21)


def test_a_stored_attack_is_not_run_again_and_another_is(tmp_path):
    predictions(Counted(), Store(tmp_path))
    again, other = Counted(), Counted()
    predictions(again, Store(tmp_path))
    predictions(other, Store(tmp_path), ATTACK._replace(seed=1))
    assert (again.calls, other.calls) == (0, 21)


def test_pixels_of_a_batch_are_the_preprocessed_images():
    (batch,) = batches(greys(0.2, 0.4), 2, 2)
    pixels = pixels_of(Brightness(), batch, Engine.for_tests())
    assert pixels.mean((1, 2, 3)).tolist() == pytest.approx([0.2, 0.4])
