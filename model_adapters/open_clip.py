"""CLIP and its kin, by the library open_clip. Radford et al. 2021, arXiv:2103.00020."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import open_clip
import torch
from huggingface_hub import try_to_load_from_cache
from open_clip.convert import convert_state_dict
from open_clip.model import convert_to_custom_text_state_dict
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn import functional
from torchvision.transforms import Normalize

from vlbench import hub
from vlbench.adapter_kit.images import pixels_of
from vlbench.adapter_kit.weights import fill, is_torchscript, read_state_dict
from vlbench.capabilities import Picture
from vlbench.errors import UnknownNameError, WeightsError, unknown

# How the library marks a folder in its own format, and what it calls the files there.
FOLDER = "local-dir:"
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
SUFFIXES = {".safetensors", ".pt", ".pth", ".bin"}

# Not weights. By the first three OpenAI's are known, even where their archive was saved anew; the
# last is a buffer of old text towers.
OPENAI_MARKS = {"input_resolution", "context_length", "vocab_size"}
NOT_WEIGHTS = {*OPENAI_MARKS, "text.transformer.embeddings.position_ids"}


class OpenClip:
    """The two towers of a model that open_clip can build, and the cosine between them.

    `architecture` is one of open_clip's names, or a folder in its local format
    (open_clip_config.json and open_clip_model.safetensors). `weights` is a pretrained tag of the
    architecture (of a folder: "openai", the default, is its own file), a file of weights (a state
    dict, or OpenAI's TorchScript archive), or "random". `tag` says of which tag a file is a copy:
    its normalisation, resizing and activation then hold for the file. OpenAI's weights always get
    the QuickGELU that they were trained with, whatever the architecture's name says.

    Random weights are drawn with `init_seed`; the global generator stays as it was. In the
    library's fresh ResNets the residual branches are dead (their last BatchNorm weighs zero) and
    the signal fades with depth, so here their BatchNorms get random weights that keep its scale.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "RN50-quickgelu",
        weights: str = "openai",
        tag: str = "",
        init_seed: int = 0,
    ) -> None:
        name = _library_name(architecture)
        if tag and not open_clip.is_pretrained_cfg(name, tag):
            raise _unknown_tag(name, tag)
        recipe = open_clip.get_pretrained_cfg(name, tag or weights)
        file = None if weights == "random" else _find(name, weights)
        state = read_state_dict(file) if file else {}
        if OPENAI_MARKS & state.keys() or (file and is_torchscript(file)):
            recipe = {**recipe, "quick_gelu": True}
        model, self._tokenizer = _build(name, recipe, init_seed)
        if file:
            _fill(model, state, file)
        else:
            _wake(model, init_seed)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        *steps, last = image_transform_v2(
            PreprocessCfg(**model.visual.preprocess_cfg), is_train=False
        ).transforms
        assert isinstance(last, Normalize)
        self._steps = steps
        self._mean = torch.tensor(last.mean, device=device).view(3, 1, 1)
        self._std = torch.tensor(last.std, device=device).view(3, 1, 1)
        self._device = device
        self._dtype = dtype
        self.context_length: int = self._tokenizer.context_length

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1]: the library's own resizing and cropping."""
        picture: Any = image
        for step in self._steps:
            picture = step(picture)
        assert isinstance(picture, Tensor)
        return picture

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D], not of unit length."""
        normalised = (pixels.float() - self._mean) / self._std
        features: Tensor = self.model.encode_image(normalised.to(self._dtype), normalize=False)
        return features.float()

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [N, D], not of unit length; what passes `context_length` is cut off."""
        tokens = self._tokenizer(list(texts)).to(self._device)
        features: Tensor = self.model.encode_text(tokens, normalize=False)
        return features.float()

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return the cosine of each image with each text, [N, M], -1..1."""
        return functional.normalize(images, dim=1) @ functional.normalize(texts, dim=1).T

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the cosine of each picture with its text, float32 [N], -1..1."""
        seen = self.encode_images(pixels_of(pictures, self.preprocess).to(self._device))
        return functional.cosine_similarity(seen, self.encode_texts(texts))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, start and end included, before it is cut."""
        tokenizer = self._tokenizer
        if isinstance(tokenizer, open_clip.SimpleTokenizer):
            return [len(tokenizer.encode(text)) + 2 for text in texts]
        cleaned = [tokenizer.clean_fn(text) for text in texts]
        return [len(tokenizer.tokenizer(text).input_ids) for text in cleaned]


def _library_name(architecture: str) -> str:
    """Return what open_clip calls an architecture or a folder."""
    folder = Path(architecture).expanduser()
    if architecture in open_clip.list_models():
        return architecture
    if (folder / "open_clip_config.json").is_file():
        return f"{FOLDER}{folder}"
    if folder.is_dir() or _is_path(architecture):
        raise WeightsError(f"no open_clip_config.json in the folder {folder}")
    raise unknown("architecture of open_clip", architecture, open_clip.list_models())


def _unknown_tag(name: str, tag: str) -> UnknownNameError:
    known = open_clip.list_pretrained_tags_by_model(name)
    return unknown(f"pretrained tag of {name}", tag, [*known, "random"])


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text or Path(text).suffix in SUFFIXES


def _find(name: str, weights: str) -> Path:
    """Return the file of weights, downloaded where it has to be."""
    if open_clip.is_pretrained_cfg(name, weights):
        return _fetch(name, weights)
    own = name.startswith(FOLDER) and weights == "openai"
    file = Path(name.removeprefix(FOLDER), WEIGHTS[0]) if own else Path(weights).expanduser()
    if file.is_file():
        return file
    if own or _is_path(weights):
        raise WeightsError(f"no file of weights at {file}")
    raise _unknown_tag(name, weights)


def _fetch(name: str, tag: str) -> Path:
    """Return the file of a tag: from the local cache, else from the hub."""
    recipe = open_clip.get_pretrained_cfg(name, tag)
    repository, _, file = recipe["hf_hub"].rpartition("/")
    cached = [try_to_load_from_cache(repository, f) for f in ([file] if file else WEIGHTS)]
    found = next((Path(path) for path in cached if isinstance(path, str)), None)
    if found:
        return found
    refusal = (
        f"the weights of {name}, tag {tag}, cannot be downloaded from "
        f"{recipe['hf_hub'] or recipe['url']}: {{}}; they can be given as a local file: "
        f"--model-args weights=PATH,tag={tag}"
    )
    if hub.is_offline() or not hub.reachable():
        why = "this run is offline" if hub.is_offline() else "the hub cannot be reached"
        raise WeightsError(refusal.format(why))
    try:
        return Path(open_clip.download_pretrained(recipe))
    except (OSError, RuntimeError) as error:
        raise WeightsError(refusal.format(error)) from error


def _build(name: str, recipe: Mapping[str, Any], seed: int) -> tuple[Any, Any]:
    """Return a fresh model with seeded weights, and its tokenizer."""
    try:
        with _in_silence(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model = open_clip.create_model(
                name,
                load_weights=False,
                pretrained_text=False,
                force_quick_gelu=recipe.get("quick_gelu", False),
                force_preprocess_cfg=dict(recipe),
            )
            return model, open_clip.get_tokenizer(name)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise WeightsError(f"{name} cannot be built: {error}") from error


@contextmanager
def _in_silence() -> Iterator[None]:
    """Keep the library from warning of random weights that are filled a moment later."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _wake(model: nn.Module, seed: int) -> None:
    """Give the BatchNorms of a fresh model weights that keep the scale of what passes.

    Torch draws a convolution that divides the variance by three, and a ReLU halves it: 6 ** 0.5
    lies in the middle of 2..3. A residual branch, weight zero until now, adds less than it gets.
    """
    rng = torch.Generator().manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            low, high = (2.0, 3.0) if layer.weight.any() else (0.5, 1.0)
            nn.init.uniform_(layer.weight, low, high, generator=rng)


def _fill(model: Any, state: Mapping[str, Any], file: Path) -> None:
    """Put weights into a model, from the older and other layouts that the library knows too."""
    state = convert_state_dict(model, {k: v for k, v in state.items() if k not in NOT_WEIGHTS})
    if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
        state = convert_to_custom_text_state_dict(state)
    fill(model, state, file)
