import errno
import hashlib
import os
import socket
import time

import pytest
from hub_mirror import etag
from huggingface_hub import constants

from vlbench.errors import WeightsError
from vlbench.system import hub

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in (*hub.VARIABLES, hub.UNREACHED, "HF_ENDPOINT", *PROXIES, *map(str.upper, PROXIES)):
        monkeypatch.setenv(name, "")  # so that what a test sets is undone after it
        monkeypatch.delenv(name)


@pytest.fixture
def open_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_hub_that_answers_leaves_the_libraries_online(monkeypatch, open_port):
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{open_port}")
    assert not hub.settle()
    assert not any(name in os.environ for name in hub.VARIABLES)


def test_a_hub_that_refuses_sets_all_three_variables_at_once(monkeypatch, closed_port):
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port}")
    began = time.monotonic()
    assert hub.settle()
    assert time.monotonic() - began < 1.0
    assert [os.environ[name] for name in hub.VARIABLES] == ["1", "1", "1"]
    assert hub.why_offline() == "the hub cannot be reached"


def test_a_hub_that_keeps_silent_is_given_up_in_time(monkeypatch):
    gate = hub.threading.Event()
    monkeypatch.setattr(hub.socket, "getaddrinfo", lambda *_, **__: gate.wait(10) and [])
    began = time.monotonic()
    assert not hub.reachable(seconds=0.2)
    assert time.monotonic() - began < 2.0
    gate.set()


def test_offline_by_word_of_the_user_tries_nothing(monkeypatch):
    monkeypatch.setattr(hub, "reachable", lambda: pytest.fail("the hub was tried"))
    assert hub.settle(offline=True)
    assert hub.is_offline()
    assert hub.why_offline() == "this run is offline"


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("yes", True), ("0", False)])
def test_a_variable_that_is_set_already_is_believed(monkeypatch, value, offline):
    monkeypatch.setattr(hub, "reachable", lambda: pytest.fail("the hub was tried"))
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert hub.settle() is offline
    assert os.environ["HF_HUB_OFFLINE"] == value


def test_behind_a_proxy_the_proxy_is_asked(monkeypatch, open_port, closed_port):
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port}")
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{open_port}")
    assert hub.reachable()


def test_a_host_that_needs_no_proxy_is_asked_itself(monkeypatch, open_port, closed_port):
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port}")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{open_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert not hub.reachable()


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("", ("huggingface.co", 443)),
        ("https://mirror.example/hub", ("mirror.example", 443)),
        ("http://mirror.example", ("mirror.example", 80)),
    ],
)
def test_the_port_follows_the_endpoint(monkeypatch, endpoint, address):
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert hub._address() == address


@pytest.fixture
def blobs(monkeypatch, tmp_path):
    """The folder of a repository's files in an empty cache of the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--name" / "blobs"
    folder.mkdir(parents=True)
    (folder.parent / "snapshots" / "main").mkdir(parents=True)
    return folder


def download(blobs, name, content, file="config.json"):
    blob = blobs / name
    blob.write_bytes(content)
    (blobs.parent / "snapshots" / "main" / file).symlink_to(blob)
    return blob


HELLO = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"  # as by `git hash-object`


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (hashlib.sha256(b"large").hexdigest(), b"large"),
        (HELLO, b"hello"),
        (HELLO.upper(), b"hello"),
        # Mirrors name a file by the SHA-1 of its bytes, by its MD5, or as they like.
        ("aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d", b"hello"),
        ("5d41402abc4b2a76b9719d911017c592", b"changed"),
        ("an-etag", b"changed"),
        ("W-1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c", b"changed"),
        ("v" * 64, b"changed"),
    ],
)
def test_a_file_is_whole_if_its_name_is_a_digest_of_it_or_no_digest(blobs, name, content):
    with hub.checked_downloads(WeightsError):
        blob = download(blobs, name, content)
    assert blob.exists()


@pytest.mark.parametrize("content", [b"small", b"large" * 100_000])
def test_a_damaged_download_is_named_and_removed(blobs, content):
    blob = download(blobs, etag(content), b"changed")
    name = r"models--org--name/snapshots/main/config\.json"
    message = (
        rf"^the download {name} is damaged: its digest is \w+, the hub's is {blob.name}; it was r"
    )
    with pytest.raises(WeightsError, match=message), hub.checked_downloads(WeightsError):
        pass
    assert not blob.exists()


def test_damage_is_told_in_the_place_of_what_it_caused(blobs):
    def load():
        download(blobs, etag(b"small"), b"changed")
        raise OSError("no format that is known")

    with pytest.raises(WeightsError, match="is damaged"), hub.checked_downloads(WeightsError):
        load()
    with pytest.raises(OSError, match="no format"), hub.checked_downloads(WeightsError):
        raise OSError("no format that is known")


def test_what_lies_in_the_cache_for_longer_than_a_day_is_not_read(blobs, monkeypatch):
    blob = download(blobs, etag(b"small"), b"changed")
    monkeypatch.setattr(hub, "UNCHECKED", -1.0)
    with hub.checked_downloads(WeightsError):
        pass
    assert blob.exists()


def test_the_first_cause_of_a_failed_download_is_told_in_one_line():
    outer = RuntimeError("no luck")
    outer.__cause__ = ValueError("line one\n\nline two")
    assert hub.why_failed(outer) == "ValueError: line one line two"
    outer.__cause__.__context__ = OSError(errno.ENOSPC, "No space left on device")
    assert hub.why_failed(outer).startswith("No space left on device: make room, or set HF_HOME to")
