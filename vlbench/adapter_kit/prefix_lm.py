"""Models that read image and prompt in both directions, and only an answer from left to right.

So reads PaliGemma (arXiv:2407.07726), 1 and 2. What it keeps of an image depends on the text, so
that texts share the image's features alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from vlbench.adapter_kit.prompts import Prompt
from vlbench.adapter_kit.runs import Run, Runner, last_places
from vlbench.errors import CannotDo

# Tokens of one batch: it takes as many prompts as fit, and at least one.
TOKENS = 4096


class PlainPrompt:
    """The image, the start of a text, the question and a newline, as PaliGemma's processor has it.

    An answer is tokenised apart from the prompt, as its processor does with a suffix. Raises
    CannotDo for a tokenizer without a token for the start.
    """

    def __init__(self, processor: Any, name: str) -> None:
        self._processor = processor
        if not processor.tokenizer.bos_token:
            raise CannotDo(f"{name} has no token for the start of a text, which its prompts need")

    def __call__(self, question: str) -> Prompt:
        """Return the question as it is, without a task such as "answer en" before it."""
        image, first = self._processor.image_token, self._processor.tokenizer.bos_token
        read = f"{image}{first}{question}\n"
        return Prompt(read, f"{image}{question}", adds_special=False, blank=None)


class SharedImage(Runner):
    """Runs whole prompts, which share the features of their image."""

    @cached_property
    def _features(self) -> Any:
        return self._model.get_image_features(**self._head.pixels())

    def run(
        self,
        rows: Sequence[Sequence[int]],
        shared: int,
        at_once: int,
        count: int = 1,
        **options: Any,
    ) -> Iterator[Run]:
        """Yield the output for as many rows as fit into `TOKENS`, padded on the right."""
        del shared
        whole = [torch.tensor([*self._head.ids, *row]) for row in rows]
        fitting = max(TOKENS // max(map(len, whole)), 1)
        for texts in torch.split(torch.arange(len(rows)), min(at_once, fitting)):
            part = [whole[i] for i in texts.tolist()]
            lengths = [len(ids) for ids in part]
            kept, last = last_places(lengths, count)
            output = self._model(
                **self._batch(part, torch.tensor(lengths), count - 1),
                logits_to_keep=kept.to(self._model.device),
                use_cache=False,
                **options,
            )
            yield Run(texts.tolist(), output, 0, last)

    def _batch(self, rows: list[Tensor], lengths: Tensor, answered: int) -> dict[str, Any]:
        """Return the inputs of rows of ids, of which the last `answered` are of an answer."""
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        places = torch.arange(ids.shape[1])
        own, asked = (places < ends[:, None] for ends in (lengths, lengths - answered))
        # The processor's token types: 0 for the image and the prompt, 1 for the answer.
        given = {"input_ids": ids, "attention_mask": own.long(), "token_type_ids": (~asked).long()}
        found = self._features
        features = found.pooler_output.expand(len(rows), -1, -1)
        return {name: value.to(self._model.device) for name, value in given.items()} | {
            "mm_encoder_outputs": {"image": type(found)(pooler_output=features)}
        }


def states_of_prompts(model: Any, batch: Mapping[str, Tensor]) -> Any:
    """Return the output of the language model for texts without an image, read as prompts."""
    types = torch.zeros_like(batch["input_ids"])
    return model.base_model(
        **batch, token_type_ids=types, output_hidden_states=True, use_cache=False
    )
