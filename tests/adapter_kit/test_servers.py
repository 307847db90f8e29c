"""Requests to servers: what is retried, refused and said, against a server on the loopback."""

import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from email.utils import formatdate
from urllib.error import URLError

import pytest
from planted_server import planted_server

from vlbench.adapter_kit import servers
from vlbench.adapter_kit.servers import RefusedError, Server, host_of, require_reachable
from vlbench.errors import ServerError, SpecError, WeightsError
from vlbench.system import hub

KEY = "planted-key-7f3a"


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with planted_server() as server:
        yield server


def server(planted, **options):
    given = {"timeout": 5.0, "retries": 2, "pause": 0.001, "concurrent": 2}
    return Server(planted.address, **given | options)


def in_turn(*answers):
    """Return what gives one answer after the other, the last again and again."""
    waiting = list(answers)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]


@pytest.mark.parametrize("address", ["http://h", "https://h:80/v1", "http://[::1]:8000/v1"])
def test_an_address_is_of_http_or_https(address):
    assert host_of(address) == address.split("/")[2]


@pytest.mark.parametrize("address", ["", "h:80", "ftp://h/v1", "http://", "http://h:99999"])
def test_any_other_address_is_refused(address):
    with pytest.raises(SpecError, match=r"must be http\(s\)://HOST"):
        host_of(address)


@pytest.mark.parametrize("end", ["?a", "?", "#a", "#", "/v1?a=b#c"])
def test_an_address_that_goes_on_after_its_path_is_refused(end):
    with pytest.raises(SpecError, match=r"end with its path; remove \? or # and what follows"):
        host_of(f"http://h{end}")


def test_an_address_with_a_password_is_refused_without_it():
    with pytest.raises(SpecError, match=r"put a key in \$OPENAI_API_KEY") as caught:
        host_of("http://me:secret@h/v1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://localhost:1", "http://127.0.0.2", "https://[::1]/v1"])
def test_offline_a_server_on_this_machine_is_asked(address):
    require_reachable(address)


def test_offline_another_server_is_refused(monkeypatch):
    message = r"HF_HUB_OFFLINE\), and the server is not on this machine"
    with pytest.raises(WeightsError, match=message):
        require_reachable("http://example.org/v1")
    monkeypatch.setenv(hub.UNREACHED, "1")
    require_reachable("http://example.org/v1")


@pytest.mark.parametrize(
    "wrong", [{"timeout": 0.0}, {"retries": -1}, {"pause": -1.0}, {"concurrent": 0}]
)
def test_numbers_that_make_no_sense_are_refused(planted, wrong):
    with pytest.raises(SpecError, match="timeouts and concurrent must be above 0"):
        server(planted, **wrong)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_what_may_pass_is_asked_again(planted, status):
    planted.answers["/x"] = in_turn((status, {}, b"busy"), (status, {}, b""), {"a": 1})
    assert server(planted).post("x", {}) == {"a": 1}
    assert len(planted.requests) == 3


@pytest.fixture
def slept(monkeypatch):
    """The pauses that are made, none of which takes any time."""
    pauses = []
    monkeypatch.setattr(servers.time, "sleep", pauses.append)
    return pauses


def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(planted, slept, caplog):
    limit = (429, {"Retry-After": "30"}, b'{"error": {"message": "slow\\n down"}}')
    planted.answers["/x"] = in_turn(limit, {"a": 1})
    assert server(planted).post("x", {}) == {"a": 1}
    assert slept == [30]
    why = "the server answered 429: slow down"
    assert caplog.messages == [f"waiting 30 s before the next request to {planted.host}: {why}"]


def test_a_short_retry_after_is_not_lengthened_by_the_number_of_tries(planted, slept):
    planted.answers["/x"] = in_turn(*[(429, {"Retry-After": "1"}, b"")] * 5, {})
    server(planted, retries=5, pause=1.0).post("x", {})
    assert slept == [1] * 5


def test_retry_after_may_be_a_date_and_no_pause_is_longer_than_the_cap(planted, slept):
    soon = formatdate(time.time() + 40, usegmt=True)
    answers = [(503, {"Retry-After": after}, b"") for after in (soon, "86400", "9" * 5000, "soon")]
    planted.answers["/x"] = in_turn(*answers, {})
    server(planted, retries=4).post("x", {})
    assert slept == [pytest.approx(40, abs=2), 120, 0.002 * 2, 0.001 * 8]


