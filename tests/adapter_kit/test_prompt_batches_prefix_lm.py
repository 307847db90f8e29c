import pytest
import torch
import transformers
from PIL import Image
from tiny_vlm import write_paligemma, write_paligemma2

from vlbench.adapter_kit.vlm.prompt_batches import PlainPrompt
from vlbench.adapter_kit.vlm.prompts import Prompts
from vlbench.errors import CannotDo

IMAGE = Image.effect_noise((90, 50), 80).convert("RGB")
# PaliGemma's processor reads a tensor in a way that NumPy will no longer allow.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module", params=[write_paligemma, write_paligemma2])
def folder(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("paligemma"))


@pytest.fixture
def processor(folder):
    return transformers.AutoProcessor.from_pretrained(folder)


def test_the_prompt_and_the_answer_are_the_processors(processor):
    given = {"images": [IMAGE], "text": ["<image>Is a cat there?"], "return_tensors": "pt"}
    expected = processor(**given, suffix=["Yesterday"])["input_ids"][0].tolist()
    prompts = Prompts(processor, "tiny", "Is {} there?", PlainPrompt)
    tail, answer = prompts.tail("a cat"), prompts.answer("Yesterday")
    # The processor ends a suffix, which no answer here has to.
    assert [*tail.ids, *answer.ids, processor.tokenizer.eos_token_id] == expected[16:]
    words = processor.tokenizer.convert_ids_to_tokens(tail.ids)
    assert (words[0], words[-1]) == ("<bos>", "Ċ")
    assert (answer.replaced, len(answer.ids) > 1) == (0, True)


def test_a_tokenizer_without_the_start_of_a_text_is_refused(processor):
    processor.tokenizer.bos_token = None
    with pytest.raises(CannotDo, match="tiny has no token for the start of a text"):
        Prompts(processor, "tiny", "{} ?", PlainPrompt)


@torch.no_grad()
def test_what_the_model_keeps_of_an_image_depends_on_the_text(folder, processor):
    library = transformers.PaliGemmaForConditionalGeneration.from_pretrained(folder)
    found = []
    for text in ("a cat", "a dog"):
        inputs = processor(images=[IMAGE], text=[f"<image>{text}"], return_tensors="pt")
        inputs.pop("labels")
        states = library(**inputs, output_hidden_states=True).hidden_states
        found.append(states[1][0, :16])
    assert (found[0] - found[1]).abs().amax(1).min() > 1e-4
