"""The FC captioner of arXiv:2210.09550: an LSTM that reads the image once, before the first word.

It is `newfc` of ImageCaptioning.pytorch, with the same names of weights. The features of the image
are step 0 of a one-layer LSTM whose cell input is the larger of two linear candidates, without tanh
(maxout); dropout acts only on the output. Word 0 begins, ends and pads a caption, and is an
ordinary class of the softmax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, log_softmax

from vlbench.system.threads import all_threads

# Begins, ends and pads a caption.
END = 0

# Words of the longest caption that is decoded.
LONGEST = 20

# Images whose captions are decoded at a time, in fixed batches.
AT_ONCE = 500


class Sizes(NamedTuple):
    """Numbers of image features and of words, and the widths of embeddings and LSTM."""

    features: int
    words: int
    embedding: int
    hidden: int


class State(NamedTuple):
    """Output and cell of the LSTM, each [N, H]."""

    output: Tensor
    cell: Tensor


class Noise(NamedTuple):
    """Random parts of training: probabilities of dropout and of scheduled sampling, 0..1.

    `rng` is on the device of the network.
    """

    rng: torch.Generator
    dropout: float = 0.5
    sampling: float = 0.0

    def thin(self, outputs: Tensor) -> Tensor:
        """Return outputs with dropout."""
        if not self.dropout:
            return outputs
        drawn = torch.rand(outputs.shape, generator=self.rng, device=outputs.device)
        return outputs * (drawn >= self.dropout) / (1 - self.dropout)

    def blur(self, features: Tensor, deviation: float) -> Tensor:
        """Return features with normal noise of a standard deviation."""
        drawn = torch.randn(features.shape, generator=self.rng, device=features.device)
        return features + deviation * drawn

    def draw(self, probabilities: Tensor) -> Tensor:
        """Return a word for each row of probabilities [N, V + 1], int64 [N]."""
        # One random number per row: torch.multinomial draws V + 1, and takes 20 times as long.
        below = probabilities.cumsum(1)
        drawn = torch.rand(
            len(below), 1, generator=self.rng, dtype=below.dtype, device=below.device
        )
        return torch.searchsorted(below / below[:, -1:], drawn, right=True)[:, 0]


# Maps words [...] to their terms of the gates [..., 5 H].
Read = Callable[[Tensor], Tensor]

# Maps the number of a step and the outputs [N, H] before it to its words, int64 [N].
Choose = Callable[[int, Tensor], Tensor]


class Core(nn.Module):
    """Linear maps of input and output to three gates and two cell candidates."""

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        self.i2h = nn.Linear(embedding, 5 * hidden)
        self.h2h = nn.Linear(hidden, 5 * hidden)


class FcCaptioner(nn.Module):
    """The network, with the names of weights of ImageCaptioning.pytorch."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.fc_embed = nn.Linear(sizes.features, sizes.embedding)
        self.embed = nn.Embedding(sizes.words + 1, sizes.embedding)
        self._core = Core(sizes.embedding, sizes.hidden)
        self.logit = nn.Linear(sizes.hidden, sizes.words + 1)

    @property
    def sizes(self) -> Sizes:
        """The widths of the network."""
        words = self.embed.num_embeddings - 1
        return Sizes(
            self.fc_embed.in_features, words, self.embed.embedding_dim, self.logit.in_features
        )

    def forward(self, images: State, words: Tensor, noise: Noise | None = None) -> Tensor:
        """Return the outputs [N, T, H] after each of the words [N, T] that follow the image.

        The first word is END. With noise, at each later step some random rows instead read a word
        drawn from their previous prediction (scheduled sampling, arXiv:1506.03099).
        """
        state, read = images, self._reader(words.numel())
        outputs: list[Tensor] = []
        for step, true in enumerate(read(words).unbind(1)):
            gates = true
            if noise and noise.sampling and step:
                gates = self._mistaken(gates, outputs[-1], noise, read)
            state = self.lstm_step(gates, state)
            outputs.append(noise.thin(state.output) if noise else state.output)
        return torch.stack(outputs, 1)

    def added(self, vectors: Tensor) -> Tensor:
        """Return the terms of vectors [..., E] in the gates, including both biases, [..., 5 H]."""
        return linear(vectors, self._core.i2h.weight, self._core.i2h.bias + self._core.h2h.bias)

    def see(self, features: Tensor) -> State:
        """Return the state after step 0, at which the images' features [N, F] are read."""
        gates = self.added(self.fc_embed(features))
        zero = features.new_zeros(len(features), self.logit.in_features)
        return lstm_state(gates, zero)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """Return the log probabilities of the next word [..., V + 1] for outputs [..., H]."""
        return log_softmax(self.logit(outputs), -1)

    def speak(self, images: State, choose: Choose) -> Tensor:
        """Return captions int64 [N, 20] of the words from `choose`, padded with END."""
        n, device = len(images.output), images.output.device
        word, state = torch.full((n,), END, device=device), images
        going = torch.ones(n, dtype=torch.bool, device=device)
        read = self._reader(n * LONGEST)
        words = torch.full((n, LONGEST), END, device=device)
        for step in range(LONGEST):
            state = self.lstm_step(read(word), state)
            word = choose(step, state.output) * going
            words[:, step] = word
            going = going & (word != END)
            if not going.any():
                break
        return words

    def _reader(self, count: int) -> Read:
        """Return a function from words [...] to their terms in the gates, for `count` words."""
        vectors = self.embed.weight
        if count < len(vectors):
            return lambda words: self.added(embedding(words, vectors))
        # Cheaper if most words occur several times.
        added = self.added(vectors)
        return lambda words: embedding(words, added)

    def _mistaken(self, gates: Tensor, output: Tensor, noise: Noise, read: Read) -> Tensor:
        """Return the terms of rows in the gates; some rows read a predicted word."""
        drawn = torch.rand(len(gates), generator=noise.rng, device=noise.rng.device)
        rows = (drawn < noise.sampling).nonzero()[:, 0]
        with torch.no_grad():
            words = noise.draw(self.log_probabilities(output[rows]).exp())
        return gates.index_put((rows,), read(words))

    def lstm_step(self, read: Tensor, state: State) -> State:
        """Return the state after a step; `read` [N, 5 H] are the input's terms in the gates."""
        gates = torch.addmm(read, state.output, self._core.h2h.weight.T)
        return lstm_state(gates, state.cell)


