"""Models behind an OpenAI-compatible API, for example of vLLM, llama.cpp or ollama."""

from __future__ import annotations

import base64
import json
import logging
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.answers import DISTRIBUTION, KeptAnswers, are_log_probabilities
from vlbench.adapter_kit.images import images_of
from vlbench.adapter_kit.servers import (
    ABSENT,
    OF_ONE,
    FilteredError,
    RefusedError,
    Server,
    TimeOverError,
    require_reachable,
)
from vlbench.capabilities import (
    ImageTextScorer,
    NoAnswer,
    Picture,
    TextEncoder,
)
from vlbench.errors import CannotDo, ServerError, SpecError

LOGGER = logging.getLogger(__name__)

# The question of hf_vlm, from VQAScore. Lin et al. 2024, arXiv:2404.01291, section 3.
QUESTION = 'Does this figure show "{}"? Please answer Yes or No.'

CHAT = "chat/completions"

# Statuses for a path that a server does not have.
NO_PATH = {404, 405, ABSENT}

# The reason if there are no scores.
NO_LOGS = "the server lists no log-probabilities of tokens, so it can answer only in words"

# The message if there are log-probabilities, but not as they should be.
NO_FORM = f"{CHAT}: the answer has no log-probabilities of that form"

# The most characters of an answer, and of a token in a message.
MOST_TEXT, MOST_TOKEN = 100_000, 40

# Reasons why there is no answer that are kept: nothing else was said to this question.
REFUSED, FILTER = "refused", "content filter"

# The reason if the server ended an answer by an error.
BROKEN_OFF = "broken off by the server"

# A task ends if this many requests in a row fail, since the next ones would fail, too.
MOST_FAILURES = 5

# Reasons why servers end an answer: by a filter (OpenAI, Gemini, Zhipu, Anthropic), at the limit of
# tokens, or by an error of their own (OpenRouter, vLLM, DeepSeek).
FILTER_ENDS = re.compile(
    r"content_filter|safety|sensitive|refusal|prohibited|blocklist", re.IGNORECASE
)
LIMIT_ENDS, ERROR_ENDS = (
    {"length", "max_tokens"},
    {"error", "abort", "insufficient_system_resource"},
)

# How OpenAI, vLLM and llama.cpp state that a prompt is too long.
TOO_LONG = re.compile(
    r"context.length|context.size|context window|prompt .*too long|maximum model length",
    re.IGNORECASE,
)

# The largest logarithm of servers whose other tokens have probability 0, as after sampling.
ZERO = -9999.0

# An unlisted answer is accepted if its probability is open by less than this.
NEGLIGIBLE = 1e-3

# Prefixes of words in tokenizers, if a server does not convert them to blanks.
BLANKS = " \t\n▁Ġ"


