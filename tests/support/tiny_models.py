"""A tiny model of each adapter as one table: the files that it is read from, and its promises."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import torchvision
import transformers
from ports import PORTS, WIDTH
from safetensors.torch import load_file, save_file
from tiny_clip import tiny_folder
from tiny_cnns import draw_timm, draw_torchvision
from tiny_dual import write_align, write_clip, write_siglip
from tiny_joint import CPU, TEXTS, TINY, adapter, noise, save
from tiny_vision import MODELS, write_vision
from tiny_vlm import WRITERS
from tokenizers import ByteLevelBPETokenizer

IN_FOLDER = "model.safetensors"


class Tiny(NamedTuple):
    """An adapter on tiny files, and which promises it has.

    `write` puts the files into a folder, and returns the arguments that read them; `edit` changes
    the weights in them. `drawn` are the arguments that draw random weights instead; None: the
    adapter draws none. Without `lost`, a weight, the files are refused. Without the weights that
    begin with `head`, or saved as the class `bare` of transformers, methods say `refused`.
    `limit` is the number of tokens that are read, and `marks` how many of them surround a text.
    `regions` says what becomes of a picture of no regions, where the adapter reads regions of
    WIDTH. `published` begins the error of an adapter that finds nothing offline, and `kind` is
    the type of model that it reads. Capabilities in `without` are left out; an adapter that
    reads pictures but not regions `needs_images`, if it is no control.
    """

    adapter: str
    write: Callable[[Path], dict]
    edit: Callable[[Path, Callable[[dict], dict]], object]
    drawn: dict | None = {"weights": "random"}  # noqa: RUF012 - nobody changes it
    lost: str = ""
    head: str = ""
    bare: str = ""
    refused: str = ""
    limit: int = 0
    marks: int = 2
    regions: str = ""
    published: str = ""
    kind: str = ""
    without: tuple[str, ...] = ()
    needs_images: bool = True

    def behead(self, folder):
        """Take the head away from the files in a folder."""
        if self.bare:
            kind = getattr(transformers, self.bare)
            kind.from_pretrained(folder).save_pretrained(folder)
        else:
            lost = self.head
            self.edit(folder, lambda s: {k: v for k, v in s.items() if not k.startswith(lost)})

    def load(self, given, **options):
        """Return the adapter with these arguments."""
        model = adapter(self.adapter)(device=CPU, **given | options)
        if "rcnn" in str(given.get("architecture")):
            # Random weights propose hundreds of regions per picture, which takes seconds.
            model.model.rpn._post_nms_top_n = {"training": 10, "testing": 10}
        return model


def edit_safetensors(folder, change):
    state = change(load_file(folder / IN_FOLDER))
    save_file(state, folder / IN_FOLDER, {"format": "pt"})


def as_folder(write, **options):
    """Return what writes a folder that is read as an architecture."""

    def put(folder):
        write(folder)
        return {"architecture": str(folder), **options}

    return put


def as_file(draw, architecture, **options):
    """Return what writes a file of weights of a library's architecture."""

    def put(folder):
        save_file(draw(architecture), folder / IN_FOLDER)
        return {"architecture": architecture, "weights": str(folder / IN_FOLDER), **options}

    return put


def hugging_face(name, write, **special):
    return Tiny(name, as_folder(write), edit_safetensors, **special)


def of_port(port):
    """Return a port of BERT's kin, whose file is in the layout of the original code."""

    def put(folder, state):
        torch.save(port.layout({**state, **port.unused}), folder / port.file)
        weights = {"weights": str(folder / port.file)}
        return {"architecture": str(folder), **weights, **port.options}

    return Tiny(
        port.adapter,
        lambda folder: put(folder, port.state(folder)),
        lambda folder, change: put(folder, change(port.state(folder))),
        lost=port.lost,
        head=port.head,
        refused=port.refused,
        limit=16,
        regions="refused" if "vilbert" in port.adapter else "no columns",
    )


def without_files(name, **given):
    """Return an adapter that reads no file."""
    return Tiny(name, lambda _: given, lambda *_: None, drawn=None)


BLIP_TEXT = {
    **TINY,
    "encoder_hidden_size": 16,
    "bos_token_id": 2,
    "sep_token_id": 3,
    "eos_token_id": 3,
    "pad_token_id": 0,
}
BLIP_VISION = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BLIP_VISION |= {"intermediate_size": 32, "image_size": 32, "patch_size": 8}


def write_blip(folder):
    config = transformers.BlipConfig(text_config=BLIP_TEXT, vision_config=BLIP_VISION)
    return save(folder, transformers.BlipForImageTextRetrieval(config))


def write_lxmert(folder, kind=transformers.LxmertForPreTraining):
    layers = {"l_layers": 1, "r_layers": 1, "x_layers": 2, "visual_feat_dim": WIDTH}
    heads = {"num_object_labels": 5, "num_attr_labels": 3, "num_qa_labels": 4}
    return save(folder, kind(transformers.LxmertConfig(**TINY, **layers, **heads)))


