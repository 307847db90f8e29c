import pytest
import torch
from attack_fakes import Brightness, SmallNet, greys, noise

from vlbench.data.records import labels
from vlbench.engine import Engine
from vlbench.engine.settings import ComputeSettings
from vlbench.engine.store import Store
from vlbench.probes.generalization.attacks.rpgd import Attack, Descent
from vlbench.probes.generalization.attacks.runs import AttackRun, Batch, pixels_of
from vlbench.probes.generalization.attacks.victims import Victim

ATTACK = Attack("linf", "untargeted", 0.1, Descent(5, 0.3), 0)


def batches(data, size, classes):
    """Return batches of test images, whose target is the next class."""
    test = data.splits["test"]
    right = torch.from_numpy(labels(test))
    starts = range(0, len(test), size)
    rows = [range(start, min(start + size, len(test))) for start in starts]
    return [
        Batch(i, test["image"].select(part), right[list(part)], (right[list(part)] + 1) % classes)
        for i, part in enumerate(rows)
    ]


def predictions(model, store, attack=ATTACK):
    place = ComputeSettings(torch.device("cpu"))
    engine = Engine(place, store=store, identities={id(model): "a net"})
    victim = Victim(model.logits, None, "")
    return AttackRun(model, victim, batches(noise(30), 10, 3), engine).predictions(attack)


def test_without_an_attack_the_images_are_classified_as_they_are():
    model, data = Brightness(), greys(0.1, 0.8, 0.6)
    run = AttackRun(model, Victim(model.logits, None, ""), batches(data, 2, 2), Engine.for_tests())
    found = run.predictions(None)
    assert found.right.tolist() == [1, 1, 1]
    assert found.target.tolist() == [0, 0, 0]
    assert not found.tied.any()


def test_an_attack_changes_what_lies_within_epsilon():
    model, data = Brightness(), greys(0.1, 0.8, 0.55)
    run = AttackRun(model, Victim(model.logits, None, ""), batches(data, 2, 2), Engine.for_tests())
    found = run.predictions(ATTACK)
    assert found.right.tolist() == [1, 1, 0]
    assert found.target.tolist() == [0, 0, 1]


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