class OpenAiServer:
    """A model that a server names `served`; its weights are not known.

    A score is the log-odds of `answer` against `against` as the first token; their probabilities
    are summed over the listed tokens that differ from them only in case and blanks. The method
    `answer` uses a question unchanged, without `question`.

    A question without an answer costs only itself: a refusal, a filter, an answer without text, a
    prompt that is too long, and a request that fails after all retries, unless MOST_FAILURES fail
    in a row. Statuses that concern every request, such as 401 and 404, end the task.

    Answers in words and scores are cached while the model is loaded, and for later runs under the
    same `--name`, which asserts that the server's model does not change. Of questions without an
    answer, only refusals and filters are cached.

    A picture is sent as PNG in its original size, once per text; the file may contain the
    location where it was taken. Requests are retried as in `vlbench.adapter_kit.servers.Server`.

    Args:
        served: the server's name of the model.
        address: URL to which /chat/completions and /embeddings are added.
        question: question whose answer scores a text, with {} for the text.
        answer: answer, by its first token, whose log-odds are the score.
        against: answer, by its first token, that `answer` is compared with.
        max_new_tokens: most tokens of an answer in words.
        max_completion_tokens: limit of every request, for servers that require this name; None
            sends the older `max_tokens`.
        top_logprobs: number of most probable tokens that the server lists for a score.
        temperature: temperature of sampling; 0 is greedy, None sends no temperature.
        timeout: seconds that a request may take, above 0.
        run_timeout: seconds after the first request in which all are made, above 0; None: no limit.
        retries: how often a failed request is retried, 0 or more.
        pause: seconds before the first retry, 0 or more; doubled each time.
        concurrent: most requests at a time, 1 or more.
    """

    require_weights = staticmethod(require_reachable)
    # The server's owner may change the weights, so nothing computed with them is kept.
    is_served = True
    without_effect = ("timeout", "run_timeout", "retries", "pause", "concurrent")
    score_kind = "logit"
    differentiable = False
    reads_text_alone = True

    def __init__(  # noqa: PLR0913 - models.yaml fills them by name
        self,
        *,
        device: torch.device,
        served: str,
        address: str,
        question: str = QUESTION,
        answer: str = "Yes",
        against: str = "No",
        max_new_tokens: int = 32,
        max_completion_tokens: int | None = None,
        top_logprobs: int = 20,
        temperature: float | None = 0.0,
        timeout: float = 120.0,
        run_timeout: float | None = None,
        retries: int = 6,
        pause: float = 1.0,
        concurrent: int = 8,
    ) -> None:
        if question.count("{}") != 1:
            raise SpecError(f"question '{question}' needs {{}} once, where the text goes")
        self.served = served
        self._question, self._answers = question, (answer, against)
        self._max_new_tokens, self._newer_limit = max_new_tokens, max_completion_tokens
        self._top_logprobs = top_logprobs
        self._temperature = {} if temperature is None else {"temperature": temperature}
        self._known = KeptAnswers()
        self._failures, self._is_told = 0, False
        self._device = device
        self._server = Server(
            address,
            timeout=timeout,
            retries=retries,
            pause=pause,
            concurrent=concurrent,
            run_timeout=run_timeout,
        )

    def keep_answers(self, file: Path) -> None:
        """Cache answers in a file, and use the answers of other runs in it."""
        self._known = KeptAnswers(file, lambda kept: _is_reply(kept) or _is_listing(kept))

    def lacks(self, capability: type) -> str:
        """Send one request; return why the server gives no scores or vectors, empty if it does."""
        try:
            if capability is ImageTextScorer:
                self._tokens_of([{"type": "text", "text": self._question.replace("{}", "a word")}])
            if capability is TextEncoder:
                self._embed(["a word"])
        except CannotDo as error:
            return str(error)
        return ""

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return float32 [N], the log-odds of the answer as a fraction of both probabilities.

        Raises CannotDo if the server lists no log-probabilities, and ServerError if the listed
        tokens do not determine the score.
        """
        images_of(pictures)
        pairs = self._content(pictures, [self._question.replace("{}", text) for text in texts])
        scores = self._server.ask_each(self._score, pairs)
        return torch.tensor(scores, dtype=torch.float32, device=self._device)

    def answer(self, pictures: Sequence[Picture], questions: Sequence[str]) -> list[str | NoAnswer]:
        """Return the model's answers; a picture that has no image is left out of the request.

        Raises ServerError if a request fails for a reason that concerns the others, too.
        """
        return self._server.ask_each(self._answer, self._content(pictures, questions))

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the server's embeddings, float32 [N, D]."""
        self._server.announce(texts=len(texts))
        return torch.tensor(self._embed(texts), dtype=torch.float32, device=self._device)

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        request = {"model": self.served, "input": list(texts), "encoding_format": "float"}
        try:
            answer = self._server.post("embeddings", request)
        except RefusedError as error:
            if error.status in NO_PATH or "support" in str(error):
                raise CannotDo(f"the server encodes no texts: {error}") from error
            raise
        return _embeddings(answer, len(texts))

    def _content(self, pictures: Sequence[Picture], texts: Sequence[str]) -> list[list[Any]]:
        """Return the content of a message for each picture and text. Logs what is sent."""
        pictured = [one for one in pictures if one.image is not None or one.regions is not None]
        images = {id(image): image for image in images_of(pictured)}
        self._server.announce(images=len(images), texts=len(texts))
        parts = {
            key: [{"type": "image_url", "image_url": {"url": _data_url(image)}}]
            for key, image in images.items()
        }
        return [
            [*parts.get(id(picture.image), []), {"type": "text", "text": text}]
            for picture, text in zip(pictures, texts, strict=True)
        ]

    def _score(self, content: list[Any]) -> float:
        listed = self._tokens_of(content)
        self._tell_of_zeros(listed)
        return log_odds(listed, *self._answers)

    def _tokens_of(self, content: list[Any]) -> list[tuple[str, float]]:
        """Return the most likely first tokens of the answer. Raises CannotDo if none are listed."""
        logs = {"logprobs": True, "top_logprobs": self._top_logprobs}
        request = self._request(content, 1) | logs
        listed: list[tuple[str, float]] | None = self._known.find(request, _is_listing)
        if listed is not None:
            return listed
        try:
            answer = self._server.post(CHAT, request)
        except RefusedError as error:
            if "logprobs" in str(error) and "support" in str(error):
                raise CannotDo(f"{NO_LOGS}: {error}") from error
            raise
        listed = _list_tokens(answer, f"{self.served}, asked {content[-1]['text']!r:.80}")
        self._known.keep(request, listed)
        return listed

    def _tell_of_zeros(self, listed: Sequence[tuple[str, float]]) -> None:
        """Warn once if the listed probabilities are 1 and 0, which rank nothing."""
        logs = sorted((log for _, log in listed), reverse=True)
        if not self._is_told and len(logs) > 1 and logs[0] == 0 and logs[1] <= ZERO:
            self._is_told = True
            why = "1 for one token and 0 for the others, as after sampling: scores rank nothing"
            LOGGER.warning("%s: the server lists probabilities of %s", self.served, why)

    def _answer(self, content: list[Any]) -> str | NoAnswer:
        """Return the answer in words, which is requested only once, or why there is none."""
        request = self._request(content, self._max_new_tokens)
        kept = self._known.find(request, _is_reply)
        if kept is not None:
            return kept if isinstance(kept, str) else NoAnswer(**kept)
        try:
            reply = _reply_of(self._server.post(CHAT, request))
        except ServerError as error:
            reply = self._no_answer(error)
        else:
            self._failures = 0
        if isinstance(reply, str):
            self._known.keep(request, reply)
            return reply
        reply = replace(reply, words=self._server.shorten(reply.words))
        if reply.why in {REFUSED, FILTER}:
            self._known.keep(request, asdict(reply))
        return reply

    def _no_answer(self, error: ServerError) -> NoAnswer:
        """Return what an error means for a question. Raises it if it concerns the others, too."""
        if isinstance(error, FilteredError):
            self._failures = 0
            return NoAnswer(FILTER, str(error))
        if isinstance(error, RefusedError):
            if error.status not in OF_ONE:
                raise error
            if TOO_LONG.search(str(error)):
                return NoAnswer("the question does not fit", str(error))
        if not isinstance(error, TimeOverError):
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                raise error
        return NoAnswer("the request failed", str(error), may_pass=True)

    def _request(self, content: list[Any], limit: int) -> dict[str, Any]:
        newer = self._newer_limit
        limits = {"max_tokens": limit} if newer is None else {"max_completion_tokens": newer}
        messages = [{"role": "user", "content": content}]
        return {"model": self.served, "messages": messages, **limits, **self._temperature}


