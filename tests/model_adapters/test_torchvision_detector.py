from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torchvision.transforms.functional import to_tensor

from vlbench.capabilities import Picture, offered
from vlbench.check import check_adapter
from vlbench.errors import CannotDo, UnknownNameError, WeightsError
from vlbench.resolve import load_object

FOLDER = Path(__file__).parents[2] / "model_adapters"
Detector = load_object("torchvision_detector:TorchvisionDetector", [FOLDER])
SMALL = {"device": torch.device("cpu"), "shorter": 64, "longer": 96}
LITTLE = {**SMALL, "architecture": "fasterrcnn_mobilenet_v3_large_320_fpn", "weights": "random"}


def draw(width, height, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Picture(Image.fromarray(pixels), None)


@pytest.fixture(scope="module")
def detector():
    return Detector(threshold=0.0, most=5, **LITTLE)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder of torch's hub whose file for the tag COCO_V1 has weights of our own."""
    folder = tmp_path_factory.mktemp("hub")
    torch.manual_seed(3)
    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None
    )
    state = {k: v for k, v in model.state_dict().items() if "num_batches" not in k}
    # So small that an epsilon shows; and without the branches, which random weights let explode.
    state["backbone.body.bn1.running_var"].fill_(1e-4)
    for name, values in state.items():
        if name.endswith("bn3.weight"):
            values.fill_(0)
    (folder / "checkpoints").mkdir()
    torch.save(state, folder / "checkpoints/fasterrcnn_resnet50_fpn_coco-258fb6c6.pth")
    return folder


def test_it_finds_regions_and_describes_those_of_others():
    assert offered(Detector) == ["RegionEncoder", "Detector"]


def test_boxes_scores_and_labels_are_torchvisions(detector):
    picture = draw(70, 50)
    found = detector.detect([picture])[0]
    (theirs,) = detector.model([to_tensor(picture.image)])
    names = torchvision.models.detection.FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"]
    assert torch.allclose(found.boxes, theirs["boxes"])
    assert torch.allclose(found.scores, theirs["scores"])
    assert found.labels == [names[label] for label in theirs["labels"]]
    assert found.size == (70, 50)


def test_scores_descend_and_regions_are_at_most_as_many_as_asked(detector):
    found = detector.detect([draw(70, 50)])[0]
    assert len(found.boxes) == len(found.labels) == 5
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)


def test_vectors_of_given_boxes_are_those_of_the_boxes_found(detector):
    pictures = [draw(70, 50), draw(40, 60, seed=1)]
    found = detector.detect(pictures)
    vectors = detector.encode_regions(pictures, [regions.boxes for regions in found])
    for ours, regions in zip(vectors, found, strict=True):
        assert ours.shape == (5, 1024)
        assert torch.allclose(ours, regions.vectors, rtol=1e-4, atol=1e-3)


def test_other_pictures_of_the_call_change_nothing(detector):
    pictures = [draw(70, 50), draw(40, 60, seed=1)]
    alone = [detector.detect([picture])[0] for picture in pictures]
    for one, other in zip(alone, detector.detect(pictures), strict=True):
        assert torch.equal(one.boxes, other.boxes)
        assert torch.equal(one.vectors, other.vectors)


def test_a_picture_may_have_no_region():
    found = Detector(threshold=0.999, **LITTLE).detect([draw(70, 50)])[0]
    assert found.boxes.shape == (0, 4)
    assert found.vectors.shape == (0, 1024)
    assert found.labels == []


def test_no_boxes_have_no_vectors(detector):
    assert detector.encode_regions([draw(70, 50)], [torch.zeros(0, 4)])[0].shape == (0, 1024)


def test_the_adapter_contract_holds(detector):
    assert [finding for finding in check_adapter(detector) if not finding.ok] == []


def test_a_file_gives_what_its_tag_gives(published, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", str(published))
    file = next((published / "checkpoints").iterdir())
    by_tag, by_file = (
        Detector(weights=weights, **SMALL).encode_regions(
            [draw(70, 50)], [torch.tensor([[5.0, 5, 40, 45]])]
        )[0]
        for weights in ("COCO_V1", str(file))
    )
    assert by_tag.abs().max() > 0
    assert torch.allclose(by_tag, by_file, rtol=1e-4, atol=1e-5 * by_tag.abs().max().item())


def test_random_weights_are_seeded_and_leave_the_global_generator_alone():
    torch.manual_seed(5)
    states = [Detector(init_seed=s, **LITTLE).model.state_dict() for s in (0, 0, 1)]
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    heads = [state["roi_heads.box_head.fc7.weight"] for state in states]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_a_picture_without_an_image_cannot_be_searched(detector):
    with pytest.raises(CannotDo, match="needs images; the data set has regions alone"):
        detector.detect([Picture(None, None)])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"architecture": "resnet50"}, UnknownNameError, "no R-CNN of torchvision is named"),
        ({"architecture": "retinanet_resnet50_fpn"}, UnknownNameError, "no R-CNN of torchvision"),
        ({"weights": "mine.pt"}, WeightsError, "no file of weights at mine.pt; the tags are COCO"),
        ({"weights": "COCO_V1"}, WeightsError, "cannot be downloaded from .* this run is offline"),
    ],
)
def test_weights_that_cannot_be_had_say_so(options, error, message, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    with pytest.raises(error, match=message):
        Detector(**options, **SMALL)


def test_a_file_that_does_not_fit_is_named(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pt")
    with pytest.raises(WeightsError, match=r"a\.pt does not fit FasterRCNN; .* 1 unexpected: a"):
        Detector(**LITTLE | {"weights": str(tmp_path / "a.pt")})
