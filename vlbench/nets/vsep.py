"""The visual semantic embedding probe of arXiv:2107.12021: maps region vectors to word vectors.

Two layers, trained on pairs of a region and the word that names it, so that of a batch each region
fits its own word best and each word its own region (symmetric cross-entropy of cosine x exp(t), as
in arXiv:2103.00020, figure 3, with its first t, ln(1 / 0.07), and exp(t) <= 100). As in the
paper, other pairs of the same word count as wrong.
The paper is silent on: the activation (ReLU), weight decay and schedule (none), and whether layer
normalisation learns a scale (it does not: nothing but the two layers maps, and words stay what
they are).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm, normalize

from vlbench.digests import digest
from vlbench.engine import Engine

HIDDEN = 512
LEARNING_RATE = 1e-3
FIRST_SCALE = math.log(1 / 0.07)
MOST_SCALE = 100.0

# Epochs between two checkpoints: what a killed training loses at most.
CHUNK = 50

# Rows mapped at a time.
BLOCK = 1 << 13

State = dict[str, Any]


class Recipe(NamedTuple):
    """How a probe is trained."""

    epochs: int = 200
    batch_size: int = 512
    seed: int = 0
    layer_norm: bool = True


class Probe(nn.Module):
    """Two linear layers with ReLU between, and the logarithm of the scale of similarities."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, HIDDEN)
        self.out = nn.Linear(HIDDEN, words)
        self.scale = nn.Parameter(torch.tensor(FIRST_SCALE))

    def forward(self, regions: Tensor) -> Tensor:
        """Return [N, W] for region vectors [N, D]."""
        mapped: Tensor = self.out(self.hidden(regions).relu())
        return mapped


class Trained(NamedTuple):
    """A trained probe: what maps regions, and whether both sides are normalised by layer."""

    weights: State
    layer_norm: bool

    def directions(self, regions: Tensor) -> Tensor:
        """Return unit vectors float64 [N, W] for region vectors [N, D]."""
        width, words = regions.shape[1], len(self.weights["out.bias"])
        probe = _blank(width, words)
        probe.load_state_dict(self.weights)
        probe.double()
        with torch.no_grad():
            return torch.cat(
                [
                    directions(probe(x.double()), self.layer_norm)
                    for x in torch.split(regions, BLOCK)
                ]
            )


def directions(vectors: Tensor, layer_normed: bool) -> Tensor:
    """Return unit vectors [N, W], after layer normalisation if asked."""
    vectors = layer_norm(vectors, vectors.shape[-1:]) if layer_normed else vectors
    return normalize(vectors, dim=-1)


def train(engine: Engine, regions: Tensor, words: Tensor, recipe: Recipe) -> Trained:
    """Return a probe trained on pairs of region vectors [N, D] and word vectors [N, W].

    The main process trains it; every so many epochs it is stored, so that a killed training goes
    on. Raises ValueError for a recipe without an epoch or a batch.
    """
    if min(recipe.epochs, recipe.batch_size) < 1:
        raise ValueError(f"{recipe}: epochs and batch_size must be 1 or more")
    key = {"what": "visual semantic embedding probe", "pairs": digest([regions, words])}
    setting = recipe._replace(epochs=0)._asdict()
    setting |= {"device": engine.device.type, "torch": torch.__version__}
    state: State = {}
    for start in range(0, recipe.epochs, CHUNK):
        stop = min(start + CHUNK, recipe.epochs)
        span = {"since": start, "epoch": stop}
        state = _kept(engine, key | setting | span, state, (regions, words), recipe)
    return Trained(state["weights"], recipe.layer_norm)


def _kept(
    engine: Engine, key: State, state: State, pairs: tuple[Tensor, Tensor], recipe: Recipe
) -> State:
    """Return the state at the key's epoch, stored or computed from the one before."""
    epochs = key["epoch"] - key["since"]
    found: State = engine.once(key, lambda: advance(state, *pairs, recipe, epochs, engine.device))
    return found


def advance(
    state: State,
    regions: Tensor,
    words: Tensor,
    recipe: Recipe,
    epochs: int,
    device: torch.device,
) -> State:
    """Return the state of a training after so many more epochs; an empty state is its start."""
    rng = torch.Generator().manual_seed(recipe.seed)
    probe = _untrained(regions.shape[1], words.shape[1], rng).to(device)
    adam = torch.optim.Adam(probe.parameters(), lr=LEARNING_RATE)
    if state:
        probe.load_state_dict(state["weights"])
        adam.load_state_dict(state["adam"])
        rng.set_state(state["rng"])
    regions = regions.to(device)
    # Frozen, so normalised once.
    targets = directions(words.to(device), recipe.layer_norm)
    for _ in range(epochs):
        order = torch.randperm(len(regions), generator=rng).to(device)
        for rows in torch.split(order, recipe.batch_size):
            adam.zero_grad()
            torch.autograd.backward(_loss(probe, regions[rows], targets[rows], recipe.layer_norm))
            adam.step()
    weights = {name: value.cpu() for name, value in probe.state_dict().items()}
    return {"weights": weights, "adam": _on_cpu(adam.state_dict()), "rng": rng.get_state()}


def _loss(probe: Probe, regions: Tensor, targets: Tensor, layer_normed: bool) -> Tensor:
    cosines = directions(probe(regions), layer_normed) @ targets.T
    logits = cosines * probe.scale.exp().clamp(max=MOST_SCALE)
    own = torch.arange(len(logits), device=logits.device)
    return (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2


def _untrained(width: int, words: int, rng: torch.Generator) -> Probe:
    """Return a probe as PyTorch initialises linear layers, but drawn from `rng`."""
    probe = _blank(width, words)
    nn.init.constant_(probe.scale, FIRST_SCALE)
    for linear in (probe.hidden, probe.out):
        bound = 1 / math.sqrt(linear.in_features)
        nn.init.uniform_(linear.weight, -bound, bound, generator=rng)
        nn.init.uniform_(linear.bias, -bound, bound, generator=rng)
    return probe


def _blank(width: int, words: int) -> Probe:
    """Return a probe whose numbers are still to be set: torch's global generator is left alone."""
    with torch.device("meta"):
        probe = Probe(width, words)
    return probe.to_empty(device="cpu")


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(item) for key, item in value.items()}
    return [_on_cpu(item) for item in value] if isinstance(value, list) else value
