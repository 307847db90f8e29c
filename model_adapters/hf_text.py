"""Text encoders of the library transformers: BERT (arXiv:1810.04805), GPT-2 and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
)

from vlbench.adapter_kit.hugging_face import Source, draw_model, fast_tokenizer
from vlbench.adapter_kit.text import token_span
from vlbench.capabilities import TokenVectors
from vlbench.errors import CannotDo, SpecError

# The limit of a model that has none.
UNLIMITED = 2**20


class HfText:
    """A text encoder: the hidden states of a layer, and its masked-language-model head.

    `architecture` is a name of the hub, at `revision`, or a folder in the library's own format.
    `weights` is "pretrained" (the architecture's own), a folder in its place, or "random", drawn
    with `init_seed`. `layer` is whose hidden states are the vectors: -1 the last, as the library
    gives it (of GPT-2 after the final normalisation), 0 the embeddings.
    """

    def __init__(  # noqa: PLR0913 - models.yaml fills them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "bert-base-uncased",
        weights: str = "pretrained",
        revision: str = "main",
        layer: int = -1,
        init_seed: int = 0,
    ) -> None:
        source = Source(architecture, weights, revision)
        config = source.load(AutoConfig)
        if config.is_encoder_decoder:
            raise CannotDo(
                f"{source.name} has a decoder behind its encoder; one of the two is wanted"
            )
        layers = config.num_hidden_layers
        if not -layers - 1 <= layer <= layers:
            raise SpecError(f"layer {layer} is outside {-layers - 1}..{layers} of {source.name}")
        self.tokenizer = fast_tokenizer(source)
        if weights == "random":
            kind = _kind(config)
            model = draw_model(kind, config, init_seed)
            self._has_head = kind is AutoModelForMaskedLM
        else:
            model, self._has_head = _pretrained(source, config)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._layer = layer
        self._device = device
        limit = getattr(config, "max_position_embeddings", UNLIMITED)
        self.context_length: int = min(self.tokenizer.model_max_length, limit)
        # What stands in for an empty text where the tokenizer adds no special tokens.
        self._nothing: str = "" if self.tokenizer("").input_ids else self.tokenizer.eos_token

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return a vector for each token; a span leaves out the white space around the token."""
        states, spans, _ = self._states(texts)
        kept = [[(i, span) for i, span in enumerate(row) if span] for row in spans]
        return [
            TokenVectors([span for _, span in row], vectors[[i for i, _ in row]])
            for row, vectors in zip(kept, states, strict=True)
        ]

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the mean over the text's own tokens, float32 [N, D].

        A text without tokens is encoded as the mean over its special ones.
        """
        states, spans, attended = self._states(texts)
        own = torch.tensor([[bool(span) for span in row] for row in spans], device=states.device)
        share = torch.where(own.any(1, keepdim=True), own, attended).float()
        return (states * share[..., None]).sum(1) / share.sum(1, keepdim=True)

    def masked_lm(self) -> tuple[Any, Any]:
        """Return the tokenizer and the module with its masked-language-model head."""
        if not self._has_head:
            raise CannotDo("this checkpoint has no masked-language-model head")
        return self.tokenizer, self.model

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones included, before it is cut."""
        return [len(ids) for ids in self.tokenizer(list(texts), verbose=False).input_ids]

    def _states(
        self, texts: Sequence[str]
    ) -> tuple[Tensor, list[list[tuple[int, int] | None]], Tensor]:
        """Return hidden states [N, T, D], each token's span or None, and what is no padding."""
        batch = self.tokenizer(
            [text or self._nothing for text in texts],
            padding=True,
            truncation=True,
            max_length=self.context_length,
            return_attention_mask=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        ).to(self._device)
        offsets = batch.pop("offset_mapping").tolist()
        spans = [
            [token_span(text, *ends) for ends in row]
            for text, row in zip(texts, offsets, strict=True)
        ]
        output = self.model.base_model(**batch, output_hidden_states=True)
        last = self._layer == -1
        states = output.last_hidden_state if last else output.hidden_states[self._layer]
        return states.float(), spans, batch["attention_mask"].bool()


def _kind(config: Any) -> Any:
    return AutoModelForMaskedLM if type(config) in MODEL_FOR_MASKED_LM_MAPPING else AutoModel


def _pretrained(source: Source, config: Any) -> tuple[Any, bool]:
    """Return a model, and whether the checkpoint has its masked-language-model head.

    Raises WeightsError for weights that the checkpoint lacks, which the library would draw.
    """
    kind = _kind(config)
    model, missing = source.load_model(kind, config)
    body = f"{model.base_model_prefix}." if kind is AutoModelForMaskedLM else ""
    source.refuse([key for key in missing if key.startswith(body)])
    has_head = kind is AutoModelForMaskedLM and not missing
    return (model if has_head else model.base_model), has_head
