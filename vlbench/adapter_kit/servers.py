"""Servers that answer JSON with JSON: addresses, requests that are tried again, and what they send.

What is said of a server names neither its address nor the key.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeVar
from urllib.parse import urlsplit

from vlbench import hub
from vlbench.errors import ServerError, SpecError, WeightsError, counted

LOGGER = logging.getLogger(__name__)

# The variable of the environment that holds the key.
KEY = "OPENAI_API_KEY"

# The status that asks for patience; so do all from 500 on.
TOO_MANY_REQUESTS = 429

# The most bytes of an answer that are read, and the most characters of a refusal that are shown.
MOST_BYTES, MOST_SHOWN = 1 << 28, 200

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


def host_of(address: str) -> str:
    """Return the host of an address, and its port if it names one.

    Raises SpecError for anything but http(s)://HOST[:PORT][/PATH].
    """
    try:
        url = urlsplit(address)
        named = url.port is None or bool(url.port)
    except ValueError:
        named = False
    if not named or url.scheme not in {"http", "https"} or not url.hostname or url.query:
        raise SpecError("the address of a server is http(s)://HOST[:PORT]/PATH")
    if url.username is not None:
        raise SpecError(f"the address of a server holds no user or password; ${KEY} is for a key")
    return url.netloc


def require_reachable(address: str) -> None:
    """Raise WeightsError for a server elsewhere if this run is offline, and as `host_of` does."""
    host_of(address)
    # A hub that cannot be reached says nothing about other servers.
    offline = hub.is_offline() and hub.UNREACHED not in os.environ
    if offline and not _is_here(urlsplit(address).hostname or ""):
        how = f"--offline or {hub.VARIABLE}"
        raise WeightsError(f"this run is offline ({how}), and the server is not on this machine")


def _is_here(host: str) -> bool:
    """Return whether a host is the loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server:
    """A server at an address, asked at most `concurrent` things at a time.

    A request may take `timeout` seconds; without an answer, or with the status 429 or 5xx, it is
    made up to `retries` times more, the first after `pause` seconds and each other after twice as
    long as the one before. Redirects are not followed.
    """

    def __init__(
        self, address: str, *, timeout: float, retries: int, pause: float, concurrent: int
    ) -> None:
        if timeout <= 0 or retries < 0 or pause < 0 or concurrent < 1:
            raise SpecError("timeout and concurrent are more than 0, retries and pause 0 or more")
        self._host = host_of(address)
        self._address = address.rstrip("/")
        self._timeout, self._retries, self._pause = timeout, retries, pause
        self._concurrent = concurrent
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._announced: set[str] = set()

    def announce(self, *, images: int = 0, texts: int = 0) -> None:
        """Say on the log that images and texts are about to leave, at the first of each."""
        sent = {"images": images, "texts": texts}
        kinds = {kind for kind, count in sent.items() if count}
        if kinds <= self._announced:
            return
        self._announced |= kinds
        parts = [counted(count, kind[:-1]) for kind, count in sent.items() if count]
        leave = " and ".join(kind for kind in sent if kind in kinds)
        first = " and ".join(parts)
        LOGGER.warning("sending %s of the tasks to %s, at first %s", leave, self._host, first)

    def ask_each(
        self, ask: Callable[[Asked], Answered], several: Sequence[Asked]
    ) -> list[Answered]:
        """Return what `ask` answers to each, some at a time. Raises the first one's error."""
        pool = ThreadPoolExecutor(self._concurrent)
        try:
            futures = [pool.submit(ask, one) for one in several]
            return [future.result() for future in futures]
        finally:
            # After an error, nobody waits for the requests under way.
            pool.shutdown(wait=False, cancel_futures=True)

    def post(self, path: str, asked: Mapping[str, Any]) -> Any:
        """Return the JSON that the server answers. Raises ServerError for any other answer."""
        body = json.dumps(asked).encode()
        for attempt in range(self._retries + 1):
            time.sleep(self._pause * 2 ** (attempt - 1) if attempt else 0)
            try:
                return self._send(path, body)
            except _RetryableError as error:
                why = str(error)
        raise ServerError(f"{path}: {why}, {counted(self._retries + 1, 'time')}")

    def _send(self, path: str, body: bytes) -> Any:
        """Return the answer to one request. Raises _RetryableError if another may do better."""
        key = os.environ.get(KEY)
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        request = urllib.request.Request(f"{self._address}/{path}", body, headers)  # noqa: S310 - http(s), see host_of
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return _read_json(path, answer)
        except urllib.error.HTTPError as error:
            with error:
                why = self._refusal(error)
            if error.code == TOO_MANY_REQUESTS or error.code >= 500:
                raise _RetryableError(why) from None
            raise ServerError(f"{path}: {why}") from None
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            late = isinstance(cause, TimeoutError)
            why = f"no answer within {self._timeout:g} s" if late else f"no answer: {cause!r}"
            raise _RetryableError(self._without_address(why)) from None

    def _refusal(self, error: urllib.error.HTTPError) -> str:
        """Return the status that a server refuses with, and what it says, on one line."""
        if 300 <= error.code < 400:
            return f"the server answers {error.code}, a redirect, which is not followed"
        try:
            text = error.read(MOST_SHOWN * 20).decode("utf-8", "replace")
        except (OSError, HTTPException):
            text = ""
        says = self._without_address(" ".join(text.split()))[:MOST_SHOWN]
        return f"the server answers {error.code}{says and f': {says}'}"

    def _without_address(self, text: str) -> str:
        """Return a text of the server without its address and without the key."""
        url = urlsplit(self._address)
        for part in (os.environ.get(KEY), self._address, url.netloc, url.hostname):
            text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "<hidden>", text) if part else text
        return text


class _RetryableError(Exception):
    """A request that another try may answer."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which could lead what is sent to another host."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request, so that the redirect is an error."""


def _read_json(path: str, answer: HTTPResponse) -> Any:
    """Return the content of an answer. Raises ServerError for one that is no JSON."""
    content = answer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ServerError(f"{path}: the answer has more than {MOST_BYTES:,} bytes")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ServerError(f"{path}: the answer is no JSON") from None