def log_odds(listed: Sequence[tuple[str, float]], answer: str, against: str) -> float:
    """Return the log-odds of an answer, from the log-probabilities of the most likely tokens.

    An unlisted answer has at most the smallest listed probability, which is used for it: the true
    log-odds are then at least as far from 0. Raises ServerError if this leaves the probability
    open by NEGLIGIBLE or more, and if neither answer is listed.
    """
    yes, no = (_log_sum(listed, word) for word in (answer, against))
    tokens = ", ".join(repr(token[:MOST_TOKEN]) for token, _ in listed[:5])
    detail = f"requested: '{answer}' or '{against}'; the likeliest first tokens are {tokens}"
    if yes is None and no is None:
        raise ServerError(f"neither answer is among the {len(listed)} tokens listed: {detail}")
    least = min(log for _, log in listed)
    if yes is None or no is None:
        open_by = _sigmoid(least - (no if yes is None else yes))
        if open_by >= NEGLIGIBLE:
            lacking = answer if yes is None else against
            what = f"'{lacking}' is not among the {len(listed)} tokens listed"
            raise ServerError(f"{what}, which leaves the score open by {open_by:.2g}: {detail}")
    return (least if yes is None else yes) - (least if no is None else no)


def _log_sum(listed: Sequence[tuple[str, float]], word: str) -> float | None:
    """Return the log of the summed probabilities of a word's variants; None if unlisted."""
    logs = [log for token, log in listed if _bare(token) == _bare(word)]
    if not logs:
        return None
    most = max(logs)
    return most + math.log(sum(math.exp(log - most) for log in logs))


