"""Vectors of texts and tokens from each layer of a language model of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from torch import Tensor

from vlbench.adapter_kit.text import Spans, text_vectors, token_vectors
from vlbench.capabilities import OUTPUT, TokenVectors
from vlbench.errors import SpecError, require_known


class TextStates(NamedTuple):
    """The output of a language model for N texts of up to T tokens.

    `output` has the hidden states [N, T, D] of each layer, the embeddings first, and
    `last_hidden_state`; `attended` is the attention mask, bool [N, T].
    """

    output: Any
    spans: list[Spans]
    attended: Tensor


class TextLayers:
    """The methods of an adapter that reads texts with a language model.

    The adapter defines `read_texts`, and calls `choose_layer`.
    """

    def choose_layer(
        self, layer: int, layers: int, name: str, pooling: Literal["own", "attended"] = "own"
    ) -> None:
        """Set the layer that is the output, from 0 (the embeddings) to -1 (the last).

        A text's vector is the mean over its non-special tokens (`pooling="own"`) or all attended
        tokens. Raises SpecError for a layer that does not exist.
        """
        if not -layers - 1 <= layer <= layers:
            raise SpecError(f"layer {layer} is outside {-layers - 1}..{layers} of {name}")
        self._layer, self._pooling = layer, pooling
        self._before = layer if layer >= 0 else layers + 1 + layer

    def read_texts(self, texts: Sequence[str]) -> TextStates:
        """Return the hidden states of texts."""
        raise NotImplementedError

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the mean over a text's non-special tokens, or all attended, float32 [N, D].

        For an empty text it is the mean over its special tokens.
        """
        return self.encode_texts_at(texts, [OUTPUT])[OUTPUT]

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return a vector per token; a span excludes the white space around the token."""
        return self.encode_tokens_at(texts, [OUTPUT])[OUTPUT]

    def text_layers(self) -> list[str]:
        """Return the layers up to the output in order of depth, `layer0_mean` the embeddings."""
        return [*(f"layer{number}_mean" for number in range(self._before)), OUTPUT]

    def encode_texts_at(self, texts: Sequence[str], layers: Sequence[str]) -> dict[str, Tensor]:
        """Return float32 [N, D] of each requested layer, from one pass."""
        read = self.read_texts(texts)
        spans = read.spans
        if self._pooling == "attended":
            spans = [[None] * len(row) for row in spans]
        return {
            name: text_vectors(states, spans, read.attended)
            for name, states in self._states(read, layers).items()
        }

    def encode_tokens_at(
        self, texts: Sequence[str], layers: Sequence[str]
    ) -> dict[str, list[TokenVectors]]:
        """Return the vectors of each text's tokens at each requested layer, from one pass."""
        read = self.read_texts(texts)
        return {
            name: token_vectors(states, read.spans)
            for name, states in self._states(read, layers).items()
        }

    def _states(self, read: TextStates, layers: Sequence[str]) -> Mapping[str, Tensor]:
        """Return the hidden states float32 [N, T, D] of each requested layer."""
        names = self.text_layers()
        require_known("layer", layers, names)
        return {name: self._state(read.output, names.index(name)).float() for name in layers}

    def _state(self, output: Any, number: int) -> Tensor:
        is_last = number == self._before and self._layer == -1
        # transformers may apply a norm after the last of the hidden states.
        states: Tensor = output.last_hidden_state if is_last else output.hidden_states[number]
        return states