def write_vilt(folder, kind=transformers.ViltForImageAndTextRetrieval, **options):
    config = transformers.ViltConfig(**TINY, image_size=32, patch_size=8, **options)
    return save(folder, kind(config))


def write_visualbert(folder, width=WIDTH, **options):
    config = transformers.VisualBertConfig(visual_embedding_dim=width, **TINY, **options)
    return save(folder, transformers.VisualBertForPreTraining(config))


def write_bert(folder):
    return save(folder, transformers.BertForMaskedLM(transformers.BertConfig(**TINY)))


def write_gpt2(folder):
    """Write GPT-2 with its language-model head, as the original is saved."""
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([*TEXTS, "a cat"] * 2, special_tokens=["<|endoftext|>"], vocab_size=280)
    bpe.save_model(str(folder))
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(vocab_size=bpe.get_vocab_size(), **sizes, **ends)
    save(folder, transformers.GPT2LMHeadModel(config))
    (folder / "vocab.txt").unlink()
    return str(folder)


DETR_NAMES = {0: "N/A", 1: "person", 2: "cat", 3: "dog"}
DETR_SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_queries": 12,
    "id2label": DETR_NAMES,
    "label2id": {name: i for i, name in DETR_NAMES.items()},
}
DETR_SMALL = {"short_side": 64, "long_side": 100}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
ON_RESNET = transformers.ResNetConfig(**RESNET, out_features=["stage2"])


def write_detr(folder, backbone=ON_RESNET):
    """Write a detector whose queries differ between pictures."""
    config = transformers.DetrConfig(backbone_config=backbone, **DETR_SIZES)
    torch.manual_seed(0)
    model = transformers.DetrForObjectDetection(config)
    rng = torch.Generator().manual_seed(0)
    for name, weight in model.named_parameters():
        if "backbone" not in name:
            weight.data += 0.4 * torch.randn(weight.shape, generator=rng)
    head, processor = model.class_labels_classifier, transformers.DetrImageProcessor
    with torch.no_grad():
        inputs = processor(do_resize=False)(noise(64, 80), return_tensors="pt")
        logits = model.eval()(**inputs).logits[0]
    # The mean over queries is subtracted and the rest scaled up, so that queries differ.
    factor = 2 / logits.std(0, keepdim=True).T
    head.bias.data = factor[:, 0] * (head.bias.data - logits.mean(0))
    head.weight.data *= factor
    model.save_pretrained(folder)
    return str(folder)


def draw_rcnn(name):
    torch.manual_seed(0)
    made = torchvision.models.get_model(name, weights=None, weights_backbone=None)
    return {k: v for k, v in made.state_dict().items() if "num_batches" not in k}


def write_glove(folder):
    (folder / "glove.txt").write_text("the 1 2 3\ncat 4 5 6\ntwo 7 8 9\ndogs 1 1 1\n")
    return {"weights": str(folder / "glove.txt")}


def raw_pixels():
    return adapter("raw_pixels:RawPixels")(device=CPU)


