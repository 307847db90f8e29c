"""Servers with a JSON interface: addresses, requests with retries, and notices of what is sent.

An error names neither the address of a server nor the key.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import re
import socket
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from threading import Thread
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from vlbench.errors import ServerError, SpecError, WeightsError, counted
from vlbench.system import hub

LOGGER = logging.getLogger(__name__)

# The environment variable that contains the key.
KEY = "OPENAI_API_KEY"

# Statuses after which a retry may succeed (timeout, conflict, too many requests); so may every
# status from 500 on except 501, which means that the server does not support the request.
PASSING, ABSENT = {408, 409, 429}, 501

# Statuses that may concern one request only: bad, too large, of another type, unprocessable, or not
# available for legal reasons. A filter may also answer that a request is forbidden.
OF_ONE, FORBIDDEN = {400, 413, 415, 422, 451}, 403

# The most bytes of an answer that are read, the most of an error that are searched, and the most
# characters of an error that are shown.
MOST_BYTES, MOST_READ, MOST_SHOWN = 1 << 28, 4000, 200

# How servers state in an error that a filter of contents stopped a request: OpenAI, Azure, LiteLLM,
# OpenRouter, xAI, DashScope, DeepSeek, Moonshot and Zhipu (1301).
_FILTERS = (
    r"content[ _-]?(filter(?!_error)|policy|management|moderation|exists risk|violates)|"
    r"responsibleaipolicy|data_?inspection_?failed|inappropriate content|requires moderation|"
    r"(prompt|input|request|content) was flagged|safety system|considered high risk|\b1301\""
)
FILTERED = re.compile(
    rf'"(code|type|message|error|detail|finish_reason)"\s*:\s*"(\\.|[^"\\])*?({_FILTERS})',
    re.IGNORECASE,
)

# The longest pause before a retry, and the longest that is not logged, in seconds.
LONGEST_PAUSE, UNLOGGED_PAUSE = 120.0, 10.0

# What is raised if nothing listens at an address, or its host has no number.
NOBODY = (ConnectionRefusedError, socket.gaierror)

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")

# Requests that wait, each with the future of its answer.
Waiting: TypeAlias = "deque[tuple[Future[Any], Any]]"


def host_of(address: str) -> str:
    """Return the host of an address, and its port if the address contains a port.

    Raises SpecError for anything except http(s)://HOST[:PORT][/PATH].
    """
    try:
        url = urlsplit(address)
        named = url.port is None or bool(url.port)
    except ValueError:
        named = False
    if not named or url.scheme not in {"http", "https"} or not url.hostname:
        raise SpecError("a server's address must be http(s)://HOST[:PORT]/PATH")
    if {"?", "#"} & {*address}:
        raise SpecError("a server's address must end with its path; remove ? or # and what follows")
    if url.username is not None:
        raise SpecError(
            f"a server's address must not contain a user or password; put a key in ${KEY}"
        )
    return url.netloc


def require_reachable(address: str) -> None:
    """Raise WeightsError for a remote server if this run is offline, and as `host_of` does."""
    host_of(address)
    # An unreachable hub does not show that other servers are unreachable.
    offline = hub.is_offline() and hub.UNREACHED not in os.environ
    if offline and not _is_here(urlsplit(address).hostname or ""):
        how = f"--offline or {hub.VARIABLE}"
        raise WeightsError(f"this run is offline ({how}), and the server is not on this machine")


def _is_here(host: str) -> bool:
    """Return whether a host is this machine's loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RefusedError(ServerError):
    """A request that the server refuses with a status for which no retry can succeed."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class FilteredError(RefusedError):
    """A request that a filter of contents stopped."""


class TimeOverError(ServerError):
    """A request that is not sent, because the time of the run is over."""


class Server:
    """A server at an address that gets at most `concurrent` requests at a time.

    A request may take `timeout` seconds. If there is no answer, the answer is an error, or its
    status is 408, 409, 429 or 5xx except 501, the request is retried up to `retries` times. The
    first pause is `pause` seconds and each later pause twice as long, or what Retry-After states,
    but at most LONGEST_PAUSE. There is no retry if nothing listens at an address that has never
    answered. No request starts later than `run_timeout` seconds after the first request. Redirects
    are not followed. A server on this machine is reached without a proxy.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float,
        retries: int,
        pause: float,
        concurrent: int,
        run_timeout: float | None = None,
    ) -> None:
        most = math.inf if run_timeout is None else run_timeout
        if min(timeout, most) <= 0 or retries < 0 or pause < 0 or concurrent < 1:
            raise SpecError("timeouts and concurrent must be above 0, retries and pause 0 or more")
        self._host = host_of(address)
        self._address = address.rstrip("/")
        self._timeout, self._retries, self._pause = timeout, retries, pause
        self._concurrent = concurrent
        self._run_timeout, self._end = most, math.inf
        is_here = _is_here(urlsplit(address).hostname or "")
        proxies = [urllib.request.ProxyHandler({})] if is_here else []
        self._opener = urllib.request.build_opener(_AnyStatus, *proxies)
        self._announced: set[str] = set()
        self._has_answered = False
        self._waits_until = 0.0

    def announce(self, *, images: int = 0, texts: int = 0) -> None:
        """Log that images or texts are about to be sent, once for each kind."""
        sent = {"images": images, "texts": texts}
        kinds = {kind for kind, count in sent.items() if count}
        if kinds <= self._announced:
            return
        self._announced |= kinds
        parts = [counted(count, kind[:-1]) for kind, count in sent.items() if count]
        leave = " and ".join(kind for kind in sent if kind in kinds)
        first = " and ".join(parts)
        LOGGER.warning("sending %s of the tasks to %s, first %s", leave, self._host, first)

    def ask_each(
        self, ask: Callable[[Asked], Answered], requests: Sequence[Asked]
    ) -> list[Answered]:
        """Return the answer of `ask` to each, several at a time. Raises the first item's error."""
        waiting: Waiting = deque((Future(), request) for request in requests)
        futures = [future for future, _ in waiting]
        for _ in range(min(self._concurrent, len(requests))):
            _begin(ask, waiting)
        try:
            return [future.result() for future in futures]
        finally:
            # After an interrupt, pending requests are not awaited.
            waiting.clear()

    def post(self, path: str, request: Mapping[str, Any]) -> Any:
        """Return the JSON in the server's answer. Raises ServerError for any other answer."""
        body = json.dumps(request).encode()
        if self._end == math.inf:
            self._end = time.monotonic() + self._run_timeout
        for attempt in range(self._retries + 1):
            if time.monotonic() > self._end:
                why = f"the run_timeout of {self._run_timeout:g} s is over"
                raise TimeOverError(f"{path}: {why}; with --name, the next run resumes here")
            try:
                return self._send(path, body)
            except _RetryableError as error:
                why = str(error)
                # A server that states when to ask again is believed.
                pause = max(error.pause, 0.0) or self._pause * 2.0 ** min(attempt, 60)
            if attempt < self._retries:
                self._wait(min(pause, LONGEST_PAUSE), why)
        raise ServerError(f"{path}: {why}, {counted(self._retries + 1, 'time')}")

    def _wait(self, seconds: float, why: str) -> None:
        """Sleep; log a long pause unless another request has just logged it."""
        now = time.monotonic()
        if seconds > UNLOGGED_PAUSE and now >= self._waits_until:
            self._waits_until = now + seconds
            LOGGER.warning(
                "waiting %.0f s before the next request to %s: %s", seconds, self._host, why
            )
        time.sleep(seconds)

    def _send(self, path: str, body: bytes) -> Any:
        """Return the answer to one request. Raises _RetryableError if a retry may succeed."""
        key = os.environ.get(KEY)
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        request = urllib.request.Request(f"{self._address}/{path}", body, headers)  # noqa: S310 - http(s), see host_of
        future: Future[tuple[int, str, bytes]] = Future()
        # In a thread: a socket's timeout applies to each read, and a slow server restarts it.
        _begin(self._exchange, deque([(future, request)]))
        try:
            status, retry_after, content = future.result(self._timeout)
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            may_pass = getattr(cause, "errno", None) == socket.EAI_AGAIN
            if isinstance(cause, NOBODY) and not (may_pass or self._has_answered):
                why = self._without_address(f"{cause}")
                way = "start the server, or check the address"
                raise ServerError(f"{path}: nothing answers there ({why}); {way}") from None
            late = isinstance(cause, TimeoutError)
            why = f"no answer within {self._timeout:g} s" if late else f"no answer: {cause!r}"
            raise _RetryableError(self._without_address(why)) from None
        self._has_answered = True
        if 300 <= status < 400:
            why = f"the server answered {status}, a redirect, which vlbench does not follow"
            raise RefusedError(f"{path}: {why}", status)
        answer = _parse(content)
        if status < 300 and not (isinstance(answer, dict) and answer.get("error")):
            if answer is None:
                text = self.shorten(_message_of(None, content)) or "empty"
                raise ServerError(
                    f"{path}: the answer is not JSON, but: {text}; check the address, which "
                    "usually ends in /v1"
                )
            return answer
        says = self.shorten(_message_of(answer, content))
        why = f"the server answered {status}{says and f': {says}'}"
        is_own = status < 300 or status in OF_ONE or status == FORBIDDEN
        if is_own and FILTERED.search(content[:MOST_READ].decode(errors="replace")):
            raise FilteredError(f"{path}: {why}", status)
        if status < 300 or status in PASSING or (status >= 500 and status != ABSENT):
            raise _RetryableError(why, _seconds_of(retry_after))
        raise RefusedError(f"{path}: {why}", status)

    def _exchange(self, request: urllib.request.Request) -> tuple[int, str, bytes]:
        """Return the status, the Retry-After header and the content of an answer.

        Raises OSError or HTTPException if it is late or cut off, ServerError if it is too long.
        """
        end = time.monotonic() + self._timeout
        content = bytearray()
        with self._opener.open(request, timeout=self._timeout) as answer:
            while part := answer.read1(1 << 16):
                content += part
                if len(content) > MOST_BYTES:
                    raise ServerError(f"the answer has more than {MOST_BYTES:,} bytes")
                if time.monotonic() > end:
                    raise TimeoutError
            if answer.length:
                raise ConnectionError("the answer is cut off")
            return answer.status, answer.headers.get("Retry-After", ""), bytes(content)

    def shorten(self, text: str) -> str:
        """Return the beginning of a text of the server, in one line, without address and key."""
        return self._without_address(" ".join(text.split()))[:MOST_SHOWN]

    def _without_address(self, text: str) -> str:
        """Return a text of the server with its address and the key hidden."""
        url = urlsplit(self._address)
        for part in (os.environ.get(KEY), self._address, url.netloc, url.hostname):
            text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "<hidden>", text) if part else text
        return text


