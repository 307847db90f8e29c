"""The small models of vlbench keep the contract, and their cards are true."""

import importlib
import json
import re
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file
from tiny_joint import broken_promises

from vlbench.capabilities import Picture
from vlbench.catalog.catalog import load_catalog
from vlbench.data.scenes import VERSION
from vlbench.data.scenes.world import CATEGORIES, HELD_OUT, NOUNS, plural
from vlbench.run.model import resolve_model
from vlbench.run.options import Options

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "model_adapters" / "tiny"
FOLDERS = {
    "tiny-clip": "clip",
    "tiny-eyes": "eyes",
    "tiny-rn": "rn",
    "tiny-rn-robust": "rn-robust",
    "tiny-bert": "bert",
    "tiny-visualbert": "visualbert",
    "tiny-uniter": "uniter",
    "tiny-vlm": "vlm",
    "tiny-word2vec": "word2vec",
}
CLASSIFIERS = ("tiny-rn", "tiny-rn-robust")
# Those that have read the word for every category, though some have seen no image.
READERS = ("tiny-bert", "tiny-word2vec")
ROWS = 120
every_model = pytest.mark.parametrize("name", FOLDERS)


def card(name):
    return json.loads((TINY / FOLDERS[name] / "card.json").read_text("utf-8"))


def line(name):
    return yaml.safe_load((TINY.parent / "models.yaml").read_text("utf-8"))[name]


def load(name):
    """Return the adapter of a line of models.yaml."""
    model = resolve_model(load_catalog(), name, Options())
    return model.adapter(device=torch.device("cpu"), **model.arguments)


@every_model
def test_a_small_model_keeps_every_promise(name):
    spec = load_catalog().models[name]
    told = {"region_width": spec.regions.get("width", 2048), "without": spec.without}
    assert broken_promises(load(name), **told) == []


def test_all_small_models_together_are_small():
    sizes = [file.stat().st_size for file in TINY.rglob("*") if file.is_file()]
    assert 0 < sum(sizes) <= 12_000_000


@every_model
def test_a_card_says_what_was_done(name):
    content = card(name)
    known = {"name": "scenes", "seed": 0, "split": "train"}
    assert content["name"] == name
    assert known.items() <= content["data"].items()
    # Version 2 changed texts and proposals; the images are those of version 1.
    assert content["data"]["version"] in ({1, VERSION} if name in CLASSIFIERS else {VERSION})
    assert content["data"]["images"] + content["data"]["texts"] > 0
    training = content["training"]
    # The robust model starts from a trained one, and its attacks become stronger.
    assert name == "tiny-rn-robust" or training["last_loss"] < training["first_loss"]
    assert min(training[k] for k in ("steps", "wall_seconds", "cpu_seconds", "threads")) > 0
    assert content["cannot"]
    assert {"torch", "python"} < content["libraries"].keys()


@every_model
def test_a_card_says_that_its_model_is_better_than_chance(name):
    for measure, splits in card(name)["held_out"].items():
        attacked = name == "tiny-rn" and "pgd" in measure
        for row in (splits[split] for split in ("val", "test")):
            assert (row["value"] - 4 * row["stderr"] > row["chance"]) is not attacked
            assert row["value"] < 1
        new = set() if name in CLASSIFIERS + READERS else {"test_of_held_out"}
        assert splits.keys() == {"val", "test"} | new


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_robust_classifier_withstands_what_the_other_does_not(split):
    (measure,) = [name for name in card("tiny-rn")["held_out"] if "pgd" in name]
    plain, robust = (card(n)["held_out"][measure][split] for n in ("tiny-rn", "tiny-rn-robust"))
    assert robust["value"] > plain["value"] + 0.3


@pytest.mark.parametrize("name", ["tiny-rn", "tiny-rn-robust"])
def test_the_classifiers_have_learned_what_the_tasks_call_seen(name):
    tasks = load_catalog().tasks
    parts = tasks["few_shot_scenes"].params["categories"]
    seen = load(name).class_names()
    assert seen == parts["seen"] == card(name)["data"]["categories"]
    assert seen == tasks["robustness_scenes"].params["categories"]
    assert parts["held_out"] == list(HELD_OUT)
    assert {*seen, *HELD_OUT} == set(CATEGORIES)
    assert "was shown no fish, boat, flower, cup" in " ".join(card(name)["cannot"])


@pytest.mark.parametrize("probe", ["clustering", "transfer"])
def test_all_tasks_hold_out_the_same_categories(probe):
    tasks = load_catalog().tasks
    parts = tasks["few_shot_scenes"].params["categories"]
    assert tasks[f"{probe}_scenes"].params["categories"] == parts
    assert tasks["zero_shot_alignment_regions_scenes"].params["held_out"] == parts["held_out"]


@pytest.mark.parametrize("name", [name for name in FOLDERS if name not in READERS])
def test_what_is_held_out_is_held_out_for_every_model_that_sees(name):
    assert card(name)["data"]["categories"] == [c for c in CATEGORIES if c not in HELD_OUT]
    assert "was shown no fish, boat, flower, cup" in " ".join(card(name)["cannot"])
    assert set(HELD_OUT) <= set(re.findall(r"\w+", line(name)["x-seen"])) or name in CLASSIFIERS


