"""Ratios on a GPU: extraction against the bare forward pass, and attacks against foolbox.

Run: python benchmarks/gpu.py [device]. Needs PyTorch with vlbench's libraries, and no data: images
are noise, weights are random. On one H100 it should take some minutes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vlbench.code.fingerprints import identified
from vlbench.code.functions import load_object
from vlbench.data.image_folder import image_folder
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine, devices
from vlbench.engine.devices import ComputeSettings, loader_workers
from vlbench.engine.store import Store
from vlbench.engine.tuning import tune
from vlbench.probes.generalization.robustness import robustness
from vlbench.probes.generalization.rpgd import Descent

ADAPTERS = Path(__file__).resolve().parents[1] / "model_adapters"

# Images per model: a minute or less of an H100.
MODELS = {"RN50-quickgelu": 49152, "ViT-L-14-quickgelu": 6144}

EPSILONS = [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016]
STEPS, ATTACKED, ATTACK_BATCH = 20, 40, 10


class Speed(NamedTuple):
    """Images per second of the engine, from files to stored features, and of the forward pass."""

    engine: float
    forward: float

    @property
    def ratio(self) -> float:
        """The engine's speed over that of the forward pass."""
        return self.engine / self.forward


class Repeated(Sequence[Any]):
    """The values of a sequence over and over, each read from its file every time."""

    def __init__(self, values: Sequence[Any], count: int) -> None:
        self._values = values
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return self._values[place % len(self._values)]


def make_model(device: torch.device, architecture: str) -> Any:
    """Return a dual encoder of open_clip with seeded random weights."""
    adapter = load_object("open_clip:OpenClip", [ADAPTERS])
    return adapter(device=device, architecture=architecture, weights="random")


def make_images(folder: Path, count: int) -> Column:
    """Return test images of an image folder: 256 JPEGs of 256 x 256, each named many times."""
    rng = np.random.default_rng(0)
    for i in range(256):
        file = folder / "test" / f"class {i % 4}" / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8))
        small.resize((256, 256), Image.Resampling.BICUBIC).save(file, quality=90)
        train = folder / "train" / f"class {i % 4}" / f"{i}.jpg"
        if i < 4:
            train.parent.mkdir(parents=True, exist_ok=True)
            train.write_bytes(file.read_bytes())
    images: Column = image_folder(root=folder).splits["test"]["image"]
    # Another column: a row that stands twice in one column is computed once.
    return Column(f"{images.key} {count}", "image", Repeated(images.stored, count), range(count))


def seconds(device: torch.device, job: Callable[[], object]) -> float:
    """Return the wall time of one call, with all that it leaves the GPU to do."""
    start = time.perf_counter()
    job()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def extraction(
    device: torch.device, architecture: str, count: int, batch_size: int | None = None
) -> Speed:
    """Return the speed of extraction; None takes the batch size that vlbench measures."""
    devices.set_up(device)
    model = make_model(device, architecture)
    with tempfile.TemporaryDirectory() as folder:
        images = make_images(Path(folder) / "images", count)
        settings = ComputeSettings(device, batch_size=batch_size, workers=loader_workers(device))
        settings = settings if batch_size else tune(settings, model.encode_images, images)
        identity = identified(model, {"weights": "random"}, device, torch.float32).identity
        store = Store(Path(folder) / "store")
        engine = Engine(settings, store=store, identities={id(model): identity})
        spent = seconds(device, lambda: engine.features(model.encode_images, images))
        forward = forward_speed(device, model, model.preprocess(images[0]), settings, count)
    return Speed(count / spent, forward)


