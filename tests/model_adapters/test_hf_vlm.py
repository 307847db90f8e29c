import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import transformers
from tiny_joint import CPU, adapter, noise
from tiny_vlm import WRITERS

from vlbench.adapter_kit.vlm.asked_images import family
from vlbench.capabilities import NoAnswer, Picture, Regions
from vlbench.errors import CannotDo, DataError, SpecError, WeightsError

# PaliGemma's processor reads a tensor in a way that NumPy will no longer allow.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
HfVlm = adapter("hf_vlm:HfVlm")
QUESTION = 'Does this figure show "{}"? Please answer Yes or No.'
TEXTS = ["a photo of a cat", "Two dogs", "", "a photo of the cat sat on the mat"]
OPTIONS = {"text_limit": 64}
# Of a model that sees pictures of any size.
SIZES = {"qwen3": {"size": 32}}
FAMILIES = pytest.mark.parametrize("made", WRITERS, indirect=True)
# Those that read a prompt in both directions.
PREFIX_LM = ["paligemma", "paligemma2"]
CAUSAL = pytest.mark.parametrize("made", sorted(WRITERS.keys() - {*PREFIX_LM}), indirect=True)


class Made(NamedTuple):
    """A tiny model as a folder, as the adapter, and as the library opens it."""

    name: str
    folder: str
    adapter: object
    library: object
    processor: object

    def inputs(self, image, text, answer="", question=QUESTION):
        """Return what the library's processor makes of a question, up to some of the answer."""
        if self.name in PREFIX_LM:
            return self.suffixed(image, question.replace("{}", text), answer)
        asked = {"type": "text", "text": question.replace("{}", text)}
        shown = [{"type": "image"}] if image else []
        chat = [{"role": "user", "content": [*shown, asked]}]
        prompt = self.processor.apply_chat_template(chat, add_generation_prompt=True)
        special = not prompt.startswith("<bos>")
        return self.processor(
            images=[image] if image else None,
            text=[prompt + answer],
            return_tensors="pt",
            add_special_tokens=special,
        )

    def suffixed(self, image, prompt, suffix):
        """Return what PaliGemma's processor makes of a suffix, less the end that it adds."""
        given = {"images": [image], "text": [f"<image>{prompt}"], "return_tensors": "pt"}
        inputs = self.processor(**given, **({"suffix": [suffix]} if suffix else {}))
        pixels, _ = inputs.pop("pixel_values"), inputs.pop("labels")
        cut = {name: ids[:, : -1 if suffix else None] for name, ids in inputs.items()}
        return {"pixel_values": pixels, **cut}


@pytest.fixture(scope="module")
def make(opened):
    """Open each tiny model once, whatever the order of the tests."""

    @cache
    def made(name):
        _, folder, _, model = opened(name)
        kind = transformers.AutoModelForImageTextToText
        library = kind.from_pretrained(folder, attn_implementation="eager")
        processor = transformers.AutoProcessor.from_pretrained(folder)
        return Made(name, folder, model, library, processor)

    return made


@pytest.fixture
def made(request, make):
    return make(request.param)


@pytest.fixture
def folder(make):
    return make("gemma3").folder


@pytest.fixture
def gemma(make):
    return make("gemma3").adapter


IMAGES = [noise(90, 50), noise(40, 60, 1)]
PICTURES = [Picture(image, None) for image in IMAGES]


@torch.no_grad()
def probability(made, image, text, answer):
    """Return the geometric mean of an answer's probabilities, of one pass over all of it."""
    bare, whole = (made.inputs(image, text, given) for given in ("", answer))
    begun = bare["input_ids"].shape[1]
    ids = whole["input_ids"][0, begun:]
    logs = made.library(**whole).logits[0, begun - 1 : -1].log_softmax(-1)
    return logs.gather(1, ids[:, None]).mean().exp()


def yes(made):
    return " Yes" if made.name in {"smolvlm", "llava"} else "Yes"


