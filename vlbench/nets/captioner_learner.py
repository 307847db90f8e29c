"""A captioner with its optimizer: what both of its stages share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vlbench.nets.captioner import FcCaptioner
from vlbench.nets.states import on_cpu


class Learner:
    """A network on a device, Adam, and a random generator; gradients are cut by value."""

    def __init__(
        self, network: FcCaptioner, device: torch.device, *, clip: float, seed: int
    ) -> None:
        """Take over the network."""
        self.network = network.to(device)
        self.device = device
        self.rng = torch.Generator(device).manual_seed(seed)
        self._adam = torch.optim.Adam(self.network.parameters(), fused=True)
        self._clip = clip

    def shuffled(self, n: int) -> Tensor:
        """Return the numbers below n in random order, on the CPU."""
        return torch.randperm(n, generator=self.rng, device=self.device).cpu()

    def descend(self, loss: Tensor, rate: float) -> None:
        """Do one step down a loss at a learning rate."""
        self._adam.zero_grad()
        torch.autograd.backward(loss)
        self._step(rate)

    def follow(self, gradients: Mapping[str, Tensor], rate: float) -> None:
        """Do one step against the gradient by each weight at a learning rate."""
        for name, weight in self.network.named_parameters():
            weight.grad = gradients[name]
        self._step(rate)

    def _step(self, rate: float) -> None:
        for group in self._adam.param_groups:
            group["lr"] = rate
        nn.utils.clip_grad_value_(self.network.parameters(), self._clip)
        self._adam.step()

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the weights, on the CPU."""
        return {k: value.cpu().clone() for k, value in self.network.state_dict().items()}

    def state(self) -> dict[str, Any]:
        """Return all that the steps to come depend on, on the CPU."""
        adam = on_cpu(self._adam.state_dict())
        return {"weights": self.weights(), "adam": adam, "rng": self.rng.get_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become as it was when `state` was returned."""
        self.network.load_state_dict(state["weights"])
        self._adam.load_state_dict(state["adam"])
        self.rng.set_state(state["rng"])