@pytest.mark.parametrize(
    "after",
    ["9" * 400, "Fri, 31 Dec 9999 23:59:59 +99999999999999", "Mon, 01 Jan 0001 00:00:00 -0000"],
)
def test_an_absurd_retry_after_is_no_error(planted, slept, after):
    planted.answers["/x"] = in_turn((503, {"Retry-After": after}, b""), {"a": 1})
    assert server(planted).post("x", {}) == {"a": 1}
    assert slept[0] in {120, 0.001}


def test_pauses_double_and_outlast_a_limit_of_a_minute(planted, slept):
    planted.answers["/x"] = (429, {}, b"")
    with pytest.raises(ServerError, match="7 times"):
        server(planted, retries=6, pause=1.0).post("x", {})
    assert slept == [1, 2, 4, 8, 16, 32]


@pytest.mark.parametrize("error", [{"message": "overloaded"}, "overloaded"])
def test_an_error_with_the_status_200_is_asked_again(planted, error):
    planted.answers["/x"] = in_turn({"error": error}, {"a": 1, "error": None})
    assert server(planted).post("x", {})["a"] == 1
    planted.answers["/x"] = {"error": error}
    with pytest.raises(ServerError, match=r"^x: the server answered 200: overloaded, 3 times$"):
        server(planted).post("x", {})


def test_what_a_server_does_not_have_is_asked_once(planted):
    planted.answers["/x"] = (501, {}, b'{"detail": "none"}')
    with pytest.raises(RefusedError, match=r'501: {"detail": "none"}$') as caught:
        server(planted).post("x", {})
    assert (caught.value.status, len(planted.requests)) == (501, 1)


@pytest.fixture
def proxy(monkeypatch):
    """A server that the environment names as the proxy."""
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with planted_server() as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy.host}")
        yield proxy


def test_a_server_on_this_machine_is_asked_without_a_proxy(planted, proxy):
    planted.answers["/x"] = {}
    server(planted).post("x", {})
    assert (len(planted.requests), proxy.requests) == (1, [])


def test_another_server_is_asked_through_the_proxy_of_the_environment(proxy):
    proxy.answers["http://example.invalid/x"] = {"a": 1}
    options = {"timeout": 5.0, "retries": 0, "pause": 0.0, "concurrent": 1}
    assert Server("http://example.invalid", **options).post("x", {}) == {"a": 1}


def drip(event):
    """Yield an answer that has no end, a byte each time."""
    while not event.wait(0.05):
        yield b" "


@pytest.mark.parametrize("headers", [{"A": "b"}, {"Content-Length": "99999"}])
def test_a_request_has_a_time_in_all_however_slowly_its_answer_comes(planted, headers):
    begin, over = time.monotonic(), threading.Event()
    planted.answers["/x"] = lambda _: (200, headers, drip(over))
    with pytest.raises(ServerError, match=r"^x: no answer within 0.3 s, 1 time$"):
        server(planted, timeout=0.3, retries=0).post("x", {})
    assert time.monotonic() - begin < 2
    over.set()


def test_an_answer_that_is_cut_off_is_asked_for_again(planted):
    planted.answers["/x"] = in_turn((200, {"Content-Length": "9"}, b"{}"), {"a": 1})
    assert server(planted).post("x", {}) == {"a": 1}


def test_an_answer_of_too_many_bytes_is_refused(planted, monkeypatch):
    monkeypatch.setattr(servers, "MOST_BYTES", 1000)
    planted.answers["/x"] = b'"' + b"a" * 1000 + b'"'
    with pytest.raises(ServerError, match="the answer has more than 1,000 bytes"):
        server(planted).post("x", {})
    assert len(planted.requests) == 1


ASKS = """
import signal
import sys
from vlbench.adapter_kit.servers import Server

# A shell starts what it runs in the background with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
server = Server(sys.argv[1], timeout=60, retries=9, pause=60, concurrent=4)
print("begin", flush=True)
server.ask_each(lambda _: server.post("x", {}), range(9))
"""


def test_an_interrupt_ends_at_once_while_the_server_is_silent(planted):
    silence = threading.Event()
    planted.answers["/x"] = lambda _: silence.wait(30) or {}
    words = [sys.executable, "-c", ASKS, planted.address]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as process:
        process.stdout.readline()
        while len(planted.requests) < 4:
            silence.wait(0.01)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        _, errors = process.communicate(timeout=20)
    silence.set()
    assert time.monotonic() - begin < 2
    assert errors.endswith("KeyboardInterrupt\n")


