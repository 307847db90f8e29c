"""Files of weights with seeded faults: whatever is wrong with a file, the error names it."""

import datetime as dt
import gzip
import hashlib
import random
import warnings
import zipfile
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from vlbench.adapter_kit.vector_files import read_vectors
from vlbench.adapter_kit.weights import load_weights, read_state_dict, read_weights
from vlbench.errors import WeightsError

LINES = [f"word{i} " + " ".join(f"{(i * j) % 7 - 3.5:.4f}" for j in range(8)) for i in range(60)]
STATE = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).state_dict()


def module():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def torchscript(file):
    with warnings.catch_warnings(action="ignore"):
        torch.jit.script(module()).save(str(file))


def zipped(file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glove.txt", "\n".join(LINES))


def binary():
    rng = np.random.default_rng(0)
    rows = [f"word{i} ".encode() + rng.random(8, np.float32).tobytes() for i in range(60)]
    return b"60 8\n" + b"".join(rows)


def load_state(file):
    load_weights(module(), read_state_dict(file), file)


read_past_pickles = partial(read_weights, past_pickles=True)

TEXT = "\n".join(LINES).encode()
WRITTEN = {
    "w.safetensors": lambda file: save_file(STATE, file),
    "w.pt": lambda file: torch.save({"state_dict": STATE}, file),
    "w.bin": lambda file: torch.save(STATE, file),
    "w.pth": lambda file: torch.save(STATE, file, _use_new_zipfile_serialization=False),
    "beside.pt": lambda file: torch.save({"model": STATE, "when": dt.date(2021, 1, 1)}, file),
    "script.pt": torchscript,
    "glove.txt": lambda file: file.write_bytes(TEXT),
    "counted.txt": lambda file: file.write_bytes(b"60 8\n" + TEXT),
    "glove.txt.gz": lambda file: file.write_bytes(gzip.compress(TEXT)),
    "glove.zip": zipped,
    "vectors.bin": lambda file: file.write_bytes(binary()),
    "vectors.bin.gz": lambda file: file.write_bytes(gzip.compress(binary())),
}
READ = {
    "beside.pt": read_past_pickles,
    **dict.fromkeys([name for name in WRITTEN if name.startswith(("w.", "script"))], load_state),
    **dict.fromkeys(
        [n for n in WRITTEN if n.startswith(("glove", "counted", "vec"))], read_vectors
    ),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The content of a file of each format."""
    folder = tmp_path_factory.mktemp("whole")
    for name, write in WRITTEN.items():
        write(folder / name)
    return {name: (folder / name).read_bytes() for name in WRITTEN}


def flipped(content, rng):
    found = bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def cut(content, rng):
    return content[: rng.randrange(len(content))]


def with_huge_number(content, rng):
    at, size = rng.randrange(len(content)), rng.choice([1, 4, 8])
    return content[:at] + rng.choice([b"\xff", b"\x7f", b"9"]) * size + content[at + size :]


def repeated(content, rng):
    start, stop = sorted(rng.sample(range(len(content)), 2))
    return content[:stop] + content[start:]


def left_out(content, rng):
    start, stop = sorted(rng.sample(range(len(content)), 2))
    return content[:start] + content[stop:]


FAULTS = (flipped, cut, with_huge_number, repeated, left_out)


def broken(whole, name):
    """Yield an empty file, those of the other formats, and a hundred with faults."""
    yield b""
    yield from (content for other, content in whole.items() if other != name)
    for seed in range(100):
        rng = random.Random(f"{name} {seed}")  # noqa: S311 - no secret
        yield FAULTS[seed % len(FAULTS)](whole[name], rng)


def verdict(read, file):
    """Return "read", or the error that names the file; any other error is raised."""
    try:
        read(file)
    except WeightsError as error:
        return str(error)
    return "read"


@pytest.mark.parametrize("name", WRITTEN)
def test_a_broken_file_is_named(whole, tmp_path, name, monkeypatch):
    published = {hashlib.sha256(whole["script.pt"]).hexdigest()}
    monkeypatch.setattr("vlbench.data.formats.torch_files.OPENAI_ARCHIVES", published)
    file = tmp_path / name
    file.write_bytes(whole[name])
    assert verdict(READ[name], file) == "read"
    found = set()
    for content in broken(whole, name):
        file.write_bytes(content)
        found.add(verdict(READ[name], file))
    assert [message for message in found if name not in message and message != "read"] == []
    assert len(found) > 5


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt", "w.pth", "beside.pt", "script.pt"])
def test_a_broken_file_is_named_where_pickles_are_passed_over(whole, tmp_path, name):
    file = tmp_path / name
    for content in broken(whole, name):
        file.write_bytes(content)
        message = verdict(read_past_pickles, file)
        assert name in message or message == "read"
