"""Text encoders of transformers, such as BERT (arXiv:1810.04805) and GPT-2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from vlbench.adapter_kit.hugging_face import Checkpoint, require_checkpoint, transformers_object
from vlbench.adapter_kit.text import TextReader, position_limit
from vlbench.adapter_kit.text_layers import TextLayers, TextStates
from vlbench.errors import CannotDo


class HfText(TextLayers):
    """A text encoder: the hidden states of a layer, and its masked-language-model head.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        layer: layer whose hidden states are the vectors: 0 the embeddings, -1 the last as
            transformers returns it (for GPT-2, after the final normalisation).
        pooling: tokens over which a text's vector is the mean: `own` without special tokens, or
            all `attended` with [CLS] and [SEP] (Reimers and Gurevych 2019, section 3;
            arXiv:1908.10084).
        init_seed: seed that draws random weights.
    """

    require_weights = staticmethod(require_checkpoint)

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "bert-base-uncased",
        weights: str = "pretrained",
        revision: str = "main",
        layer: int = -1,
        pooling: Literal["own", "attended"] = "own",
        init_seed: int = 0,
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed)
        config = checkpoint.config
        if config.is_encoder_decoder:
            raise CannotDo(
                f"{checkpoint.name} has an encoder and a decoder; this adapter reads models "
                "with only one of them"
            )
        self.choose_layer(layer, config.num_hidden_layers, checkpoint.name, pooling)
        saved = config.architectures or [""]
        # A checkpoint saved from a bare model has no head; transformers would warn of it at length.
        is_bare = all(name.endswith("Model") for name in saved)
        maskable = type(config) in transformers_object("MODEL_FOR_MASKED_LM_MAPPING")
        masked = maskable and not is_bare
        kind = "AutoModelForMaskedLM" if masked else "AutoModel"
        opened = checkpoint.open(kind, device, dtype, optional_heads=masked)
        self._has_head = masked and opened.has()
        self.model = opened.model if self._has_head else opened.model.base_model
        limit = position_limit(self.model, config)
        self._reader = TextReader(checkpoint.tokenizer(), limit, device)
        self.context_length: int = self._reader.limit
        self.count_tokens = self._reader.count

    def masked_lm(self) -> tuple[Any, Any]:
        """Return the tokenizer and the module with its masked-language-model head."""
        if not self._has_head:
            raise CannotDo("this checkpoint has no masked-language-model head")
        return self._reader.tokenizer, self.model

    def read_texts(self, texts: Sequence[str]) -> TextStates:
        """Return the hidden states of texts, which are cut to the model's limit."""
        batch, spans = self._reader.read(texts)
        output = self.model.base_model(**batch, output_hidden_states=True)
        return TextStates(output, spans, batch["attention_mask"].bool())
