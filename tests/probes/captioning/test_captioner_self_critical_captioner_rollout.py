"""REINFORCE's gradient by hand, against the original code's and against autograd's."""

import pytest
import torch
from ported import near
from safetensors.torch import load_file
from torch.nn.functional import pad

from vlbench.probes.captioning.captioner_files import drawn_captioner, empty_captioner
from vlbench.probes.captioning.captioner_network import (
    END,
    LONGEST,
    Noise,
    Sizes,
    greedy_captions,
    repeated,
    until_end,
)
from vlbench.probes.captioning.captioner_self_critical import deltas, reward_gradients, rollout

SIZES = Sizes(features=4, words=7, embedding=5, hidden=6)
SEVERAL = 3


class Planned:
    """Noise without dropout, whose words are those of captions [N, T]."""

    def __init__(self, captions):
        self._steps = iter(captions.T)

    def thin(self, outputs):
        return outputs

    def draw(self, _):
        return next(self._steps)


class Kept:
    """Noise that keeps what a rollout kept."""

    sampling = 0

    def __init__(self, said):
        self._steps = iter(said.kept)

    def thin(self, outputs):
        return outputs * next(self._steps)


@pytest.fixture
def network():
    """A captioner of 7 words that ends at once now and then, in float64."""
    found = drawn_captioner(SIZES, torch.Generator().manual_seed(0)).double()
    found.embed.weight.data *= 10
    found.logit.bias.data[END] = 1
    return found


def images(n=5):
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def noise(dropout=0.5, seed=2):
    return Noise(torch.Generator().manual_seed(seed), dropout)


def by_hand(network, features, said, rewards):
    return reward_gradients(network, features, said, deltas(network, said), rewards)


def loss_of(network, features, said, rewards):
    """Return the mean over words of reward times negative log probability."""
    words = said.sampled.T[:, : len(said.errors)]
    several = len(words) // len(features)
    read = pad(words[:, :-1], (1, 0), value=END)
    outputs = network(repeated(network.see(features), several), read, Kept(said))
    logs = network.log_probabilities(outputs).gather(2, words[:, :, None])[:, :, 0]
    return -(logs * rewards[:, None])[until_end(words)].mean()


def test_gradients_of_rewards_are_those_of_the_original(real_data):
    files = real_data / "ports" / "newfc"
    network = empty_captioner(Sizes(features=20, words=60, embedding=24, hidden=32))
    network.load_state_dict(torch.load(files / "weights.pt", weights_only=True))
    golden = {
        k: v
        for f in ("inputs", "outputs")
        for k, v in load_file(files / f"{f}.safetensors").items()
    }
    captions, features = golden["sampled_seq"], golden["fc_feats"]
    said = rollout(network, features, len(captions) // len(features), Planned(captions))
    assert torch.equal(said.sampled.T, captions)
    found = by_hand(network, features, said, golden["rewards"][:, 0])
    assert set(found) == {name for name, _ in network.named_parameters()}
    for name, gradient in found.items():
        near(gradient, golden[f"rl_grad.{name}"])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_of_rewards_are_those_of_autograd(network, dropout):
    said = rollout(network, images(), SEVERAL, noise(dropout))
    lengths = until_end(said.sampled.T).sum(1)
    assert 1 in lengths.tolist()
    assert len(lengths.unique()) > 3
    rewards = torch.linspace(-1, 2, len(lengths), dtype=torch.float64)
    loss_of(network, images(), said, rewards).backward()
    for name, gradient in by_hand(network, images(), said, rewards).items():
        wanted = network.get_parameter(name).grad
        assert wanted.abs().max() > 0
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-12)


def test_captions_that_end_at_once_are_one_step(network):
    network.logit.bias.data[END] = 1e4
    said = rollout(network, images(), SEVERAL, noise())
    assert (len(said.errors), len(said.gates)) == (1, 2)
    assert said.sampled.shape == (LONGEST, 5 * SEVERAL)
    found = by_hand(network, images(), said, torch.ones(15, dtype=torch.float64))
    assert all(gradient.isfinite().all() for gradient in found.values())


def test_a_rollout_says_what_greedy_decoding_says(network):
    said = rollout(network, images(), SEVERAL, noise())
    assert torch.equal(said.greedy.T, greedy_captions(network, images()))


def test_no_word_follows_the_end(network):
    words = rollout(network, images(), SEVERAL, noise()).sampled.T
    assert (words[~until_end(words)] == END).all()


def test_without_a_reward_nothing_moves(network):
    said = rollout(network, images(), SEVERAL, noise())
    found = by_hand(network, images(), said, torch.zeros(15, dtype=torch.float64))
    assert not any(gradient.any() for gradient in found.values())
