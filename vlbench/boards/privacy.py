"""Removes private facts from rows: secrets, folders and user names of the machine."""

from __future__ import annotations

import getpass
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vlbench.schema import leaves, map_leaves

HIDDEN = "<hidden>"

# Characters of a text that a row shows, and characters of a longer text that are cleaned: a
# server's answer may have millions, and a board is read whole.
LONGEST, MOST_READ = 2_000, 20_000

# An argument whose name contains one of these words is a secret: `hf_token`, `api-key`, `pw`.
WORDS = "token|key|apikey|secret|password|passwd|passphrase|passcode|pwd?|auth|credentials?"
# The value of an argument `address` is hidden, too, but the word may occur in a message.
SECRET_NAME = re.compile(rf"(?:^|[\W_])(?:{WORDS}|address)\d*(?:$|[\W_])", re.IGNORECASE)

# Values of environment variables, and numbers, of at least these lengths are removed from a text.
SHORTEST_VALUE, SHORTEST_NUMBER = 6, 4

# Secrets recognised by their form: tokens of Hugging Face, OpenAI, GitHub, GitLab, Slack, Amazon
# and Google, and JSON web tokens.
SECRET_LOOK = re.compile(
    r"\b(?:hf_(?:[a-z]*(?=[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{16,})|sk-[\w-]*\d[\w-]{8,}|gh[opsur]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}"
    r"|xox[a-z]-[\w-]{8,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}(?:\.[\w-]+){1,2})"
)

# A run of letters and digits this long, with this entropy in bits per character, is not a word.
PIECE = re.compile(r"[A-Za-z0-9+]{24,}")
BITS = 3.8

# `token=...`, `token: ...`, `"accessToken": "..."`, `Bearer ...`, and the user and password of an
# address. A quote may be escaped, as in JSON within JSON.
NAMED = re.compile(
    rf"(?is)((?:(?<![a-z])|(?-i:(?<=[a-z])(?=[A-Z])))(?:{WORDS})\d*\\*['\"]?[ \t]*[=:]>?[ \t]*)"
    r"(?:[bru]{0,2}(\\*['\"]).*?(?:(?<!\\)\2|\Z)|[^\s&,;'\")\]}]+)"
)
BEARER = re.compile(r"(?i)(\b(?:bearer|authorization['\"]?:[ \t]*['\"]?\w+)[ \t]+)[\w.~+/=-]{8,}")
LOGIN = re.compile(r"(?<=://)[^\s/]+@")

# The address in the name of a model on a server, `openai:NAME@http://HOST/v1`.
SERVER = re.compile(r"(\bopenai:\S*?)@https?://[^\s'\",;)\]}]+")

# An absolute path of this or another machine; only its last part is kept. In the repr of a string
# each backslash is doubled.
FILE_URL = re.compile(r"\bfile:/*(?=/|[A-Za-z]:)", re.IGNORECASE)
HOME = re.compile(r"(?<![\w/.])(?:/(?:home|Users)/[^\s'\"/:,;)\]]+|/root)(?![\w/-])")
FOLDERS = re.compile(r"(?<![\w/.])(?:~[^\s'\"/]*|/[^\s'\"/]+)/(?:[^\s'\"/]+/)*")
WINDOWS_HOME = re.compile(r"\b[A-Za-z]:[\\/]+Users[\\/]+[^\s'\"\\/:,;)\]]+(?![\w\\/-])")
WINDOWS = re.compile(r"\b[A-Za-z]:[\\/]+(?:[^\s'\"\\/]+[\\/]+)+")

# A shared folder of a server, `\\server\share` or `//server/share`, and a place in a store, such as
# `s3://bucket`; both are private. If further parts follow, the last is kept.
SHARED = re.compile(
    r"(?:(?<![\w\\])\\{2,}|(?<![\w:/.])//)(?:\?[\\/]+UNC[\\/]+)?"
    r"[^\s'\"\\/]+[\\/]+[^\s'\"\\/]+((?:[\\/]+[^\s'\"\\/]+)*[\\/]+(?=[^\s'\"\\/]))?"
)
STORE = re.compile(
    r"(?i)(?<![\w+.-])(?!https?:|hf:|file:)([a-z][a-z0-9+.-]*://)"
    r"[^\s'\",;)\]}/]+(?:/+[^\s'\",;)\]}/]+(?=/))*"
)

