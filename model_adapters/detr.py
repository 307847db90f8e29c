"""DETR. Carion et al. 2020, arXiv:2005.12872."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL.Image import Image, Resampling
from torch import Tensor
from torchvision.ops import box_convert, box_iou, clip_boxes_to_image
from torchvision.transforms.functional import normalize, to_tensor
from transformers import AutoConfig, DetrConfig, DetrForObjectDetection

from vlbench.adapter_kit.hugging_face import Source, draw_model, load_state
from vlbench.adapter_kit.images import images_of
from vlbench.adapter_kit.weights import read_state_dict
from vlbench.capabilities import Picture, Regions
from vlbench.errors import CannotDo

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# COCO's categories by their ids, 0 to 90; a dash where an id has none.
COCO_NAMES = """
- person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant -
stop_sign parking_meter bench bird cat dog horse sheep cow elephant bear zebra giraffe -
backpack umbrella - - handbag tie suitcase frisbee skis snowboard sports_ball kite
baseball_bat baseball_glove skateboard surfboard tennis_racket bottle - wine_glass cup fork
knife spoon bowl banana apple sandwich orange broccoli carrot hot_dog pizza donut cake chair
couch potted_plant bed - dining_table - - toilet - tv laptop mouse remote keyboard
cell_phone microwave oven toaster sink refrigerator - book clock vase scissors teddy_bear
hair_drier toothbrush
"""
COCO = [name.replace("_", " ") for name in COCO_NAMES.split()]

# From the original code's names to those that the library's published checkpoints have.
RENAMED = (
    (r"^backbone\.0\.body\.", "model.backbone.conv_encoder.model."),
    (r"^transformer\.decoder\.norm\.", "model.decoder.layernorm."),
    (r"^(transformer\.encoder\..*)\.norm2\.", r"\1.final_layer_norm."),
    (r"^(transformer\.decoder\..*)\.norm2\.", r"\1.encoder_attn_layer_norm."),
    (r"\.norm1\.", ".self_attn_layer_norm."),
    (r"\.norm3\.", ".final_layer_norm."),
    (r"\.multihead_attn\.", ".encoder_attn."),
    (r"\.linear([12])\.", r".fc\1."),
    (r"^transformer\.", "model."),
    (r"^query_embed\.", "model.query_position_embeddings."),
    (r"^input_proj\.", "model.input_projection."),
    (r"^class_embed\.", "class_labels_classifier."),
    (r"^bbox_embed\.", "bbox_predictor."),
)


class Seen(NamedTuple):
    """What Q queries saw: vectors [Q, D], boxes [Q, 4] in pixels, probabilities [Q, classes]."""

    vectors: Tensor
    boxes: Tensor
    shares: Tensor


class Detr:
    """A detector whose queries, as the last decoder layer leaves them, are the region vectors.

    `architecture` is a name of the hub, at `revision`, or a folder in the library's own format.
    `weights` is "pretrained" (the architecture's own), a folder in its place, a file of the
    original code, or "random", drawn with `init_seed`. The last two have the shape of DETR-R50
    unless `architecture` is a folder.

    Images keep their shape: `short_side` pixels for the shorter side unless the longer would pass
    `long_side`. Each picture goes alone through the model, because the padding of a batch would
    change what the backbone sees at its edges.
    """

    def __init__(  # noqa: PLR0913 - models.yaml fills them by name
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        architecture: str = "facebook/detr-resnet-50",
        weights: str = "pretrained",
        revision: str = "main",
        threshold: float = 0.7,
        short_side: int = 800,
        long_side: int = 1333,
        init_seed: int = 0,
    ) -> None:
        own = weights == "random" or Path(weights).expanduser().is_file()
        source = Source(architecture, "random" if own else weights, revision)
        named = not own or Path(architecture).expanduser().is_dir()
        config = source.load(AutoConfig) if named else _resnet50()
        if config.model_type != "detr":
            raise CannotDo(f"{source.name} is no DETR")
        model, missing = _build(source, config, weights, init_seed)
        source.refuse(missing)
        self.model = model.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._names: list[str] = [config.id2label[i] for i in range(config.num_labels)]
        self._threshold = threshold
        self._sides = (short_side, long_side)
        self._device = device
        self._dtype = dtype

    def detect(self, pictures: Sequence[Picture]) -> list[Regions]:
        """Return the surest query of each category that is at least `threshold` sure of it.

        The surest first; none where nothing is found. Labels are the names of categories.
        """
        return [self._found(self._look(image), image.size) for image in images_of(pictures)]

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return, for each box, the vector of the query whose own box overlaps it most (by IoU).

        Of queries that overlap it equally, or not at all, the first.
        """
        vectors = []
        for image, given in zip(images_of(pictures), boxes, strict=True):
            seen = self._look(image)
            overlaps = box_iou(given.to(seen.boxes), seen.boxes).nan_to_num(0)
            vectors.append(seen.vectors[overlaps.argmax(1)])
        return vectors

    def _look(self, image: Image) -> Seen:
        resized = image.resize(self._size(*image.size), Resampling.BILINEAR)
        pixels = normalize(to_tensor(resized), MEAN, STD)[None].to(self._device, self._dtype)
        output = self.model(pixel_values=pixels)
        scale = torch.tensor([*image.size, *image.size], device=self._device)
        boxes = box_convert(output.pred_boxes[0].float(), "cxcywh", "xyxy") * scale
        inside = clip_boxes_to_image(boxes, (image.size[1], image.size[0]))
        # The last class is that there is no object.
        shares = output.logits[0].float().softmax(-1)[:, :-1]
        return Seen(output.last_hidden_state[0].float(), inside, shares)

    def _size(self, width: int, height: int) -> tuple[int, int]:
        short, long = min(width, height), max(width, height)
        side = min(self._sides[0], self._sides[1] * short / long)
        wide, high = (
            max(round(side) if edge == short else int(side * edge / short), 1)
            for edge in (width, height)
        )
        return wide, high

    def _found(self, seen: Seen, size: tuple[int, int]) -> Regions:
        scores, labels = seen.shares.max(-1)
        surest: dict[int, int] = {}
        for query in scores.argsort(descending=True, stable=True).tolist():
            if scores[query] >= self._threshold:
                surest.setdefault(int(labels[query]), query)
        kept = torch.tensor(list(surest.values()), dtype=torch.long, device=scores.device)
        names = [self._names[label] for label in surest]
        return Regions(seen.boxes[kept], seen.vectors[kept], scores[kept], names, size)


def _resnet50() -> Any:
    names = ["N/A" if name == "-" else name for name in COCO]
    return DetrConfig(num_labels=len(names), id2label=dict(enumerate(names)))


def _build(source: Source, config: Any, weights: str, seed: int) -> tuple[Any, list[str]]:
    """Return a model, and the names of the weights that its files lack."""
    file = Path(weights).expanduser()
    if weights == "random":
        return draw_model(DetrForObjectDetection, config, seed), []
    if file.is_file():
        state = read_state_dict(file)
        return load_state(DetrForObjectDetection, config, _renamed(state.get("model", state)), file)
    return source.load_model(DetrForObjectDetection, config)


def _renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the original code's weights under the library's names.

    Query, key and value lie there in one matrix.
    """
    renamed: dict[str, Any] = {}
    for key, value in state.items():
        name = key
        for old, new in RENAMED:
            name = re.sub(old, new, name)
        if ".in_proj_" in name:
            parts = zip("qkv", value.chunk(3), strict=True)
            renamed |= {name.replace("in_proj_", f"{p}_proj."): part for p, part in parts}
        else:
            renamed[name] = value
    return renamed
