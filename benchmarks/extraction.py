"""Extraction as a whole process against ten lines without a harness, and against thingsvision.

Run: python benchmarks/extraction.py [images [rounds]]. `vlbench features` writes the features that
ResNet-18 has of JPEGs of 500 x 375 to a file, from an empty store; so do a bare loop over
torchvision and, where it can be imported, thingsvision, with the same random weights, batches and
pixels. Printed are ratios of CPU seconds, the least of some rounds in turn (target 1.03), and how
far the features differ. Then how many images two probes over the same images pass.
"""

import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from measuring import Against, seconds_of_process, told
from PIL import Image

import vlbench

BATCH = 32

DRAW = """
import sys, torch, torchvision
torch.manual_seed(0)
torch.save(torchvision.models.resnet18().state_dict(), sys.argv[1])
"""
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
PEER = """
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
    """Write `count` test JPEGs of 500 x 375 in 10 classes, and 2 train images a class."""
    rng = np.random.default_rng(0)
    for i in range(count + 20):
        split = "test" if i < count else "train"
        file = folder / split / f"class {i % 10}" / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8))
        small.resize((500, 375), Image.Resampling.BICUBIC).save(file, quality=90)
    return folder


def ours(weights: Path, images: Path, out: Path) -> float:
    """Return the CPU seconds of `vlbench features`."""
    sizes = "resize=256,crop=224,interpolation=bilinear"
    with tempfile.TemporaryDirectory() as cache:
        words = ["features", "torchvision:resnet18/random", str(images), "-o", str(out)]
        words += ["--model-args", f"weights={weights},{sizes}", "--cache-dir", cache]
        return seconds_of_process("-m", "vlbench", *words, "--device", "cpu")


def compare(count: int, rounds: int) -> None:
    """Print the ratios to the bare loop and, if it is there, to thingsvision."""
    peers = {"a bare loop": BARE}
    if find_spec("thingsvision"):
        peers[f"thingsvision {version('thingsvision')}"] = PEER
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images, weights = make_images(folder / "images", count) / "test", folder / "resnet18.pth"
        seconds_of_process("-c", DRAW, str(weights))
        own, times = [], {peer: [] for peer in peers}
        for _ in range(rounds):
            own.append(ours(weights, images, folder / "ours.npz"))
            for peer, code in peers.items():
                words = (weights, images, folder / f"{peer}.npz", BATCH)
                times[peer].append(seconds_of_process("-c", code, *map(str, words)))
            shown = [own[-1], *(spent[-1] for spent in times.values())]
            print("  " + ", ".join(f"{one:.2f} s" for one in shown), flush=True)
        found = np.load(folder / "ours.npz")["vectors"]
        apart = {peer: found - np.load(folder / f"{peer}.npz")["features"] for peer in peers}
    for peer, spent in times.items():
        print(f"largest difference from {peer}: {np.abs(apart[peer]).max():.1e}")
        told(Against(f"features of ResNet-18, {count:,} images", peer, 1.03), own, spent)


def count_passes(count: int) -> None:
    """Print how many images two probes passed through the model, and how many there are."""

    class Counting:
        """Counts what passes through it."""

        fingerprint = "counting"
        passed = 0

        def preprocess(self, image: Image.Image) -> torch.Tensor:
            return torch.from_numpy(np.array(image.resize((8, 8)))).permute(2, 0, 1) / 255

        def encode_images(self, pixels: torch.Tensor) -> torch.Tensor:
            Counting.passed += len(pixels)
            return pixels.flatten(1)

    with tempfile.TemporaryDirectory() as folder:
        root = make_images(Path(folder) / "images", count)
        for probe, params, at in (
            ("few_shot", "{shots: [1], trials: 2}", "{metric: accuracy, at: {shots: 1}}"),
            ("clustering", "{}", "{metric: accuracy}"),
        ):
            task = Path(folder) / "tasks" / f"{probe}.yaml"
            task.parent.mkdir(exist_ok=True)
            task.write_text(
                f"version: 1\nprobe: {probe}\nparams: {params}\nprimary: {at}\ndata:\n"
                f"  loader: 'vlbench.data.image_folder:image_folder'\n  root: {root}\n"
            )
        vlbench.evaluate(
            Counting(), ["few_shot", "clustering"], include_path=[Path(folder)], cache_dir=None
        )
    print(f"two probes: {Counting.passed} images passed, {count + 20} distinct images")


if __name__ == "__main__":
    images = int(sys.argv[1]) if sys.argv[1:] else 96
    compare(images, int(sys.argv[2]) if sys.argv[2:] else 3)
    count_passes(images)
