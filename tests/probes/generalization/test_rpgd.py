import pytest
import torch
from attack_fakes import Brightness, SmallNet

from vlbench.probes.generalization.rpgd import Attack, Descent, gradient, perturb


def test_a_call_depends_on_its_seed_and_batch_and_leaves_torchs_generator_alone():
    model, pixels = SmallNet(), torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    state, label = torch.get_rng_state(), torch.tensor([0, 1, 2, 0])
    attack = Attack("linf", "untargeted", 0.1, Descent(1, 0.01), 0)
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
    attack = Attack(norm, "targeted", 0.4, Descent(20, 0.1, early_stop=early_stop), 0)
    moved = perturb(model.logits, pixels, torch.arange(6) % 3, attack, 0)
    away = torch.linalg.vector_norm((moved - pixels).flatten(1), ord=length, dim=1)
    assert away.max() <= 0.4 * (1 + 1e-5)
    assert away.min() > 0.05
    assert (moved.min() >= 0, moved.max() <= 1) == (True, True)


def test_with_early_stop_an_image_that_is_wrong_at_the_start_stays_there():
    model, pixels = SmallNet(), torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    wrong = (model.logits(pixels).argmax(1) + 1) % 3
    stops = [Descent(steps, 0.1, early_stop=True) for steps in (1, 50)]
    attacks = [Attack("linf", "untargeted", 1e-5, stop, 0) for stop in stops]
    once, often = (perturb(model.logits, pixels, wrong, attack, 0) for attack in attacks)
    assert torch.equal(once, often)


@pytest.mark.parametrize(("goal", "means"), [("targeted", [0.4, 0.6]), ("untargeted", [0.6, 0.4])])
def test_a_targeted_step_goes_towards_the_target_and_an_untargeted_one_away(goal, means):
    pixels, label = torch.full((2, 3, 4, 4), 0.5), torch.tensor([0, 1])
    attack = Attack("linf", goal, 0.1, Descent(5, 0.5), 0)
    moved = perturb(Brightness().logits, pixels, label, attack, 0)
    assert moved.mean((1, 2, 3)).tolist() == pytest.approx(means, abs=1e-6)


def test_the_gradient_is_that_of_the_summed_cross_entropy():
    # The margin is the mean over 48 values; the loss at 0 falls by half a logit difference of 2.
    found = gradient(Brightness().logits, torch.full((1, 3, 4, 4), 0.5), torch.tensor([1]))
    assert found.unique().tolist() == pytest.approx([-1 / 48])
