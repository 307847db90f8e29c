import os
import socket
import time

import pytest

from vlbench import hub

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
