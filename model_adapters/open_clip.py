"""CLIP and related dual encoders of open_clip. Radford et al. 2021, arXiv:2103.00020."""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn import functional

from vlbench.adapter_kit.hugging_face import transformers_object
from vlbench.adapter_kit.images import pixels_of
from vlbench.adapter_kit.layers import LayersOfModel
from vlbench.adapter_kit.library_models import (
    hub_file,
    hub_folder,
    require_open_clip,
    require_open_clip_tag,
)
from vlbench.adapter_kit.text import Spans, clean_text, token_span, token_vectors
from vlbench.adapter_kit.weights import (
    LARGEST_SIZE,
    UNREADABLE,
    cached_file,
    download_error,
    load_weights,
    read_state_dict,
    require_hub,
    require_sizes,
    require_weights_for,
    seeded,
    weights_file,
)
from vlbench.capabilities import Picture, TokenVectors
from vlbench.data.formats.torch_files import is_torchscript
from vlbench.errors import CannotDo, WeightsError
from vlbench.system.files import MOST_CONFIG, read_text

# open_clip's prefixes for a folder in its own format and for a repository, and its files.
FOLDER, HUB = "local-dir:", "hf-hub:"
CONFIG = "open_clip_config.json"
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
TOKENIZERS = ("*token*", "vocab*", "merges*", "*.model")
SUFFIXES = {".safetensors", ".pt", ".pth", ".bin"}

# Keys that are not weights. The first three mark OpenAI's models, even if their archive was saved
# again; the last is a buffer of old text encoders.
OPENAI_MARKS = {"input_resolution", "context_length", "vocab_size"}
NOT_WEIGHTS = {*OPENAI_MARKS, "text.transformer.embeddings.position_ids"}


