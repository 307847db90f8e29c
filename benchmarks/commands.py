"""Speeds of whole processes, from their imports to their exit, against those of other programs."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
import torchvision
from measuring import Pair, run_python
from PIL import Image
from safetensors.torch import save_file

BARE = """
import sys
from pathlib import Path
import numpy as np, torch, torchvision
from PIL import Image
weights, folder, out, batch = sys.argv[1:]
net = torchvision.models.resnet18()
net.load_state_dict(torch.load(weights))
net.fc = torch.nn.Identity()
net.eval()
see = torchvision.models.ResNet18_Weights.DEFAULT.transforms()
files, found = sorted(Path(folder).glob("*/*.jpg")), []
with torch.inference_mode():
    for i in range(0, len(files), int(batch)):
        some = [see(Image.open(file).convert("RGB")) for file in files[i : i + int(batch)]]
        found.append(net(torch.stack(some)))
np.savez(out, features=torch.cat(found).numpy())
"""
THINGSVISION = """
import sys
import numpy
for name in ("AxisError", "float_"):  # which NumPy 2 has no more
    vars(numpy).setdefault(name, getattr(numpy.exceptions, name, numpy.float64))
from thingsvision import get_extractor
from thingsvision.utils.data import DataLoader, ImageDataset
weights, folder, out, batch = sys.argv[1:]
extractor = get_extractor(
    model_name="resnet18", source="torchvision", device="cpu", pretrained=False, model_path=weights
)
images = ImageDataset(
    root=folder, out_path=out + ".d", backend="pt", transforms=extractor.get_transformations()
)
batches = DataLoader(dataset=images, batch_size=int(batch), backend="pt")
found = extractor.extract_features(batches, module_name="avgpool", flatten_acts=True)
numpy.savez(out, features=found)
"""


def make_images(folder: Path, count: int) -> Path:
    """Write `count` test JPEGs of 500 x 375 in 10 classes, and two train images of each class."""
    rng = np.random.default_rng(0)
    for i in range(count + 20):
        split = "test" if i < count else "train"
        file = folder / split / f"class {i % 10}" / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8))
        small.resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
    return folder


def features(peer: str, code: str, counts: Mapping[int, int], batch: int) -> Iterator[Pair]:
    """Compare `vlbench features` of ResNet-18, from an empty store, with another program.

    Both have the same random weights, batches and pixels, and must find the same features. `counts`
    has rounds by numbers of images.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        torch.manual_seed(0)
        weights = folder / "resnet18.pth"
        torch.save(torchvision.models.resnet18().state_dict(), weights)
        sizes = "resize=256,crop=224,interpolation=bilinear"
        for count, rounds in counts.items():
            images = make_images(folder / f"{count}", count) / "test"
            files = [folder / f"{count} {way}.npz" for way in ("ours", "theirs")]

            def ours(images: Path = images, out: Path = files[0]) -> None:
                words = ["features", "torchvision:resnet18/random", images, "-o", out]
                words += ["--model-args", f"weights={weights},{sizes}", "--device", "cpu"]
                with tempfile.TemporaryDirectory() as cache:
                    run_python("-m", "vlbench", *words, "--cache-dir", cache)

            def theirs(images: Path = images, out: Path = files[1]) -> None:
                run_python("-c", code, weights, images, out, batch)

            what = f"features of ResNet-18, {count:,} images"
            yield Pair(what, peer, ours, theirs, 1.03, rounds)
            vectors, others = np.load(files[0])["vectors"], np.load(files[1])["features"]
            print(f"largest difference from {peer}: {np.abs(vectors - others).max():.1e}")


def bare_loop(*, counts: Mapping[int, int], batch: int = 32) -> Iterator[Pair]:
    """Compare `vlbench features` with ten lines without a harness."""
    yield from features("a bare loop", BARE, counts, batch)


def thingsvision(*, counts: Mapping[int, int], batch: int = 32) -> Iterator[Pair]:
    """Compare `vlbench features` with thingsvision."""
    yield from features(f"thingsvision {version('thingsvision')}", THINGSVISION, counts, batch)


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
PROBES = {
    "zero_shot": ({"prompts": PROMPT}, {}),
    "transfer": ({"training": {"optimizer": "lbfgs", "weight_decay": 5e-4}}, {}),
    "few_shot": ({"shots": [5], "trials": 10, "seed": 0}, {"shots": 5}),
}

# Its `accuracy` is replaced, since NumPy no longer takes its float(array).
CLIP_BENCHMARK = """
import sys
from clip_benchmark import cli
from clip_benchmark.metrics import zeroshot_classification

def accuracy(output, target, topk=(1,)):
    right = output.topk(max(topk), 1)[1] == target[:, None]
    return [right[:, :k].any(1).float().mean().item() for k in topk]

zeroshot_classification.accuracy = accuracy
sys.exit(cli.main())
"""


