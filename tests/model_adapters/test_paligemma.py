"""What PaliGemma does otherwise than models of a chat template; the rest is in test_hf_vlm."""

import pytest
import torch
import transformers
from hub_cache import COMMIT, cached, empty_cache
from PIL import Image
from tiny_joint import CPU, adapter
from tiny_vlm import write_paligemma, write_paligemma2

from vlbench.adapter_kit.vlm import prompt_batches
from vlbench.capabilities import Picture
from vlbench.catalog.library_names import library_model
from vlbench.errors import DataError

HfVlm = adapter("hf_vlm:HfVlm")
IMAGE = Image.effect_noise((90, 50), 80).convert("RGB")
PICTURE = Picture(IMAGE, None)
TEXTS = ["a photo of a cat", "Two dogs", "", "a photo of the cat sat on the mat"]
BOTH = pytest.mark.parametrize("folder", ["paligemma", "paligemma2"], indirect=True)
ONE = pytest.mark.parametrize("folder", ["paligemma"], indirect=True)
# PaliGemma's processor reads a tensor in a way that NumPy will no longer allow.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    writers = {"paligemma": write_paligemma, "paligemma2": write_paligemma2}
    return {name: write(tmp_path_factory.mktemp(name)) for name, write in writers.items()}


@pytest.fixture
def folder(request, folders):
    return folders[request.param]


@pytest.fixture
def model(folder):
    return HfVlm(device=CPU, architecture=folder)


@pytest.fixture
def processor(folder):
    return transformers.AutoProcessor.from_pretrained(folder)


@pytest.fixture
def library(folder):
    kind = transformers.PaliGemmaForConditionalGeneration
    return kind.from_pretrained(folder, attn_implementation="eager")


@BOTH
def test_image_features_are_computed_once_for_all_texts_of_a_picture(folder):
    with pytest.warns(UserWarning, match="'Yesterday' is . tokens of .*: its score is the geom"):
        model = HfVlm(device=CPU, architecture=folder, answer="Yesterday", against="No")
    seen = []
    model.model.model.vision_tower.register_forward_hook(lambda *given: seen.append(given[1]))
    model.score_pairs([PICTURE] * 4, TEXTS)
    assert len(seen) == 1


@ONE
@pytest.mark.parametrize(("tokens", "batches"), [(4096, [4]), (110, [2, 2]), (10, [1] * 4)])
def test_texts_run_in_batches_of_some_tokens(model, monkeypatch, tokens, batches):
    monkeypatch.setattr(prompt_batches, "TOKENS", tokens)
    expected = torch.cat([model.score_pairs([PICTURE], [text]) for text in TEXTS])
    rows = []
    model.model.get_decoder().register_forward_pre_hook(
        lambda _, __, given: rows.append(len(given["inputs_embeds"])), with_kwargs=True
    )
    scores = model.score_pairs([PICTURE] * 4, TEXTS)
    assert rows == batches
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-8)


@BOTH
@torch.no_grad()
def test_token_vectors_have_seen_all_of_the_text(model, library, processor):
    text = TEXTS[3]
    ids = processor.tokenizer(f"<bos>{text}", return_tensors="pt").input_ids
    words = library.get_decoder()
    mask = torch.zeros(1, 1, ids.shape[1], ids.shape[1])
    masks = {"full_attention": mask, "sliding_attention": mask}
    one_mask = words.config.model_type == "gemma"
    positions = torch.arange(1, ids.shape[1] + 1)[None]
    whole = {"attention_mask": mask if one_mask else masks, "position_ids": positions}
    expected = words(input_ids=ids, **whole).last_hidden_state[0, 1:]
    found = model.encode_tokens([TEXTS[1], text])[1]
    assert [text[a:b] for a, b in found.spans] == text.split()
    torch.testing.assert_close(found.vectors, expected, rtol=1e-4, atol=1e-5)
    alone = model.encode_tokens([text])[0].vectors
    torch.testing.assert_close(alone, expected, rtol=1e-4, atol=1e-5)
    mean = model.encode_texts([text, TEXTS[1]])[0]
    torch.testing.assert_close(mean, expected.mean(0), rtol=1e-4, atol=1e-5)


@ONE
def test_texts_begin_as_prompts_do_whatever_the_tokenizer_was_saved_with(model):
    batch, _ = model._reader.read(["a cat", ""])
    assert batch["input_ids"][:, 0].tolist() == [model._reader.tokenizer.bos_token_id] * 2
    assert model.count_tokens(["a cat", ""]) == [2, 0]


@BOTH
def test_its_name_on_the_hub_names_this_adapter(folder, model, tmp_path, monkeypatch):
    name = "google/paligemma-3b-mix-224"
    cached(empty_cache(monkeypatch, tmp_path), name, folder)
    spec = library_model(f"hf:{name}", {})
    assert spec.adapter == "hf_vlm:HfVlm"
    assert spec.params == {"architecture": name, "revision": COMMIT}
    fetched = HfVlm(device=CPU, **spec.params)
    scores = [one.score_pairs([PICTURE], TEXTS[:1]) for one in (fetched, model)]
    assert torch.equal(*scores)


@ONE
def test_boxes_are_a_grid_over_the_whole_picture(model):
    boxes = model.attend([PICTURE], ["a cat"])[0].boxes
    assert boxes[0].tolist() == [0, 0, 22.5, 12.5]
    assert boxes[6].tolist() == [45, 12.5, 67.5, 25]
    assert boxes[-1].tolist() == [67.5, 37.5, 90, 50]


@ONE
def test_a_question_may_begin_with_a_task(folder, library, processor):
    model = HfVlm(device=CPU, architecture=folder, question="answer en {} ?", answer="No")
    inputs = processor(images=[IMAGE], text=["<image>answer en Two dogs ?"], return_tensors="pt")
    inputs.pop("labels")
    with torch.no_grad():
        chances = library(**inputs).logits[0, -1].softmax(-1)
    expected = chances[processor.tokenizer("No").input_ids[0]]
    scores = model.score_pairs([PICTURE], ["Two dogs"])
    torch.testing.assert_close(scores[0].sigmoid(), expected, rtol=1e-4, atol=1e-8)


@ONE
@pytest.mark.parametrize("token", ["<image>", "<bos>", "<eos>"])
def test_a_text_with_a_special_token_is_refused(model, token):
    with pytest.raises(DataError, match=f"text 'a {token}' contains {token}, a special token"):
        model.score_pairs([PICTURE] * 2, ["a cat", f"a {token}"])