class OpenClip(LayersOfModel):
    """An image encoder and a text encoder of open_clip, compared by the cosine of their vectors.

    OpenAI's weights always get the QuickGELU that they were trained with. Random weights of
    BatchNorms are drawn so that a ResNet keeps the scale of its activations.

    Args:
        architecture: name in open_clip, a folder in its local format (open_clip_config.json,
            open_clip_model.safetensors), or such a folder on the hub, `hf-hub:ORG/NAME`.
        weights: pretrained tag of the architecture (for a folder, `openai` means the file in it), a
            file (a state dict, or OpenAI's TorchScript archive), or `random`.
        tag: tag whose weights a file contains: it gives the file's normalisation, resizing
            and activation.
        revision: branch, tag or commit of a folder on the hub.
        quick_gelu: whether a file was trained with QuickGELU; None: `tag` gives it, or open_clip
            has the architecture with only one activation.
        init_seed: seed that draws random weights.
    """

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "RN50-quickgelu",
        weights: str = "openai",
        tag: str = "",
        revision: str = "main",
        quick_gelu: bool | None = None,
        init_seed: int = 0,
    ) -> None:
        if architecture.startswith(HUB):
            architecture = _from_hub(architecture.removeprefix(HUB), revision, weights)
        name = _library_name(architecture)
        library = _library()
        if tag:
            require_open_clip_tag(name, tag)
        recipe = library.get_pretrained_cfg(name, tag or weights)
        file = None if weights == "random" else _find(name, weights)
        state = read_state_dict(file) if file else {}
        if OPENAI_MARKS & state.keys() or (file and is_torchscript(file)):
            recipe = {**recipe, "quick_gelu": True}
        elif quick_gelu is not None:
            recipe = {**recipe, "quick_gelu": quick_gelu}
        elif file and not recipe:
            _require_one_activation(name, file)
        model, self._tokenizer = _build(name, recipe, init_seed, file)
        if file:
            _load(model, state, file)
        else:
            _draw_batch_norms(model, init_seed)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        transform = library.transform
        *self._steps, last = transform.image_transform_v2(
            transform.PreprocessCfg(**model.visual.preprocess_cfg), is_train=False
        ).transforms
        self._mean = torch.tensor(last.mean, device=device).view(3, 1, 1)
        self._std = torch.tensor(last.std, device=device).view(3, 1, 1)
        self._device = device
        self._dtype = dtype
        self.context_length: int = self._tokenizer.context_length

    @staticmethod
    def require_weights(architecture: str, weights: str, revision: str) -> None:
        """Raise WeightsError if weights are unavailable; read none and do not import open_clip."""
        folder = Path(architecture).expanduser()
        if weights == "random" or Path(weights).expanduser().is_file():
            return
        if (folder / CONFIG).is_file() and weights == "openai":
            _own_file(folder)
        elif architecture.startswith(HUB):
            repository = architecture.removeprefix(HUB)
            if not cached_file(repository, [CONFIG], revision):
                require_hub(f"{repository}, revision {revision},", "the hub", "architecture=FOLDER")
        elif _published_tags().is_pretrained_cfg(architecture, weights):
            recipe = _published_tags().get_pretrained_cfg(architecture, weights)
            if not _find_cached(recipe):
                require_hub(*_absent(architecture, weights, recipe))
        elif _is_path(weights):
            weights_file(weights)

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, H, W] in [0, 1], resized and cropped by open_clip."""
        pixels: Any = image
        for step in self._steps:
            pixels = step(pixels)
        assert isinstance(pixels, Tensor)
        return pixels

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D], not of unit length."""
        features: Tensor = self.model.encode_image(self._normalise(pixels), normalize=False)
        return features.float()

    def encode_grid(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D, rows, columns]: patches, or a ResNet's trunk before its pooling.

        Raises CannotDo if the image tower gives neither.
        """
        tower = self.model.visual
        if not hasattr(getattr(tower, "trunk", tower), "forward_intermediates"):
            raise CannotDo("this image tower gives no grid of hidden states")
        outputs = self.model.forward_intermediates(
            self._normalise(pixels),
            image_indices=1,
            normalize_intermediates=True,
            intermediates_only=True,
        )
        grid: Tensor = outputs["image_intermediates"][-1]
        return grid.float()

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [N, D], not of unit length; texts are cut to `context_length` tokens."""
        tokens = self._tokenizer(list(texts)).to(self._device)
        features: Tensor = self.model.encode_text(tokens, normalize=False)
        return features.float()

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the last hidden state of the text tower for each token, before projection.

        Raises CannotDo if the tokenizer gives no spans, or the text tower no hidden states.
        """
        if not hasattr(getattr(self.model, "text", self.model), "ln_final"):
            raise CannotDo(
                "this text tower is from another library, so it gives no vectors of tokens"
            )
        spans = _spans(self._tokenizer, texts)
        tokens = self._tokenizer(list(texts)).to(self._device)
        outputs = self.model.forward_intermediates(
            text=tokens, text_indices=1, normalize_intermediates=True, intermediates_only=True
        )
        return token_vectors(outputs["text_intermediates"][-1].float(), spans)

    def similarity(self, images: Tensor, texts: Tensor) -> Tensor:
        """Return the cosine of each image with each text, [N, M], -1..1."""
        return functional.normalize(images, dim=1) @ functional.normalize(texts, dim=1).T

    def score_pairs(self, pictures: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Return the cosine of each picture with its text, float32 [N], -1..1."""
        seen = self.encode_images(pixels_of(pictures, self.preprocess).to(self._device))
        return functional.cosine_similarity(seen, self.encode_texts(texts))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, with start and end, before the cut."""
        tokenizer = self._tokenizer
        if isinstance(tokenizer, _library().SimpleTokenizer):
            return [len(tokenizer.encode(text)) + 2 for text in texts]
        clean = [tokenizer.clean_fn(text) for text in texts]
        return [len(tokenizer.tokenizer(text, verbose=False).input_ids) for text in clean]

    def _normalise(self, pixels: Tensor) -> Tensor:
        return ((pixels.float() - self._mean) / self._std).to(self._dtype)


def _spans(tokenizer: Any, texts: Sequence[str]) -> list[Spans]:
    """Return the span of each token in the text as given, before cleaning.

    Raises CannotDo for a tokenizer that gives no spans.
    """
    if isinstance(tokenizer, _library().SimpleTokenizer) and tokenizer.reduction_fn is None:
        # All tokens except the first and the last, which are special.
        last = tokenizer.context_length - 1
        return [[None, *_bpe_spans(tokenizer, text)][:last] for text in texts]
    reader = getattr(tokenizer, "tokenizer", None)
    if not getattr(reader, "is_fast", False) or tokenizer.tokenizer_mode:
        raise CannotDo("this model has no fast tokenizer, so its tokens have no spans")
    clean = [clean_text(text, tokenizer.clean_fn) for text in texts]
    limit = {"max_length": tokenizer.context_length, "truncation": True, "padding": "max_length"}
    read = reader([piece.text for piece in clean], return_offsets_mapping=True, **limit)
    return [
        [piece.given(token_span(piece.text, *ends)) for ends in offsets]
        for piece, offsets in zip(clean, read["offset_mapping"], strict=True)
    ]


def _bpe_spans(tokenizer: Any, text: str) -> Spans:
    """Return the span of each token of open_clip's own tokenizer, which works on bytes."""
    clean = clean_text(text, tokenizer.clean_fn)
    spans: Spans = []
    for word in tokenizer.pat.finditer(clean.text):
        characters = [i for i, c in enumerate(word.group(), word.start()) for _ in c.encode()]
        units = "".join(tokenizer.byte_encoder[byte] for byte in word.group().encode())
        start = 0
        for unit in tokenizer.bpe(units).split(" "):
            end = start + len(unit.removesuffix("</w>"))
            is_special = tokenizer.encoder[unit] in tokenizer.all_special_ids
            span = characters[start], characters[end - 1] + 1
            spans.append(None if is_special else clean.given(span))
            start = end
    return spans