@FAMILIES
def test_a_score_is_the_log_odds_of_yes_in_a_whole_pass_of_each_pair(made):
    pairs = [(i, text) for text in TEXTS for i in range(2)]
    expected = [probability(made, IMAGES[i], text, yes(made)) for i, text in pairs]
    scores = made.adapter.score_pairs([PICTURES[i] for i, _ in pairs], [text for _, text in pairs])
    torch.testing.assert_close(scores.sigmoid(), torch.stack(expected), rtol=1e-4, atol=1e-8)


ANSWERS = ["Yes", "No", "two dogs on the mat", "a cat", "a cat sat on the table"]
ASKED = ["What is shown?", "What is shown?", "What is shown?", "Who sat on the mat?", "Where?"]


@torch.no_grad()
def log_likelihood(made, image, question, answer, *, ends):
    """Return the sum of the log probabilities of an answer's tokens, of one pass over all of it."""
    blank = " " if made.name in {"smolvlm", "llava"} else ""
    bare = made.inputs(image, question, question="{}")["input_ids"]
    whole = dict(made.inputs(image, question, blank + answer, question="{}"))
    ids, begun = whole["input_ids"], bare.shape[1]
    targets = ids[0, begun:].tolist() + [made.processor.tokenizer.eos_token_id] * ends
    logs = made.library(**whole).logits[0, begun - 1 :].log_softmax(-1)
    return float(sum(logs[i, target] for i, target in enumerate(targets)))


@FAMILIES
@pytest.mark.parametrize("ends", [True, False])
def test_an_answer_has_the_log_likelihood_of_a_whole_pass(made, ends, monkeypatch):
    monkeypatch.setattr(made.adapter, "_end_of_turn", ends)
    pictures = [PICTURES[i % 2] for i in range(5)]
    together = made.adapter.score_answers(pictures, ASKED, ANSWERS)
    triples = list(zip(pictures, ASKED, ANSWERS, strict=True))
    expected = [log_likelihood(made, p.image, q, a, ends=ends) for p, q, a in triples]
    torch.testing.assert_close(together, torch.tensor(expected), rtol=1e-4, atol=1e-4)
    alone = [made.adapter.score_answers([p], [q], [a]) for p, q, a in triples]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-5)
    assert together.dtype == torch.float32


