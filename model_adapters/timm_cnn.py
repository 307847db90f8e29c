"""Image classifiers of timm, such as BiT-M (arXiv:1912.11370) in arXiv:2104.08313."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.class_names import class_order_of, read_class_names
from vlbench.adapter_kit.images import Interpolation, resizing
from vlbench.adapter_kit.layers import LayersOfModel
from vlbench.adapter_kit.library_models import require_timm
from vlbench.adapter_kit.weights import (
    LARGEST_SIZE,
    UNREADABLE,
    cached_file,
    download_error,
    hub_obstacle,
    load_weights,
    read_state_dict,
    require_hub,
    require_sizes,
    require_weights_for,
    seeded,
    unreadable,
    weights_file,
)
from vlbench.data.formats.archives import open_zip
from vlbench.errors import CannotDo, WeightsError
from vlbench.system.files import MOST_CONFIG, read_text

# The key of the head's weights in Google's archives of BiT.
NPZ_HEAD = "resnet/head/conv2d/kernel"

# The files of a model that timm saves in a folder.
FOLDER_FILES = ("config.json", "model.safetensors")


class Recipe(NamedTuple):
    """How timm builds a model, and the names of its classes; empty if timm knows them."""

    name: str
    options: dict[str, Any]
    labels: list[str]


class TimmCnn(LayersOfModel):
    """A classifier of timm. Its features are the pooled inputs of its head.

    A file without a classification head gives only features.

    Args:
        architecture: name in timm, with the tag that determines normalisation and classes, or a
            folder in which timm saved a model (config.json, model.safetensors).
        weights: `pretrained` (of the folder, or of the tag), a file (a state dict, or the .npz
            in which Google published BiT), or `random`.
        revision: branch, tag or commit of the tag's repository on the hub.
        resize: pixels of the shorter side of an image, or of both sides with `squash`.
        crop: pixels of the side of the square cut from the centre; None: equal to `resize`.
        squash: whether both sides are resized to `resize`, which loses the aspect ratio.
        interpolation: how images are resized.
        classes: the outputs of a file: `imagenet`, for the 1,000 classes in their usual
            order, or a file with a name per line; empty: unknown.
        init_seed: seed that draws random weights.
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
        interpolation: Interpolation = "bicubic",
        classes: str = "",
        init_seed: int = 0,
    ) -> None:
        self._steps = resizing(resize, crop, squash=squash, interpolation=interpolation)
        recipe = _read(architecture)
        if weights == "random":
            model = _build(recipe, init_seed)
        elif weights == "pretrained" and not recipe.options:
            model = _load_published(recipe, _find(architecture, weights, revision))
        else:
            model = _load(recipe, _find(architecture, weights, revision))
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        published = self.model.pretrained_cfg
        self._mean = torch.tensor(published["mean"], device=device).view(3, 1, 1)
        self._std = torch.tensor(published["std"], device=device).view(3, 1, 1)
        self._dtype = dtype
        self._labels, self._named = recipe.labels, classes
        is_published = not recipe.options and weights in {"pretrained", "random"}
        self.class_order = class_order_of(classes, self.model.num_classes, published=is_published)
        self._subset = _timm().data.infer_imagenet_subset(self.model) if is_published else ""

    @staticmethod
    def require_weights(architecture: str, weights: str, revision: str) -> None:
        """Raise WeightsError if the weights are neither here nor available; read nothing."""
        if weights != "pretrained" or Path(architecture).expanduser().is_dir():
            if weights != "random":
                _own_file(architecture, weights)
        elif hub_obstacle():  # only then, because importing timm takes seconds
            require_timm(architecture)
            repository = _repository(architecture)
            if not cached_file(repository, [FOLDER_FILES[1]], revision):
                require_hub(f"the weights of {architecture}", f"{repository}, revision {revision}")

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, crop, crop] in [0, 1]."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D]; for BiT's R50x1 the average over positions, D = 2048."""
        maps = self.model.forward_features(self._normalise(pixels))
        features: Tensor = self.model.forward_head(maps, pre_logits=True)
        return features.float()

    def encode_grid(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D, rows, columns], the inputs of the head's pooling.

        Raises CannotDo if timm gives none.
        """
        if not hasattr(self.model, "forward_intermediates"):
            raise CannotDo("timm gives no grid of hidden states of this architecture")
        (grid,) = self.model.forward_intermediates(
            self._normalise(pixels), indices=1, norm=True, intermediates_only=True
        )
        return grid.float()

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, C]."""
        self._require_head()
        scores: Tensor = self.model(self._normalise(pixels))
        return scores.float()

    def class_names(self) -> list[str]:
        """Return the names of the classes, from `classes`, the folder, or timm for its own weights.

        Raises CannotDo if no names are known, WeightsError for a file of a wrong number of names.
        """
        self._require_head()
        count = self.model.num_classes
        if len(self._labels) == count and not self._named:
            return list(self._labels)
        subset = "imagenet-1k" if self.class_order else self._subset
        if not subset or (self._named and not self.class_order):
            return read_class_names(self._named, count)
        return list(_timm().data.ImageNetInfo(subset).label_descriptions())

    def _normalise(self, pixels: Tensor) -> Tensor:
        return ((pixels.float() - self._mean) / self._std).to(self._dtype)

    def _require_head(self) -> None:
        if self.model.num_classes == 0:
            raise CannotDo("this checkpoint has no classification head")


