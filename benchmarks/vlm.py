"""Texts of one picture scored after a shared prefix, against whole passes of all in one batch.

Run: python benchmarks/vlm.py [texts]. Prints the median times of a LLaVA of random weights, a
picture of 256 image tokens and texts of 35 tokens each, their ratio, and by how much scores differ.
After it the same of a PaliGemma, whose texts share the image features alone.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor

from vlbench.capabilities import Picture
from vlbench.code.functions import load_object

ADAPTERS = Path(__file__).resolve().parents[1] / "model_adapters"
IMAGE_TOKENS, TEXT_TOKENS, ROUNDS = 256, 35, 3
SIDE = {"height": 224, "width": 224}
CHAT = (
    "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}<image>{% else %}"
    " {{ c.text }}{% endif %}{% endfor %} . {% endfor %}"
)
VISION = {"image_size": 224, "patch_size": 14, "num_hidden_layers": 4}
LAYERS = {"num_attention_heads": 8, "intermediate_size": 704, "hidden_size": 256}
SPECIAL = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}


def tokenizer() -> Any:
    """Return a tokenizer whose words are numbers."""
    names = [*SPECIAL.values(), "<image>", "Yes", ".", "?", *map(str, range(2000))]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, **SPECIAL, extra_special_tokens={"image_token": "<image>"}
    )


def text(kind: str, words: Any) -> dict[str, Any]:
    """Return the sizes of a language model of 8 layers."""
    ids = {"pad_token_id": words.pad_token_id, "bos_token_id": words.bos_token_id}
    sizes = {"vocab_size": len(words), "num_hidden_layers": 8}
    return {"model_type": kind, **sizes, **ids, "eos_token_id": words.eos_token_id, **LAYERS}


def llava() -> tuple[Any, Any]:
    """Return a LLaVA and its processor."""
    words = tokenizer()
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size=SIDE, do_center_crop=False),
        words,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT,
    )
    config = transformers.LlavaConfig(
        text_config=text("llama", words),
        vision_config={"model_type": "clip_vision_model", **VISION, **LAYERS},
        image_token_id=words.image_token_id,
        image_seq_length=IMAGE_TOKENS,
    )
    return transformers.LlavaForConditionalGeneration(config), processor


def paligemma() -> tuple[Any, Any]:
    """Return a PaliGemma and its processor."""
    words = tokenizer()
    processor = transformers.PaliGemmaProcessor(
        transformers.SiglipImageProcessor(size=SIDE, image_seq_length=IMAGE_TOKENS), words
    )
    siglip = {"model_type": "siglip_vision_model", "vision_use_head": False}
    sizes = {"projection_dim": LAYERS["hidden_size"], "hidden_size": LAYERS["hidden_size"]}
    config = transformers.PaliGemmaConfig(
        text_config=text("gemma", words) | {"num_key_value_heads": 8, "head_dim": 32},
        vision_config={**siglip, **VISION, **LAYERS},
        vocab_size=len(words),
        image_token_index=words.image_token_id,
        **sizes,
    )
    return transformers.PaliGemmaForConditionalGeneration(config), processor


def median(function: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Return the median time of some rounds, after one to warm up, and what was computed."""
    found, times = function(), []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times), found


def whole(model: Any, processor: Any, image: Image.Image, texts: list[str]) -> Tensor:
    """Return the probability of Yes after each text, of one batch of whole passes."""
    end = " ? . " if processor.chat_template else " ?"
    prompts = [f"<image> {text}{end}" for text in texts]
    inputs = processor(images=[image] * len(texts), text=prompts, return_tensors="pt")
    inputs.pop("labels", None)
    logits = model(**inputs, logits_to_keep=1).logits[:, -1]
    return logits.softmax(-1)[:, processor.tokenizer.convert_tokens_to_ids("Yes")]


@torch.inference_mode()
def compare(made: tuple[Any, Any], texts: list[str]) -> str:
    """Return both times of a model and its processor, their ratio, and how far scores are apart."""
    image = Image.effect_noise((224, 224), 60).convert("RGB")
    with tempfile.TemporaryDirectory() as name:
        for one in made:
            one.save_pretrained(name)
        kind = load_object("hf_vlm:HfVlm", [ADAPTERS])
        model = kind(device=torch.device("cpu"), architecture=name, question="{} ?")
        processor = transformers.AutoProcessor.from_pretrained(name)
        pictures = [Picture(image, None)] * len(texts)
        shared, scores = median(lambda: model.score_pairs(pictures, texts))
        bare, expected = median(lambda: whole(model.model, processor, image, texts))
    apart = ((scores.sigmoid() - expected) / expected).abs().max().item()
    times = f"shared {shared:.2f} s, whole passes {bare:.2f} s, ratio {shared / bare:.2f}"
    return f"{times}, scores within {apart:.1e}"


def main(count: int) -> None:
    """Print the comparison for each model."""
    rng = torch.Generator().manual_seed(0)
    ids = torch.randint(2000, (count, TEXT_TOKENS), generator=rng)
    texts = [" ".join(map(str, row)) for row in ids.tolist()]
    for make in (llava, paligemma):
        print(f"{make.__name__}, {count} texts: {compare(make(), texts)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 20)
