"""Features of a vision transformer through the engine against a bare loop over transformers.

Run: python benchmarks/hf_vision.py [images]. A DINOv2 of small size with random weights reads JPEGs
of 500 x 375 at 224 x 224. The bare loop calls the library's own image processor and model, batch by
batch. Prints the ratio of CPU times, in turn, and how far the features differ.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from extraction import BATCH, make_images
from measuring import Against, compare

from vlbench.code.fingerprints import identified
from vlbench.code.functions import load_object
from vlbench.data.image_folder import image_folder
from vlbench.data.records import Column
from vlbench.engine import Engine, devices
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.store import Store

CPU = torch.device("cpu")
ROUNDS = 3


def write_model(folder: Path) -> str:
    """Write a DINOv2 of small size with seeded random weights, and its image processor."""
    torch.manual_seed(0)
    config = transformers.Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518)
    transformers.Dinov2Model(config).save_pretrained(folder)
    square = {"height": 224, "width": 224}
    processor = transformers.BitImageProcessor(size={"shortest_edge": 256}, crop_size=square)
    processor.save_pretrained(folder)
    return str(folder)


@torch.no_grad()
def bare_loop(processor: Any, model: Any, images: Column) -> torch.Tensor:
    """Return the features as a script with the library alone would get them."""
    found = []
    for start in range(0, len(images), BATCH):
        rows = range(start, min(start + BATCH, len(images)))
        inputs = processor([images[row] for row in rows], return_tensors="pt")
        found.append(model(**inputs).pooler_output)
    return torch.cat(found)


def main(count: int) -> None:
    """Compare them on the same images."""
    adapters = Path(__file__).resolve().parents[1] / "model_adapters"
    adapter = load_object("hf_vision:HfVision", [adapters])
    with tempfile.TemporaryDirectory() as place:
        folder = write_model(Path(place) / "model")
        images = image_folder(root=make_images(Path(place) / "images", count)).splits["test"]
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        bare = transformers.AutoModel.from_pretrained(folder).eval()
        model = adapter(device=CPU, architecture=folder)
        # Once per model that is loaded, not per image: about what reading its file takes.
        identity = identified(model, {"architecture": folder}, CPU, torch.float32).identity
        devices.set_up(CPU)
        found: dict[str, torch.Tensor] = {}

        def theirs() -> None:
            found["library"] = bare_loop(processor, bare, images["image"])

        def ours() -> None:
            with tempfile.TemporaryDirectory(dir=place) as store:
                settings, known = ComputeSettings(CPU, batch_size=BATCH), {id(model): identity}
                engine = Engine(settings, store=Store(Path(store)), identities=known)
                found["engine"] = engine.features(model.encode_images, images["image"])

        bare_loop(processor, bare, images["image"].select(range(min(BATCH, count))))
        what = f"features of a small DINOv2, {count} images, the model loaded"
        compare(Against(what, "a bare loop of transformers", 1.03), ours, theirs, ROUNDS)
    alike = torch.nn.functional.cosine_similarity(found["engine"], found["library"]).min()
    print(f"least cosine between their features: {alike:.6f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 96)
