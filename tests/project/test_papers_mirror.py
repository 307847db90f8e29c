"""`vlbench papers` against a mirror of the hub: what is fetched, checked, and fetched again.

The files have true names, shapes and formats, and random weights and pixels.
"""

import io
import os
import re
import resource
import signal
import subprocess
import sys

import datasets
import numpy as np
import pytest
from hub_mirror import Fault, Request, serving
from PIL import Image
from safetensors.torch import save
from sources import write
from tiny_cnns import draw_timm

from vlbench.boards.board import read_board
from vlbench.data.cifar import cifar10
from vlbench.data.hub_sets import CIFAR10

NAMES = ["airplane", "automobile", "bird", "cat", "deer"]
NAMES += ["dog", "frog", "horse", "ship", "truck"]
CARD = b"""---
configs:
- config_name: plain_text
  data_files:
  - {split: train, path: plain_text/train-*}
  - {split: test, path: plain_text/test-*}
---
"""
TRAIN, TEST = (f"plain_text/{name}-00000-of-00001.parquet" for name in ("train", "test"))
WEIGHTS, DATA = "model.safetensors", f"datasets/{CIFAR10.repository}"
SMALL = "test_resnet.r160_in1k"
# 47 MB: huggingface_hub keeps what it has by 10 MB.
LARGE = "resnet18.a1_in1k"

CLIP_WEIGHTS = "open_clip_model.safetensors"
CLIP_ROW = "zero_shot_cifar10, models: [clip-rn50]"

MODELS = f"""\
small: {{adapter: "timm_cnn:TimmCnn", params: {{architecture: {SMALL}, resize: 32}}}}
"""
TASK = f"""\
version: 1
probe: few_shot
data:
  loader: "vlbench.data.hub:images"
  root: ../nowhere
  repository: {CIFAR10.repository}
  revision: {CIFAR10.revision}
  image: {CIFAR10.image}
  splits: {{train: train, test: test}}
params: {{shots: [1], trials: 2}}
primary: {{metric: accuracy, at: {{shots: 1}}}}
"""
PAPER = """\
paper: "arXiv:0000.00002"
title: Small
question: Are shades told apart?
experiments:
  - {task: few_shot_shades, models: [small, raw-pixels]}
findings:
  - finding: Shades are told apart.
    task: few_shot_shades
    metric: accuracy
    at: {shots: 1}
    greater: [{model: small}, {model: small, floor: chance}]
"""


