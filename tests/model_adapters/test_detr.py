import re
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny_joint import CPU, adapter, noise
from tiny_models import DETR_NAMES, DETR_SMALL, write_detr

from vlbench.capabilities import Picture
from vlbench.errors import WeightsError

Detr = adapter("detr:Detr")
NAME = "detr"


def drawn(*size):
    return Picture(noise(*size), None)


@pytest.fixture
def pictures():
    return [drawn(64, 80), drawn(90, 40, 1), drawn(64, 64, 2)]


def library(folder, picture):
    """Return the library's output for a picture that needs no resizing."""
    processor = transformers.DetrImageProcessor(do_resize=False)
    inputs = processor(picture.image, return_tensors="pt")
    with torch.no_grad():
        return processor, transformers.DetrForObjectDetection.from_pretrained(folder)(**inputs)


def test_regions_are_the_most_confident_query_of_each_category(model, folder, pictures):
    processor, output = library(folder, pictures[0])
    found = model.detect(pictures[:1])[0]
    expected = processor.post_process_object_detection(output, 0.3, [(80, 64)])[0]
    best = {}
    found_by_library = (expected[k] for k in ("scores", "labels", "boxes"))
    for score, label, box in zip(*found_by_library, strict=True):
        if score > best.get(label.item(), (0,))[0]:
            best[label.item()] = (score, box)
    ordered = sorted(best, key=lambda label: -best[label][0])
    assert len(ordered) > 1
    assert len(expected["labels"]) > len(ordered)
    assert found.labels == [DETR_NAMES[label] for label in ordered]
    scores = torch.stack([best[i][0] for i in ordered])
    torch.testing.assert_close(found.scores, scores, rtol=1e-3, atol=1e-4)
    limits = torch.tensor([64, 80, 64, 80])
    boxes = torch.stack([best[i][1] for i in ordered])
    inside = boxes.clamp(min=0).minimum(limits)
    torch.testing.assert_close(found.boxes, inside, rtol=1e-3, atol=1e-3)
    assert found.size == (64, 80)


def test_vectors_are_the_last_decoder_layers(model, folder, pictures):
    _, output = library(folder, pictures[0])
    found = model.detect(pictures[:1])[0]
    highest = output.logits.softmax(-1)[0, :, :-1].max(-1).values
    queries = [(highest - score).abs().argmin() for score in found.scores]
    expected = output.last_hidden_state[0, queries]
    torch.testing.assert_close(found.vectors, expected, rtol=1e-3, atol=1e-4)


def test_a_box_is_encoded_by_the_query_that_overlaps_it_most(model, folder, pictures):
    _, output = library(folder, pictures[0])
    x, y, w, h = (output.pred_boxes[0] * torch.tensor([64, 80, 64, 80])).unbind(1)
    own = torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)
    own = own.clamp(min=0).minimum(torch.tensor([64, 80, 64, 80]))
    vectors = model.encode_regions(pictures[:1], [own[[7, 2]]])[0]
    expected = output.last_hidden_state[0, [7, 2]]
    torch.testing.assert_close(vectors, expected, rtol=1e-3, atol=1e-4)


def test_what_is_detected_is_encoded_by_its_own_query(model, pictures):
    found = model.detect(pictures)
    vectors = model.encode_regions(pictures, [regions.boxes for regions in found])
    for regions, encoded in zip(found, vectors, strict=True):
        assert torch.equal(regions.vectors, encoded)


def test_a_detector_that_finds_nothing_returns_no_regions(folder, pictures):
    model = Detr(device=CPU, architecture=folder, threshold=1.1, **DETR_SMALL)
    found = model.detect(pictures[:1])[0]
    assert (found.boxes.shape, found.vectors.shape, found.labels) == ((0, 4), (0, 16), [])


def seen_by(model, picture, monkeypatch):
    """Return the pixels of a picture that the network is given."""
    seen = []

    def fake(pixel_values):
        seen.append(pixel_values)

    monkeypatch.setattr(model.model, "forward", fake)
    with pytest.raises(AttributeError):
        model.detect([picture])
    return seen[0]


@pytest.mark.parametrize("size", [(640, 480), (500, 333), (333, 500), (400, 400), (900, 300)])
def test_images_get_the_librarys_size(folder, size, monkeypatch):
    model, picture = Detr(device=CPU, architecture=folder), drawn(*size)
    expected = transformers.DetrImageProcessor()(picture.image, return_tensors="pt")
    assert torch.equal(seen_by(model, picture, monkeypatch), expected["pixel_values"])


OWN = {"shortest_edge": 64, "longest_edge": 100}


