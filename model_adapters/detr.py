"""DETR. Carion et al. 2020, arXiv:2005.12872."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.hugging_face import Checkpoint, transformers_object
from vlbench.adapter_kit.images import images_of
from vlbench.capabilities import Picture, Regions

# The categories of COCO by their ids, 0 to 90; a dash marks an unused id.
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

# The length of an image's shorter side in pixels, and the maximum of its longer side.
SIDES = {"shortest_edge": 800, "longest_edge": 1333}

# Patterns of the original code's names, and the names in transformers' published checkpoints.
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


class Queries(NamedTuple):
    """Q queries: vectors [Q, D], boxes [Q, 4] xyxy pixels, probabilities of classes [Q, C]."""

    vectors: Tensor
    boxes: Tensor
    probabilities: Tensor


class Detr:
    """A detector whose region vectors are its queries after the last decoder layer.

    A file and random weights get the configuration of DETR-R50 unless `architecture` is a folder.

    The checkpoint's image processor makes the pixels; if there is none, DETR's does. Each
    picture goes through the model separately, because a batch's padding changes the backbone's
    outputs at the edges of a picture.

    Args:
        architecture: name of a model on the hub, or a folder in transformers' format.
        weights: `pretrained` (the architecture's), a folder that replaces it, a file of the
            original code, or `random`.
        revision: branch, tag or commit of the architecture on the hub.
        threshold: least confidence of a detected region, 0 to 1.
        short_side: pixels of the shorter side of a picture; None takes the processor's, 800 for
            DETR.
        long_side: most pixels of the longer side of a picture; None takes the processor's, 1333 for
            DETR.
        init_seed: seed that draws random weights.
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
        short_side: int | None = None,
        long_side: int | None = None,
        init_seed: int = 0,
    ) -> None:
        checkpoint = Checkpoint(architecture, weights, revision, init_seed, rename=_rename)
        own_weights = bool(checkpoint.file) or checkpoint.seed is not None
        is_r50 = own_weights and not checkpoint.is_local
        config = _resnet50() if is_r50 else checkpoint.config
        opened = checkpoint.open("DetrForObjectDetection", device, dtype, config=config)
        self.model = opened.model
        self._names: list[str] = [config.id2label[i] for i in range(config.num_labels)]
        self._threshold = threshold
        processor = _processor(None if is_r50 else checkpoint)
        sides = {"shortest_edge": short_side, "longest_edge": long_side}
        sizes = SIDES | dict(processor.size)
        size = {name: sizes[name] if side is None else side for name, side in sides.items()}
        resizing = {"size": size, "do_resize": True} if any(sides.values()) else {}
        self._pixels = partial(processor, do_pad=False, return_tensors="pt", **resizing)
        self._device = device
        self._dtype = dtype

    @staticmethod
    def require_weights(architecture: str, weights: str, revision: str) -> None:
        """Raise WeightsError if the weights are neither here nor available; read nothing."""
        checkpoint = Checkpoint(architecture, weights, revision, rename=_rename)
        if weights == "pretrained":
            checkpoint.require_here()

    def detect(self, pictures: Sequence[Picture]) -> list[Regions]:
        """Return the most confident region of each category, in descending order of confidence.

        Regions below `threshold` are omitted, so a picture may have no regions. Labels are the
        names of categories.
        """
        return [self._best(self._queries(image), image.size) for image in images_of(pictures)]

    def encode_regions(self, pictures: Sequence[Picture], boxes: Sequence[Tensor]) -> list[Tensor]:
        """Return, for each box, the vector of the query whose box has the highest IoU with it.

        Among queries of equal IoU it is the first.
        """
        vectors = []
        for image, corners in zip(images_of(pictures), boxes, strict=True):
            queries = self._queries(image)
            overlaps = _box_operations().box_iou(corners.to(queries.boxes), queries.boxes)
            vectors.append(queries.vectors[overlaps.nan_to_num(0).argmax(1)])
        return vectors

    def _queries(self, image: Image) -> Queries:
        pixels = self._pixels(image)["pixel_values"].to(self._device, self._dtype)
        output = self.model(pixel_values=pixels)
        scale = torch.tensor([*image.size, *image.size], device=self._device)
        operations = _box_operations()
        boxes = operations.box_convert(output.pred_boxes[0].float(), "cxcywh", "xyxy") * scale
        inside = operations.clip_boxes_to_image(boxes, (image.size[1], image.size[0]))
        # The last class means "no object".
        probabilities = output.logits[0].float().softmax(-1)[:, :-1]
        return Queries(output.last_hidden_state[0].float(), inside, probabilities)

    def _best(self, queries: Queries, size: tuple[int, int]) -> Regions:
        scores, labels = queries.probabilities.max(-1)
        best: dict[int, int] = {}
        for query in scores.argsort(descending=True, stable=True).tolist():
            if scores[query] >= self._threshold:
                best.setdefault(int(labels[query]), query)
        kept = torch.tensor(list(best.values()), dtype=torch.long, device=scores.device)
        names = [self._names[label] for label in best]
        return Regions(queries.boxes[kept], queries.vectors[kept], scores[kept], names, size)


def _box_operations() -> Any:
    from torchvision import ops  # noqa: PLC0415 - takes seconds

    return ops


def _processor(checkpoint: Checkpoint | None) -> Any:
    """Return the image processor of a checkpoint, or DETR's if it has none."""
    if checkpoint is None or checkpoint.lacks("preprocessor_config.json"):
        return transformers_object("DetrImageProcessor")()
    return checkpoint.load("AutoImageProcessor")


def _resnet50() -> Any:
    """Return the configuration of DETR-R50."""
    names = ["N/A" if name == "-" else name for name in COCO]
    return transformers_object("DetrConfig")(num_labels=len(names), id2label=dict(enumerate(names)))


def _rename(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the original code's weights under transformers' names.

    The original code stores query, key and value of an attention layer in one matrix.
    """
    renamed: dict[str, Any] = {}
    for key, value in state.get("model", state).items():
        name = key
        for old, new in RENAMED:
            name = re.sub(old, new, name)
        if ".in_proj_" in name:
            parts = zip("qkv", value.chunk(3), strict=True)
            renamed |= {name.replace("in_proj_", f"{p}_proj."): part for p, part in parts}
        else:
            renamed[name] = value
    return renamed