def _library() -> Any:
    import open_clip  # noqa: PLC0415 - takes seconds, which only a model that loads should cost

    transformers_object("dynamic_module_utils")  # which open_clip calls without asking about code
    return open_clip


def _published_tags() -> Any:
    """Return open_clip's table of published weights, without its import, which takes seconds.

    The file is imported as a module of an empty package with open_clip's folder.
    """
    spec = importlib.util.find_spec("open_clip")
    assert spec
    package = ModuleType("vlbench_open_clip")
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules.setdefault(package.__name__, package)
    return importlib.import_module(f"{package.__name__}.pretrained")


def _library_name(architecture: str) -> str:
    """Return open_clip's name for an architecture or a folder. Raises WeightsError."""
    folder = Path(architecture).expanduser()
    if architecture not in _library().list_models():
        if (folder / CONFIG).is_file():
            return f"{FOLDER}{folder}"
        if folder.is_dir() or _is_path(architecture):
            raise WeightsError(f"no {CONFIG} in the folder {folder}")
        require_open_clip(architecture)
    return architecture


def _from_hub(repository: str, revision: str, weights: str) -> str:
    """Return the folder of a repository, without its weights if others replace them."""
    instead, is_openai = "--model open_clip:./FOLDER", weights == "openai"
    files = [CONFIG, *TOKENIZERS, *WEIGHTS[:is_openai]]
    folder = hub_folder(repository, files, revision, instead)
    if is_openai and not (folder / WEIGHTS[0]).is_file():
        hub_file(repository, WEIGHTS[1], revision, instead)
    return str(folder)


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text or Path(text).suffix in SUFFIXES


def _find(name: str, weights: str) -> Path:
    """Return the file of weights, downloaded if needed. Raises WeightsError."""
    if _library().is_pretrained_cfg(name, weights):
        return _fetch(name, weights)
    if name.startswith(FOLDER) and weights == "openai":
        return _own_file(Path(name.removeprefix(FOLDER)))
    if not Path(weights).expanduser().is_file() and not _is_path(weights):
        require_open_clip_tag(name, weights)
    return weights_file(weights)


def _require_one_activation(name: str, file: Path) -> None:
    """Raise WeightsError if an architecture exists with GELU and with QuickGELU."""
    twin = f"{name}-quickgelu"
    if twin in _library().list_models():
        raise WeightsError(
            f"{file} does not declare whether it was trained with the GELU of {name} or with "
            f"OpenAI's QuickGELU; give architecture={twin} (if it was trained from OpenAI's "
            "weights), quick_gelu=false, or the tag=TAG that it is a copy of"
        )


