"""Zero-shot classification as a whole process against CLIP_benchmark's, as a ratio of CPU seconds.

Run: python benchmarks/zero_shot.py [--images 300] [--rounds 3]. So many test and so many train
JPEGs of 64 x 64 in tar shards, which both read, and a small open_clip model with the same random
weights. Both processes alternate; printed are the ratios of minima of zero-shot classification
alone (target 1), and of one run of zero-shot, a linear probe (L-BFGS) and 5-shot against three
commands (target 0.4): CLIP_benchmark refuses to train a probe without a GPU, and its zero-shot
stands for all three. Its `accuracy` is replaced where NumPy no longer takes its float(array). Then
the CPU seconds of importing the libraries that such a process needs, and of vlbench beyond them.
"""

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES, SIDE, BATCH = 10, 64, 64
PROMPT = "a photo of a {}."
MODEL = {
    "model_cfg": {
        "embed_dim": 32,
        "vision_cfg": {"image_size": SIDE, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
        "text_cfg": {"context_length": 77, "width": 32, "heads": 2, "layers": 1},
    },
    "preprocess_cfg": {},
}
PARAMS = {
    "zero_shot": {"prompts": PROMPT},
    "transfer": {"training": {"optimizer": "lbfgs", "weight_decay": 5e-4}},
    "few_shot": {"shots": [5], "trials": 10, "seed": 0},
}
AT = {"few_shot": {"shots": 5}}
LIBRARIES = "import torch, torchvision, open_clip"
DRAW = """
import sys
import open_clip, torch
from safetensors.torch import save_file
torch.manual_seed(0)
model = open_clip.create_model(f"local-dir:{sys.argv[1]}", load_weights=False)
save_file(model.state_dict(), f"{sys.argv[1]}/open_clip_model.safetensors")
"""
PEER = """
import sys
from clip_benchmark import cli
from clip_benchmark.metrics import zeroshot_classification

def accuracy(output, target, topk=(1,)):
    right = output.topk(max(topk), 1)[1] == target[:, None]
    return [right[:, :k].any(1).float().mean().item() for k in topk]

zeroshot_classification.accuracy = accuracy
sys.exit(cli.main())
"""


def jpegs(count: int, seed: int) -> Iterator[bytes]:
    """Yield JPEGs of noise."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        file = io.BytesIO()
        pixels = rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
        Image.fromarray(pixels).save(file, "JPEG")
        yield file.getvalue()


def make_shards(root: Path, count: int) -> Path:
    """Write a shard of test images and one of train images."""
    for seed, split in enumerate(("test", "train")):
        (root / split).mkdir(parents=True)
        (root / split / "nshards.txt").write_text("1")
        with tarfile.open(root / split / "0.tar", "w") as archive:
            for i, image in enumerate(jpegs(count, seed)):
                for suffix, content in (("jpg", image), ("cls", str(i % CLASSES).encode())):
                    info = tarfile.TarInfo(f"s{i:07}.{suffix}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    (root / "classnames.txt").write_text("".join(f"class {i}\n" for i in range(CLASSES)))
    (root / "zeroshot_classification_templates.txt").write_text(PROMPT.replace("{}", "{c}"))
    return root


def make_model(folder: Path) -> Path:
    """Write a model with random weights in open_clip's local format."""
    folder.mkdir()
    (folder / "open_clip_config.json").write_text(json.dumps(MODEL))
    command = [sys.executable, "-c", DRAW, str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def make_tasks(folder: Path, shards: Path) -> None:
    """Write one task per probe."""
    (folder / "tasks").mkdir()
    data = {
        "loader": "vlbench.data.webdataset:images",
        "root": str(shards),
        "splits": {"train": "train", "test": "test"},
    }
    for probe, params in PARAMS.items():
        primary = {"metric": "accuracy", "at": AT.get(probe, {})}
        task = {"version": 1, "probe": probe, "data": data, "params": params, "primary": primary}
        (folder / "tasks" / f"{probe}_noise.yaml").write_text(json.dumps(task))


def cpu_seconds(*words: str) -> float:
    """Return the CPU seconds of a whole process of Python and of its workers."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        sys.exit(f"{words[:4]} failed:\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(folder: Path, *probes: str) -> float:
    """Return the CPU seconds of one run of vlbench, from an empty cache."""
    with tempfile.TemporaryDirectory() as place:
        tasks = ",".join(f"{probe}_noise" for probe in probes)
        words = ["--model", f"open_clip:{folder}/model", "--tasks", tasks, "--device", "cpu"]
        places = ["--include-path", f"{folder}", "--output", f"{place}/boards"]
        words += ["--batch-size", str(BATCH), "--cache-dir", f"{place}/cache", *places]
        return cpu_seconds("-m", "vlbench", *words)


def theirs(folder: Path) -> float:
    """Return the CPU seconds of one command of CLIP_benchmark."""
    words = ["eval", "--dataset", "wds/noise", "--dataset_root", f"{folder}/shards"]
    words += ["--model", f"local-dir:{folder}/model", "--pretrained", "", "--no_amp"]
    words += ["--task", "zeroshot_classification", "--num_workers", "0"]
    words += ["--batch_size", str(BATCH), "--output", f"{folder}/peer.json"]
    return cpu_seconds("-c", PEER, *words)


def main() -> None:
    """Print each round, then the ratios of minima."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    is_compared = find_spec("clip_benchmark") is not None
    jobs = {
        "vlbench, zero-shot": lambda: ours(folder, "zero_shot"),
        "vlbench, three tasks": lambda: ours(folder, *PARAMS),
        "imports": lambda: cpu_seconds("-c", LIBRARIES),
    }
    if is_compared:
        jobs["CLIP_benchmark"] = lambda: theirs(folder)
    else:
        print("no ratios: they need clip_benchmark and webdataset (pip install --no-deps)")
    times: dict[str, list[float]] = {what: [] for what in jobs}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_shards(folder / "shards", given.images)
        make_model(folder / "model")
        make_tasks(folder, folder / "shards")
        for _ in range(given.rounds):
            for what, job in jobs.items():
                times[what].append(job())
            print(", ".join(f"{what} {spent[-1]:.2f} s" for what, spent in times.items()))
    alone, three, imports = (min(times[what]) for what in [*jobs][:3])
    print(
        f"vlbench beyond imports: {alone - imports:.2f} s alone, {three - imports:.2f} s of three"
    )
    if is_compared:
        peer = min(times["CLIP_benchmark"])
        print(f"zero-shot alone: ratio {alone / peer:.2f}; target 1")
        print(f"three tasks: ratio {three / peer / 3:.2f}; target 0.4")


if __name__ == "__main__":
    main()