PROCESSORS = [
    {"size": OWN},
    {"size": {"height": 64, "width": 48}},
    {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": OWN},
    {"do_resize": False, "do_normalize": False},
    {"size": OWN, "resample": 0},
]


@pytest.mark.parametrize("options", PROCESSORS)
def test_pixels_are_those_of_the_checkpoints_own_processor(folder, tmp_path, options, monkeypatch):
    own, picture = shutil.copytree(folder, tmp_path / "own"), drawn(90, 70)
    transformers.DetrImageProcessor(**options).save_pretrained(own)
    seen = seen_by(Detr(device=CPU, architecture=str(own)), picture, monkeypatch)
    processor = transformers.AutoImageProcessor.from_pretrained(own)
    assert torch.equal(seen, processor(picture.image, return_tensors="pt")["pixel_values"])


@pytest.mark.parametrize("own", [OWN, {"height": 64, "width": 48}])
def test_sides_that_are_given_replace_the_processors(folder, tmp_path, own, monkeypatch):
    place, picture = shutil.copytree(folder, tmp_path / "own"), drawn(90, 60)
    transformers.DetrImageProcessor(size=own, do_resize=False).save_pretrained(place)
    model = Detr(device=CPU, architecture=str(place), short_side=40)
    assert seen_by(model, picture, monkeypatch).shape == (1, 3, 40, 60)


def original_name(key):
    """Return the original code's name for a weight of the library."""
    stack = "encoder" if ".encoder." in key else "decoder"
    norms = ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"]
    norms = norms if stack == "decoder" else norms[::2]
    for i, norm in enumerate(norms, 1):
        key = key.replace(f".{norm}.", f".norm{i}.")
    pairs = [
        (r"^model\.backbone\.(conv_encoder\.)?model\.", "backbone.0.body."),
        (r"\.(mlp\.)?fc(\d)\.", r".linear\2."),
        (r"\.o_proj\.", ".out_proj."),
        (r"\.encoder_attn\.", ".multihead_attn."),
        (r"^model\.decoder\.layernorm\.", "transformer.decoder.norm."),
        (r"^model\.(encoder|decoder)\.", r"transformer.\1."),
        (r"^model\.query_position_embeddings\.", "query_embed."),
        (r"^model\.input_projection\.", "input_proj."),
        (r"^class_labels_classifier\.", "class_embed."),
        (r"^bbox_predictor\.", "bbox_embed."),
    ]
    for old, new in pairs:
        key = re.sub(old, new, key)
    return key


def original_layout(folder):
    state = {original_name(k): v for k, v in load_file(f"{folder}/model.safetensors").items()}
    for key in [key for key in state if ".q_proj." in key]:
        parts = [state.pop(key.replace(".q_proj.", f".{p}_proj.")) for p in "qkv"]
        state[key.replace(".q_proj.", ".in_proj_")] = torch.cat(parts)
    return state


@pytest.fixture(scope="module")
def on_timm(tmp_path_factory):
    """A detector with a backbone of the library timm, as the published one has."""
    backbone = {"model_type": "timm_backbone", "backbone": "resnet18", "out_indices": [4]}
    backbone |= {"features_only": True, "use_pretrained_backbone": False}
    return write_detr(tmp_path_factory.mktemp("detr-timm"), backbone)


def test_the_original_layout_gives_the_same(on_timm, tmp_path, pictures):
    state = original_layout(on_timm)
    assert "transformer.decoder.layers.1.multihead_attn.in_proj_weight" in state
    assert "backbone.0.body.layer1.0.bn1.running_var" in state
    torch.save({"model": state}, tmp_path / "detr.pth")
    file = str(tmp_path / "detr.pth")
    found, expected = (
        Detr(device=CPU, architecture=on_timm, weights=weights, threshold=0.0, **DETR_SMALL).detect(
            pictures
        )
        for weights in (file, "pretrained")
    )
    for one, other in zip(found, expected, strict=True):
        assert len(one.boxes) > 0
        assert torch.equal(one.vectors, other.vectors)
        assert torch.equal(one.boxes, other.boxes)
    del state["query_embed.weight"]
    torch.save({"model": state}, tmp_path / "detr.pth")
    with pytest.raises(WeightsError, match=r"lacks 1 weights: .*query_position_embeddings"):
        Detr(device=CPU, architecture=on_timm, weights=file)


def test_random_weights_are_detr_r50_and_need_no_network():
    model = Detr(device=CPU, weights="random", **DETR_SMALL)
    assert model.model.config.num_queries == 100
    assert model.model.class_labels_classifier.out_features == 92
    assert (model._names[1], model._names[12], model._names[90]) == ("person", "N/A", "toothbrush")
    assert len(set(model._names)) == 81