def _timm() -> Any:
    import timm  # noqa: PLC0415 - takes seconds, which only a model that loads should cost

    return timm


def _read(architecture: str) -> Recipe:
    """Return how a named model, or the model of a folder, is built. Raises WeightsError."""
    folder = Path(architecture).expanduser()
    if not folder.is_dir():
        require_timm(architecture)
        return Recipe(architecture, {}, [])
    file = folder / FOLDER_FILES[0]
    try:
        config = json.loads(read_text(file, MOST_CONFIG))
        options = {k: config[k] for k in ("num_classes", "pretrained_cfg")}
        name = config["architecture"]
        if not isinstance(name, str):
            raise TypeError(f"architecture is {name!r}, no name")  # noqa: TRY301
        recipe = Recipe(name, config.get("model_args", {}) | options, [])
        labels = list(config.get("label_names", []))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WeightsError(f"{file} cannot be read as timm's: {error!r}") from error
    require_timm(recipe.name)
    require_sizes(str(file), recipe.options, largest=LARGEST_SIZE)
    return recipe._replace(labels=labels)


def _build(recipe: Recipe, seed: int, **options: Any) -> Any:
    with seeded(seed):
        return _timm().create_model(recipe.name, pretrained=False, **recipe.options | options)


def _find(architecture: str, weights: str, revision: str) -> Path:
    """Return the file of weights, downloaded if needed. Raises WeightsError."""
    if weights != "pretrained" or Path(architecture).expanduser().is_dir():
        return _own_file(architecture, weights)
    return _fetch(_repository(architecture), revision, f"the weights of {architecture}")


def _own_file(architecture: str, weights: str) -> Path:
    """Return a file of weights, or the weights of a folder. Raises WeightsError."""
    if weights != "pretrained":
        return weights_file(weights, "weights is a file, 'pretrained' or 'random'")
    return weights_file(str(Path(architecture).expanduser() / FOLDER_FILES[1]))


def _repository(architecture: str) -> str:
    """Return the hub's repository of published weights. Raises WeightsError if none exists."""
    repository: str | None = _timm().get_pretrained_cfg(architecture).hf_hub_id
    if not repository:
        raise WeightsError(
            f"timm has no weights of {architecture}; give a file with --model-args weights=PATH"
        )
    return repository


def _fetch(repository: str, revision: str, what: str) -> Path:
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - reads HF_HUB_OFFLINE on import

    obstacle = hub_obstacle()
    options = {"revision": revision, "local_files_only": bool(obstacle)}
    try:
        return Path(hf_hub_download(repository, FOLDER_FILES[1], **options))
    except (OSError, ValueError) as error:
        origin = f"{repository}, revision {revision}"
        raise download_error(what, origin, obstacle or error) from error


def _load_published(recipe: Recipe, file: Path) -> Any:
    """Return a model with the weights of its tag. Raises WeightsError.

    timm converts weights that were saved before its code changed.
    """
    state = read_state_dict(file)
    try:
        with seeded(0):
            model = _timm().create_model(
                recipe.name, pretrained=True, pretrained_cfg_overlay={"state_dict": state}
            )
    except UNREADABLE as error:
        raise WeightsError(f"{file} does not fit {recipe.name}: {error}") from error
    del model.pretrained_cfg["state_dict"]
    return model


def _load(recipe: Recipe, file: Path) -> Any:
    """Return a model with a file's weights and number of classes. Raises WeightsError."""
    if file.suffix == ".npz":
        return _load_npz(recipe, file)
    # In a folder saved by transformers, timm's names have a prefix.
    state = {k.removeprefix("timm_model."): v for k, v in read_state_dict(file).items()}
    heads = _timm().get_pretrained_cfg(recipe.name).classifier
    # A distilled network has a second head.
    head = state.get(f"{heads if isinstance(heads, str) else heads[0]}.weight")
    has_head = isinstance(head, Tensor) and head.ndim > 0
    build = partial(_build, recipe, 0, num_classes=len(head) if has_head else 0)
    require_weights_for(recipe.name, [file], build)
    model = build()
    load_weights(model, state, file)
    return model


def _load_npz(recipe: Recipe, file: Path) -> Any:
    """Return a model with Google's weights, which timm converts. Raises WeightsError."""
    try:
        with open_zip(file):
            pass
        with np.load(file, allow_pickle=False) as archive:
            sizes = {name: archive[name].shape for name in archive.files}
    except UNREADABLE as error:
        raise unreadable(file, error) from error
    try:
        model = _build(recipe, 0, num_classes=sizes.get(NPZ_HEAD, (0,))[-1])
        model.load_pretrained(str(file))
    except UNREADABLE as error:
        raise WeightsError(f"{file} does not fit {recipe.name}: {error}") from error
    # timm ignores arrays that have no place in the model.
    held = sum(int(np.prod(shape)) for shape in sizes.values())
    needed = sum(weight.numel() for weight in model.state_dict().values())
    if held != needed:
        raise WeightsError(f"{file} holds {held} weights, but {recipe.name} has {needed}")
    return model
