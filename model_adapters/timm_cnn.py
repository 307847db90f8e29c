"""Image classifiers that timm can build; of arXiv:2104.08313, BiT-M (arXiv:1912.11370)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import timm
import torch
from huggingface_hub import hf_hub_download
from PIL.Image import Image
from timm.data import ImageNetInfo, infer_imagenet_subset
from torch import Tensor

from vlbench import hub
from vlbench.adapter_kit.images import resizing
from vlbench.adapter_kit.weights import UNREADABLE, fill, read_state_dict
from vlbench.errors import CannotDo, WeightsError, unknown

# Where Google's archives keep the weights of BiT's head.
NPZ_HEAD = "resnet/head/conv2d/kernel"


# What timm calls the two files of a model that it saves in a folder.
FOLDER_FILES = ("config.json", "model.safetensors")


class Recipe(NamedTuple):
    """How timm builds a model, and the names of its classes; none where timm has to know them."""

    name: str
    options: dict[str, Any]
    labels: list[str]


class TimmCnn:
    """A classifier of timm: its logits, and as features what its head reads after pooling.

    `architecture` is timm's name, with the tag whose normalisation and classes hold, or a folder
    as timm saves a model (config.json and model.safetensors), which says both itself. `weights` is
    "pretrained" (the tag's own, at `revision` of its repository, or the folder's), a file in its
    place (a state dict, or the .npz that Google published of BiT), or "random", drawn with
    `init_seed`. A file without a classification head gives features alone.

    `resize` is the length of the shorter side, bicubic, or of both with `squash`; `crop` is the
    side of the square taken from the centre, None for as large as `resize`.
    """

    def __init__(  # noqa: PLR0913 - models.yaml and tasks fill them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "resnetv2_50x1_bit.goog_in21k",
        weights: str = "pretrained",
        revision: str = "main",
        resize: int = 256,
        crop: int | None = None,
        squash: bool = False,
        init_seed: int = 0,
    ) -> None:
        self._steps = resizing(resize, crop, squash=squash)
        recipe = _read(architecture)
        if weights == "random":
            model = _build(recipe, init_seed)
        else:
            model = _load(recipe, _find(architecture, weights, revision))
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        colours = self.model.pretrained_cfg
        self._mean = torch.tensor(colours["mean"], device=device).view(3, 1, 1)
        self._std = torch.tensor(colours["std"], device=device).view(3, 1, 1)
        self._dtype = dtype
        self._labels = recipe.labels

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, crop, crop] in [0, 1]."""
        pixels: Tensor = self._steps(image)
        return pixels

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D]; of BiT's R50x1 the average over positions, D = 2048."""
        seen = self.model.forward_features(self._normalised(pixels))
        features: Tensor = self.model.forward_head(seen, pre_logits=True)
        return features.float()

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, C]."""
        self._require_head()
        scores: Tensor = self.model(self._normalised(pixels))
        return scores.float()

    def class_names(self) -> list[str]:
        """Return the names of the classes: a folder's own, or timm's of its subsets of ImageNet."""
        self._require_head()
        if len(self._labels) == self.model.num_classes:
            return list(self._labels)
        subset = infer_imagenet_subset(self.model)
        if not subset:
            count = self.model.num_classes
            raise CannotDo(f"the names of this checkpoint's {count} classes are not known")
        return list(ImageNetInfo(subset).label_descriptions())

    def _normalised(self, pixels: Tensor) -> Tensor:
        return ((pixels.float() - self._mean) / self._std).to(self._dtype)

    def _require_head(self) -> None:
        if self.model.num_classes == 0:
            raise CannotDo("this checkpoint has no classification head")


def _read(architecture: str) -> Recipe:
    """Return how a model is built, by its name or as its folder says. Raises WeightsError."""
    folder = Path(architecture).expanduser()
    if not folder.is_dir():
        _require_known(architecture)
        return Recipe(architecture, {}, [])
    file = folder / FOLDER_FILES[0]
    try:
        config = json.loads(file.read_text("utf-8"))
        options = {k: config[k] for k in ("num_classes", "pretrained_cfg")}
        recipe = Recipe(config["architecture"], config.get("model_args", {}) | options, [])
        labels = list(config.get("label_names", []))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{file} cannot be read as timm's: {error!r}") from error
    _require_known(recipe.name)
    return recipe._replace(labels=labels)


def _require_known(architecture: str) -> None:
    """Raise UnknownNameError for an architecture, or a tag of one, that timm does not have."""
    name, _, tag = architecture.partition(".")
    if not timm.is_model(name):
        raise unknown("architecture of timm", name, timm.list_models())
    known = timm.list_models(f"{name}.*", pretrained=True)
    if tag and architecture not in known:
        raise unknown("model of timm", architecture, known)


def _build(recipe: Recipe, seed: int, **options: Any) -> Any:
    """Return a fresh model with seeded weights; the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return timm.create_model(recipe.name, pretrained=False, **recipe.options | options)


def _find(architecture: str, weights: str, revision: str) -> Path:
    """Return the file of weights, downloaded where it has to be."""
    if weights != "pretrained":
        file = Path(weights).expanduser()
        if not file.is_file():
            raise WeightsError(f"no file of weights at {file}; there are 'pretrained' and 'random'")
        return file
    own = Path(architecture).expanduser() / FOLDER_FILES[1]
    if own.parent.is_dir():
        if not own.is_file():
            raise WeightsError(f"no file of weights at {own}")
        return own
    repository = timm.get_pretrained_cfg(architecture).hf_hub_id
    if not repository:
        raise WeightsError(
            f"timm has no weights of {architecture}; a file can be given: --model-args weights=PATH"
        )
    offline = hub.is_offline() or not hub.reachable()
    options = {"revision": revision, "local_files_only": offline}
    try:
        return Path(hf_hub_download(repository, "model.safetensors", **options))
    except (OSError, ValueError) as error:
        why = "the hub cannot be reached" if offline else str(error)
        raise WeightsError(
            f"the weights of {architecture} cannot be downloaded from {repository}, revision "
            f"{revision}: {why}; they can be given as a local file: --model-args weights=PATH"
        ) from error


def _load(recipe: Recipe, file: Path) -> Any:
    """Return a model with a file's weights and as many classes. Raises WeightsError."""
    if file.suffix == ".npz":
        return _load_npz(recipe, file)
    state = read_state_dict(file)
    head = state.get(f"{timm.get_pretrained_cfg(recipe.name).classifier}.weight")
    model = _build(recipe, 0, num_classes=0 if head is None else len(head))
    fill(model, state, file)
    return model


def _load_npz(recipe: Recipe, file: Path) -> Any:
    """Return a model with Google's weights, which timm converts, passing over what is too many."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            sizes = {name: archive[name].shape for name in archive.files}
        classes = sizes.get(NPZ_HEAD, (0,))[-1]
        model = _build(recipe, 0, num_classes=classes)
        model.load_pretrained(str(file))
    except (*UNREADABLE, AttributeError) as error:
        raise WeightsError(f"{file} does not fit {recipe.name}: {error}") from error
    held = sum(int(np.prod(shape)) for shape in sizes.values())
    wanted = sum(weight.numel() for weight in model.state_dict().values())
    if held != wanted:
        raise WeightsError(f"{file} holds {held} weights, {recipe.name} has {wanted}")
    return model