def parquet(pictures, labels):
    """Return a table of pictures, uint8 [N, 32, 32, 3], and their labels, in the hub's layout."""
    encoded = [io.BytesIO() for _ in pictures]
    for picture, file in zip(pictures, encoded, strict=True):
        Image.fromarray(picture).save(file, "PNG")
    types = {"img": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    rows = {"img": [{"bytes": file.getvalue(), "path": None} for file in encoded], "label": labels}
    content = io.BytesIO()
    datasets.Dataset.from_dict(rows, datasets.Features(types)).to_parquet(content)
    return content.getvalue()


@pytest.fixture(scope="module")
def files():
    noise = np.random.default_rng(0).integers(0, 24, (60, 32, 32, 3), np.uint8)
    labels = np.arange(60, dtype=np.uint8) % len(NAMES)
    pictures = noise + 24 * labels.reshape(60, 1, 1, 1)
    tables = [parquet(pictures[part], labels[part]) for part in (slice(40), slice(40, 60))]
    return {
        DATA: {"README.md": CARD, **dict(zip((TRAIN, TEST), tables, strict=True))},
        **{f"timm/{name}": {WEIGHTS: save(draw_timm(name))} for name in (SMALL, LARGE)},
    }


@pytest.fixture
def mirror(files):
    with serving(files) as server:
        yield server


@pytest.fixture
def papers(mirror, tmp_path):
    """Return what starts `vlbench papers` in an environment that has only the mirror."""
    write(tmp_path / "ours" / "model_adapters" / "models.yaml", MODELS)
    write(tmp_path / "ours" / "tasks" / "few_shot_shades.yaml", TASK)
    write(tmp_path / "ours" / "tasks" / "findings" / "small.yaml", PAPER)
    words = ["papers", "small", "--download", "--include-path=ours", "--output=boards"]
    unset = ("HF_", "TRANSFORMERS_", "VLBENCH_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    environment = kept | {"HF_ENDPOINT": mirror.address, "HF_HOME": str(tmp_path / "hub")}

    def start(*more, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "vlbench", *words, "--data-dir=data", *more],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    return start


def finish(started):
    out, _ = started.communicate(timeout=200)
    assert "Traceback" not in out
    return started.returncode, out


def statuses(tmp_path):
    """Return the status of each model's row on the board; empty without a board."""
    boards = [read_board(file) for file in tmp_path.glob("boards/*.json")]
    return {row.model: row.status for board in boards for row in board.results}


def test_a_row_comes_from_the_hub_and_is_set_beside_the_paper(papers, mirror, tmp_path):
    code, out = finish(papers("--rows=1"))
    assert code == 0
    assert statuses(tmp_path) == {"small": "ok"}
    assert re.search(r"Shades are told apart\. \[few_shot_shades\] +supported", out)
    fetched = ["README.md", TEST, TRAIN, WEIGHTS]
    assert sorted(mirror.asked) == [Request(name, 0) for name in sorted(fetched)]


@pytest.mark.nightly
def test_a_connection_that_is_cut_goes_on_where_it_was(papers, mirror, tmp_path):
    write(tmp_path / "ours" / "model_adapters" / "models.yaml", MODELS.replace(SMALL, LARGE))
    mirror.faults[WEIGHTS] = Fault(cuts=2)
    code, _ = finish(papers("--rows=1"))
    assert code == 0
    assert statuses(tmp_path) == {"small": "ok"}
    first, second, third = [start for name, start in mirror.asked if name == WEIGHTS]
    assert 0 == first < second < third


@pytest.mark.nightly
def test_a_run_killed_in_a_file_fetches_that_file_again_and_no_other(papers, mirror, tmp_path):
    mirror.faults[WEIGHTS] = Fault(pause=0.5)
    started = papers("--rows=1")
    assert mirror.paused.wait(60)
    started.kill()
    started.communicate()
    assert started.returncode == -signal.SIGKILL
    assert statuses(tmp_path) == {}
    mirror.faults.clear()
    assert finish(papers("--rows=1"))[0] == 0
    assert statuses(tmp_path) == {"small": "ok"}
    fetched = ["README.md", TEST, TRAIN, WEIGHTS, WEIGHTS]
    assert sorted(name for name, _ in mirror.asked) == sorted(fetched)


@pytest.mark.nightly
@pytest.mark.parametrize("file", [WEIGHTS, TEST])
def test_a_damaged_file_makes_no_row_and_is_fetched_again(file, papers, mirror, tmp_path):
    mirror.faults[file] = Fault(damaged=True)
    code, out = finish(papers("--rows=1"))
    assert code == 1
    assert f"/{file} is damaged: its digest is " in out
    assert "it was removed: run the command again" in out
    assert statuses(tmp_path) == {}
    mirror.faults.clear()
    assert finish(papers("--rows=1"))[0] == 0
    assert statuses(tmp_path) == {"small": "ok"}
    assert mirror.asked.count(Request(file, 0)) == 2


@pytest.mark.nightly
def test_a_missing_file_of_weights_is_named_and_the_other_row_is_made(papers, mirror, tmp_path):
    mirror.faults[WEIGHTS] = Fault(absent=True)
    code, out = finish(papers())
    assert code == 1
    assert f"{WEIGHTS}.; give a local copy with --model-args weights=PATH\n" in out
    assert statuses(tmp_path) == {"raw-pixels": "ok"}


@pytest.mark.nightly
def test_a_missing_file_of_data_is_named_and_no_row_is_made(papers, mirror, tmp_path):
    mirror.faults[TEST] = Fault(absent=True)
    code, out = finish(papers())
    assert code == 1
    assert re.search(rf"{TEST}\.\); or put a copy at \S+/nowhere", out)
    assert statuses(tmp_path) == {}


@pytest.mark.nightly
def test_a_disk_that_takes_no_more_is_told_and_makes_no_row(papers, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    code, out = finish(papers("--rows=1", preexec_fn=limit))
    assert code == 1
    assert "make room, or set HF_HOME to a folder on another disk, and run the command again" in out
    assert statuses(tmp_path) == {}
    assert finish(papers("--rows=1"))[0] == 0
    assert statuses(tmp_path) == {"small": "ok"}


@pytest.mark.nightly
def test_a_row_of_a_paper_comes_from_files_of_true_shapes(papers, mirror, tmp_path, real_data):
    import open_clip

    records = cifar10(root=real_data / "cifar10_lossless_subset").splits["test"]
    table = parquet([np.asarray(image) for image in records["image"]], list(records["label"]))
    clip = {CLIP_WEIGHTS: save(open_clip.create_model("RN50-quickgelu").state_dict())}
    files = {"README.md": CARD, TRAIN: table, TEST: table}
    mirror.repositories = {DATA: files, "timm/resnet50_clip.openai": clip}
    ours = PAPER.replace("few_shot_shades, models: [small, raw-pixels]", CLIP_ROW)
    write(tmp_path / "ours" / "tasks" / "findings" / "small.yaml", ours)
    mirror.faults[CLIP_WEIGHTS] = Fault(cuts=1)
    code, out = finish(papers())
    assert code == 0
    assert "test lacks 9,800 of 10,000 rows" in out
    assert statuses(tmp_path) == {"clip-rn50": "ok"}
    assert [start > 0 for name, start in mirror.asked if name == CLIP_WEIGHTS] == [False, True]
