import math

import pytest
import torch
import transformers
from PIL import Image
from tiny_vlm import WRITERS

from vlbench.adapter_kit.vlm.asked_images import ImagePrompts, eager, family, log_likelihoods
from vlbench.adapter_kit.vlm.prompt_batches import (
    OneByOne,
    PlainPrompt,
    Rows,
    SharedImage,
    SharedPrefix,
)
from vlbench.adapter_kit.vlm.prompts import AnswerIds, ChatTemplate, Prompts
from vlbench.errors import DataError

IMAGE = Image.effect_noise((40, 60), 80).convert("RGB")
TEXTS = ["a cat", "a photo of the mat"]


class WithMore(Prompts):
    """Prompts with an input per token, and one that is as wide as the first prompt by chance."""

    def read(self, image, text):
        inputs, length = super().read(image, text)
        wide = super().read(image, TEXTS[0])[0]["input_ids"].shape[1]
        return inputs | {"mask": inputs["input_ids"] > 0, "patches": torch.ones(1, wide)}, length


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = WRITERS["llava"](tmp_path_factory.mktemp("llava"))
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    prompts = WithMore(processor, "tiny", "{} ?", ChatTemplate)
    return ImagePrompts(model, prompts, IMAGE, TEXTS, SharedPrefix)


def test_an_input_that_is_as_wide_as_a_prompt_by_chance_is_none_of_tokens(asked):
    assert asked.head.inputs["patches"].shape == asked.head.inputs["mask"].shape
    assert asked.head.of_tokens == ["mask"]


# The ids of two answers, each of one token.
ANSWERS = [AnswerIds("Yes", 0, [300]), AnswerIds("No", 0, [301])]


def test_prompts_differ_only_after_the_image(asked):
    assert len(asked.image) == 16
    assert max(asked.image) == len(asked.head.ids) - 1
    assert [len([span for span in tail.spans if span]) for tail in asked.tails] == [2, 5]


@torch.no_grad()
def test_answers_of_one_token_are_read_from_one_run(asked, monkeypatch):
    runs, run = [], asked.runner.run
    monkeypatch.setattr(asked.runner, "run", lambda *given: runs.append(given) or run(*given))
    both = asked.mean_logs(ANSWERS)
    assert len(runs) == 1
    torch.testing.assert_close(both[1:], asked.mean_logs(ANSWERS[1:]))
    assert (both.exp().sum(0) < 1).all()


@torch.no_grad()
def test_rows_are_run_some_at_a_time(asked):
    rows = [[7, 8], [7, 9], [7, 8, 9]]
    one_by_one = [run.output.logits for run in asked.runner.run(Rows(rows, 1, 1))]
    (together,) = asked.runner.run(Rows(rows, 1, 3))
    for i, logits in enumerate(one_by_one):
        own = together.output.logits[i, together.last[i]]
        torch.testing.assert_close(own, logits[0], rtol=1e-4, atol=1e-5)


def test_a_prompt_that_is_too_long_is_refused(asked):
    longest = len(asked.head.ids) + max(len(tail.ids) for tail in asked.tails)
    asked.check_length(longest)
    message = f"the model reads {longest - 2} tokens.* cut texts by 3 tokens"
    with pytest.raises(DataError, match=message):
        asked.check_length(longest - 2, more=1)


def test_attention_is_eager_for_as_long_as_it_is_asked_for(asked):
    decoder = asked._model.get_decoder()
    with eager(asked._model):
        assert decoder.config._attn_implementation == "eager"
    assert decoder.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("kind", "runner"),
    [("llava", SharedPrefix), ("paligemma", SharedImage), ("unheard_of", OneByOne)],
)
def test_a_type_shares_what_it_was_seen_to_share(kind, runner):
    assert family(kind).runner is runner
    assert (family(kind).form is PlainPrompt) == (kind == "paligemma")


@pytest.mark.parametrize("margin", [-80.0, -4.0, 0.0, 4.0, 16.0, 20.0, 60.0, 80.0])
def test_the_log_odds_of_a_token_keep_its_margin_where_its_probability_rounds(margin):
    # Against 4 others of logit 0 each: log-odds margin - log 4, worked by hand.
    logits = torch.zeros(1, 1, 5)
    logits[..., 2] = margin
    log = log_likelihoods(logits, torch.tensor([[2]]))
    odds = log - (-log.expm1()).log()
    assert odds.item() == pytest.approx(margin - math.log(4), abs=1e-5)
    plain = logits.double().log_softmax(2)[..., 2]
    assert odds.sigmoid().item() == pytest.approx(plain.exp().item(), rel=1e-6)
