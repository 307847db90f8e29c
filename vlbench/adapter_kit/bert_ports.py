"""Published networks of BERT layers for which transformers has no class.

An adapter builds its network from parts of transformers, under the names of the original file::

    port = BertPort(architecture, revision, weights, source, init_seed)
    state = read_state_dict(port.file) if port.file else {}
    network = port.open(lambda: Network(port.config), state, device, dtype)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vlbench.adapter_kit.hugging_face import Checkpoint
from vlbench.adapter_kit.weights import UNREADABLE, load_weights, seeded, weights_file
from vlbench.errors import CannotDo, WeightsError

# The argument that takes a folder with the configuration and the tokenizer.
INSTEAD = "architecture=FOLDER"


class Encoded(NamedTuple):
    """Hidden states [N, L, D] after each layer, and attention [N, heads, L, L] in each."""

    states: list[Tensor]
    attentions: list[Tensor]


class BertPort:
    """The sources of a network's configuration, tokenizer and weights.

    The configuration and the tokenizer are a BERT's: `architecture` is a name on the hub, at
    `revision`, or a folder. `weights` is the file of the original code, or "random" (drawn with
    `seed` as in BERT). `source` is the place from which the file can be downloaded.
    """

    def __init__(
        self, architecture: str, revision: str, weights: str, source: str, seed: int
    ) -> None:
        self.file = _file(weights, source)
        checkpoint = Checkpoint(architecture, revision=revision, instead=INSTEAD)
        self.config: Any = checkpoint.config
        if self.config.model_type != "bert":
            what = f"{architecture} is a model of type {self.config.model_type}"
            raise CannotDo(f"{what}; this adapter reads type bert")
        # Only eager attention returns its weights.
        self.config._attn_implementation = "eager"  # noqa: SLF001 - the library's own name for it
        self.tokenizer = checkpoint.tokenizer
        self._name = architecture
        self._seed = seed

    def open(
        self,
        make: Callable[[], nn.Module],
        state: Mapping[str, Any],
        device: torch.device,
        dtype: torch.dtype,
    ) -> Any:
        """Return a frozen network in evaluation mode, with the weights of a state dict or a seed.

        Raises WeightsError for weights that are missing, unexpected or of another shape, and for a
        configuration from which no network can be built.
        """
        with seeded(self._seed):
            try:
                network = make()
            except UNREADABLE as error:
                raise WeightsError(
                    f"{self._name} does not describe a network that this adapter can build: {error}"
                ) from error
            if not self.file:
                _draw(network, self.config.initializer_range)
        if self.file:
            load_weights(network, state, self.file)
        return network.eval().requires_grad_(requires_grad=False).to(device, dtype)


def require_port(architecture: str, revision: str, weights: str, source: str) -> None:
    """Raise WeightsError if files of a `BertPort` are neither here nor available; read nothing."""
    _file(weights, source)
    Checkpoint(architecture, "random", revision, instead=INSTEAD).require_here()


def _file(weights: str, source: str) -> Path | None:
    hint = f"where to get it: {source or 'the authors'}; give its path as weights=PATH"
    return None if weights == "random" else weights_file(weights, hint)


def bert_part(name: str, config: Any) -> Any:
    """Return a part of transformers' BERT, such as "BertEmbeddings"."""
    # The import takes seconds, so it happens only when a model is loaded.
    from transformers.models.bert import modeling_bert  # noqa: PLC0415

    return getattr(modeling_bert, name)(config)


def bert_layers(config: Any) -> nn.ModuleList:
    """Return the layers of a BERT."""
    return nn.ModuleList(bert_part("BertLayer", config) for _ in range(config.num_hidden_layers))


def run_layers(layers: Iterable[Any], states: Tensor, mask: Tensor) -> Encoded:
    """Run BERT layers on hidden states [N, L, D]; the mask [N, L] is 1 at tokens, else 0."""
    hidden = hide(mask, states.dtype)
    encoded = Encoded([], [])
    for layer in layers:
        attended, weights = layer.attention(states, hidden)
        states = layer.feed_forward_chunk(attended)
        encoded.states.append(states)
        encoded.attentions.append(weights)
    return encoded


def hide(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the addend to attention logits, [N, 1, 1, L], for a mask [N, L] of 0 and 1.

    It is -10000 where the mask is 0, as in BERT's original code.
    """
    return (mask[:, None, None].to(dtype) - 1) * 10000


def _draw(network: nn.Module, std: float) -> None:
    """Draw the weights of a network as BERT does: biases are 0, all others are normal."""
    for part in network.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