@torch.no_grad()
def test_an_answer_that_merges_with_the_end_of_the_prompt_is_read_as_one_text(make, tmp_path):
    folder = tmp_path / "merging"
    shutil.copytree(make("gemma3").folder, folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    # The prompt ends with a line break, and two of them become one token, in the place of another.
    merged = tokenizer["model"]["vocab"].pop("Ġtable")
    tokenizer["model"]["vocab"]["ĊĊ"] = merged
    merges = [pair for pair in tokenizer["model"]["merges"] if "".join(pair) != "Ġtable"]
    tokenizer["model"]["merges"] = [*merges, ["Ċ", "Ċ"]]
    file.write_text(json.dumps(tokenizer))
    model = HfVlm(device=CPU, architecture=str(folder), end_of_turn=False, **OPTIONS)
    made = Made("gemma3", folder, model, make("gemma3").library, model._asked.processor)
    answers = ["\n", "\n\n", "Yes"]
    found = model.score_answers(PICTURES[:1] * 3, ASKED[:3], answers)
    bare = made.inputs(IMAGES[0], ASKED[0], question="{}")["input_ids"][0]
    for score, answer, replaced in zip(found, answers, [1, 1, 0], strict=True):
        whole = dict(made.inputs(IMAGES[0], ASKED[0], answer, question="{}"))
        ids, begun = whole["input_ids"][0], len(bare) - replaced
        assert (ids[begun] == merged) == bool(replaced)
        logs = made.library(**whole).logits[0, begun - 1 : -1].log_softmax(-1)
        expected = logs.gather(1, ids[begun:, None]).sum()
        torch.testing.assert_close(score, expected, rtol=1e-4, atol=1e-4)


@CAUSAL
def test_an_answer_without_a_picture_has_the_log_likelihood_of_the_text_alone(made):
    expected = [
        log_likelihood(made, None, q, a, ends=True) for q, a in zip(ASKED, ANSWERS, strict=True)
    ]
    pictures = [Picture(None, None)] * 4 + PICTURES[:1]
    found = made.adapter.score_answers(pictures, ASKED, ANSWERS)
    assert made.adapter.reads_text_alone
    torch.testing.assert_close(found[:4], torch.tensor(expected[:4]), rtol=1e-4, atol=1e-4)
    assert found[4] != pytest.approx(expected[4], abs=1e-3)


def test_an_answer_that_another_begins_with_is_as_likely_if_no_turn_ends(gemma, monkeypatch):
    answers, questions = ["a cat", "a cat sat", "a cat sat on"], ASKED[:1] * 3
    monkeypatch.setattr(gemma, "_end_of_turn", False)
    bare = gemma.score_answers(PICTURES[:1] * 3, questions, answers)
    assert bare.tolist() == sorted(bare.tolist(), reverse=True)
    monkeypatch.setattr(gemma, "_end_of_turn", True)
    ended = gemma.score_answers(PICTURES[:1] * 3, questions, answers)
    assert (ended < bare).all()


@FAMILIES
@torch.no_grad()
def test_what_is_answered_is_what_the_library_generates(made):
    said = made.adapter.answer(PICTURES, ASKED[:2])
    for picture, question, answer in zip(PICTURES, ASKED, said, strict=False):
        inputs = made.inputs(picture.image, question, question="{}")
        written = made.library.generate(**inputs, do_sample=False, max_new_tokens=32)
        ids = written[0, inputs["input_ids"].shape[1] :]
        assert answer == made.processor.tokenizer.decode(ids, skip_special_tokens=True)
    assert any(said)


def test_regions_without_their_image_are_no_question_without_a_picture(gemma):
    bare = Picture(None, Regions(torch.zeros(1, 4), None, None, None, (4, 4)))
    with pytest.raises(DataError, match="picture 0 of the batch has no image"):
        gemma.score_answers([bare], ["What is shown?"], ["Yes"])


@pytest.mark.parametrize("answer", ["a <image>", ""])
def test_an_answer_of_special_tokens_or_of_none_is_refused(gemma, answer, monkeypatch):
    monkeypatch.setattr(gemma, "_end_of_turn", False)
    with pytest.raises(DataError, match=r"special token of|has no token of"):
        gemma.score_answers(PICTURES[:1], ["What is shown?"], [answer])


# Where the tokens of a 90 x 50 picture come in another order than their views, or have no place.
ORDERS = {
    "smolvlm": [*range(24, 28), *range(24)],
    "internvl": [*range(8, 12), *range(8)],
    "onevision": [*range(16), *(16 + 9 * row + column for row in range(4) for column in range(8))],
}


@FAMILIES
def test_attention_is_that_of_a_whole_eager_pass(made):
    text = TEXTS[3]
    with torch.no_grad():
        inputs = made.inputs(IMAGES[0], text)
        whole = torch.stack(made.library(**inputs, output_attentions=True).attentions)[:, 0]
    ids = inputs["input_ids"][0]
    words = made.processor.tokenizer.tokenize(text)
    found = made.processor.tokenizer.convert_ids_to_tokens(ids.tolist())
    start = next(i for i in range(len(ids)) if found[i : i + len(words)] == words)
    columns = (ids == made.library.config.image_token_id).nonzero()[:, 0]
    order = ORDERS.get(made.name, range(len(columns)))
    one = made.adapter.attend(PICTURES[:1] * 2, [TEXTS[1], text])[1]
    expected = whole[:, :, start : start + len(words), columns[[*order]]]
    torch.testing.assert_close(one.weights, expected, rtol=1e-4, atol=1e-6)
    assert len(one.boxes) == len(order)
    assert one.whole
    assert [text[a:b] for a, b in one.spans] == text.split()


@pytest.mark.parametrize("made", ["qwen3", "gemma3"], indirect=True)
def test_a_type_that_is_not_known_to_share_runs_each_pair_alone(made, monkeypatch):
    pictures = PICTURES[:1] * 4
    shared = made.adapter.score_pairs(pictures, TEXTS), made.adapter.attend(pictures, TEXTS)
    monkeypatch.setattr(made.adapter, "_family", family("unknown"))
    scores = made.adapter.score_pairs(pictures, TEXTS)
    torch.testing.assert_close(scores, shared[0], rtol=1e-4, atol=1e-8)
    for one, other in zip(made.adapter.attend(pictures, TEXTS), shared[1], strict=True):
        torch.testing.assert_close(one.weights, other.weights, rtol=1e-4, atol=1e-6)


def test_a_window_that_has_left_the_image_gives_zeros(gemma):
    layers = gemma.attend(PICTURES[:1], TEXTS[3:])[0].weights.sum((1, 3))
    assert (layers[0] == 0).any()
    assert (layers[2] > 0).all()


def test_a_text_of_no_words_attends_with_no_row(gemma):
    one = gemma.attend(PICTURES[:1] * 2, ["", "Two dogs"])[0]
    assert one.weights.shape == (3, 2, 0, 4)
    assert one.spans == []


@FAMILIES
@torch.no_grad()
def test_image_vectors_are_the_librarys_on_one_square_view(made):
    image = IMAGES[0].resize((32, 32))
    # SmolVLM's enlarges a view before it cuts or shrinks it.
    once = {"smolvlm": {"do_image_splitting": False, "size": {"longest_edge": 32}}}
    untiled = once.get(made.name, {})
    given = made.processor.image_processor(images=[image], return_tensors="pt", **untiled)
    unused = {"num_patches", "num_crops", "rows", "cols"}
    features = made.library.get_image_features(
        **{name: value for name, value in given.items() if name not in unused}
    ).pooler_output
    # LLaVA-OneVision adds a tile and newlines to the view, after it.
    expected = features[0].reshape(-1, features[0].shape[-1])[:16].mean(0)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255
    found = made.adapter.encode_images(pixels)
    torch.testing.assert_close(found[0], expected, rtol=1e-4, atol=1e-5)


def untiled(made, image, question):
    """Return the library's inputs for one view of an image: no tiles, and no newline after rows."""
    once = {"do_image_splitting": False, "size": {"longest_edge": 32}}
    images = made.processor.image_processor
    plain = images.to_dict()
    for name, value in once.items() if made.name == "smolvlm" else ():
        setattr(images, name, value)
    inputs = dict(made.inputs(image, "", question=question))
    for name in once if made.name == "smolvlm" else ():
        setattr(images, name, plain[name])
    if made.name == "onevision":
        is_image = inputs["input_ids"][0] == made.library.config.image_token_id
        kept = ~is_image | (is_image.cumsum(0) <= 16)
        tokens = made.library.get_image_features(
            **{name: inputs[name] for name in ("pixel_values", "image_sizes", "batch_num_images")}
        )
        tokens.pooler_output = [tokens.pooler_output[0][:16]]
        cut = {name: inputs[name][:, kept] for name in ("input_ids", "attention_mask")}
        return cut | {"mm_encoder_outputs": {"image": tokens}}
    return inputs


@FAMILIES
@torch.no_grad()
def test_stages_are_the_librarys_by_hooks_from_the_tower_to_the_prompts_end(made):
    model, question = made.adapter, "What does the image show?"
    images = [noise(32, 32, seed) for seed in range(2)]
    pixels = torch.stack([model.preprocess(image) for image in images])
    names = model.layers()
    found = model.encode_images_at(pixels, names)
    torch.testing.assert_close(found["output"], model.encode_images(pixels))
    for row, image in enumerate(images):
        inputs = untiled(made, image, question)
        seen = states_by_hooks(made.library, inputs)
        tokens = inputs["input_ids"][0] == made.library.config.image_token_id
        expected = {"projected": seen[0][0][tokens].mean(0)}
        for number, states in enumerate(seen[1:], 1):
            expected[f"language.{number}@image"] = states[0][tokens].mean(0)
            expected[f"language.{number}@end"] = states[0, -1]
        assert names == ["tower.0", "tower.1", *expected, "output"]
        for name, vector in expected.items():
            torch.testing.assert_close(found[name][row], vector, rtol=1e-4, atol=1e-5)


@FAMILIES
@torch.no_grad()
def test_stages_of_the_tower_are_means_or_class_tokens_by_hooks(made):
    model, seen = made.adapter, []
    pixels = torch.stack([model.preprocess(noise(40, 40, seed)) for seed in range(3)])
    alone = model.encode_images_at(pixels[1:2], ["tower.0", "tower.1"])
    names = {name for name, _ in model.model.named_modules()}
    towers = ("visual.blocks", "encoder.layers", "encoder.layer")
    (tower,) = (
        one for one in names if "vis" in one and one.endswith(towers) and "merger" not in one
    )
    hooks = [
        model.model.get_submodule(f"{tower}.{number}").register_forward_hook(
            lambda _, __, output: seen.append(output[0] if isinstance(output, tuple) else output)
        )
        for number in range(2)
    ]
    found = model.encode_images_at(pixels, ["tower.0", "tower.1"])
    for hook in hooks:
        hook.remove()
    assert len(seen) == 2
    for number, states in enumerate(seen):
        tokens = states.reshape(3, -1, states.shape[-1])
        pooled = tokens[:, 0] if made.name in {"llava", "internvl"} else tokens.mean(1)
        torch.testing.assert_close(found[f"tower.{number}"], pooled, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(pooled[1:2], alone[f"tower.{number}"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "towers", "decoders"),
    [(["tower.0", "projected"], 1, 0), (["tower.1", "language.1@end", "output"], 1, 1)],
)
def test_the_tower_runs_once_and_the_language_model_if_asked(gemma, layers, towers, decoders):
    pixels, ran = torch.rand(2, 3, 32, 32), []
    gemma.layers()
    gemma.encode_images_at(pixels, ["language.1@end"])
    parts = {"tower": gemma.model.model.vision_tower, "decoder": gemma.model.get_decoder()}
    hooks = [
        part.register_forward_hook(lambda *_, name=name: ran.append(name))
        for name, part in parts.items()
    ]
    gemma.encode_images_at(pixels, layers)
    for hook in hooks:
        hook.remove()
    assert (ran.count("tower"), ran.count("decoder")) == (towers, decoders)


@FAMILIES
@pytest.mark.parametrize(("what", "place"), [("image_tokens", "image"), ("last_token", "end")])
def test_the_output_is_the_stage_that_image_vector_names_and_has_a_gradient(made, what, place):
    given = {"architecture": made.folder, **OPTIONS, **SIZES.get(made.name, {})}
    model = HfVlm(device=CPU, image_vector=what, **given)
    pixels = torch.rand(2, 3, 32, 32, requires_grad=True)
    last = [name for name in model.layers() if name.endswith(f"@{place}")][-1]
    found = model.encode_images_at(pixels, [last, "output"])
    assert torch.equal(found["output"], found[last])
    torch.testing.assert_close(model.encode_images(pixels), found["output"])
    found["output"].square().sum().backward()
    assert pixels.grad.abs().sum() > 0


def test_another_layer_prompt_changes_the_language_model_and_no_earlier_stage(folder, gemma):
    other = HfVlm(device=CPU, architecture=folder, layer_prompt="Two dogs?", **OPTIONS)
    pixels, names = torch.rand(1, 3, 32, 32), ["tower.1", "projected", "language.2@end"]
    one, two = (model.encode_images_at(pixels, names) for model in (gemma, other))
    changed = [name for name in names if not torch.allclose(one[name], two[name], atol=1e-6)]
    assert changed == ["language.2@end"]


def test_embeddings_are_no_vector_of_an_image(folder):
    with pytest.raises(SpecError, match="is the embeddings, which have not seen the image"):
        HfVlm(device=CPU, architecture=folder, image_vector="last_token", layer=0)


def test_a_prompt_that_does_not_fit_the_view_says_which_layers_to_leave_out(folder, monkeypatch):
    model = HfVlm(device=CPU, architecture=folder, **OPTIONS)
    tokens = model._view.tokens
    monkeypatch.setattr(model._view, "tokens", lambda pixels: tokens(pixels)[:, 1:])
    with pytest.raises(CannotDo, match=r"4 image tokens .* a view of 3; leave language\.\* out"):
        model.encode_images_at(torch.rand(1, 3, 32, 32), ["language.1@end"])


def test_a_layer_prompt_that_is_too_long_is_refused(folder):
    model = HfVlm(device=CPU, architecture=folder, layer_prompt="Two dogs " * 9999, **OPTIONS)
    with pytest.raises(DataError, match="give a shorter layer_prompt"):
        model.encode_images_at(torch.rand(1, 3, 32, 32), ["language.1@end"])


def test_a_model_that_reads_no_computed_tokens_is_refused(folder, monkeypatch):
    model = HfVlm(device=CPU, architecture=folder, **OPTIONS)
    monkeypatch.setattr(model.model, "forward", lambda **_: None)
    with pytest.raises(CannotDo, match="does not read precomputed image tokens"):
        model.encode_images_at(torch.rand(1, 3, 32, 32), ["language.1@end"])


def states_by_hooks(library, inputs):
    """Return what goes into the language model's first layer, and what comes out of each part."""
    decoder, seen = library.get_decoder(), {}

    def first(_, args, options):
        seen[0] = args[0] if args else options["hidden_states"]

    def keep(number):
        def hook(_, __, output):
            seen[number] = output[0] if isinstance(output, tuple) else output

        return hook

    hooks = [decoder.layers[0].register_forward_pre_hook(first, with_kwargs=True)]
    parts = [*decoder.layers[:-1], decoder.norm]
    hooks += [part.register_forward_hook(keep(n)) for n, part in enumerate(parts, 1)]
    library(**inputs)
    for hook in hooks:
        hook.remove()
    return [seen[number] for number in sorted(seen)]


@FAMILIES
@torch.no_grad()
def test_a_region_is_the_mean_of_the_image_tokens_it_meets(made):
    inputs = made.inputs(IMAGES[0], "a")
    words = {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"}
    features = made.library.get_image_features(
        **{name: value for name, value in inputs.items() if name not in words}
    ).pooler_output
    tokens = torch.cat([part.reshape(-1, part.shape[-1]) for part in features])
    one = made.adapter.attend(PICTURES[:1], ["a"])[0]
    placed = tokens[[*ORDERS.get(made.name, range(len(tokens)))]]
    middle = torch.tensor([[40, 20, 50, 30.0]])
    low, high = torch.maximum(one.boxes[:, :2], middle[:, :2]), one.boxes[:, 2:].clone()
    areas = (torch.minimum(high, middle[:, 2:]) - low).clamp_min(0).prod(1)
    expected = (areas[:, None] * placed).sum(0) / areas.sum()
    found = made.adapter.encode_regions(PICTURES[:1], [middle])[0]
    torch.testing.assert_close(found[0], expected, rtol=1e-4, atol=1e-5)


@CAUSAL
@torch.no_grad()
def test_token_vectors_are_the_language_models(made):
    ids = made.processor.tokenizer(TEXTS[0], return_tensors="pt")
    expected = made.library.get_decoder()(**ids).last_hidden_state[0]
    found = made.adapter.encode_tokens([TEXTS[3], TEXTS[0]])[1]
    assert [TEXTS[0][a:b] for a, b in found.spans] == TEXTS[0].split()
    torch.testing.assert_close(found.vectors, expected, rtol=1e-4, atol=1e-5)
    mean = made.adapter.encode_texts([TEXTS[0], TEXTS[3]])[0]
    torch.testing.assert_close(mean, expected.mean(0), rtol=1e-4, atol=1e-5)


def test_an_earlier_layer_gives_its_hidden_states(folder):
    model = HfVlm(device=CPU, architecture=folder, layer=0, **OPTIONS)
    ids = model._reader.tokenizer(TEXTS[0], return_tensors="pt").input_ids
    expected = model.model.get_input_embeddings()(ids)[0]
    torch.testing.assert_close(model.encode_tokens(TEXTS[:1])[0].vectors, expected)


def test_a_layer_that_is_not_there_is_refused(folder):
    with pytest.raises(SpecError, match=r"layer 4 is outside -4\.\.3"):
        HfVlm(device=CPU, architecture=folder, layer=4)


def test_a_size_that_the_model_does_not_see_is_refused(folder):
    with pytest.raises(SpecError, match="size 48 is not 32, the model's only input size"):
        HfVlm(device=CPU, architecture=folder, size=48)


@pytest.mark.parametrize("made", ["qwen3"], indirect=True)
def test_pictures_of_any_size_are_seen_in_whole_tokens(made):
    assert HfVlm(device=CPU, architecture=made.folder).preprocess(IMAGES[0]).shape == (3, 448, 448)
    with pytest.raises(SpecError, match="size 40 is not a multiple of 16"):
        HfVlm(device=CPU, architecture=made.folder, size=40)


@pytest.mark.parametrize("made", ["smolvlm", "qwen3", "gemma3", *PREFIX_LM], indirect=True)
def test_an_answer_of_several_tokens_has_the_geometric_mean(made):
    with pytest.warns(UserWarning, match=r"'Yesterday' is \d tokens of .*geometric mean"):
        model = HfVlm(device=CPU, architecture=made.folder, answer="Yesterday")
    blank = " " if made.name == "smolvlm" else ""
    expected = [probability(made, IMAGES[0], text, blank + "Yesterday") for text in TEXTS]
    scores = model.score_pairs(PICTURES[:1] * 4, TEXTS)
    torch.testing.assert_close(scores.sigmoid(), torch.stack(expected), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("made", ["smolvlm"], indirect=True)
def test_an_answer_may_be_held_against_another(made):
    model = HfVlm(device=CPU, architecture=made.folder, against="No")
    right, wrong = (probability(made, IMAGES[0], TEXTS[0], text) for text in (" Yes", " No"))
    scores = model.score_pairs(PICTURES[:1], TEXTS[:1])
    torch.testing.assert_close(scores[0].sigmoid(), right / (right + wrong), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("made", ["llava"], indirect=True)
def test_the_question_may_be_another(made):
    model = HfVlm(device=CPU, architecture=made.folder, question="Is {} there?")
    prompt = f"USER: <image>\nIs {TEXTS[0]} there? ASSISTANT:"
    inputs = made.processor(images=[IMAGES[0]], text=[prompt], return_tensors="pt")
    with torch.no_grad():
        logs = made.library(**inputs).logits[0, -1].log_softmax(-1)
    yes_id = made.processor.tokenizer(" Yes").input_ids[0]
    scores = model.score_pairs(PICTURES[:1], TEXTS[:1])
    torch.testing.assert_close(scores[0].sigmoid(), logs[yes_id].exp(), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("made", ["llava", "qwen3", "paligemma"], indirect=True)
def test_half_precision_scores_nearly_the_same(made):
    half = HfVlm(
        device=CPU, architecture=made.folder, dtype=torch.bfloat16, **SIZES.get(made.name, {})
    )
    scores = half.score_pairs(PICTURES, TEXTS[:2])
    assert scores.dtype == torch.float32
    whole = made.adapter.score_pairs(PICTURES, TEXTS[:2])
    torch.testing.assert_close(scores.sigmoid(), whole.sigmoid(), rtol=0.2, atol=0)
    assert half.encode_images(torch.rand(1, 3, 32, 32)).dtype == torch.float32


@pytest.mark.parametrize("made", ["qwen3"], indirect=True)
def test_an_image_that_the_processor_refuses_is_named(made):
    with pytest.raises(DataError, match="rejects an image of 1 x 2000 pixels: "):
        made.adapter.score_pairs([Picture(noise(1, 2000), None)], ["a cat"])


def test_texts_are_cut_and_counted(folder):
    model = HfVlm(device=CPU, architecture=folder, text_limit=3)
    assert model.context_length == 3
    assert model.count_tokens(["a photo of", "a photo of a cat", ""]) == [3, 5, 0]
    cut = model.score_pairs(PICTURES[:1], ["a photo of a cat"])
    assert torch.equal(cut, model.score_pairs(PICTURES[:1], ["a photo of"]))
    assert len(model.attend(PICTURES[:1], ["a photo of a cat"])[0].spans) == 3


@FAMILIES
def test_a_question_that_does_not_fit_is_never_cut(made, monkeypatch):
    monkeypatch.setattr(made.adapter, "context_length", 6)
    begun = "a photo of a cat on the "
    long, short = [f"{begun}mat A. cat", f"{begun}mat B. dog"], "a cat"
    said = made.adapter.answer(PICTURES[:1] * 3, [long[0], short, long[1]])
    assert [type(one) for one in said] == [NoAnswer, str, NoAnswer]
    (count,) = made.adapter.count_tokens(long[:1])
    way = f"has {count} tokens, 6 may be read; raise the limit with --model-args text_limit={count}"
    assert said[0] == NoAnswer("the question does not fit", f"the question {long[0]!r} {way}")
    with pytest.raises(DataError, match=rf"the question '{begun}mat .*' {way}"):
        made.adapter.score_answers(PICTURES[:1] * 2, [short, long[0]], ["Yes", "No"])
    monkeypatch.setattr(made.adapter, "context_length", count)
    assert [type(one) for one in made.adapter.answer(PICTURES[:1], long[:1])] == [str]


def test_a_question_longer_than_the_context_is_not_answered(gemma, monkeypatch):
    monkeypatch.setattr(gemma, "_context", 60)
    monkeypatch.setattr(gemma, "context_length", 60)
    pictures, words = [*PICTURES[:1], Picture(None, None)], "a cat " * 40
    for one in gemma.answer(pictures, [words] * 2):
        assert (one.why, one.may_pass) == ("the question does not fit", False)
        assert "the model reads 60 tokens at most; ask shorter questions" in one.words
    (one,) = gemma.answer(pictures[:1], ["a cat " * 10])
    assert "; shorten the question 'a cat a" in one.words


def test_a_prompt_longer_than_the_context_is_refused(gemma, monkeypatch):
    monkeypatch.setattr(gemma, "_context", 40)
    wanted = "reads 40 tokens, not 17 up to the end of the image and 28 after it; cut texts by 5 "
    with pytest.raises(DataError, match=wanted):
        gemma.score_pairs(PICTURES[:1], ["a photo of a cat"])


def test_a_model_without_a_chat_template_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(CannotDo, match="has no chat template, so its prompts are unknown"):
        HfVlm(device=CPU, architecture=str(tmp_path))


def test_another_kind_of_model_is_refused(tmp_path):
    transformers.BertConfig().save_pretrained(tmp_path)
    with pytest.raises(CannotDo, match="type bert; this adapter reads generative models"):
        HfVlm(device=CPU, architecture=str(tmp_path))


def test_weights_that_are_not_there_name_the_download_and_the_option():
    with pytest.raises(WeightsError, match=r"ORG/NAME, .*cannot be downloaded.*weights=PATH"):
        HfVlm(device=CPU, architecture="ORG/NAME")


# Prints the peak of this process alone, in MB: what getrusage gives counts the parent's too.
PEAK = """
import sys
from pathlib import Path
from vlbench.cli import main
main(["check", f"hf:{sys.argv[1]}", "--offline"])
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
"""
TINY_VLM = Path(__file__).parents[2] / "model_adapters" / "tiny" / "vlm"


def peak(folder):
    """Return the MB that `vlbench check` takes for a folder."""
    command = [sys.executable, "-c", PEAK, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("config.json", '"num_hidden_layers": 3', '"num_hidden_layers": 10000000'),
        ("config.json", '"num_hidden_layers": 3', '"num_hidden_layers": 1000'),
        ("config.json", '"hidden_size": 96', '"hidden_size": 20000'),
        ("config.json", '"vocab_size": 237', '"vocab_size": 20000000'),
        ("config.json", "{", "[" * 200_000),
        ("chat_template.jinja", "", "{{ 'a' * 10**9 }}"),
    ],
    ids=["layers", "many layers", "width", "words", "brackets", "template"],
)
def test_a_hostile_folder_takes_little_more_memory_than_a_small_model(tmp_path, file, old, new):
    shutil.copytree(TINY_VLM, tmp_path / "vlm")
    hostile = tmp_path / "vlm" / file
    hostile.write_text(hostile.read_text().replace(old, new, 1))
    assert peak(tmp_path / "vlm") < peak(TINY_VLM) + 300