def _bare(token: str) -> str:
    return token.strip(BLANKS).casefold()


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _list_tokens(answer: Any, whose: str) -> list[tuple[str, float]]:
    """Return the most likely first tokens of an answer, with their log-probabilities.

    Raises CannotDo if it has no log-probabilities, and ServerError, naming `whose` answer it is,
    for invalid values and for probabilities that sum to more than 1.
    """
    try:
        logs = answer["choices"][0].get("logprobs")
        tokens = logs["content"][0]["top_logprobs"] if logs and logs["content"] else []
        # A log-probability of minus infinity is a probability of 0.
        listed = [(token["token"], max(float(token["logprob"]), -1e4)) for token in tokens]
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
        raise ServerError(f"{NO_FORM}: {whose}") from None
    if not listed:
        raise CannotDo(NO_LOGS)
    if not _is_listing(listed):
        logs = ", ".join(f"{log:.4g}" for _, log in listed[:5])
        raise ServerError(f"{NO_FORM}: {whose}: {logs}; {DISTRIBUTION}")
    return listed


def _is_listing(kept: Any) -> bool:
    """Return whether plain values are tokens with log-probabilities, at least one."""
    try:
        fits = [isinstance(token, str) and log >= -1e4 for token, log in kept]
        logs = [float(log) for _, log in kept]
    except (TypeError, ValueError):
        return False
    return bool(fits) and all(fits) and are_log_probabilities(logs)


def _is_reply(kept: Any) -> bool:
    """Return whether plain values are an answer that may be kept: a text, refusal or filter."""
    if isinstance(kept, str):
        return bool(kept.strip()) and len(kept) <= MOST_TEXT
    form = asdict(NoAnswer(""))
    if not isinstance(kept, dict) or kept.keys() != form.keys():
        return False
    is_whole = isinstance(kept["words"], str) and kept["may_pass"] is False
    return is_whole and kept["why"] in (REFUSED, FILTER)


def _reply_of(answer: Any) -> str | NoAnswer:
    """Return the text of an answer or, if it has none, the reason with the server's words."""
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content"), message.get("refusal")
    except (LookupError, TypeError, AttributeError):
        choice, message, text, refusal = {}, {}, None, None
    end = str(choice.get("finish_reason"))
    thought = message.get("reasoning_content") or message.get("reasoning")
    # An answer without text is shown as it is.
    why, words = "no text", text or json.dumps(choice or answer)
    if refusal:
        why, words = REFUSED, refusal
    elif FILTER_ENDS.search(end):
        why = FILTER
    elif end in ERROR_ENDS:
        why = BROKEN_OFF
    elif isinstance(text, str) and len(text) > MOST_TEXT:
        why, words = "too long an answer", f"{len(text):,} characters: {text}"
    elif isinstance(text, str) and text.strip():
        return text
    elif end in LIMIT_ENDS:
        why = "cut off while thinking" if thought else "cut off before the first word"
        words = f"it needs more max_new_tokens: {thought or words}"
    return NoAnswer(why, str(words), may_pass=why == BROKEN_OFF)


def _embeddings(answer: Any, count: int) -> list[list[float]]:
    """Return the vectors of an answer in the order of the texts. Raises ServerError."""
    what = f"embeddings: {count} requested"
    try:
        rows = answer["data"]
        if not any("index" in row for row in rows):
            rows = [{**row, "index": i} for i, row in enumerate(rows)]
        vectors = {row["index"]: row["embedding"] for row in rows}
        lengths = {len(vector) for vector in vectors.values()}
        numbers = [value for vector in vectors.values() for value in vector]
        whole = len(answer["data"]) == count
    except (KeyError, IndexError, TypeError):
        raise ServerError(f"{what}; the answer has no data of that form") from None
    if not whole or vectors.keys() != {*range(count)}:
        raise ServerError(f"{what}; the answer has {len(answer['data'])}, or wrong indices")
    if len(lengths) != 1 or 0 in lengths:
        raise ServerError(f"{what}; the answer has vectors of {len(lengths)} lengths, or empty")
    most = torch.finfo(torch.float32).max
    if not all(isinstance(value, int | float) and abs(value) <= most for value in numbers):
        raise ServerError(f"{what}; the answer has values that are not finite numbers")
    return [vectors[i] for i in range(count)]


def _data_url(image: Image) -> str:
    file = BytesIO()
    # Pixels only: a profile of colours may contain texts.
    image.save(file, "PNG", icc_profile=None)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
