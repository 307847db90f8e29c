"""Zero-shot classification as a whole process against CLIP_benchmark's, as a ratio of CPU seconds.

Run: python benchmarks/zero_shot.py [--images 300] [--train 300] [--rounds 3]. So many test and
train JPEGs of 64 x 64 in tar shards, which both read, and a small open_clip model with the same
random weights. Both processes alternate; printed are the ratios of minima of zero-shot alone
(target 1), and of one run of zero-shot, a linear probe (L-BFGS) and 5-shot against three commands
(target 0.4): CLIP_benchmark refuses to train a probe without a GPU, and its zero-shot, which reads
no train images, stands for all three. Its `accuracy` is replaced where NumPy no longer takes its
float(array).
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from measuring import Against, seconds_of_process, told
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


def make_shards(root: Path, counts: Mapping[str, int]) -> Path:
    """Write a shard of test images and one of train images."""
    for seed, (split, count) in enumerate(counts.items()):
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


def ours(folder: Path, *probes: str) -> float:
    """Return the CPU seconds of one run of vlbench, from an empty cache."""
    with tempfile.TemporaryDirectory() as place:
        tasks = ",".join(f"{probe}_noise" for probe in probes)
        words = ["--model", f"open_clip:{folder}/model", "--tasks", tasks, "--device", "cpu"]
        places = ["--include-path", f"{folder}", "--output", f"{place}/boards"]
        words += ["--batch-size", str(BATCH), "--cache-dir", f"{place}/cache", *places]
        return seconds_of_process("-m", "vlbench", *words)


def theirs(folder: Path) -> float:
    """Return the CPU seconds of one command of CLIP_benchmark."""
    words = ["eval", "--dataset", "wds/noise", "--dataset_root", f"{folder}/shards"]
    words += ["--model", f"local-dir:{folder}/model", "--pretrained", "", "--no_amp"]
    words += ["--task", "zeroshot_classification", "--num_workers", "0"]
    words += ["--batch_size", str(BATCH), "--output", f"{folder}/peer.json"]
    return seconds_of_process("-c", PEER, *words)


def main() -> None:
    """Print each round, then the ratios of minima."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in {"images": 300, "train": 300, "rounds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    is_compared = find_spec("clip_benchmark") is not None
    jobs = {
        "zero-shot": lambda: ours(folder, "zero_shot"),
        "zero-shot, linear probe and 5-shot": lambda: ours(folder, *PARAMS),
        "imports": lambda: seconds_of_process("-c", LIBRARIES),
    }
    if is_compared:
        jobs["CLIP_benchmark"] = lambda: theirs(folder)
    else:
        print("no ratios: they need clip_benchmark and webdataset (pip install --no-deps)")
    times: dict[str, list[float]] = {what: [] for what in jobs}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_shards(folder / "shards", {"test": given.images, "train": given.train})
        make_model(folder / "model")
        make_tasks(folder, folder / "shards")
        for _ in range(given.rounds):
            for what, job in jobs.items():
                times[what].append(job())
            print("  " + ", ".join(f"{what} {spent[-1]:.2f} s" for what, spent in times.items()))
    alone, three = [*jobs][:2]
    for what in (alone, three):
        print(f"{what}, beyond imports: {min(times[what]) - min(times['imports']):.2f} s")
    if is_compared:
        peer = times["CLIP_benchmark"]
        size = f"{given.images:,} + {given.train:,} images"
        command = f"CLIP_benchmark {version('clip_benchmark')}"
        told(Against(f"{alone}, {size}", command, 1.0), times[alone], peer)
        commands = Against(f"{three}, {size}", f"three commands of {command}", 0.4)
        told(commands, times[three], [3 * one for one in peer])


if __name__ == "__main__":
    main()