def test_retries_come_to_an_end(planted):
    planted.answers["/x"] = (500, {}, b"broken\n  inside")
    with pytest.raises(ServerError, match=r"^x: the server answered 500: broken inside, 3 times"):
        server(planted).post("x", {})


def test_a_refusal_is_asked_once(planted):
    planted.answers["/x"] = (404, {}, b"no such model")
    with pytest.raises(ServerError, match=r"^x: the server answered 404: no such model$"):
        server(planted).post("x", {})
    assert len(planted.requests) == 1


def test_a_late_answer_is_none(planted):
    planted.answers["/x"] = lambda _: time.sleep(0.15)
    with pytest.raises(ServerError, match=r"^x: no answer within 0.05 s, 2 times"):
        server(planted, timeout=0.05, retries=1).post("x", {})
    assert len(planted.requests) == 2


def test_where_nobody_listens_nothing_is_asked_again_and_the_way_out_is_said(slept):
    with planted_server() as gone:
        pass
    said = (
        r"^x: nothing answers there \(.*Connection refused\); start the server, or check the addr"
    )
    with pytest.raises(ServerError, match=said) as caught:
        server(gone, retries=3).post("x", {})
    assert "127.0.0.1" not in str(caught.value)
    assert slept == []


def test_a_name_that_is_not_found_for_a_while_is_asked_again(planted, slept, monkeypatch):
    def fails(*_, **__):
        raise URLError(socket.gaierror(socket.EAI_AGAIN, "Temporary failure"))

    asking = server(planted, retries=2)
    monkeypatch.setattr(asking._opener, "open", fails)
    with pytest.raises(ServerError, match=r"^x: no answer: gaierror.*, 3 times$"):
        asking.post("x", {})
    assert len(slept) == 2


def test_a_server_that_has_answered_may_be_gone_for_a_while(slept):
    with planted_server() as gone:
        gone.answers["/x"] = {}
        asking = server(gone, retries=1)
        asking.post("x", {})
    with pytest.raises(ServerError, match=r"^x: no answer: ConnectionRefused.*, 2 times$"):
        asking.post("x", {})
    assert len(slept) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(planted, status):
    with planted_server() as other:
        other.answers["/x"] = {}
        planted.answers["/x"] = (status, {"Location": f"{other.address}/x"}, b"")
        message = rf"{status}, a redirect, which vlbench does not follow"
        with pytest.raises(ServerError, match=message):
            server(planted).post("x", {})
        assert other.requests == []


@pytest.mark.parametrize("content", [b"<html>", b"", b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_no_json_is_refused(planted, content):
    planted.answers["/x"] = content
    message = r"^x: the answer is not JSON, but: .*; check the address"
    with pytest.raises(ServerError, match=message):
        server(planted).post("x", {})


def test_the_key_is_sent_and_a_server_that_repeats_it_is_not_quoted(planted, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    planted.answers["/x"] = (401, {}, f"wrong key {KEY} for {planted.address}".encode())
    with pytest.raises(ServerError, match=r"401: wrong key <hidden> for <hidden>$"):
        server(planted).post("x", {})
    assert planted.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_without_a_key_none_is_sent(planted):
    planted.answers["/x"] = {}
    server(planted).post("x", {})
    assert "Authorization" not in planted.requests[0].headers


def test_what_leaves_is_said_once_for_images_and_once_for_texts(planted, caplog):
    asked = server(planted)
    with caplog.at_level(logging.WARNING, "vlbench"):
        asked.announce(texts=1)
        asked.announce(images=2, texts=8)
        asked.announce(images=3, texts=9)
    host = planted.host
    assert caplog.messages == [
        f"sending texts of the tasks to {host}, first 1 text",
        f"sending images and texts of the tasks to {host}, first 2 images and 8 texts",
    ]


def test_several_are_asked_in_order_and_the_first_error_is_raised(planted):
    asked = server(planted)
    assert asked.ask_each(lambda i: i * i, range(9)) == [i * i for i in range(9)]
    with pytest.raises(ZeroDivisionError):
        asked.ask_each(lambda i: 1 // i, [1, 0, 2])
