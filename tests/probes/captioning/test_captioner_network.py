import json

import pytest
import torch
from ported import near
from safetensors.torch import load_file
from torch.nn.functional import pad

from vlbench.probes.captioning.captioner_files import draw_captioner, empty_captioner
from vlbench.probes.captioning.captioner_network import (
    END,
    LONGEST,
    Noise,
    Sizes,
    State,
    caption_loss,
    greedy_captions,
    lstm_state,
    repeat_states,
    reward_loss,
    rollout,
    sample_losses,
    until_end,
)
from vlbench.probes.captioning.captioner_training import CaptionerTraining, CrossEntropy

CPU = torch.device("cpu")
SIZES = Sizes(features=4, words=7, embedding=5, hidden=6)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def newfc(real_data):
    """What ImageCaptioning.pytorch got and gave, and its network."""
    files = real_data / "ports" / "newfc"
    network = empty_captioner(Sizes(features=20, words=60, embedding=24, hidden=32))
    network.load_state_dict(torch.load(files / "weights.pt", weights_only=True))
    inputs, outputs = (load_file(files / f"{what}.safetensors") for what in ("inputs", "outputs"))
    return network, inputs | outputs


def taught(network, golden):
    """Return the images, each twice, and the words of two captions of each."""
    return repeat_states(network.see(golden["fc_feats"]), 2), golden["labels"].flatten(0, 1)


def test_log_probabilities_are_those_of_the_original(newfc):
    network, golden = newfc
    images, words = taught(network, golden)
    found = network.log_probabilities(network(images, words[:, :-1]))
    counted = golden["masks"].flatten(0, 1)[:, 1:] > 0
    near(found[counted], golden["teacher_forced_logprobs"][counted])
    assert torch.equal(until_end(words[:, 1:]), counted)


def test_loss_and_gradients_of_captions_are_those_of_the_original(newfc):
    network, golden = newfc
    images, words = taught(network, golden)
    loss = caption_loss(network, images, words[:, 1:])
    near(loss, golden["lm_loss_mean"][0])
    loss.backward()
    for name, weight in network.named_parameters():
        near(weight.grad, golden[f"lm_grad.{name}"])


def test_one_step_of_training_is_that_of_the_original(newfc):
    network, golden = newfc
    learner = CaptionerTraining(network, CPU, clip=0.1, seed=0, count=1, images=1)
    images, words = taught(network, golden)
    learner.descend(caption_loss(network, images, words[:, 1:]), rate=5e-4)
    for name, weight in network.named_parameters():
        near(weight, golden[f"after_one_step.{name}"])
    images, words = taught(network, golden)
    near(caption_loss(network, images, words[:, 1:]), golden["lm_loss_after_one_step"][0])


def log_probabilities(network, golden, captions):
    """Return the log probabilities of the words of captions, 0 after the first END."""
    several = len(captions) // len(golden["fc_feats"])
    images = repeat_states(network.see(golden["fc_feats"]), several)
    outputs = network(images, pad(captions[:, :-1], (1, 0), value=END))
    logs = network.log_probabilities(outputs).gather(2, captions[:, :, None])[:, :, 0]
    return logs * until_end(captions)


def test_greedy_captions_are_those_of_the_original(newfc):
    network, golden = newfc
    found = greedy_captions(network, golden["fc_feats"])
    assert torch.equal(found, golden["greedy_seq"])
    near(log_probabilities(network, golden, found), golden["greedy_token_logprobs"])


def test_log_probabilities_of_samples_are_those_of_the_original(newfc):
    network, golden = newfc
    found = log_probabilities(network, golden, golden["sampled_seq"])
    near(found, golden["sample_token_logprobs"])
    assert torch.equal(until_end(golden["sampled_seq"]), golden["reward_mask"] > 0)


def test_rates_and_sampling_are_those_of_the_original(real_data):
    schedule = json.loads((real_data / "ports" / "newfc" / "schedules.json").read_text())["fc.yml"]
    plan = CrossEntropy()
    assert [plan.rate_in(e) for e in range(32)] == pytest.approx([one["lr"] for one in schedule])
    found = [plan.sampling_in(e) for e in range(32)]
    assert found == pytest.approx([one["ss_prob"] for one in schedule])


def test_the_cell_takes_the_larger_of_two_candidates_without_tanh():
    gates = torch.tensor([[0.3, -0.2, 0.7, -1.5, 2.5]])
    state = lstm_state(gates, torch.tensor([[4.0]]))
    input_gate, forget_gate, output_gate = gates[0, :3].sigmoid()
    near(state.cell, (forget_gate * 4 + input_gate * 2.5).view(1, 1))
    near(state.output, (output_gate * state.cell.tanh()).view(1, 1))


def test_steps_count_up_to_the_first_end():
    words = torch.tensor([[3, 0, 0], [0, 0, 0], [1, 2, 4]])
    expected = [[True, True, False], [True, False, False], [True, True, True]]
    assert until_end(words).tolist() == expected


def test_a_caption_of_no_words_ends_at_once_and_one_without_end_at_twenty():
    network = draw_captioner(SIZES, seeded())
    network.logit.bias.data[0] = 1e4
    assert greedy_captions(network, torch.rand(2, 4)).tolist() == [[0] * LONGEST] * 2
    network.logit.bias.data[:2] = torch.tensor([-1e4, 1e4])
    assert greedy_captions(network, torch.rand(2, 4)).tolist() == [[1] * LONGEST] * 2
    assert greedy_captions(network, torch.rand(0, 4)).shape == (0, LONGEST)