# Accounts that are not names of persons, and common words.
NOBODY = frozenset({"root", "user", "admin", "ubuntu", "runner", "test", "data", "model", "image"})


def shown(value: Any, name: str = "") -> Any:
    """Return an argument as a row shows it; a local path is shortened to its last part."""

    def show(name: str, leaf: Any) -> Any:
        if _names_secret(name) and leaf is not None and not isinstance(leaf, bool):
            return HIDDEN
        if isinstance(leaf, Path) or (isinstance(leaf, str) and _is_local(leaf)):
            return cut(cleaned(Path(leaf).name))
        return cut(cleaned(leaf)) if isinstance(leaf, str) else leaf

    return map_leaves(value, show, name)


def cleaned(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a message without secrets, private places and user names, encodable as UTF-8.

    `secrets` are texts to hide; values of environment variables are hidden, too, if the variable's
    name marks a secret or the message contains that name. Only the first `MOST_READ` characters are
    kept.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # The longest first: a secret may begin with another secret.
    for secret in sorted({*secrets, *_values_of_environment(text)}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if len(text) > MOST_READ:
        # The last word is dropped, since it may be half a secret.
        text = "".join([*text[:MOST_READ].rsplit(None, 1)[:-1], " ..."])
    text = SECRET_LOOK.sub(HIDDEN, SERVER.sub(r"\1", text))
    text = PIECE.sub(lambda match: HIDDEN if _is_random(match[0]) else match[0], text)
    text = BEARER.sub(rf"\1{HIDDEN}", text)
    text = NAMED.sub(rf"\1\2{HIDDEN}\2", text)
    text = STORE.sub(rf"\1{HIDDEN}", FILE_URL.sub("", LOGIN.sub("", text)))
    text = WINDOWS.sub("", WINDOWS_HOME.sub("~", HOME.sub("~", text)))
    text = SHARED.sub(lambda match: "" if match[1] else HIDDEN, text)
    text = FOLDERS.sub("", text)
    for user in _users():
        text = re.sub(rf"(?<!\w){re.escape(user)}(?!\w)", "<user>", text)
    return text


def cut(text: str) -> str:
    """Return a text of at most `LONGEST` characters, which ends in "..." if it was longer."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts, and the numbers of four digits or more, whose names mark a secret."""
    for key, part in leaves(value, name):
        if _names_secret(key) and part and not isinstance(part, bool):
            text = str(part)
            if isinstance(part, str) or len(text) >= SHORTEST_NUMBER:
                yield text


def _values_of_environment(text: str) -> Iterator[str]:
    """Yield the values of variables whose names mark a secret or occur in the text."""
    words = set(re.findall(r"\w+", text))
    for name, value in os.environ.items():
        # A folder is shortened like any other path; PWD is the shell's variable, not a password.
        is_named = name in words and not _is_local(value)
        secret = _names_secret(name) and name != "PWD"
        if len(value) >= SHORTEST_VALUE and (is_named or secret):
            yield value


def _names_secret(name: str) -> bool:
    return bool(SECRET_NAME.search(re.sub(r"([a-z])([A-Z])", r"\1_\2", name)))


def _is_local(text: str) -> bool:
    """Return whether a text looks like a path of this machine."""
    return Path(text).is_absolute() or text[:1] in {"~", "."} or text.lower().startswith("file:")


def _is_random(piece: str) -> bool:
    """Return whether small letters, capitals and digits are mixed as in no word."""
    kinds = (str.islower, str.isupper, str.isdigit)
    mixed = all(sum(map(kind, piece)) >= 2 for kind in kinds)
    fractions = [n / len(piece) for n in Counter(piece).values()]
    return mixed and -sum(f * math.log2(f) for f in fractions) >= BITS


def _users() -> frozenset[str]:
    """Return the names of the current user, except names that identify no person."""
    names = set()
    for name in (getpass.getuser, lambda: Path.home().name):
        try:
            names.add(name())
        except (OSError, KeyError, RuntimeError, ImportError):  # a user without name or home
            continue
    return frozenset(name for name in names - NOBODY if len(name) > 2)