@torch.no_grad()
def forward_speed(
    device: torch.device, model: Any, example: Tensor, settings: ComputeSettings, count: int
) -> float:
    """Return images per second of the forward pass alone, on one batch that lies on the device."""
    batch = torch.rand((settings.rows_per_batch, *example.shape), device=device)
    if settings.channels_last:
        batch = batch.contiguous(memory_format=torch.channels_last)
    turns = max(1, count // len(batch))
    seconds(device, lambda: model.encode_images(batch))
    spent = seconds(device, lambda: [model.encode_images(batch).sum().item() for _ in range(turns)])
    return turns * len(batch) / spent


class Classifier:
    """A network of 10 classes as an adapter."""

    def __init__(self, device: torch.device, net: nn.Module) -> None:
        self.net = net.eval().to(device)
        self.net.requires_grad_(requires_grad=False)

    def preprocess(self, image: Image.Image) -> Tensor:
        """Return the pixels as they are."""
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255

    def class_names(self) -> list[str]:
        """Return numbers for names."""
        return [str(i) for i in range(10)]

    def logits(self, pixels: Tensor) -> Tensor:
        """Return [N, 10]."""
        scores: Tensor = self.net(pixels)
        return scores


def attack_ways(
    device: torch.device,
    net: nn.Module,
    *,
    images: int,
    side: int,
    epsilons: Sequence[float],
    steps: int = STEPS,
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return robustness, and foolbox, which takes one epsilon after the other.

    Both attack the same images, untargeted and targeted, with the same steps. The probe also
    classifies the images before and after.
    """
    import foolbox  # noqa: PLC0415 - it warns

    devices.set_up(device)
    model, rng = Classifier(device, net), np.random.default_rng(0)
    stored = [
        Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)) for _ in range(images)
    ]
    column = Column("noise", "image", stored, range(images))
    pixels = torch.stack([model.preprocess(image) for image in stored]).to(device)
    # What is wrong already is not attacked.
    with torch.no_grad():
        label = torch.cat([model.logits(x).argmax(1) for x in pixels.split(ATTACK_BATCH)])
    split = Split({"image": column, "label": value_column(label.tolist())})
    data = Data(splits={"test": split}, classes=model.class_names())
    rule = {"steps": steps, "rel_stepsize": 2.5 / steps}
    attacked = foolbox.PyTorchModel(model.net, bounds=(0, 1), device=device)
    attack = foolbox.attacks.LinfPGD(random_start=True, **rule)
    misled = foolbox.criteria.Misclassification
    taken = foolbox.criteria.TargetedMisclassification

    def one_by_one() -> None:
        for x, y in zip(pixels.split(ATTACK_BATCH), label.split(ATTACK_BATCH), strict=True):
            for epsilon in epsilons:
                attack(attacked, x, misled(y), epsilons=epsilon)
                attack(attacked, x, taken((y + 1) % 10), epsilons=epsilon)

    def probe() -> None:
        options = {"target_offset": 1, "sample": None}
        options["attack"] = Descent(batch_size=ATTACK_BATCH, **rule)
        engine = Engine(ComputeSettings(device))
        robustness(model, data, engine, epsilons={"linf": list(epsilons)}, **options)

    attack(attacked, pixels[:ATTACK_BATCH], misled(label[:ATTACK_BATCH]), epsilons=0.01)
    return probe, one_by_one


def attacks(
    device: torch.device,
    architecture: str,
    *,
    images: int = ATTACKED,
    side: int = 224,
    epsilons: Sequence[float] = EPSILONS,
) -> float:
    """Return the time of robustness over that of foolbox, on a ResNet of torchvision."""
    from torchvision.models import get_model  # noqa: PLC0415 - takes seconds

    torch.manual_seed(0)
    net = get_model(architecture, num_classes=10)
    probe, one_by_one = attack_ways(device, net, images=images, side=side, epsilons=epsilons)
    spent = seconds(device, one_by_one)
    return seconds(device, probe) / spent


def main(name: str) -> None:
    """Print one line per measurement."""
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("needs a GPU that PyTorch can use; give cpu as the device to run without one")
    for architecture, count in MODELS.items():
        speed = extraction(device, architecture, count)
        print(
            f"{architecture}: engine {speed.engine:.0f} images/s, "
            f"forward pass {speed.forward:.0f}, ratio {speed.ratio:.2f}"
        )
    print(f"robustness / foolbox one by one: {attacks(device, 'resnet50'):.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "cuda")
