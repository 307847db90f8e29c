"""Sources written into a test's folder: tasks, models and images as a user would have them."""

from pathlib import Path

from PIL import Image

TASK = """\
version: 1
probe: few_shot
paper: "a paper"
tags: [ours]
data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
params: {shots: [1], trials: 2}
primary: {metric: accuracy, at: {shots: 1}}
"""

ADAPTER = """\
import torch
from torchvision.transforms.functional import to_tensor

LOADED = []


class MeanColour:
    def __init__(self, *, device, dtype=torch.float32, weights: str = "1.0", shift: float = 0.0):
        LOADED.append(weights)
        self.scale = torch.tensor(float(weights))
        self.shift = shift

    def preprocess(self, image):
        return to_tensor(image)

    def encode_images(self, pixels):
        return pixels.mean((2, 3)) * self.scale + self.shift


class Words:
    def __init__(self, *, device, dtype=torch.float32):
        pass

    def encode_texts(self, texts):
        return torch.zeros(len(texts), 2)


class Fails(MeanColour):
    def encode_images(self, pixels):
        raise RuntimeError("the model broke")


class WillNotLoad:
    def __init__(self, *, device, dtype=torch.float32):
        raise OSError("no weights here")

    preprocess = MeanColour.preprocess
    encode_images = MeanColour.encode_images
"""

MODELS = """\
mean-colour: {adapter: "colours:MeanColour", paper: "none"}
words: {adapter: "colours:Words"}
fails: {adapter: "colours:Fails"}
will-not-load: {adapter: "colours:WillNotLoad"}
gone: {unavailable: "its weights were withdrawn"}
"""

COLOURS = {"blue": (0, 0, 200), "green": (0, 200, 0), "red": (200, 0, 0)}


def make_source(folder: Path, **tasks: str) -> Path:
    """Write a source with one adapter file, images of three colours, and tasks by name."""
    for name, text in (tasks or {"few_shot_colours": TASK}).items():
        write(folder / "tasks" / f"{name}.yaml", text)
    write(folder / "model_adapters" / "colours.py", ADAPTER)
    write(folder / "model_adapters" / "models.yaml", MODELS)
    make_images(folder / "images")
    return folder


def make_images(root: Path, count: int = 3) -> None:
    """Write `count` train and test images of each colour, a little different from each other."""
    for split in ("train", "test"):
        for name, colour in COLOURS.items():
            for i in range(count):
                file = root / split / name / f"{i}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                shade = tuple(c + i + (split == "test") * 7 for c in colour)
                Image.new("RGB", (8, 8), shade).save(file)


def write(file: Path, text: str) -> Path:
    """Write a text file and its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
