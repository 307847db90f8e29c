"""A mirror of the hub on the loopback, which libraries take for the hub by HF_ENDPOINT.

It speaks what huggingface_hub and datasets ask for: HEAD and GET of files with ETag and Range, and
the lists of a repository. A file may be served with a fault.
"""

import hashlib
import json
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePath
from typing import NamedTuple

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILE = re.compile(r"^/(?P<repository>.+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)$")
API = re.compile(
    r"^/api/(?:models/)?(?P<repository>(?:datasets/)?[^/]+/[^/]+)"
    r"(?:/(?P<what>revision|tree|paths-info)/(?P<revision>[^/]+))?(?:/(?P<under>.*))?$"
)
# Bytes that are sent at once.
PART = 1 << 18


class Fault(NamedTuple):
    """How a file is served: cut off in its middle so many times, slowly, not at all, or changed.

    The pause after each part is in seconds. Of what is damaged one bit in its middle is another,
    under the digest of what is whole.
    """

    cuts: int = 0
    pause: float = 0.0
    absent: bool = False
    damaged: bool = False


class Request(NamedTuple):
    """A request for the content of a file: its name, and the first byte that was asked for."""

    file: str
    start: int


class Mirror(ThreadingHTTPServer):
    """Repositories by name (`org/name`, `datasets/org/name`), faults by file, and requests."""

    daemon_threads = True

    def __init__(self, repositories):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.repositories = repositories
        self.faults = {}
        self.asked = []
        self.paused = threading.Event()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Let a client go: one is killed in the middle of a file."""


@contextmanager
def serving(repositories):
    """Serve the files of repositories, bytes by name, while this context lasts."""
    with Mirror(repositories) as mirror:
        thread = threading.Thread(target=mirror.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield mirror
        finally:
            mirror.shutdown()
            thread.join()


def etag(content):
    """Return the name that the hub gives content: SHA-256 of large files, git's SHA-1 of others."""
    if len(content) >= 1 << 16:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Write nothing."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.partition("?")[0]
        if match := FILE.match(path.replace("%2F", "/")):
            self._file(**match.groupdict())
        elif match := API.match(path.replace("%2F", "/")):
            self._list(**match.groupdict())
        else:
            self._refuse("RepoNotFound")

    def do_POST(self):
        self.body = self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def _file(self, repository, revision, file):
        files = self.server.repositories.get(repository)
        fault = self.server.faults.get(file, Fault())
        if files is None:
            self._refuse("RepoNotFound")
        elif file not in files or fault.absent:
            self._refuse("EntryNotFound", revision)
        else:
            self._send(file, revision, files[file], fault)

    def _send(self, file, revision, content, fault):
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{etag(content)}"')
        self.send_header("X-Repo-Commit", _commit(revision))
        self.send_header("X-Linked-Etag", f'"{etag(content)}"')
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            last = len(content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if self.command == "GET":
            self.server.asked.append(Request(file, start))
            self._write(file, content, start, fault)

    def _write(self, file, content, start, fault):
        if fault.damaged:
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        end = len(content)
        if fault.cuts:
            self.server.faults[file] = fault._replace(cuts=fault.cuts - 1)
            end = start + (end - start) // 2
            self.close_connection = True
        for at in range(start, end, PART):
            self.wfile.write(content[at : min(at + PART, end)])
            if fault.pause:
                self.server.paused.set()
                time.sleep(fault.pause)

    def _list(self, repository, what, revision, under):
        files = self.server.repositories.get(repository)
        if files is None:
            self._refuse("RepoNotFound")
        elif what in {"tree", "paths-info"}:
            self._answer(self._paths(files) if what == "paths-info" else _tree(files, under or ""))
        else:
            names = [{"rfilename": name} for name in files]
            name = repository.removeprefix("datasets/")
            commit = _commit(revision or "main")
            self._answer(
                {"id": name, "sha": commit, "siblings": names, "private": False, "tags": []}
            )

    def _paths(self, files):
        """Return the entries of the paths that the body of a request names."""
        asked = json.loads(self.body)["paths"]
        return [one for one in _tree(files, "") if one["path"] in asked]

    def _answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, code, revision=None):
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        if revision:
            self.send_header("X-Repo-Commit", _commit(revision))
        self.send_header("Content-Length", "0")
        self.end_headers()


def _tree(files, under):
    """Return the entries of files and folders below one."""
    names = [name for name in files if name.startswith(under)]
    folders = {str(folder) for name in names for folder in PurePath(name).parents} - {"."}
    made = [{"type": "directory", "path": one, "size": 0, "oid": COMMIT} for one in sorted(folders)]
    return made + [_entry(name, files[name]) for name in names]


def _entry(name, content):
    entry = {"type": "file", "path": name, "size": len(content), "oid": etag(content)}
    is_large = len(etag(content)) == 64
    lfs = {"lfs": {"oid": etag(content), "size": len(content), "pointerSize": 130}}
    return entry | lfs if is_large else entry


def _commit(revision):
    return revision if re.fullmatch("[0-9a-f]{40}", revision) else COMMIT
