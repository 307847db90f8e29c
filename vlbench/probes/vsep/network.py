"""The visual semantic embedding probe of arXiv:2107.12021: maps region vectors to word vectors.

Two layers, trained on pairs of a region and the word that names it. The loss is the symmetric
cross-entropy over a batch of cosine x exp(t), as in arXiv:2103.00020, figure 3, with its initial t,
ln(1 / 0.07), and exp(t) <= 100: each region should be most similar to its own word, and each word
to its own region. As in the paper, other pairs with the same word count as wrong. Not stated in the
paper: the activation (here ReLU), weight decay and schedule (here none), and whether layer
normalisation learns a scale (here not, so that words keep their vectors and only the two layers
learn).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm, normalize

from vlbench.engine import Engine
from vlbench.engine.training import on_cpu
from vlbench.results import Positive
from vlbench.system.digests import digest
from vlbench.system.threads import all_threads

HIDDEN = 512
LEARNING_RATE = 1e-3
FIRST_SCALE = math.log(1 / 0.07)
MOST_SCALE = 100.0

# Epochs between two checkpoints, the most that a killed training loses.
EPOCHS_PER_CHECKPOINT = 50

# Rows mapped at a time.
BLOCK = 1 << 13

State = dict[str, Any]


class VsepTraining(NamedTuple):
    """How networks are trained; a seed draws the initial weights and the order of pairs.

    There are `seeds` seeds, from `seed` on: a score is the mean over their networks.
    """

    epochs: Positive = 200
    batch_size: Positive = 512
    seed: int = 0
    seeds: Positive = 1


# As in arXiv:2107.12021, which states no seed.
PAPER_TRAINING = VsepTraining()


class RegionWords(NamedTuple):
    """Region vectors [N, D], and the vectors [N, W] of the words that name them."""

    regions: Tensor
    words: Tensor


class VsepNetwork(nn.Module):
    """Two linear layers with ReLU between them, and the log scale of similarities."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, HIDDEN)
        self.out = nn.Linear(HIDDEN, words)
        self.scale = nn.Parameter(torch.tensor(FIRST_SCALE))

    def forward(self, regions: Tensor) -> Tensor:
        """Return [N, W] for region vectors [N, D]."""
        mapped: Tensor = self.out(self.hidden(regions).relu())
        return mapped


class TrainedVsep(NamedTuple):
    """Trained weights, and whether mapped regions and words are layer-normalised."""

    weights: State
    layer_norm: bool

    def directions(self, regions: Tensor) -> Tensor:
        """Return unit vectors float64 [N, W] for region vectors [N, D]."""
        width, words = regions.shape[1], len(self.weights["out.bias"])
        network = _make_empty(width, words)
        network.load_state_dict(self.weights)
        network.double()
        with torch.no_grad():
            return torch.cat(
                [
                    directions(network(x.double()), self.layer_norm)
                    for x in torch.split(regions, BLOCK)
                ]
            )


def directions(vectors: Tensor, layer_normed: bool) -> Tensor:
    """Return unit vectors [N, W], after layer normalisation if `layer_normed`."""
    vectors = layer_norm(vectors, vectors.shape[-1:]) if layer_normed else vectors
    return normalize(vectors, dim=-1)


def train(
    engine: Engine, pairs: RegionWords, training: VsepTraining, *, layer_normed: bool = True
) -> TrainedVsep:
    """Return a network trained on pairs of region and word vectors.

    Only the main process trains: each pair is a negative for all other pairs of its batch, so that
    processes would have to exchange mapped regions and gradients. A step of 512 pairs takes 33 ms
    on a core. The exchange between two processes takes 5 ms, and would save at most half of the
    mapping, 8 ms. Checkpoints are stored, so that a killed training resumes. Raises ValueError for
    less than one epoch, or an empty batch.
    """
    if min(training.epochs, training.batch_size) < 1:
        raise ValueError(f"{training}: epochs and batch_size must be 1 or more")
    engine.trained = True
    key: State = {"what": "visual semantic embedding probe", "pairs": digest(list(pairs))}
    key |= training._replace(epochs=0)._asdict()
    key |= {"layer_norm": layer_normed, "device": engine.device.type}
    state: State = {}
    for start in range(0, training.epochs, EPOCHS_PER_CHECKPOINT):
        stop = min(start + EPOCHS_PER_CHECKPOINT, training.epochs)
        part = training._replace(epochs=stop - start)
        make = partial(advance, state, pairs, part, engine.device, layer_normed=layer_normed)
        state = engine.once(key | {"since": start, "epoch": stop}, make)
    return TrainedVsep(state["weights"], layer_normed)


@all_threads()
def advance(
    state: State,
    pairs: RegionWords,
    training: VsepTraining,
    device: torch.device,
    *,
    layer_normed: bool,
) -> State:
    """Return the checkpoint after the epochs of `training`; an empty state starts the training."""
    rng = torch.Generator().manual_seed(training.seed)
    network = _initialise(pairs.regions.shape[1], pairs.words.shape[1], rng).to(device)
    adam = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True)
    if state:
        network.load_state_dict(state["weights"])
        adam.load_state_dict(state["adam"])
        rng.set_state(state["rng"])
    regions = pairs.regions.to(device)
    # Word vectors are not trained, so they are normalised once.
    targets = directions(pairs.words.to(device), layer_normed)
    for _ in range(training.epochs):
        order = torch.randperm(len(regions), generator=rng).to(device)
        for rows in torch.split(order, training.batch_size):
            adam.zero_grad()
            loss = _loss(network, regions[rows], targets[rows], layer_normed)
            torch.autograd.backward(loss)
            adam.step()
    weights = {name: value.cpu() for name, value in network.state_dict().items()}
    return {"weights": weights, "adam": on_cpu(adam.state_dict()), "rng": rng.get_state()}


def _loss(network: VsepNetwork, regions: Tensor, targets: Tensor, layer_normed: bool) -> Tensor:
    cosines = directions(network(regions), layer_normed) @ targets.T
    logits = cosines * network.scale.exp().clamp(max=MOST_SCALE)
    places = torch.arange(len(logits), device=logits.device)
    return (cross_entropy(logits, places) + cross_entropy(logits.T, places)) / 2


def _initialise(width: int, words: int, rng: torch.Generator) -> VsepNetwork:
    """Return a network with PyTorch's initialisation of linear layers, drawn from `rng`."""
    network = _make_empty(width, words)
    nn.init.constant_(network.scale, FIRST_SCALE)
    for linear in (network.hidden, network.out):
        bound = 1 / math.sqrt(linear.in_features)
        nn.init.uniform_(linear.weight, -bound, bound, generator=rng)
        nn.init.uniform_(linear.bias, -bound, bound, generator=rng)
    return network


def _make_empty(width: int, words: int) -> VsepNetwork:
    """Return a network without values, which leaves torch's global generator unchanged."""
    with torch.device("meta"):
        network = VsepNetwork(width, words)
    return network.to_empty(device="cpu")
