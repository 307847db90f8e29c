import pytest

from vlbench.catalog.transformers_models import reader_of
from vlbench.errors import UnknownNameError


@pytest.mark.parametrize(
    ("kind", "saved_by", "adapter"),
    [
        ("qwen2_vl", "Qwen2VLForConditionalGeneration", "hf_vlm:HfVlm"),
        ("smolvlm", "SmolVLMForConditionalGeneration", "hf_vlm:HfVlm"),
        ("gemma3", "Gemma3ForConditionalGeneration", "hf_vlm:HfVlm"),
        ("paligemma", "PaliGemmaForConditionalGeneration", "hf_vlm:HfVlm"),
        ("paligemma", None, "hf_vlm:HfVlm"),
        ("gemma3_text", "Gemma3ForCausalLM", "hf_text:HfText"),
        ("clip", "CLIPModel", "hf_dual:HfDual"),
        ("siglip", "SiglipModel", "hf_dual:HfDual"),
        ("blip", "BlipForConditionalGeneration", "hf_vlm:HfVlm"),
        ("blip", "BlipModel", "hf_dual:HfDual"),
        ("blip", "BlipForImageTextRetrieval", "blip:Blip"),
        ("clip_vision_model", "CLIPVisionModel", "hf_vision:HfVision"),
        ("siglip_vision_model", "SiglipVisionModel", "hf_vision:HfVision"),
        ("vit", "ViTForImageClassification", "hf_vision:HfVision"),
        ("dinov2", "Dinov2Model", "hf_vision:HfVision"),
        ("swin", None, "hf_vision:HfVision"),
        ("bert", "BertForMaskedLM", "hf_text:HfText"),
        ("gpt2", "GPT2LMHeadModel", "hf_text:HfText"),
        ("vilt", "ViltForMaskedLM", "vilt:Vilt"),
        ("detr", "DetrForObjectDetection", "detr:Detr"),
    ],
)
def test_the_configuration_says_which_adapter_reads_a_model(kind, saved_by, adapter):
    config = {"model_type": kind, "architectures": saved_by and [saved_by]}
    assert reader_of(config, "org/name") == adapter


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "wav2vec2"},
            "is of type 'wav2vec2', which no adapter is known to read; name",
        ),
        (
            {"architectures": "ViTModel"},
            "has a configuration without a model_type, which no adapter",
        ),
        (
            {"architecture": "resnet18", "pretrained_cfg": {"tag": "a1_in1k"}},
            r"is a model of timm; write timm:resnet18\.a1_in1k$",
        ),
    ],
)
def test_a_configuration_that_no_adapter_reads_is_refused(config, message):
    with pytest.raises(UnknownNameError, match=f"^hf:org/name {message}"):
        reader_of(config, "org/name")
