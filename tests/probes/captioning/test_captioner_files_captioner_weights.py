import copy

import numpy as np
import pytest
import torch
from ported import near

from vlbench.probes.captioning.captioner_files import (
    drawn_captioner,
    empty_captioner,
    restored,
    spread,
    unscaled,
)
from vlbench.probes.captioning.captioner_network import Sizes, greedy_captions

SIZES = Sizes(features=4, words=7, embedding=5, hidden=6)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def weights(seed=0):
    return drawn_captioner(SIZES, seeded(seed)).state_dict()


def test_a_network_is_drawn_as_the_library_draws_it():
    network = drawn_captioner(Sizes(100, 400, 100, 100), seeded())
    reference = torch.nn.Linear(100, 401)
    for name in ("weight", "bias"):
        found, expected = getattr(network.logit, name), getattr(reference, name)
        assert found.abs().max() <= 0.1
        assert found.std().item() == pytest.approx(expected.std().item(), rel=0.1)
    assert network.embed.weight.std().item() == pytest.approx(1, rel=0.02)


def test_every_weight_is_drawn_from_the_generator():
    one, again, other = weights(), weights(), weights(1)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)


def test_an_empty_network_has_the_sizes_and_draws_nothing():
    before = torch.get_rng_state()
    network = empty_captioner(SIZES)
    assert torch.equal(before, torch.get_rng_state())
    assert network.sizes == SIZES
    # Five parts of the LSTM: three gates and two candidates; one word more for the end.
    assert {name: list(w.shape) for name, w in network.state_dict().items()} == {
        "fc_embed.weight": [5, 4],
        "fc_embed.bias": [5],
        "embed.weight": [8, 5],
        "_core.i2h.weight": [30, 5],
        "_core.i2h.bias": [30],
        "_core.h2h.weight": [30, 6],
        "_core.h2h.bias": [30],
        "logit.weight": [8, 6],
        "logit.bias": [8],
    }


def test_a_network_restored_says_what_the_first_said_and_keeps_weights_of_its_own():
    first, features = drawn_captioner(SIZES, seeded()), torch.rand(9, 4, generator=seeded())
    second = restored(first.state_dict(), SIZES)
    assert torch.equal(greedy_captions(first, features), greedy_captions(second, features))
    second.logit.bias.data += 1
    assert torch.equal(second.logit.bias, first.logit.bias + 1)


def test_weights_that_are_not_the_network_s_are_refused():
    lacking = weights()
    del lacking["logit.bias"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "logit.bias"'):
        restored(lacking, SIZES)
    with pytest.raises(RuntimeError, match=r"size mismatch for fc_embed\.weight"):
        restored(weights(), SIZES._replace(features=3))


def test_mean_and_deviation_are_of_each_feature_and_what_does_not_vary_has_one():
    features = torch.tensor([[1.0, 5.0, 0.0], [3.0, 5.0, 1e-7], [5.0, 5.0, 0.0], [7.0, 5.0, 1e-7]])
    mean, deviation = spread(features)
    near(mean, torch.tensor([4.0, 5.0, 5e-8]))
    # (9 + 1 + 1 + 9) / 4 = 5
    near(deviation, torch.tensor([5**0.5, 1.0, 1.0]))
    assert [float(one) for one in spread(torch.tensor([[2.0]]))] == [2.0, 1.0]


def test_deviations_are_numpy_s_of_the_whole_population():
    features = torch.randn(50, 6, generator=seeded()) * torch.arange(1.0, 7.0) + 3
    mean, deviation = spread(features)
    np.testing.assert_allclose(mean.numpy(), features.numpy().mean(0), rtol=1e-5)
    np.testing.assert_allclose(deviation.numpy(), features.numpy().std(0), rtol=1e-5)


def test_unscaled_weights_see_in_features_what_these_see_in_standardised_ones():
    features = torch.randn(9, 4, generator=seeded()) * torch.tensor([3.0, 0.1, 20.0, 0.0]) + 7
    mean, deviation = spread(features)
    given = weights()
    kept = copy.deepcopy(given)
    plain = restored(unscaled(given, mean, deviation), SIZES)
    near(plain.see(features), restored(given, SIZES).see((features - mean) / deviation))
    assert all(torch.equal(given[name], kept[name]) for name in given)


def test_numbers_scale_every_feature_alike():
    first = torch.tensor([[2.0, 4.0], [6.0, 8.0]])
    given = {"fc_embed.weight": first, "fc_embed.bias": torch.tensor([10.0, 20.0]), "other": first}
    found = unscaled(given, 3.0, 2.0)
    assert found["fc_embed.weight"].tolist() == [[1, 2], [3, 4]]
    # Less three times the sums, which are 3 and 7.
    assert found["fc_embed.bias"].tolist() == [1, -1]
    assert found["other"] is first