@pytest.mark.parametrize("name", READERS)
def test_a_model_of_texts_alone_says_that_no_category_is_new_to_it(name):
    assert card(name)["data"]["categories"] == list(CATEGORIES)
    assert card(name)["data"]["images"] == 0
    assert "no category is new to it" in " ".join(card(name)["cannot"])
    assert "all 12 categories" in line(name)["x-seen"]


@every_model
def test_a_models_line_says_what_its_card_says_it_has_seen(name):
    assert line(name)["training_images"] == card(name)["data"]["images"]
    assert line(name)["training_data"] == card(name)["data"]["configurations"]
    assert line(name)["x-seen"]


@pytest.mark.parametrize("name", sorted(set(FOLDERS) - {"tiny-word2vec"}))
def test_a_models_line_says_how_many_parameters_its_file_holds(name):
    (file,) = (TINY / FOLDERS[name]).glob("*.safetensors")
    tensors = load_file(file)
    statistics = ("running_mean", "running_var", "num_batches_tracked")
    counted = [one.numel() for key, one in tensors.items() if not key.endswith(statistics)]
    assert line(name)["parameters"] == sum(counted)


@every_model
def test_a_card_says_what_the_script_would_write(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    model = importlib.import_module("train_tiny").MODELS[name]
    content = card(name)
    assert (content["learns"], content["cannot"]) == (model.learns, list(model.cannot))
    assert content["data"]["categories"] == list(model.categories)


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_joint_model_fills_in_more_words_where_it_sees_the_right_image(split):
    held_out = card("tiny-visualbert")["held_out"]
    own, other = (
        held_out[f"masked_token_accuracy{which}"][split] for which in ("", "_with_another_image")
    )
    assert own["value"] - 2 * own["stderr"] > other["value"] + 2 * other["stderr"]


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_model_that_was_taught_to_match_matches_better_than_the_other(split):
    uniter, visualbert = (
        card(name)["held_out"]["sentence_image_accuracy"][split]["value"]
        for name in ("tiny-uniter", "tiny-visualbert")
    )
    assert uniter > visualbert + 0.2


def test_texts_that_are_learnt_side_by_side_are_read_as_by_the_adapter(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    vlm, model = importlib.import_module("tiny.vlm"), load("tiny-vlm")
    texts = ["a red cup .", "two dogs are left of a tree .", "a boat ."]
    noise = torch.randint(256, (3, 64, 64), generator=torch.Generator().manual_seed(0))
    image = Image.fromarray(noise.byte().permute(1, 2, 0).numpy())
    words = vlm.Words(model._prompts.tokenizer)
    learnt = [[*words[text], *words["?"], vlm.words.END] for text in texts]
    ids = vlm.side_by_side([vlm.Learnt(one, one) for one in learnt], 1).ids
    with torch.inference_mode():
        states = vlm.states(model.model, vlm.look(model.model, noise.byte()[None]), ids)[0]
        ends = states[range(3), [len(one) - 1 for one in learnt]]
        expected = model.model.lm_head(ends).softmax(-1)[:, words["yes"][0]]
        scores = model.score_pairs([Picture(image, None)] * 3, texts)
    torch.testing.assert_close(scores.sigmoid(), expected, rtol=1e-3, atol=1e-5)


def test_every_noun_of_the_world_has_a_static_vector():
    found = load("tiny-word2vec").encode_tokens([*NOUNS, *CATEGORIES, *map(plural, NOUNS)])
    assert {len(tokens.spans) for tokens in found} == {1}


@pytest.mark.parametrize("name", ["tiny-clip", "tiny-bert", "tiny-visualbert", "tiny-uniter"])
def test_every_noun_of_the_world_is_one_token(name):
    assert set(load(name).count_tokens([*NOUNS, *CATEGORIES])) == {3}


def test_the_words_of_questions_are_one_token_each():
    model = load("tiny-bert")
    tokenizer, network = model.masked_lm()
    asked = ["what color is the puppy ?", "how many things are there ?", "which animal is there ?"]
    assert [tokenizer.tokenize(text) for text in asked] == [text.split() for text in asked]
    assert tokenizer.unk_token_id not in tokenizer(["?", "is there a dog ?"])["input_ids"][0]
    assert model.context_length == 64
    assert network.config.max_position_embeddings == 64


def test_no_task_uses_the_world_whose_questions_were_learnt():
    seed = card("tiny-bert")["data"]["questions"]["seed"]
    worlds = [
        t.data for t in load_catalog().tasks.values() if ".scenes:" in t.data.get("loader", "")
    ]
    assert len(worlds) > 10
    assert seed not in {data.get("seed", 0) for data in worlds}


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
@every_model
@pytest.mark.filterwarnings("ignore:The number of unique classes")  # of a few drawings
def test_a_slice_of_the_test_split_scores_what_the_card_says(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    world = importlib.import_module("tiny.world")
    model = importlib.import_module("train_tiny").MODELS[name]
    rows = world.of_categories(world.read("test", ROWS), model.categories)
    for measure, found in model.measure(TINY / FOLDERS[name], rows).items():
        said = card(name)["held_out"][measure]["test"]["value"]
        error = max(said * (1 - said), 0.01) ** 0.5 * found.n**-0.5
        assert found.value == pytest.approx(said, abs=4 * error)
