"""How generative models of each type are asked about an image, and what the texts of it share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from vlbench.adapter_kit.chat_prompts import ChatTemplate
from vlbench.adapter_kit.image_tokens import LAYOUTS
from vlbench.adapter_kit.prefix_lm import PlainPrompt, SharedImage, states_of_prompts
from vlbench.adapter_kit.prompts import Prompt
from vlbench.adapter_kit.runs import OneByOne, Runner
from vlbench.adapter_kit.shared_prefix import SharedPrefix

# Types that read a prompt in both directions.
PREFIX_LM = frozenset({"paligemma"})

# Types that were tried: what they keep of an image does not depend on the text after it.
CAUSAL = frozenset(LAYOUTS) - PREFIX_LM


class Family(NamedTuple):
    """The format of prompts, what runs them, and what reads a batch of texts without an image.

    `tokenizer` are options of the tokenizer that reads these.
    """

    form: Callable[[Any, str], Callable[[str], Prompt]]
    runner: type[Runner]
    states: Callable[[Any, Mapping[str, Tensor]], Any]
    tokenizer: Mapping[str, Any]


def family(kind: str) -> Family:
    """Return how models of a type are asked; of a type that was not tried, each prompt alone."""
    if kind in PREFIX_LM:
        return Family(PlainPrompt, SharedImage, states_of_prompts, {"add_bos_token": True})
    return Family(ChatTemplate, SharedPrefix if kind in CAUSAL else OneByOne, _states, {})


def _states(model: Any, batch: Mapping[str, Tensor]) -> Any:
    """Return the output of the language model for texts, read from left to right."""
    return model.get_decoder()(**batch, output_hidden_states=True, use_cache=False)