class _RetryableError(Exception):
    """A request for which a retry may succeed, after a pause of some seconds."""

    def __init__(self, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Returns answers of every status: following a redirect could send data to another host."""

    def http_response(
        self, request: urllib.request.Request, response: HTTPResponse
    ) -> HTTPResponse:
        """Return the answer as it is."""
        del request
        return response

    https_response = http_response


def _begin(ask: Callable[[Any], Any], waiting: Waiting) -> None:
    """Process waiting requests until an error, in a thread that does not outlive the program."""

    def work() -> None:
        while waiting:
            with suppress(IndexError):  # another thread took the last
                future, item = waiting.popleft()
                try:
                    answer = ask(item)
                except BaseException as error:  # noqa: BLE001 - raised where the future is read
                    waiting.clear()
                    future.set_exception(error)
                else:
                    future.set_result(answer)

    Thread(target=work, daemon=True).start()


def _parse(content: bytes) -> Any:
    """Return the JSON of an answer; None if it is not JSON."""
    with suppress(ValueError, RecursionError):
        return json.loads(content)
    return None


def _message_of(answer: Any, content: bytes) -> str:
    """Return the error message, in any of the servers' formats, else the whole text."""
    for key in ("error", "message"):
        answer = answer.get(key, answer) if isinstance(answer, dict) else answer
    return answer if isinstance(answer, str) else content[:MOST_READ].decode(errors="replace")


def _seconds_of(retry_after: str) -> float:
    """Return the seconds from now that Retry-After gives, as a number or a date; else 0."""
    with suppress(ValueError, OverflowError):
        if retry_after.isdigit():
            return int(retry_after)
        return parsedate_to_datetime(retry_after).timestamp() - time.time()
    return 0.0