def test_no_draw_touches_torchs_own_generator():
    before = torch.get_rng_state()
    network = draw_captioner(SIZES, seeded())
    noise = Noise(seeded(), dropout=0.5, sampling=0.5)
    network(network.see(torch.rand(3, 4, generator=seeded())), torch.ones(3, 5).long(), noise)
    rollout(network, torch.zeros(3, 4), 2, noise)
    assert torch.equal(before, torch.get_rng_state())


def test_dropout_leaves_the_mean_and_drops_its_share():
    thinned = Noise(seeded(), dropout=0.25).thin(torch.ones(400, 400))
    assert float((thinned == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(thinned.mean()) == pytest.approx(1, abs=0.01)


def test_scheduled_sampling_reads_the_networks_own_words_after_the_first_step():
    network = draw_captioner(SIZES, seeded())
    network.logit.bias.data[3] = 1e4
    images = network.see(torch.rand(2, 4, generator=seeded()))
    true, own = torch.tensor([[0, 5, 6]] * 2), torch.tensor([[0, 3, 3]] * 2)
    always = Noise(seeded(), dropout=0.0, sampling=1.0)
    near(network(images, true, always), network(images, own))
    near(network(images, true, always._replace(sampling=0.0)), network(images, true))


def test_samples_follow_the_predicted_probabilities_row_by_row():
    probabilities = torch.tensor([[0.1, 0.0, 0.2, 0.7, 0.0]]).expand(20_000, 5)
    drawn = Noise(seeded()).draw(probabilities).bincount(minlength=5) / 20_000
    torch.testing.assert_close(drawn, probabilities[0], atol=0.01, rtol=0)
    assert drawn[[1, 4]].tolist() == [0, 0]
    certain = torch.eye(7)[[3, 0, 6, 6, 2]]
    assert Noise(seeded()).draw(certain).tolist() == [3, 0, 6, 6, 2]
    assert Noise(seeded()).draw(certain[:0]).tolist() == []


def test_the_loss_is_the_mean_over_words_not_over_captions():
    network = draw_captioner(SIZES, seeded())
    words = torch.tensor([[1, 2, 3, 0], [4, 0, 0, 0]])
    images = network.see(torch.rand(2, 4, generator=seeded()))
    logs = network.log_probabilities(network(images, torch.tensor([[0, 1, 2, 3], [0, 4, 0, 0]])))
    each = [logs[0, t, w] for t, w in enumerate((1, 2, 3, 0))] + [logs[1, 0, 4], logs[1, 1, 0]]
    near(caption_loss(network, images, words), -torch.stack(each).mean())


def test_repeated_images_stay_neighbours():
    state = State(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]]))
    assert repeat_states(state, 2).cell.flatten().tolist() == [3, 3, 4, 4]


class Planned:
    """Noise without dropout, whose words are those of captions [N, T]."""

    def __init__(self, captions):
        self._steps = iter(captions.T)

    def thin(self, outputs):
        return outputs

    def draw(self, _):
        return next(self._steps)


def test_gradients_of_rewards_are_those_of_the_original(newfc):
    network, golden = newfc
    captions, features = golden["sampled_seq"], golden["fc_feats"]
    said = rollout(network, features, len(captions) // len(features), Planned(captions))
    assert torch.equal(said.sampled, captions)
    losses = sample_losses(network, features, said)
    reward_loss(losses, said, golden["rewards"][:, 0]).backward()
    for name, weight in network.named_parameters():
        near(weight.grad, golden[f"rl_grad.{name}"])


@pytest.fixture
def brief():
    """A captioner of 7 words that ends at once now and then, in float64."""
    found = draw_captioner(SIZES, seeded()).double()
    found.embed.weight.data *= 10
    found.logit.bias.data[END] = 1
    return found


FEATURES = torch.randn(5, 4, generator=seeded(1), dtype=torch.float64)


def test_each_word_up_to_the_end_counts_with_the_reward_of_its_caption(brief):
    said = rollout(brief, FEATURES, 3, Noise(seeded(2), dropout=0.5))
    rewards = torch.linspace(-1, 2, 15, dtype=torch.float64)
    terms = []
    for i, words in enumerate(said.sampled.tolist()):
        state, word = brief.see(FEATURES[[i // 3]]), END
        for step in range(LONGEST):
            state = brief.lstm_step(brief.added(brief.embed.weight[[word]]), state)
            odds = brief.logit(state.output * said.kept[i, step]).softmax(1)
            word = words[step]
            terms.append(-rewards[i] * odds[0, word].log())
            if word == END:
                break
    assert len({tuple(words) for words in said.sampled.tolist()}) > 5
    near(reward_loss(sample_losses(brief, FEATURES, said), said, rewards), sum(terms) / len(terms))


@pytest.mark.parametrize(("likely", "words"), [(1e4, 1), (-1e4, LONGEST)])
def test_captions_that_end_at_once_have_one_word_and_those_without_an_end_twenty(
    brief, likely, words
):
    brief.logit.bias.data[END] = likely
    said = rollout(brief, FEATURES, 3, Noise(seeded(2)))
    assert said.sampled.shape == (15, LONGEST)
    assert sample_losses(brief, FEATURES, said).shape == (15 * words,)


def test_a_rollout_says_what_greedy_decoding_says_and_no_word_follows_the_end(brief):
    said = rollout(brief, FEATURES, 3, Noise(seeded(2)))
    assert torch.equal(said.greedy, greedy_captions(brief, FEATURES))
    assert (said.sampled[~until_end(said.sampled)] == END).all()


def test_without_a_reward_nothing_moves(brief):
    said = rollout(brief, FEATURES, 3, Noise(seeded(2)))
    reward_loss(sample_losses(brief, FEATURES, said), said, torch.zeros(15)).backward()
    assert not any(weight.grad.any() for weight in brief.parameters())