def make_shards(root: Path, counts: Mapping[str, int]) -> None:
    """Write a tar shard of so many JPEGs of noise for each split."""
    rng = np.random.default_rng(0)
    for split, count in counts.items():
        (root / split).mkdir(parents=True)
        (root / split / "nshards.txt").write_text("1")
        with tarfile.open(root / split / "0.tar", "w") as archive:
            for i in range(count):
                jpeg = io.BytesIO()
                pixels = rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
                Image.fromarray(pixels).save(jpeg, "JPEG")
                members = {"jpg": jpeg.getvalue(), "cls": str(i % CLASSES).encode()}
                for suffix, content in members.items():
                    info = tarfile.TarInfo(f"s{i:07}.{suffix}")
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    (root / "classnames.txt").write_text("".join(f"class {i}\n" for i in range(CLASSES)))
    (root / "zeroshot_classification_templates.txt").write_text(PROMPT.replace("{}", "{c}"))


def make_model(folder: Path) -> None:
    """Write a model with random weights in open_clip's local format."""
    import open_clip  # noqa: PLC0415 - takes seconds

    folder.mkdir()
    (folder / "open_clip_config.json").write_text(json.dumps(MODEL))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")


def make_tasks(folder: Path, shards: Path) -> None:
    """Write a task for each probe."""
    folder.mkdir()
    splits = {"train": "train", "test": "test"}
    data = {"loader": "vlbench.data.webdataset:images", "root": str(shards), "splits": splits}
    for probe, (params, at) in PROBES.items():
        primary = {"metric": "accuracy", "at": at}
        task = {"version": 1, "probe": probe, "data": data, "params": params, "primary": primary}
        (folder / f"{probe}_noise.yaml").write_text(json.dumps(task))


def zero_shot(*, sizes: Sequence[tuple[int, int]]) -> Iterator[Pair]:
    """Compare zero-shot, and with a linear probe and 5-shot, with CLIP_benchmark.

    `sizes` are numbers of test and of train images. CLIP_benchmark refuses to train a probe without
    a GPU, so that three times its zero-shot, which reads no train images, stands for all three.
    """
    command = f"CLIP_benchmark {version('clip_benchmark')}"
    for test, train in sizes:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            make_shards(folder / "shards", {"test": test, "train": train})
            make_model(folder / "model")
            make_tasks(folder / "tasks", folder / "shards")
            alone, three = (our_run(folder, probes) for probes in (["zero_shot"], [*PROBES]))
            theirs = their_run(folder)
            size = f"{test:,} + {train:,} images"
            yield Pair(f"zero-shot, {size}", command, alone, theirs, 1)
            what = f"zero-shot, linear probe and 5-shot, {size}"
            peer = f"three commands of {command}"
            yield Pair(what, peer, three, lambda run=theirs: [run() for _ in range(3)], 0.4)


def our_run(folder: Path, probes: Sequence[str]) -> Callable[[], None]:
    """Return a run of vlbench on the tasks of some probes, from an empty cache."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as place:
            tasks = ",".join(f"{probe}_noise" for probe in probes)
            words = ["--model", f"open_clip:{folder}/model", "--tasks", tasks, "--device", "cpu"]
            words += ["--include-path", f"{folder}", "--output", f"{place}/boards"]
            words += ["--batch-size", BATCH, "--cache-dir", f"{place}/cache"]
            run_python("-m", "vlbench", *words)

    return run


def their_run(folder: Path) -> Callable[[], None]:
    """Return a command of CLIP_benchmark."""
    words = ["eval", "--dataset", "wds/noise", "--dataset_root", f"{folder}/shards"]
    words += ["--model", f"local-dir:{folder}/model", "--pretrained", "", "--no_amp"]
    words += ["--task", "zeroshot_classification", "--num_workers", "0"]
    words += ["--batch_size", f"{BATCH}", "--output", f"{folder}/peer.json"]
    return lambda: run_python("-c", CLIP_BENCHMARK, *words)


EMBEDDED = ["--model", "tiny-clip,tiny-bert,tiny-rn,tiny-vlm,tiny-uniter", "--tasks", "embedded"]
KEPT = ["--model", "raw-pixels", "--tasks", "few_shot_digits"]


def startup(*, dry_run: Sequence[str] = EMBEDDED) -> Iterator[Pair]:
    """Compare commands that load no model with interpreters that do no more than they must."""
    listings = (["--help"], ["ls", "tasks"], ["ls", "models"], ["show", "few_shot_digits"])
    with tempfile.TemporaryDirectory() as folder:
        places = ["--cache-dir", f"{folder}/cache", "--output", f"{folder}/boards"]
        run_python("-m", "vlbench", *KEPT, *places)
        bare = {" ".join(words): (words, "pass") for words in listings}
        bare["data few_shot_digits"] = (["data", "few_shot_digits"], "import torch")
        bare["dry run of embedded tasks"] = ([*dry_run, "--dry-run", *places], "import torch")
        bare["a run whose row is there"] = ([*KEPT, *places], "import torch")
        for what, (words, least) in bare.items():

            def ours(words: Sequence[str] = words) -> None:
                run_python("-m", "vlbench", *words)

            def theirs(least: str = least) -> None:
                run_python("-c", least)

            yield Pair(what, f"python -c '{least}'", ours, theirs, rounds=9)
