"""What BERT-gen looks at when it asks: attention of the last layer, averaged over the heads.

arXiv:2002.10832, section "What does the model look at?". A token of the question looks from the
[MASK] that it is predicted at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vlbench.errors import CannotDo
from vlbench.nets.bert_gen import Example
from vlbench.nets.greedy import greedy
from vlbench.probes.question_generation.steps import Asker

# The kinds of what is looked at.
WORD, REGION = "word", "region"


@dataclass(frozen=True)
class AttentionReader:
    """Reads what a network looks at while it asks, image by image."""

    asker: Asker

    def looks(
        self, regions: Sequence[Any], names: Sequence[str], captions: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the question of each image, its tokens, what they look at, and how much.

        `kinds` and `places` say what column k of `weights`, float32 [T, K], is: a word of the
        caption, as a token, or a region, as its number. The attention to [CLS], [SEP] and the
        question itself is left out.
        """
        self.asker.network.module.set_attn_implementation("eager")
        return [self._look(*one) for one in zip(regions, names, captions, strict=True)]

    def _look(self, regions: Any, name: str, caption: str) -> dict[str, Any]:
        asker = self.asker
        (source,) = asker.sources([regions], [name], [caption])
        network, most = asker.network, asker.texts.most
        (tokens_said,) = greedy(network, [source], most)
        said = [*tokens_said, asker.texts.end][:most]
        with torch.no_grad():
            inputs, chosen = network.one_pass([Example(source, said)])
            attentions = network.run(inputs, chosen, output_attentions=True).attentions
        if not attentions:
            kind = type(network.module).__name__
            raise CannotDo(f"{kind} returns no attention")
        weights = attentions[-1][0].mean(0)[chosen[0]].float().cpu()
        count = 0 if source.objects is None else len(source.objects)
        tokens = source.caption or []
        columns = [*range(1, 1 + count), *range(source.length - len(tokens), source.length)]
        told = asker.texts.tokenizer.convert_ids_to_tokens
        return {
            "question": asker.texts.question(tokens_said),
            "tokens": told(said),
            "kinds": [REGION] * count + [WORD] * len(tokens),
            "places": [*map(str, range(count)), *told(list(tokens))],
            "weights": weights[:, columns],
        }


def look_rows(name: str, step: str, look: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row of the table of attention for each token and each thing that it looks at."""
    return [
        {
            "id": name,
            "step": step,
            "question": look["question"],
            "token": t,
            "token_text": token,
            "kind": kind,
            "column": k,
            "text": place,
            "weight": float(look["weights"][t, k]),
        }
        for t, token in enumerate(look["tokens"])
        for k, (kind, place) in enumerate(zip(look["kinds"], look["places"], strict=True))
    ]