def lstm_state(gates: Tensor, cell: Tensor) -> State:
    """Return the state from gates [N, 5 H] before the sigmoid, and the previous cell [N, H]."""
    input_gate, forget_gate, output_gate, first, second = gates.chunk(5, 1)
    candidate = torch.maximum(first, second)
    cell = forget_gate.sigmoid() * cell + input_gate.sigmoid() * candidate
    return State(output_gate.sigmoid() * cell.tanh(), cell)


def repeat_states(images: State, times: int) -> State:
    """Return each image's state `times` times in a row."""
    return State(*(part.repeat_interleave(times, 0) for part in images))


def until_end(words: Tensor) -> Tensor:
    """Return which steps of captions [N, T] count: up to the first END, bool [N, T]."""
    before = words[:, :-1] != END
    return torch.cat([torch.ones_like(words[:, :1], dtype=torch.bool), before.cumprod(1) > 0], 1)


def until_all_end(words: Tensor) -> Tensor:
    """Return captions [N, T] without the steps at which all captions have ended."""
    return words[:, : int((words != END).sum(1).max()) + 1]


def words_before(words: Tensor) -> Tensor:
    """Return the previous word of each word of captions [N, T]; END before the first."""
    return torch.cat([torch.full_like(words[:, :1], END), words[:, :-1]], 1)


def word_losses(network: FcCaptioner, outputs: Tensor, words: Tensor) -> Tensor:
    """Return the negative log probability of each counted word of captions [N, T], [M].

    `outputs` [N, T, H] are the outputs before each word. The result concatenates the captions.
    """
    counted = until_end(words)
    logs = network.log_probabilities(outputs[counted])
    return -logs.gather(1, words[counted][:, None])[:, 0]


def caption_loss(
    network: FcCaptioner, seen: State, words: Tensor, noise: Noise | None = None
) -> Tensor:
    """Return the mean loss over all words of captions [N, T], given the states after the images.

    The END of each caption counts as a word; the last column is END.
    """
    return word_losses(network, network(seen, words_before(words), noise), words).mean()


@torch.no_grad()
@all_threads()
def greedy_captions(network: FcCaptioner, features: Tensor) -> Tensor:
    """Return the greedy caption of each image's features [N, F], int64 [N, 20], on the CPU."""
    device = network.logit.weight.device

    def choose(_: int, outputs: Tensor) -> Tensor:
        return torch.argmax(network.logit(outputs), 1)

    parts = [
        network.speak(network.see(part.to(device)), choose).cpu()
        for part in torch.split(features, AT_ONCE)
    ]
    return torch.cat(parts) if parts else torch.empty(0, LONGEST, dtype=torch.int64)


class Rollout(NamedTuple):
    """Greedy captions of B images [B, 20], and sampled captions [N, 20], padded with END.

    Samples of an image are consecutive. Dropout multiplies the outputs of samples by `kept`, [N,
    20, H].
    """

    greedy: Tensor
    sampled: Tensor
    kept: Tensor


@torch.no_grad()
def rollout(network: FcCaptioner, features: Tensor, samples: int, noise: Noise) -> Rollout:
    """Return the greedy caption, without dropout, and `samples` samples per image of [B, F]."""
    n, seen = len(features) * samples, network.see(features)
    kept = seen.output.new_ones(LONGEST, n + len(features), seen.output.shape[1])
    kept[:, :n] = noise.thin(kept[:, :n])

    def choose(step: int, outputs: Tensor) -> Tensor:
        logits = network.logit(outputs * kept[step])
        return torch.cat([noise.draw(logits[:n].softmax(1)), logits[n:].argmax(1)])

    both = zip(repeat_states(seen, samples), seen, strict=True)
    words = network.speak(State(*map(torch.cat, both)), choose)
    return Rollout(words[n:], words[:n], kept[:, :n].transpose(0, 1))


def sample_losses(network: FcCaptioner, features: Tensor, captions: Rollout) -> Tensor:
    """Return the negative log probability of each word of the sampled captions of [B, F], [M]."""
    words = until_all_end(captions.sampled)
    images = repeat_states(network.see(features), len(words) // len(features))
    outputs = network(images, words_before(words)) * captions.kept[:, : words.shape[1]]
    return word_losses(network, outputs, words)


def reward_loss(losses: Tensor, captions: Rollout, rewards: Tensor) -> Tensor:
    """Return REINFORCE's loss of words [M], for the reward [N] of each sampled caption.

    It is the mean of reward times negative log probability over all words of the batch, including
    the END of each caption (arXiv:1612.00563, averaged as in ImageCaptioning.pytorch).
    """
    words = until_end(captions.sampled).sum(1)
    return (losses * rewards.to(losses).repeat_interleave(words)).mean()
