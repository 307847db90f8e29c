"""What every adapter on a checkpoint of transformers does with its arguments."""

import huggingface_hub
import pytest
import transformers
from tiny_joint import CPU, TINY, adapter, write_words

from vlbench.errors import CannotDo, WeightsError

PUBLISHED = {
    "blip:Blip": "Salesforce/blip-itm-base-coco",
    "detr:Detr": "facebook/detr-resnet-50",
    "hf_dual:HfDual": "openai/clip-vit-base-patch32",
    "hf_text:HfText": "bert-base-uncased",
    "lxmert:Lxmert": "unc-nlp/lxmert-base-uncased",
    "vilt:Vilt": "dandelin/vilt-b32-mlm",
    "visualbert:VisualBert": "uclanlp/visualbert-vqa-coco-pre",
}
TYPES = {
    "blip:Blip": "blip",
    "detr:Detr": "detr",
    "lxmert:Lxmert": "lxmert",
    "vilt:Vilt": "vilt",
    "visualbert:VisualBert": "visual_bert",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_offline_the_published_checkpoint_and_its_revision_are_named(name, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(transformers.utils.hub.constants, "HF_HUB_CACHE", str(tmp_path))
    message = rf"^{PUBLISHED[name]}, revision 3d74, cannot be downloaded .* weights=PATH$"
    with pytest.raises(WeightsError, match=message):
        adapter(name)(device=CPU, revision="3d74")


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_absent_folder_of_weights_is_named(name, tmp_path):
    with pytest.raises(WeightsError, match=r"folder of weights at .*nowhere$"):
        adapter(name)(device=CPU, weights=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", TYPES)
def test_a_model_of_another_type_is_refused(name, tmp_path):
    transformers.BertConfig(**TINY).save_pretrained(tmp_path)
    expected = f"is a model of type bert; this adapter reads type {TYPES[name]}"
    with pytest.raises(CannotDo, match=expected):
        adapter(name)(device=CPU, architecture=write_words(tmp_path))
