"""Files broken at random, by a seed: what a bad disk, a bad download or a bad hand leaves."""

import json
import random
import re
from collections.abc import Callable, Sequence

Rng = random.Random

NUMBERS = (
    *("0", "-1", "1e308", "nan", "NaN", "inf", "99999999999999999999", "2147483648", "4294967296"),
    *("9" * 5000, "1.5", "", "x", "\u0663", "\ud7ff", "true", "null", "[]", "0x10"),
)
VALUES = (
    *(None, True, 0, -1, 2**31, 2**63, 10**40, 1.5, float("nan"), float("inf"), -1e308, ""),
    *("x", "9", "\ud800", "\0", [], {}, [[]], {"id": 1}, [1, 2, 3, 4], [0, 0, -1, 5]),
)
BYTES = (b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", b"\xff" * 8, b"\x00\x00\x00\x80", b"<html>")

# Fields are changed within so many bytes of a file.
WINDOW = 1 << 13


def mutant(content: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """Return a file's content, broken; `others` are the contents of the files beside it."""
    kinds: list[Callable[[bytes, Rng], bytes]] = [_flipped, _cut, _spliced, _overwritten]
    if _is_text(content):
        kinds += [_lines, _lines, _fields, _fields, _fields]
    if content[:1] in (b"{", b"["):
        kinds += [_tree] * 6
    kind = rng.randrange(30)
    if kind == 0:
        return rng.choice([b"", b"\n", b"\0", b"<html>404</html>", b"\xff\xfe\x00"])
    if kind == 1 and others:
        return rng.choice(others)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        content = rng.choice(kinds)(content, rng)
    return content


def _is_text(content: bytes) -> bool:
    try:
        return bool(content.decode("utf-8")) and b"\0" not in content
    except UnicodeDecodeError:
        return False


def _flipped(content: bytes, rng: Rng) -> bytes:
    broken = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        if broken:
            broken[_place(broken, rng)] ^= 1 << rng.randrange(8)
    return bytes(broken)


def _place(content: bytes, rng: Rng) -> int:
    """Return a place in a content: in its first 512 bytes, where headers are, half the time."""
    return rng.randrange(min(len(content), rng.choice([512, len(content)])))


def _cut(content: bytes, rng: Rng) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _spliced(content: bytes, rng: Rng) -> bytes:
    """Remove a piece, or have it twice."""
    start, stop = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:start] + content[start:stop] * rng.choice([0, 2]) + content[stop:]


def _overwritten(content: bytes, rng: Rng) -> bytes:
    if not content:
        return b"x"
    start, new = _place(content, rng), rng.choice([*BYTES, rng.randbytes(rng.randint(1, 16))])
    return content[:start] + new + content[start + len(new) :]


def _lines(content: bytes, rng: Rng) -> bytes:
    lines = content.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(j, lines[i])
    elif kind == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        lines[i] = rng.choice([b"", b" ", b"\t", lines[i][: len(lines[i]) // 2], b"#", b"x y z"])
    return b"\n".join(lines)


def _fields(content: bytes, rng: Rng) -> bytes:
    """Change a word or a number."""
    start = rng.randrange(max(1, len(content) - WINDOW))
    fields = list(re.compile(rb"[\w.+-]+").finditer(content, start, start + WINDOW))
    if not fields:
        return content
    field = rng.choice(fields)
    new = rng.choice([*(n.encode() for n in NUMBERS), rng.choice(fields)[0], field[0] * 2])
    return content[: field.start()] + new + content[field.end() :]


def _tree(content: bytes, rng: Rng) -> bytes:
    """Change a value of JSON, or leave it out, or have it twice."""
    try:
        tree = json.loads(content)
    except ValueError:
        return content
    node = tree
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = rng.choice(list(keys))
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.85:
            node = node[key]
            continue
        kind = rng.randrange(4)
        if kind == 0:
            del node[key]
        elif kind == 1 and isinstance(node, list):
            node.append(node[key])
        else:
            node[key] = rng.choice(VALUES)
        break
    return json.dumps(tree).encode()
