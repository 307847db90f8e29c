"""Reachability of the hub of weights and data, found by one attempt and not by retries.

The libraries try for 23 to 46 s before they give up. They read the environment variables that stop
them when they are imported, so a run sets these variables first.
"""

from __future__ import annotations

import os
import socket
import threading
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

VARIABLE = "HF_HUB_OFFLINE"
VARIABLES = (VARIABLE, "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
# Set beside them where no user, but a connection that failed, made this process offline.
UNREACHED = "VLBENCH_HUB_UNREACHED"
ENDPOINT = "https://huggingface.co"


def settle(*, offline: bool = False) -> bool:
    """Return whether this process is offline; if so, set the libraries' environment variables.

    `offline` decides, then HF_HUB_OFFLINE, whatever its value. Only without both is a connection
    tried, once.
    """
    if not offline and VARIABLE not in os.environ and not reachable():
        os.environ[UNREACHED] = "1"
        offline = True
    if offline:
        os.environ.update(dict.fromkeys(VARIABLES, "1"))
    return is_offline()


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE says so, as the libraries read it."""
    return os.environ.get(VARIABLE, "").upper() in {"1", "ON", "YES", "TRUE"}


def why_offline() -> str:
    """Return why this process is offline, in words."""
    return "the hub cannot be reached" if UNREACHED in os.environ else "this run is offline"


def reachable(*, seconds: float = 3.0) -> bool:
    """Return whether HF_ENDPOINT, or the proxy on the way to it, takes a connection in time."""
    connected = threading.Event()
    # A thread, because looking up a name obeys no time limit, and each of many addresses its own.
    attempt = threading.Thread(target=_connect, args=(connected, seconds), daemon=True)
    attempt.start()
    attempt.join(seconds)
    return connected.is_set()


def _connect(connected: threading.Event, seconds: float) -> None:
    with suppress(OSError), socket.create_connection(_address(), timeout=seconds):
        connected.set()


def _address() -> tuple[str, int]:
    """Return the host and port to knock at."""
    url = urlsplit(os.environ.get("HF_ENDPOINT") or ENDPOINT)
    proxy = urllib.request.getproxies().get(url.scheme)
    if proxy and not urllib.request.proxy_bypass(url.netloc):
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
