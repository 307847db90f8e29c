"""Models behind an OpenAI-compatible API, such as those that vLLM, llama.cpp and ollama serve."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.images import images_of
from vlbench.adapter_kit.servers import Server, require_reachable
from vlbench.capabilities import Picture
from vlbench.errors import ServerError, SpecError

# The question of hf_vlm, which is that of VQAScore. Lin et al. 2024, arXiv:2404.01291, section 3.
QUESTION = 'Does this figure show "{}"? Please answer Yes or No.'

# What APIs of this kind list at most.
TOP = 20

# An answer that is not listed counts as 0 if it can move the score by no more than this.
NEGLIGIBLE = 1e-3

# What tokenizers begin a word with, where a server does not turn it into a blank.
BLANKS = " \t\n▁Ġ"


class OpenAiServer:
    """A model that a server names `served`; its weights are not known.

    `address` is what /chat/completions and /embeddings are added to. `question` has {} in the place
    of a text. A score is the log-odds of `answer` against `against` as the first token, whose
    probabilities are summed over the listed tokens that differ from it in case and blanks alone.

    A picture is sent as PNG in its own size, as often as it has texts. Requests may take `timeout`
    seconds, and are made up to `retries` times more; see `vlbench.adapter_kit.servers.Server`.
    """

    require_weights = staticmethod(require_reachable)
    # Whoever serves may change the weights, so that nothing computed with them is kept.
    is_served = True
    score_kind = "logit"
    differentiable = False

    def __init__(  # noqa: PLR0913 - models.yaml fills them by name
        self,
        *,
        device: torch.device,
        served: str,
        address: str,
        question: str = QUESTION,
        answer: str = "Yes",
        against: str = "No",
        timeout: float = 120.0,
        retries: int = 6,
        pause: float = 1.0,
        concurrent: int = 8,
    ) -> None:
        if question.count("{}") != 1:
            raise SpecError(f"question '{question}' needs {{}} once, in the place of the text")
        self.served = served
        self._question, self._answers = question, (answer, against)
        self._device = device
        self._server = Server(
            address, timeout=timeout, retries=retries, pause=pause, concurrent=concurrent
        )

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return float32 [N], the log-odds of the answer's share of both answers' probabilities.

        Raises ServerError where the server lists no log-probabilities, or not those that tell.
        """
        images = images_of(pictures)
        different = {id(image): image for image in images}
        self._server.announce(images=len(different), texts=len(texts))
        urls = {key: _data_url(image) for key, image in different.items()}
        pairs = [(urls[id(image)], text) for image, text in zip(images, texts, strict=True)]
        scores = self._server.ask_each(self._score, pairs)
        return torch.tensor(scores, dtype=torch.float32, device=self._device)

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the server's embeddings, float32 [N, D]."""
        self._server.announce(texts=len(texts))
        asked = {"model": self.served, "input": list(texts), "encoding_format": "float"}
        vectors = _embeddings(self._server.post("embeddings", asked), len(texts))
        return torch.tensor(vectors, dtype=torch.float32, device=self._device)

    def _score(self, pair: tuple[str, str]) -> float:
        """Return the score of one picture, as a data URL, and one text."""
        url, text = pair
        content = [
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": self._question.replace("{}", text)},
        ]
        asked = {
            "model": self.served,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": TOP,
        }
        listed = _list_tokens(self._server.post("chat/completions", asked))
        return log_odds(listed, *self._answers)


def log_odds(listed: Sequence[tuple[str, float]], answer: str, against: str) -> float:
    """Return the log-odds of an answer, by the log-probabilities of the likeliest tokens.

    An answer that is not listed has at most the smallest probability that is, and counts with it:
    the log-odds are then at least as far from 0. Raises ServerError if that leaves the probability
    open by more than NEGLIGIBLE, and if neither answer is listed.
    """
    yes, no = (_log_sum(listed, word) for word in (answer, against))
    tokens = ", ".join(repr(token) for token, _ in listed[:5])
    asked = f"asked was for '{answer}' or '{against}'; the likeliest first tokens are {tokens}"
    if yes is None and no is None:
        raise ServerError(f"neither answer is among the {len(listed)} tokens listed: {asked}")
    least = min(log for _, log in listed)
    if yes is None or no is None:
        open_by = _sigmoid(least - (no if yes is None else yes))
        if open_by >= NEGLIGIBLE:
            lacking = answer if yes is None else against
            what = f"'{lacking}' is not among the {len(listed)} tokens listed"
            raise ServerError(f"{what}, which leaves the score open by {open_by:.2g}: {asked}")
    return (least if yes is None else yes) - (least if no is None else no)


def _log_sum(listed: Sequence[tuple[str, float]], word: str) -> float | None:
    """Return the log of the summed probabilities of a word's variants; None if none is listed."""
    logs = [log for token, log in listed if _bare(token) == _bare(word)]
    if not logs:
        return None
    most = max(logs)
    return most + math.log(sum(math.exp(log - most) for log in logs))


def _bare(token: str) -> str:
    return token.strip(BLANKS).casefold()


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _list_tokens(answer: Any) -> list[tuple[str, float]]:
    """Return the likeliest first tokens of an answer, with their log-probabilities."""
    try:
        (first, *_) = answer["choices"][0]["logprobs"]["content"]
        listed = [(one["token"], float(one["logprob"])) for one in first["top_logprobs"]]
    except (KeyError, IndexError, TypeError, ValueError):
        listed = []
    if not listed or not all(isinstance(token, str) and log <= 1e-3 for token, log in listed):
        what = f"asked were log-probabilities of the {TOP} likeliest first tokens"
        raise ServerError(f"chat/completions: {what}; the answer has {_shape_of(answer)}")
    # A log-probability of minus infinity is a probability of 0.
    return [(token, max(log, -1e4)) for token, log in listed]


def _shape_of(answer: Any) -> str:
    """Return what an answer has in place of log-probabilities, in a few words."""
    try:
        logs = answer["choices"][0].get("logprobs", "none")
    except (KeyError, IndexError, TypeError, AttributeError):
        return "no choices"
    return "no logprobs" if logs == "none" else f"logprobs: {logs!r:.80}"


def _embeddings(answer: Any, count: int) -> list[list[float]]:
    """Return the vectors of an answer in the order of the texts. Raises ServerError."""
    asked = f"embeddings: asked were {count}"
    try:
        vectors = {one["index"]: one["embedding"] for one in answer["data"]}
        lengths = {len(vector) for vector in vectors.values()}
        numbers = [value for vector in vectors.values() for value in vector]
        whole = len(answer["data"]) == count
    except (KeyError, IndexError, TypeError):
        raise ServerError(f"{asked}; the answer has no data of that form") from None
    if not whole or vectors.keys() != {*range(count)}:
        raise ServerError(f"{asked}; the answer has {len(answer['data'])}, or other indices")
    if len(lengths) != 1 or 0 in lengths:
        raise ServerError(f"{asked}; the answer has vectors of {len(lengths)} lengths, or empty")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in numbers):
        raise ServerError(f"{asked}; the answer has values that are no finite numbers")
    return [vectors[i] for i in range(count)]


def _data_url(image: Image) -> str:
    file = BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
