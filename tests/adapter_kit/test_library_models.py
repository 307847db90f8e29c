import pytest

from vlbench.adapter_kit.library_models import (
    require_open_clip,
    require_open_clip_tag,
    require_timm,
    require_torchvision,
)
from vlbench.errors import UnknownNameError


@pytest.mark.parametrize("name", ["resnet18", "resnet18.a1_in1k"])
def test_what_timm_has_is_known(name):
    require_timm(name)


@pytest.mark.parametrize(
    ("name", "near"), [("resnet188", "resnet18"), ("resnet18.a1_in2k", "resnet18.a1_in1k")]
)
def test_what_timm_lacks_gets_the_nearest_names(name, near):
    with pytest.raises(
        UnknownNameError, match=rf"of timm is named '{name}'; did you mean .*{near}"
    ):
        require_timm(name)


def test_tags_of_torchvision_are_its_own():
    assert [tag.name for tag in require_torchvision("resnet18")] == ["IMAGENET1K_V1"]
    require_torchvision("resnet18", "random")
    with pytest.raises(UnknownNameError, match="tag of resnet18 is named 'IMAGENET1K_V3'; did you"):
        require_torchvision("resnet18", "IMAGENET1K_V3")


def test_what_open_clip_lacks_gets_the_nearest_names():
    require_open_clip("ViT-B-16")
    require_open_clip_tag("ViT-B-16", "openai")
    with pytest.raises(UnknownNameError, match="named 'ViT-B16'; did you mean ViT-B-16"):
        require_open_clip("ViT-B16")
    with pytest.raises(UnknownNameError, match="tag of ViT-B-16 is named 'opennai'; did you mean"):
        require_open_clip_tag("ViT-B-16", "opennai")
    with pytest.raises(UnknownNameError, match=r"wants a tag, ViT-B-16/TAG: .*openai.*, random$"):
        require_open_clip_tag("ViT-B-16", "")
