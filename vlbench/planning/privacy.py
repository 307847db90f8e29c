"""What a row may say: no secret, no folder and no user's name of the machine that made it."""

from __future__ import annotations

import getpass
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HIDDEN = "<hidden>"

# An argument with one of these as a word of its name is a secret: `hf_token`, `api-key`.
WORDS = "token|key|apikey|secret|password|passwd|passphrase|credential|credentials"
SECRET_NAME = re.compile(rf"(?:^|[\W_])(?:{WORDS})(?:$|[\W_])", re.IGNORECASE)

# What is a secret by its look: the tokens of Hugging Face, OpenAI, GitHub, GitLab, Slack, Amazon
# and Google, and JSON web tokens.
SECRET_LOOK = re.compile(
    r"\b(?:hf_(?:[a-z]*(?=[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{16,})|sk-[\w-]*\d[\w-]{8,}|gh[opsur]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}"
    r"|xox[a-z]-[\w-]{8,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{8,}(?:\.[\w-]+){1,2})"
)

# Letters and digits in one piece, this long and with so many bits a character, are no word.
PIECE = re.compile(r"[A-Za-z0-9+]{24,}")
BITS = 3.8

# `token=...`, `"token": "..."`, `Bearer ...`, and the user and password of an address.
NAMED = re.compile(rf"(?i)((?:\b|[\w-]*[_-])(?:{WORDS})=)[^\s&,;'\")\]}}]+")
QUOTED = re.compile(rf"""(?i)((['"])(?:[\w-]*[_-])?(?:{WORDS})\2:\s*(['"])).*?\3""")
BEARER = re.compile(r"(?i)(\bbearer\s+)[\w.~+/=-]{8,}")
LOGIN = re.compile(r"(?<=://)[^\s/@]+@")

# An absolute path of this or another machine, of which the last part is kept.
FILE_URL = re.compile(r"\bfile:/*(?=/|[A-Za-z]:)", re.IGNORECASE)
HOME = re.compile(r"(?<![\w/.])(?:/(?:home|Users)/[^\s'\"/:,;)\]]+|/root)(?![\w/-])")
FOLDERS = re.compile(r"(?<![\w/.])(?:~[^\s'\"/]*|/[^\s'\"/]+)/(?:[^\s'\"/]+/)*")
WINDOWS = re.compile(r"\b[A-Za-z]:[\\/](?:[^\s'\"\\/]+[\\/])+")

# Accounts that are nobody's name, and words besides.
NOBODY = frozenset({"root", "user", "admin", "ubuntu", "runner", "test", "data", "model", "image"})


def shown(value: Any, name: str = "") -> Any:
    """Return an argument as a row shows it; of a local path only the last part."""
    if isinstance(value, Mapping):
        return {key: shown(one, f"{name} {key}") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [shown(one, name) for one in value]
    if _names_secret(name) and value is not None and not isinstance(value, bool):
        return HIDDEN
    if isinstance(value, Path) or (isinstance(value, str) and _is_local(value)):
        return cleaned(Path(value).name)
    return cleaned(value) if isinstance(value, str) else value


def cleaned(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a message without secrets, local folders and the user's name, fit for UTF-8."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    text = SECRET_LOOK.sub(HIDDEN, text)
    text = PIECE.sub(lambda found: HIDDEN if _is_random(found[0]) else found[0], text)
    for pattern in (NAMED, BEARER):
        text = pattern.sub(rf"\1{HIDDEN}", text)
    text = QUOTED.sub(rf"\1{HIDDEN}\3", text)
    text = FILE_URL.sub("", LOGIN.sub("", text))
    text = FOLDERS.sub("", WINDOWS.sub("", HOME.sub("~", text)))
    for user in _users():
        text = re.sub(rf"(?<!\w){re.escape(user)}(?!\w)", "<user>", text)
    return text


def secrets_in(arguments: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the texts among arguments that are secrets by their names."""
    for key, value in arguments.items():
        name = f"{above} {key}"
        if isinstance(value, Mapping):
            yield from secrets_in(value, name)
        elif isinstance(value, str) and value and _names_secret(name):
            yield value


def _names_secret(name: str) -> bool:
    return bool(SECRET_NAME.search(re.sub(r"([a-z])([A-Z])", r"\1_\2", name)))


def _is_local(text: str) -> bool:
    """Return whether a text is written like a path of this machine."""
    return Path(text).is_absolute() or text[:1] in {"~", "."} or text.lower().startswith("file:")


def _is_random(piece: str) -> bool:
    """Return whether small letters, capitals and digits are mixed as in no word."""
    kinds = (str.islower, str.isupper, str.isdigit)
    mixed = all(sum(map(kind, piece)) >= 2 for kind in kinds)
    fractions = [n / len(piece) for n in Counter(piece).values()]
    return mixed and -sum(f * math.log2(f) for f in fractions) >= BITS


def _users() -> frozenset[str]:
    """Return the names of whoever runs this, less those that are nobody's."""
    found = set()
    for name in (getpass.getuser, lambda: Path.home().name):
        try:
            found.add(name())
        except (OSError, KeyError, RuntimeError, ImportError):  # a user without name or home
            continue
    return frozenset(name for name in found - NOBODY if len(name) > 2)
