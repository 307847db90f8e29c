"""Texts of one picture scored after a shared prefix, against whole passes of all in one batch.

Run: python benchmarks/vlm.py [texts]. Prints the median times of a LLaVA of random weights, a
picture of 256 image tokens and texts of 35 tokens each, their ratio, and by how much scores differ.
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
from vlbench.resolve import load_object

ADAPTERS = Path(__file__).resolve().parents[1] / "model_adapters"
IMAGE_TOKENS, TEXT_TOKENS, ROUNDS = 256, 35, 3
CHAT = (
    "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}<image>{% else %}"
    " {{ c.text }}{% endif %}{% endfor %} . {% endfor %}"
)
LAYERS = {"num_attention_heads": 8, "intermediate_size": 704, "hidden_size": 256}
SPECIAL = {"unk_token": "<unk>", "pad_token": "<pad>"}


def write(folder: Path) -> None:
    """Write a LLaVA of 8 layers whose words are numbers."""
    names = ["<unk>", "<pad>", "<image>", "Yes", ".", "?", *map(str, range(2000))]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        **SPECIAL,
        extra_special_tokens={"image_token": "<image>"},
    )
    side = {"height": 224, "width": 224}
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size=side, do_center_crop=False),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT,
    )
    vision = {"model_type": "clip_vision_model", "image_size": 224, "patch_size": 14, **LAYERS}
    config = transformers.LlavaConfig(
        text_config={
            "model_type": "llama",
            "vocab_size": len(tokenizer),
            "num_hidden_layers": 8,
            **LAYERS,
        },
        vision_config={**vision, "num_hidden_layers": 4},
        image_token_id=tokenizer.image_token_id,
        image_seq_length=IMAGE_TOKENS,
    )
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


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
    prompts = [f"<image> {text} ? . " for text in texts]
    inputs = processor(images=[image] * len(texts), text=prompts, return_tensors="pt")
    logits = model(**inputs, logits_to_keep=1).logits[:, -1]
    return logits.softmax(-1)[:, processor.tokenizer.convert_tokens_to_ids("Yes")]


@torch.inference_mode()
def main(count: int) -> None:
    """Print both times, their ratio, and how far scores are apart."""
    rng = torch.Generator().manual_seed(0)
    ids = torch.randint(2000, (count, TEXT_TOKENS), generator=rng)
    texts = [" ".join(map(str, row)) for row in ids.tolist()]
    image = Image.effect_noise((224, 224), 60).convert("RGB")
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        kind = load_object("hf_vlm:HfVlm", [ADAPTERS])
        model = kind(device=torch.device("cpu"), architecture=name, question="{} ?")
        processor = transformers.AutoProcessor.from_pretrained(name)
        pictures = [Picture(image, None)] * count
        shared, scores = median(lambda: model.score_pairs(pictures, texts))
        bare, expected = median(lambda: whole(model.model, processor, image, texts))
    print(f"{count} texts: shared {shared:.2f} s, whole passes {bare:.2f} s", end=", ")
    apart = ((scores - expected) / expected).abs().max().item()
    print(f"ratio {shared / bare:.2f}, scores within {apart:.1e}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 20)
