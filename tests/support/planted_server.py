"""A server on the loopback that gives planted answers and remembers what it was asked."""

import base64
import json
import math
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import NamedTuple

from PIL import Image


class Request(NamedTuple):
    """What a server was asked: the path, its headers, and the JSON."""

    path: str
    headers: dict
    asked: dict

    def shows_an_image(self):
        """Return whether a question has an image."""
        return len(self.asked["messages"][0]["content"]) > 1

    def image(self):
        """Return the image of a question."""
        url = self.asked["messages"][0]["content"][0]["image_url"]["url"]
        kind, _, data = url.partition(",")
        assert kind == "data:image/png;base64"
        return Image.open(BytesIO(base64.b64decode(data)))

    def text(self):
        """Return the text of a question."""
        return self.asked["messages"][0]["content"][-1]["text"]


class PlantedServer:
    """Answers a path with a function of the request, or with `(status, headers, bytes)`.

    An iterator in the place of the bytes is written part by part.
    """

    def __init__(self):
        self.answers, self.requests, self.host = {}, [], ""

    @property
    def address(self):
        return f"http://{self.host}/v1"

    def answer(self, path, headers, body):
        request = Request(path, headers, json.loads(body))
        self.requests.append(request)
        given = self.answers[path.removeprefix("/v1")]
        answer = given(request) if callable(given) else given
        if isinstance(answer, tuple):
            return answer
        return 200, {}, answer if isinstance(answer, bytes) else json.dumps(answer).encode()


@contextmanager
def planted_server():
    """Yield a server that runs in a thread, on a free port."""
    planted = PlantedServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers, content = planted.answer(self.path, dict(self.headers), body)
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in [content] if isinstance(content, bytes) else content:
                    self.wfile.write(part)
            except ConnectionError:  # who asked has not waited
                pass

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        planted.host = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield planted
        finally:
            server.shutdown()
            thread.join()


def chat(**probabilities):
    """Return an answer that lists tokens with these probabilities; `_` stands for a blank."""
    listed = [
        {"token": token.replace("_", " "), "logprob": math.log(p)}
        for token, p in probabilities.items()
    ]
    return {"choices": [{"logprobs": {"content": [{"top_logprobs": listed}]}}]}


def embeddings(request):
    """Return vectors of the length of each text and its first letter, the last text first."""
    rows = [
        {"index": i, "embedding": [len(text), float(ord(text[:1] or " "))]}
        for i, text in enumerate(request.asked["input"])
    ]
    return {"data": rows[::-1]}
