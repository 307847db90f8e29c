"""Real networks on real pictures: one trained against attacks, and one trained as usual."""

from math import sqrt

import pytest
from cifar_nets import ResNet2B, ResNet20

from vlbench.data.cifar import cifar10
from vlbench.data.image_folder import image_folder
from vlbench.engine import Engine
from vlbench.probes.generalization.robustness import robustness

RADIUS = 2 / 255

# What the README beside ResNet-2B's weights says, of all 10,000 test images.
CLEAN, ATTACKED = 0.6925, 0.5482


@pytest.fixture
def lossless(real_data):
    return cifar10(root=real_data / "cifar10_lossless_subset")


@pytest.fixture
def lossy(real_data):
    return image_folder(root=real_data / "cifar10_image_folder")


@pytest.fixture
def robust(real_data):
    return ResNet2B(real_data / "weights/cifar10_resnet_adversarial/resnet2b.pth")


@pytest.fixture
def plain(real_data):
    return ResNet20(real_data / "weights/cifar10_resnet_akamaster/resnet20-12fca82f.th")


def attacked(model, data, epsilons, images, steps):
    """Return clean accuracy, accuracies under attack by epsilon, and those of targeted attacks."""
    usual = {"target_offset": 8, "batch_size": 50, "rel_stepsize": 2.5 / steps}
    outcome = robustness(
        model,
        data,
        Engine.for_tests(),
        epsilons={"linf": epsilons},
        images=images,
        steps=steps,
        **usual,
    )
    (clean,) = [s.value for s in outcome.scores if s.metric == "clean_accuracy"]
    found = [(s.at["goal"], s.value) for s in outcome.scores if s.metric == "success"]
    return (
        clean,
        [1 - v for goal, v in found if goal == "untargeted"],
        [v for goal, v in found if goal == "targeted"],
    )


def margin(share, n):
    """Return two standard errors of a share of n images."""
    return 2 * sqrt(share * (1 - share) / n)


@pytest.mark.slow
def test_the_robust_network_is_as_published_on_lossless_images(robust, lossless):
    clean, (same, small, left), towards = attacked(robust, lossless, [0, 1 / 255, RADIUS], None, 40)
    # These images are easier than most: what is kept of the 148 that are right compares.
    assert clean == same == 0.74
    assert left / clean == pytest.approx(ATTACKED / CLEAN, abs=margin(ATTACKED / CLEAN, 148))
    assert clean > small > left
    assert towards == sorted(towards)


@pytest.mark.slow
def test_the_robust_network_is_as_published_on_lossy_images(robust, lossy):
    clean, (left,), _ = attacked(robust, lossy, [RADIUS], 600, 40)
    assert clean == pytest.approx(CLEAN, abs=margin(CLEAN, 600))
    assert left == pytest.approx(ATTACKED, abs=margin(ATTACKED, 600))


@pytest.mark.slow
def test_the_plain_network_falls_on_lossless_images(plain, lossless):
    clean, (left,), (towards,) = attacked(plain, lossless, [RADIUS], 50, 20)
    assert clean > 0.85
    assert left < 0.05
    assert towards > 0.8


@pytest.mark.slow
def test_the_plain_network_falls_on_lossy_images(plain, lossy):
    clean, (left,), _ = attacked(plain, lossy, [RADIUS], 50, 20)
    assert clean > 0.7
    assert left < 0.05
