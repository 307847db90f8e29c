"""Tiny generative models of transformers, written as the folders that HfVlm reads."""

from functools import cache

import transformers
from tiny_joint import enlarge
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LAYERS = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SENTENCES = [
    'Does this figure show "a photo of a cat"? Please answer Yes or No.',
    "Two dogs sat on the mat. The man's hat is on the table. user assistant system",
] * 3
SPECIAL = {
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
}
MARKS = {
    "image_token": "<image>",
    "video_token": "<video>",
    "boi_token": "<boi>",
    "eoi_token": "<eoi>",
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<image>",
    "vision_start_token": "<boi>",
    "vision_end_token": "<eoi>",
}
# The placeholder of an image, and what surrounds a message; the answer of the second has a blank.
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>\n{% for c in m.content %}"
    "{% if c.type == 'image' %}IMAGE{% else %}{{ c.text }}{% endif %}{% endfor %}<eos>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
BLANK = (
    "{% for m in messages %}{{ m.role | upper }}: {% for c in m.content %}"
    "{% if c.type == 'image' %}IMAGE\n{% else %}{{ c.text }}{% endif %}{% endfor %} "
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


@cache
def trained_words():
    """Return a byte-level tokenizer in which Yes and No are tokens, with a blank or without."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    words.train_from_iterator([*SENTENCES, *["Yes No\nYes\nNo"] * 9], trainer)
    return words.to_str()


def tokenizer():
    """Return a tokenizer with the special tokens of every architecture here."""
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(trained_words()),
        model_max_length=100_000,
        **SPECIAL,
        extra_special_tokens=MARKS,
    )
    tiles = [f"<row_{i}_col_{j}>" for i in range(1, 4) for j in range(1, 4)]
    made.add_tokens(
        ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles],
        special_tokens=True,
    )
    return made


def text(made, **more):
    """Return the sizes of a language model over a tokenizer."""
    ids = {"bos_token_id": made.bos_token_id, "eos_token_id": made.eos_token_id}
    return {
        "vocab_size": len(made),
        "hidden_size": 16,
        "num_key_value_heads": 1,
        "max_position_embeddings": 9000,
        "pad_token_id": made.pad_token_id,
        **LAYERS,
        **ids,
        **more,
    }


def save(folder, model, processor, scale=0.15):
    """Write a model, with weights large enough for every one of them to matter."""
    enlarge(model, scale)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


def write_qwen3(folder):
    """Write Qwen3-VL: patches of 8, merged 2 by 2, and three axes of positions."""
    made = tokenizer()
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_heads": 2,
        "patch_size": 8,
        "spatial_merge_size": 2,
        "out_hidden_size": 16,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0],
    }
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    words = text(made, head_dim=8, rope_parameters={**rope, "rope_theta": 10000.0})
    ids = {
        "image_token_id": made.image_token_id,
        "video_token_id": made.video_token_id,
        "vision_start_token_id": made.boi_token_id,
        "vision_end_token_id": made.eoi_token_id,
    }
    config = transformers.Qwen3VLConfig(text_config=words, vision_config=vision, **ids)
    sizes = {"shortest_edge": 16 * 16, "longest_edge": 96 * 96}
    cut = {"patch_size": 8, "merge_size": 2, "temporal_patch_size": 2}
    processor = transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessor(size=sizes, **cut),
        made,
        transformers.Qwen3VLVideoProcessor(**cut),
        chat_template=CHAT.replace("IMAGE", "<boi><image><eoi>"),
    )
    return save(folder, transformers.Qwen3VLForConditionalGeneration(config), processor)


def siglip(**more):
    """Return a vision tower that sees squares of 32 in patches of 8."""
    return {"hidden_size": 16, "image_size": 32, "patch_size": 8, **LAYERS, **more}


def write_smolvlm(folder):
    """Write SmolVLM: tiles of 32 before the whole image, patches shuffled 2 by 2."""
    made = tokenizer()
    config = transformers.SmolVLMConfig(
        text_config={"model_type": "llama", **text(made)},
        vision_config=siglip(),
        scale_factor=2,
        image_token_id=made.image_token_id,
        pad_token_id=made.pad_token_id,
    )
    processor = transformers.SmolVLMProcessor(
        transformers.SmolVLMImageProcessor(
            size={"longest_edge": 96}, max_image_size={"longest_edge": 32}
        ),
        made,
        transformers.SmolVLMVideoProcessor(),
        image_seq_len=4,
        chat_template=BLANK.replace("IMAGE", "<image>"),
    )
    return save(folder, transformers.SmolVLMForConditionalGeneration(config), processor)


def write_llava(folder):
    """Write LLaVA 1.5: the centre of the image, by CLIP without its class token."""
    made = tokenizer()
    config = transformers.LlavaConfig(
        text_config={"model_type": "llama", **text(made)},
        vision_config={"model_type": "clip_vision_model", "projection_dim": 8, **siglip()},
        image_token_id=made.image_token_id,
        image_seq_length=16,
    )
    processor = cropping_processor(BLANK)
    return save(folder, transformers.LlavaForConditionalGeneration(config), processor)


def cropping_processor(template):
    """Return a processor of LLaVA with a chat template, whose IMAGE is the placeholder."""
    return transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template.replace("IMAGE", "<image>"),
    )


def write_onevision(folder):
    """Write LLaVA-OneVision: the whole image, and a padded grid with a newline after each row."""
    made = tokenizer()
    pinpoints = [[32, 32], [32, 64], [64, 32], [64, 64], [32, 96]]
    config = transformers.LlavaOnevisionConfig(
        text_config={"model_type": "qwen2", **text(made)},
        vision_config={
            "model_type": "siglip_vision_model",
            "vision_use_head": False,
            **siglip(),
        },
        image_token_id=made.image_token_id,
        video_token_id=made.video_token_id,
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        vision_aspect_ratio="anyres_max_2",
    )
    processor = transformers.LlavaOnevisionProcessor(
        transformers.LlavaOnevisionImageProcessor(
            size={"height": 32, "width": 32}, image_grid_pinpoints=pinpoints
        ),
        made,
        transformers.LlavaOnevisionVideoProcessor(),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        vision_aspect_ratio="anyres_max_2",
        chat_template=CHAT.replace("IMAGE", "<image>\n"),
    )
    return save(folder, transformers.LlavaOnevisionForConditionalGeneration(config), processor)


def write_gemma3(folder):
    """Write Gemma 3: the squashed image, read in both directions; a window of 12 tokens."""
    made = tokenizer()
    config = transformers.Gemma3Config(
        text_config=text(
            made,
            num_hidden_layers=3,
            head_dim=8,
            sliding_window=12,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        ),
        vision_config=siglip(vision_use_head=False),
        mm_tokens_per_image=4,
        boi_token_index=made.boi_token_id,
        eoi_token_index=made.eoi_token_id,
        image_token_index=made.image_token_id,
    )
    processor = transformers.Gemma3Processor(
        transformers.Gemma3ImageProcessor(size={"height": 32, "width": 32}),
        made,
        chat_template="<bos>" + CHAT.replace("IMAGE", "<boi>"),
        image_seq_length=4,
    )
    return save(folder, transformers.Gemma3ForConditionalGeneration(config), processor)


def write_internvl(folder):
    """Write InternVL: tiles of 32 before a thumbnail, patches shuffled 2 by 2."""
    made = tokenizer()
    config = transformers.InternVLConfig(
        text_config={"model_type": "qwen2", **text(made)},
        vision_config=siglip(image_size=[32, 32], patch_size=[8, 8]),
        image_token_id=made.image_token_id,
        image_seq_length=4,
        downsample_ratio=0.5,
    )
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(
            size={"height": 32, "width": 32}, crop_to_patches=True, max_patches=4
        ),
        made,
        transformers.InternVLVideoProcessor(),
        image_seq_length=4,
        chat_template=CHAT.replace("IMAGE", "<image>\n"),
    )
    return save(folder, transformers.InternVLForConditionalGeneration(config), processor)


def write_paligemma(folder, kind="gemma", **more):
    """Write PaliGemma: the squashed image and the prompt read in both directions, no template."""
    made = tokenizer()
    processor = transformers.PaliGemmaProcessor(
        transformers.SiglipImageProcessor(size={"height": 32, "width": 32}, image_seq_length=16),
        made,
    )
    config = transformers.PaliGemmaConfig(
        text_config={"model_type": kind, **text(made, head_dim=8, **more)},
        vision_config={
            "model_type": "siglip_vision_model",
            "vision_use_head": False,
            **siglip(),
        },
        projection_dim=16,
        hidden_size=16,
        vocab_size=len(made),
        image_token_index=made.image_token_id,
    )
    return save(folder, transformers.PaliGemmaForConditionalGeneration(config), processor)


def write_paligemma2(folder):
    """Write PaliGemma 2: Gemma 2 bends its attention and its logits, and has no SDPA."""
    layers = ["sliding_attention", "full_attention"]
    caps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
    sizes = {"sliding_window": 12, "query_pre_attn_scalar": 8}
    return write_paligemma(folder, "gemma2", layer_types=layers, **caps, **sizes)


WRITERS = {
    "qwen3": write_qwen3,
    "smolvlm": write_smolvlm,
    "llava": write_llava,
    "onevision": write_onevision,
    "gemma3": write_gemma3,
    "internvl": write_internvl,
    "paligemma": write_paligemma,
    "paligemma2": write_paligemma2,
}