def _own_file(folder: Path) -> Path:
    files = [folder / file for file in WEIGHTS]
    return weights_file(str(next(filter(Path.is_file, files), files[0])))


def _fetch(name: str, tag: str) -> Path:
    """Return the file of a tag, from the local cache or from the hub. Raises WeightsError."""
    recipe = _library().get_pretrained_cfg(name, tag)
    if file := _find_cached(recipe):
        return file
    absent = _absent(name, tag, recipe)
    require_hub(*absent)
    try:
        return Path(_library().download_pretrained(recipe))
    except (OSError, RuntimeError) as error:
        what, origin, instead = absent
        raise download_error(what, origin, error, instead) from error


def _find_cached(recipe: Mapping[str, Any]) -> Path | None:
    """Return the file of published weights in the local cache."""
    repository, _, file = recipe["hf_hub"].rpartition("/")
    return cached_file(repository, [file] if file else WEIGHTS)


def _absent(name: str, tag: str, recipe: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the description of absent weights, their origin, and arguments for a local copy."""
    origin = recipe["hf_hub"] or recipe["url"]
    return f"the weights of {name}, tag {tag},", origin, f"weights=PATH,tag={tag}"


def _build(name: str, recipe: Mapping[str, Any], seed: int, file: Path | None) -> tuple[Any, Any]:
    """Return a model with weights drawn from a seed, and its tokenizer.

    Raises WeightsError, also for a model that is far larger than the weights in its file.
    """
    library = _library()
    try:
        config = _config(name)
        require_sizes(name.removeprefix(FOLDER), config, largest=LARGEST_SIZE)
        if recipe.get("quick_gelu") is False and config.get("quick_gelu"):
            raise ValueError("its configuration has QuickGELU, but quick_gelu=false means GELU")
        # Custom code is refused, whatever the configuration states.
        extra = {"trust_remote_code": False} if config["text_cfg"].get("hf_tokenizer_name") else {}
        build = partial(
            library.create_model,
            name,
            load_weights=False,
            pretrained_text=False,
            force_quick_gelu=recipe.get("quick_gelu", False),
            force_preprocess_cfg=dict(recipe),
        )
        with _without_warnings(), seeded(seed):
            if file:
                require_weights_for(name, [file], partial(build, device="meta"))
            return build(), library.get_tokenizer(name, **extra)
    except UNREADABLE as error:
        raise WeightsError(f"{name} cannot be built: {error}") from error


def _config(name: str) -> Mapping[str, Any]:
    """Return the configuration of an architecture, or of a folder."""
    if not name.startswith(FOLDER):
        return cast(Mapping[str, Any], _library().get_model_config(name))
    file = Path(name.removeprefix(FOLDER), CONFIG)
    return cast(Mapping[str, Any], json.loads(read_text(file, MOST_CONFIG))["model_cfg"])


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress open_clip's warning of random weights, which are replaced right after."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _draw_batch_norms(model: nn.Module, seed: int) -> None:
    """Give the BatchNorms of a new model weights that keep the scale of its activations.

    Torch's initial convolution divides the variance by three and a ReLU halves it, so a weight of
    6 ** 0.5, which is in 2..3, restores it. The last BatchNorm of a residual branch, whose initial
    weights are zero, gets 0.5..1 so that the branch adds less than its input.
    """
    rng = torch.Generator().manual_seed(seed)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            low, high = (2.0, 3.0) if layer.weight.any() else (0.5, 1.0)
            nn.init.uniform_(layer.weight, low, high, generator=rng)


def _load(model: Any, state: Mapping[str, Any], file: Path) -> None:
    """Load weights into a model, also from other layouts that open_clip can convert."""
    from open_clip.convert import convert_state_dict  # noqa: PLC0415 - as in _library
    from open_clip.model import convert_to_custom_text_state_dict  # noqa: PLC0415

    try:
        state = convert_state_dict(model, {k: v for k, v in state.items() if k not in NOT_WEIGHTS})
        if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
            state = convert_to_custom_text_state_dict(state)
    except UNREADABLE as error:
        raise WeightsError(f"{file} cannot be converted for open_clip: {error}") from error
    load_weights(model, state, file)