BERTISH = {"limit": 16}
RCNN = "fasterrcnn_mobilenet_v3_large_320_fpn"
UNCASED = str(Path(__file__).parents[2] / "model_adapters" / "tiny" / "bert")
CONTROL = without_files("controls:Control", words=UNCASED)._replace(needs_images=False)
TINY_MODELS = {
    "blip": hugging_face(
        "blip:Blip",
        write_blip,
        lost="itm_head.weight",
        published="Salesforce/blip-itm-base-coco, revision 3d74",
        kind="blip",
        **BERTISH,
    ),
    "lxmert": hugging_face(
        "lxmert:Lxmert",
        write_lxmert,
        lost="lxmert.encoder.visn_fc.box_fc.weight",
        bare="LxmertModel",
        refused="this checkpoint has no matching head",
        regions="refused",
        published="unc-nlp/lxmert-base-uncased, revision 3d74",
        kind="lxmert",
        **BERTISH,
    ),
    "vilt": hugging_face(
        "vilt:Vilt",
        write_vilt,
        lost="vilt.embeddings.cls_token",
        bare="ViltForMaskedLM",
        refused="this checkpoint has no retrieval head",
        published="dandelin/vilt-b32-mlm, revision 3d74",
        kind="vilt",
        **BERTISH,
    ),
    "visualbert": hugging_face(
        "visualbert:VisualBert",
        write_visualbert,
        lost="visual_bert.embeddings.visual_projection.weight",
        bare="VisualBertModel",
        refused="no sentence-image prediction head",
        regions="no columns",
        published="uclanlp/visualbert-vqa-coco-pre, revision 3d74",
        kind="visual_bert",
        **BERTISH,
    ),
    **{name: of_port(port) for name, port in PORTS.items()},
    "detr": Tiny(
        "detr:Detr",
        as_folder(write_detr, threshold=0.3, **DETR_SMALL),
        edit_safetensors,
        lost="class_labels_classifier.bias",
        published="facebook/detr-resnet-50, revision 3d74",
        kind="detr",
    ),
    "clip": hugging_face(
        "hf_dual:HfDual",
        write_clip,
        lost="text_projection.weight",
        limit=12,
        published="openai/clip-vit-base-patch32, revision 3d74",
    ),
    "siglip": hugging_face("hf_dual:HfDual", write_siglip, limit=12),
    "align": hugging_face("hf_dual:HfDual", write_align, limit=12),
    "bert": hugging_face(
        "hf_text:HfText",
        write_bert,
        lost="bert.encoder.layer.1.attention.self.query.weight",
        head="cls.predictions.transform",
        refused="no masked-language-model head",
        published="bert-base-uncased, revision 3d74",
        **BERTISH,
    ),
    "gpt2": hugging_face(
        "hf_text:HfText",
        write_gpt2,
        lost="transformer.h.0.attn.c_attn.weight",
        limit=32,
        marks=0,
        without=("MaskedLanguageModel",),
    ),
    "vision vit": hugging_face(
        "hf_vision:HfVision", partial(write_vision, name="vit"), lost="layernorm.weight"
    ),
    "gemma3": Tiny(
        "hf_vlm:HfVlm",
        as_folder(WRITERS["gemma3"], text_limit=64),
        edit_safetensors,
        lost="multi_modal_projector.mm_input_projection_weight",
        limit=64,
        marks=0,
    ),
    "open_clip": Tiny(
        "open_clip:OpenClip",
        as_folder(tiny_folder),
        lambda folder, change: save_file(
            change(load_file(folder / "open_clip_model.safetensors")),
            folder / "open_clip_model.safetensors",
        ),
        lost="visual.conv1.weight",
        limit=16,
        published=r"RN50-quickgelu, tag openai, .* from timm/resnet50_clip\.openai/",
    ),
    "timm_cnn": Tiny(
        "timm_cnn:TimmCnn",
        as_file(draw_timm, "test_resnet.r160_in1k", resize=32, classes="imagenet"),
        edit_safetensors,
        lost="layer1.0.conv1.weight",
        head="fc.",
        refused="no classification head",
        published=r"from timm/resnetv2_50x1_bit\.goog_in21k, revision main",
    ),
    "timm_vision": Tiny(
        "timm_vision:TimmVision",
        as_file(draw_timm, "test_vit.r160_in1k", classes="imagenet"),
        edit_safetensors,
        lost="blocks.0.attn.qkv.weight",
        head="head.",
        refused="no classification head",
    ),
    "torchvision_cnn": Tiny(
        "torchvision_cnn:TorchvisionCnn",
        as_file(draw_torchvision, "shufflenet_v2_x0_5", resize=32, classes="imagenet"),
        edit_safetensors,
        lost="conv5.1.running_var",
        head="fc.",
        refused="no classification head",
        published="weights ResNet50_Weights",
    ),
    "torchvision_detector": Tiny(
        "torchvision_detector:TorchvisionDetector",
        as_file(draw_rcnn, RCNN, shorter=64, longer=96, threshold=0.0, most=5),
        edit_safetensors,
        lost="roi_heads.box_head.fc7.bias",
        published="weights FasterRCNN_ResNet50_FPN_Weights",
    ),
    "crops": without_files("crops:Crops", encoder=raw_pixels()),
    "raw_pixels": without_files("raw_pixels:RawPixels"),
    "constant": CONTROL,
    "noise": CONTROL._replace(write=lambda _: {"words": UNCASED, "noise": True}, drawn={}),
    "word vectors": Tiny("word_vectors:WordVectors", write_glove, lambda *_: None, drawn=None),
    "random vectors": without_files("word_vectors:RandomVectors")._replace(drawn={}),
}

# More models of the same adapters, of which the contract alone is asked.
KIN = {
    **{
        f"vision {name}": hugging_face("hf_vision:HfVision", partial(write_vision, name=name))
        for name in MODELS.keys() - {"vit"}
    },
    **{
        name: Tiny("hf_vlm:HfVlm", as_folder(WRITERS[name], text_limit=64), edit_safetensors)
        for name in ("smolvlm", "llava", "paligemma", "paligemma2")
    },
    "qwen3": Tiny(
        "hf_vlm:HfVlm", as_folder(WRITERS["qwen3"], text_limit=64, size=32), edit_safetensors
    ),
    "torchvision_cnn at a layer": Tiny(
        "torchvision_cnn:TorchvisionCnn",
        as_file(draw_torchvision, "shufflenet_v2_x0_5", resize=32, layer="stage3"),
        edit_safetensors,
    ),
}

# Models that their own tests alone open.
OTHERS = {
    name: Tiny("hf_vlm:HfVlm", as_folder(WRITERS[name], text_limit=64), edit_safetensors)
    for name in ("internvl", "onevision")
}
