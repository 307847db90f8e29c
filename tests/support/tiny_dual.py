"""Tiny dual encoders of transformers, written as the folders that HfDual reads."""

import transformers
from tiny_joint import enlarge
from tokenizers import Tokenizer, models, pre_tokenizers, processors

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] a photo of cat two dogs the sat on mat"
WORDS = VOCABULARY.split()
LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
ENDS = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
TEXT = {"vocab_size": len(WORDS), "hidden_size": 16, "max_position_embeddings": 12, **LAYERS}
VISION = {"hidden_size": 16, "image_size": 32, "patch_size": 8, **LAYERS}
# Not the library's defaults, so that a test sees whether they are read.
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
NORMALISER = {"image_mean": MEAN, "image_std": STD}
EFFICIENT = {
    "image_size": 32,
    "kernel_sizes": [3, 3],
    "in_channels": [32, 16],
    "out_channels": [16, 24],
    "strides": [1, 2],
    "num_block_repeats": [1, 1],
    "expand_ratios": [1, 6],
    "hidden_dim": 16,
}


def save(folder, model, processor, names):
    """Write a model whose weights all matter, its tokenizer and its image processor."""
    enlarge(model, 0.1)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=WORDS[0],
        model_input_names=names,
    ).save_pretrained(folder)
    return str(folder)


def write_clip(folder):
    config = transformers.CLIPConfig(
        text_config={**TEXT, **ENDS}, vision_config=VISION, projection_dim=8, **ENDS
    )
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    processor = transformers.CLIPImageProcessor(**sizes, **NORMALISER, resample=2)
    return save(folder, transformers.CLIPModel(config), processor, ["input_ids", "attention_mask"])


def write_siglip(folder):
    config = transformers.SiglipConfig(
        text_config={**TEXT, **ENDS, "projection_size": 16}, vision_config=VISION
    )
    processor = transformers.SiglipImageProcessor(size={"height": 32, "width": 32}, **NORMALISER)
    return save(folder, transformers.SiglipModel(config), processor, ["input_ids"])


def write_align(folder):
    config = transformers.AlignConfig(text_config=TEXT, vision_config=EFFICIENT, projection_dim=48)
    square = {"height": 32, "width": 32}
    processor = transformers.EfficientNetImageProcessor(
        size=square, crop_size=square, **NORMALISER, rescale_offset=True, include_top=True
    )
    return save(folder, transformers.AlignModel(config), processor, ["input_ids", "attention_mask"])


def write_altclip(folder):
    text = {**TEXT, **ENDS, "max_position_embeddings": 16, "project_dim": 8}
    config = transformers.AltCLIPConfig(
        text_config=text, vision_config=VISION, projection_dim=8, **ENDS
    )
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, **NORMALISER)
    return save(
        folder, transformers.AltCLIPModel(config), processor, ["input_ids", "attention_mask"]
    )
