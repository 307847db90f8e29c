import pytest
import torch
import torchvision
from tiny_joint import CPU, adapter, noise
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.transforms.functional import to_tensor

from vlbench.capabilities import Picture, offered
from vlbench.errors import CannotDo, UnknownNameError, WeightsError

Detector = adapter("torchvision_detector:TorchvisionDetector")
SMALL = {"device": CPU, "shorter": 64, "longer": 96}
LITTLE = {**SMALL, "architecture": "fasterrcnn_mobilenet_v3_large_320_fpn", "weights": "random"}


def draw(*size):
    return Picture(noise(*size), None)


@pytest.fixture(scope="module")
def detector():
    made = Detector(threshold=0.0, most=5, **LITTLE)
    # Random weights propose hundreds of regions per picture, which takes seconds.
    made.model.rpn._post_nms_top_n = {"training": 10, "testing": 10}
    return made


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The file of the tag COCO_V1 in the folder of torch's hub, with weights of our own.

    The ResNet-50 has one block per stage.
    """

    def shallow(norm_layer, **_):
        return ResNet(Bottleneck, [1, 1, 1, 1], norm_layer=norm_layer)

    monkeypatch.setattr(torchvision.models.detection.faster_rcnn, "resnet50", shallow)
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    torch.manual_seed(3)
    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None
    )
    state = {k: v for k, v in model.state_dict().items() if "num_batches" not in k}
    # A variance this small shows the epsilon.
    state["backbone.body.bn1.running_var"].fill_(1e-4)
    (tmp_path / "checkpoints").mkdir()
    file = tmp_path / "checkpoints" / "fasterrcnn_resnet50_fpn_coco-258fb6c6.pth"
    torch.save(state, file)
    yield str(file)
    file.unlink()


def test_it_is_a_detector_and_a_region_encoder():
    assert [one.__name__ for one in offered(Detector)] == ["RegionEncoder", "Detector"]


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
    pictures = [draw(70, 50), draw(40, 60, 1)]
    found = detector.detect(pictures)
    vectors = detector.encode_regions(pictures, [regions.boxes for regions in found])
    for ours, regions in zip(vectors, found, strict=True):
        assert ours.shape == (5, 1024)
        assert torch.allclose(ours, regions.vectors, rtol=1e-4, atol=1e-3)


def test_a_picture_may_have_no_region():
    found = Detector(threshold=0.999, **LITTLE).detect([draw(70, 50)])[0]
    assert found.boxes.shape == (0, 4)
    assert found.vectors.shape == (0, 1024)
    assert found.labels == []


def test_a_file_gives_what_its_tag_gives(published):
    by_tag, by_file = (
        Detector(weights=weights, **SMALL).encode_regions(
            [draw(70, 50)], [torch.tensor([[5.0, 5, 40, 45]])]
        )[0]
        for weights in ("COCO_V1", published)
    )
    assert by_tag.abs().max() > 0
    assert torch.allclose(by_tag, by_file, rtol=1e-4, atol=1e-5 * by_tag.abs().max().item())


def test_bfloat16_on_a_cpu_is_told_before_weights_load():
    with pytest.raises(CannotDo, match="in bfloat16 on a CPU; use --dtype float32"):
        Detector(device=CPU, dtype=torch.bfloat16)


NOT_LOADED = [
    ({"architecture": "resnet50"}, UnknownNameError, "no R-CNN of torchvision is named"),
    ({"architecture": "retinanet_resnet50_fpn"}, UnknownNameError, "no R-CNN of torchvision"),
    ({"weights": "mine.pt"}, WeightsError, "no file of weights at mine.pt; the tags are COCO"),
    ({"weights": "COCO_V1"}, WeightsError, "cannot be downloaded from .* this run is offline"),
]


@pytest.mark.parametrize(("options", "error", "message"), NOT_LOADED)
def test_weights_that_cannot_be_loaded_say_why(options, error, message, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    with pytest.raises(error, match=message):
        Detector(**options, **SMALL)


def test_a_file_that_does_not_fit_is_named(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pt")
    with pytest.raises(WeightsError, match=r"a\.pt does not fit FasterRCNN; .* 1 unexpected: a"):
        Detector(**LITTLE | {"weights": str(tmp_path / "a.pt")})
