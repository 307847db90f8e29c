"""scripts/train_tiny.py and its package: what training does, and that it teaches something."""

import importlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from caption_world import PAIRS, PLAN, SIZES, THINGS, captions, features, named, run
from drawn_sample import small_world
from torch import nn

from vlbench.data.coco_files import Phrase
from vlbench.data.scenes.rows import row
from vlbench.data.scenes.world import CATEGORIES
from vlbench.probes.captioning.captioner_files import label, learn_vocabulary, restore_captioner
from vlbench.probes.captioning.captioner_network import Sizes, greedy_captions
from vlbench.probes.captioning.captioner_training import CrossEntropyTraining, TrainingCaptions

__all__ = ["small_world"]

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def tiny(monkeypatch):
    """Import a module of the script's package by its name."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


def seeded():
    return torch.Generator().manual_seed(0)


def test_an_attack_on_a_linear_model_ends_in_the_corner_of_the_ball(tiny):
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    weight = torch.tensor([[1.0], [-1.0]]) * torch.tensor([1.0, -2.0, 3.0] * 4)
    model[1].weight.data, model[1].bias.data = weight, torch.zeros(2)
    pixels = torch.full((1, 3, 2, 2), 0.5)
    attacked = tiny("tiny.cnn").attack(
        model, pixels, torch.tensor([0]), radius=0.1, steps=10, step=0.05, rng=seeded()
    )
    expected = 0.5 - 0.1 * weight[0].sign().view(1, 3, 2, 2)
    torch.testing.assert_close(attacked, expected)


def test_an_attack_leaves_no_pixel_darker_than_black(tiny):
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    pixels = torch.zeros(4, 3, 2, 2)
    attacked = tiny("tiny.cnn").attack(
        model, pixels, torch.zeros(4, dtype=int), radius=0.1, steps=3, step=0.1, rng=seeded()
    )
    assert attacked.min() == 0
    assert attacked.max() == pytest.approx(0.1)


def test_a_varied_image_is_an_image_and_obeys_its_generator(tiny):
    pixels = torch.rand(8, 3, 64, 64, generator=seeded())
    varied = tiny("tiny.cnn").vary(pixels, seeded())
    assert varied.shape == pixels.shape
    assert 0 <= varied.min() < varied.max() <= 1
    assert torch.equal(varied, tiny("tiny.cnn").vary(pixels, seeded()))


def test_a_moved_image_moves_by_three_pixels_at_most(tiny):
    dot = torch.zeros(200, 1, 16, 16)
    dot[:, :, 8, 8] = 1
    places = tiny("tiny.clip").move(dot, seeded()).nonzero()[:, 2:]
    assert len(places) == 200
    assert set(places.flatten().tolist()) == {5, 6, 7, 8, 9, 10, 11}


@pytest.fixture
def examples(tiny):
    """Of four images: a hat, a dog and a hat, a cup, a dog; everything counts the images."""
    world = tiny("tiny.world")
    things = [["hat"], ["dog", "hat"], ["cup"], ["dog"]]
    facts = [
        world.Facts([], [], [frozenset({name, "red"}) for name in names], [], "plain", [])
        for names in things
    ]
    labels = torch.tensor([CATEGORIES.index(names[0]) for names in things])
    pixels = torch.arange(4, dtype=torch.uint8).view(4, 1, 1, 1)
    return world.Examples(pixels, labels, list("abcd"), [0, 1, 2, 3], facts, list("ijkl"))


def test_images_of_some_categories_hold_no_others_and_the_rest_hold_one(tiny, examples):
    world = tiny("tiny.world")
    kept = world.of_categories(world.World(examples, examples, list(CATEGORIES)), ["hat", "cup"])
    assert kept.classes == ["hat", "cup"]
    for part in kept[:2]:
        assert part.labels.tolist() == [0, 1]
        assert part.images.flatten().tolist() == [0, 2]
        assert (part.captions, part.regions, part.questions) == (["a", "c"], [0, 2], ["i", "k"])
        assert [facts.things for facts in part.facts] == [[{"hat", "red"}], [{"cup", "red"}]]
    kept = world.holding(world.World(examples, examples, list(CATEGORIES)), ["dog"])
    assert kept.scenes.captions == ["b", "d"]
    assert kept.scenes.labels.tolist() == [CATEGORIES.index("dog")] * 2
    assert kept.classes == list(CATEGORIES)


def test_a_proposal_shows_the_thing_that_it_covers_best_or_nothing(tiny):
    world = tiny("tiny.world")
    red_owl = frozenset({"owl", "bird", "red", "small", "striped"})
    things = [frozenset({"puppy", "dog", "blue", "large", "plain"}), red_owl]
    boxes = [[0, 0, 20, 20], [30, 30, 50, 50]]
    shown = world._names(things, boxes, [31, 30, 50, 52])
    assert [kind[i] for kind, i in zip(world.NAMED, shown, strict=True)] == [
        *("owl", "bird", "red", "small", "striped")
    ]
    assert world._names(things, boxes, [15, 15, 35, 35]) == [0] * 5


def test_a_layer_with_folded_weights_does_to_pixels_what_it_did_to_standardised_ones(tiny):
    sight = tiny("tiny.sight")
    layer, rng = nn.Linear(10, 4), seeded()
    pixels, rest = torch.randint(256, (3, 8), generator=rng).float(), torch.rand(3, 2)
    expected = layer(torch.cat([(pixels - sight.MEAN) / sight.SPREAD, rest], 1))
    weight, bias = sight.fold(layer.weight.data, layer.bias.data, width=8)
    found = nn.functional.linear(torch.cat([pixels, rest], 1), weight, bias)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_names_of_regions_are_learnt_where_there_are_regions(tiny):
    sight = tiny("tiny.sight")
    namer = sight.Namer(8)
    names = torch.tensor([[[1, 2, 3, 1, 2], [0, 0, 0, 0, 0]], [[4, 3, 2, 2, 1], [-100] * 5]])
    states = torch.rand(2, 2, 8, generator=seeded(), requires_grad=True)
    namer(states, names).backward()
    assert states.grad[1, 1].abs().sum() == 0
    assert (states.grad.abs().sum(-1)[0] > 0).all()
    optimizer = torch.optim.Adam([*namer.parameters()], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        namer(states.detach(), names).backward()
        optimizer.step()
    assert namer.right(states, names) == [1.0] * 5


def test_special_tokens_are_never_to_be_filled_in(tiny):
    tokens = torch.arange(10).repeat(5000, 1)
    chosen = tiny("tiny.bert").choose(tokens, seeded()).double().mean(0)
    assert chosen[:5].sum() == 0
    torch.testing.assert_close(chosen[5:], torch.full((5,), 0.15).double(), atol=0.02, rtol=0)


@pytest.fixture
def documents():
    """Ten documents of five sentences of six tokens: sentence j of document i is all 100 i + j."""
    return [[[100 * i + j] * 6 for j in range(5)] for i in range(1, 11)]


@pytest.mark.parametrize("alone", [0, 1])
def test_a_text_is_a_sentence_or_all_documents_that_fit(tiny, documents, monkeypatch, alone):
    bert = tiny("tiny.bert")
    monkeypatch.setattr(bert, "ALONE", alone)
    rows = torch.arange(10).repeat(20)
    texts = bert.draw(documents, tiny("tiny.training").Batch(rows, 0.0, seeded()))
    assert texts.shape == (200, 8 if alone else bert.POSITIONS)
    assert (texts[:, 0] == 2).all()
    # The first document is the row's, and its five sentences are drawn in every order.
    first = texts[:, 1:7] if alone else texts[:, 1:31]
    assert torch.equal(first // 100, (rows + 1)[:, None].expand(first.shape))
    assert {len(set(text)) for text in first.tolist()} == {1 if alone else 5}
    assert set((first[:, 0] % 100).tolist()) == set(range(5))
    assert (texts[:, 7 if alone else 31] == 3).all()


def test_documents_fill_every_position_of_the_model(tiny, documents, monkeypatch):
    monkeypatch.setattr(tiny("tiny.bert"), "ALONE", 0)
    batch = tiny("tiny.training").Batch(torch.zeros(200, dtype=int), 0.0, seeded())
    texts = tiny("tiny.bert").draw(documents, batch)
    assert (texts >= 2).all()
    # The second document is any, and the third begins in the last of the 64 positions.
    assert set((texts[:, 32] // 100).tolist()) == set(range(1, 11))
    assert (texts[:, 62] == 3).all()
    assert (texts[:, 63] >= 100).all()


@pytest.mark.usefixtures("small_world")
def test_other_worlds_are_of_seeds_that_no_task_uses(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("VLBENCH_CACHE_DIR", str(tmp_path))
    world = tiny("tiny.world")
    own = world.read("train")
    more = world.with_others(own, 2).scenes
    # Of each other world all six images count.
    assert len(more.captions) == len(own.scenes.captions) + 12
    assert more.captions[: len(own.scenes.captions)] == own.scenes.captions
    seeds = [world.OTHER_SEED, world.OTHER_SEED + 1]
    assert world.WORLD_SEED not in seeds
    drawn = [row("scenes", seed, i)[0]["captions"] for seed in seeds for i in range(6)]
    assert more.captions[len(own.scenes.captions) :] == drawn
    asked = [row("scenes", world.OTHER_SEED, i)[0]["questions"] for i in range(2)]
    assert world.other_questions() == asked


def test_lists_come_first_then_both_then_captions(tiny):
    warm_up = tiny("tiny.warm_up")
    told = [["a van .", "a cap .", "one thing ."], ["an owl .", "two jets .", "a jet ."]]
    nouns = {"van", "cap", "owl", "jets", "jet"}
    plan = PLAN._replace(epochs=3, images=10, captions=2)
    given = warm_up.WarmUp(1, 2, learning_rate=0.5)
    lists, both, alone = warm_up.phases(told, plan, given, nouns.__contains__)
    assert (list(alone.texts), alone.plan) == (told, plan)
    assert [texts[::2] for texts in both.texts] == told
    assert [texts[1::2] for texts in both.texts] == list(lists.texts)
    assert (lists.plan.epochs, lists.plan.decay, lists.plan.learning_rate) == (1, 1.0, 0.5)
    # As many texts at a step, two neighbours for one.
    assert (both.plan.epochs, both.plan.images, both.plan.captions) == (2, 5, 4)


def test_a_list_has_each_noun_of_an_images_captions_once_in_another_order(tiny):
    warm_up = tiny("tiny.warm_up")
    told = ["two palms and a red van .", "a van on a plain background .", "one thing ."] * 9
    given = warm_up.WarmUp(1, 1)
    lists, *_ = warm_up.phases([told], PLAN, given, {"palms", "van"}.__contains__)
    (of_image,) = lists.texts
    assert len(of_image) == len(told)
    assert {*of_image} == {". palms van", ". van palms"}


def test_open_gates_are_those_that_forget(tiny):
    warm_up, sizes = tiny("tiny.warm_up"), Sizes(3, 4, 5, 2)
    drawn = warm_up.first_weights(sizes, 0, 0.0)
    found = warm_up.first_weights(sizes, 0, 4.0)
    moved = {name for name in drawn if not torch.equal(drawn[name], found[name])}
    assert moved == {"_core.h2h.bias"}
    gates = found["_core.h2h.bias"] - drawn["_core.h2h.bias"]
    torch.testing.assert_close(gates, torch.tensor([0.0, 0, 4, 4, 0, 0, 0, 0, 0, 0]))


def test_a_captioner_learns_to_list_what_it_sees_and_begins_with_given_weights(tiny):
    warm_up = tiny("tiny.warm_up")
    texts = [[f"{text} ." for text in captions(pair)] for pair in PAIRS]
    given = warm_up.WarmUp(60, learning_rate=0.01)
    lists, *_ = warm_up.phases(texts, PLAN, given, THINGS.__contains__)
    words = learn_vocabulary([text for several in texts for text in several], punctuation=True)
    sizes = SIZES._replace(words=len(words))
    lesson = TrainingCaptions(features(), label(words, lists.texts), words)
    start = warm_up.first_weights(sizes, 9, 0.0)
    training = CrossEntropyTraining(lesson, None, start, lists.plan, torch.device("cpu"))
    assert all(torch.equal(value, start[name]) for name, value in training.weights().items())
    taught = restore_captioner(run(training).result()["weights"], sizes)
    said = words.texts(greedy_captions(taught, features()))
    assert all(text.startswith(". ") for text in said)
    assert [tuple(sorted(named(text))) for text in said] == PAIRS


def test_a_captioner_is_taught_about_so_many_steps_at_the_rates_of_its_plan(tiny):
    captioner, plan = tiny("tiny.captioner"), tiny("tiny.training").Plan
    given = plan(steps=4000, batch=250, rate=0.004, decay=0.0)
    captions, warm_up = captioner.plans(given, 54_000)
    # 216 steps an epoch, and 432 of half the images.
    assert (warm_up.noun_lists, warm_up.mixed, captions.epochs) == (1, 3, 12)
    assert (warm_up.learning_rate, captions.learning_rate, warm_up.open_gates) == (0.004, 0.0024, 4)
    assert captions.validate_steps == 432


@pytest.fixture
def lesson(tiny):
    """Of four images with five captions each, caption j of image i is the token 10 + 5 i + j."""
    captions = [[[10 + 5 * i + j] for j in range(5)] for i in range(4)]
    shares = torch.full((30,), 0.05).index_fill(0, torch.arange(20, 30), 0.4)
    shares[:5] = 0
    return tiny("tiny.visualbert").Lesson(captions, None, shares)


@pytest.mark.parametrize(("share", "length"), [(0, 3), (1, 5)])
def test_a_caption_is_the_images_own_where_that_is_said(tiny, lesson, monkeypatch, share, length):
    module = tiny("tiny.visualbert")
    monkeypatch.setattr(module, "TWO", share)
    rows = torch.arange(4).repeat(500)
    texts = module.draw(lesson, tiny("tiny.training").Batch(rows, 0.0, seeded()))
    assert texts.ids.shape == (2000, length)
    own = (texts.ids[:, -2] - 10) // 5 == rows
    assert own[texts.true].all()
    # Another image is drawn from all four.
    assert own[~texts.true].double().mean() == pytest.approx(0.25, abs=0.06)
    assert texts.true.double().mean() == pytest.approx(0.5, abs=0.05)


def test_of_two_captions_the_first_is_true_and_not_the_second(tiny, lesson, monkeypatch):
    monkeypatch.setattr(tiny("tiny.visualbert"), "TWO", 1)
    rows = torch.arange(4).repeat(50)
    texts = tiny("tiny.visualbert").draw(lesson, tiny("tiny.training").Batch(rows, 0.0, seeded()))
    assert torch.equal((texts.ids[:, 1] - 10) // 5, rows)
    assert (texts.ids[:, 1] != texts.ids[:, 3]).all()
    assert texts.types[0].tolist() == [0, 0, 0, 1, 1]


def test_words_for_looks_are_hidden_more_often_and_replaced_by_such_words(tiny, lesson):
    ids = torch.arange(30).repeat(5000, 1)
    seen, chosen = tiny("tiny.visualbert").hide(ids, lesson.shares, seeded())
    torch.testing.assert_close(chosen.double().mean(0), lesson.shares.double(), atol=0.03, rtol=0)
    assert torch.equal(seen[~chosen], ids[~chosen])
    looks = seen[:, 20:][chosen[:, 20:]]
    masked = looks == tiny("tiny.words").MASK
    assert masked.double().mean() == pytest.approx(0.5, abs=0.02)
    assert set(looks[~masked].tolist()) == set(range(20, 30))


def test_frequent_words_stay_whole_and_no_english_word_is_unknown(tiny, tmp_path):
    learn = tiny("tiny.words").learn
    captions = ["the sombrero is red .", "the sombrero on a plain background ."]
    tokenizer = learn(captions, tmp_path)
    assert tokenizer.tokenize("the sombrero .") == ["the", "sombrero", "."]
    assert tokenizer.unk_token not in tokenizer.tokenize("jumping zebras quiver")
    assert learn(captions, tmp_path).get_vocab() == tokenizer.get_vocab()


@pytest.fixture
def fit(tiny):
    """Train a line, y = 3 x + 1, from zero, and return its weights and what was told."""
    training = tiny("tiny.training")
    inputs = torch.linspace(-1, 1, 50)[:, None]

    def run(**plan):
        model = nn.Linear(1, 1)
        model.weight.data, model.bias.data = torch.zeros(1, 1), torch.zeros(1)

        def loss_of(batch):
            return ((model(inputs[batch.rows]) - 3 * inputs[batch.rows] - 1) ** 2).mean()

        told = training.train("a line", model, loss_of, 50, training.Plan(decay=0.0, **plan))
        return [float(weight.detach()) for weight in model.parameters()], told

    return run


def test_training_finds_the_line_that_the_examples_lie_on(fit):
    weights, told = fit(steps=300, batch=10, rate=0.1)
    assert weights == pytest.approx([3, 1], abs=0.01)
    assert told.last_loss < 1e-3 < told.first_loss
    assert told.steps == 300


def test_the_same_seed_trains_the_same_model(fit):
    first, same, other = (fit(steps=30, batch=10, rate=0.1, seed=s)[0] for s in (0, 0, 1))
    assert first == same != other


@pytest.fixture
def facts(tiny):
    """Of an image of a small red cup, with a caption of it."""
    words = ["a", "red", "cup", "left", "."]
    phrases = [Phrase(0, 3, [0])]
    return tiny("tiny.world").Facts(
        [words], [phrases], [frozenset({"cup", "red", "small"})], [(0.2, 0.5)], "plain", []
    )


# Ids: a word's own, and those of its letters for one that is not known whole.
KNOWN = {"a": [10], "red": [11], "cup": [12, 13], "left": [14], ".": [15], "?": [16]}
ANSWERS = {"yes": [20], "no": [21], "describe": [22], "dog": [23]}


def test_each_word_of_a_judged_caption_has_its_own_answer(tiny, facts):
    vlm, foils = tiny("tiny.vlm"), tiny("tiny.foils")
    caption = foils.Caption(["a", "red", "dog", "left", "."], facts.phrases[0])
    learnt = vlm.judged(KNOWN | ANSWERS, facts, caption, true=False)
    assert learnt.ids == [10, 11, 23, 14, 15, 16, 3]
    # The cup is red, so that "red" alone is true; of "left" no word can tell.
    assert learnt.targets == [-100, 20, 21, -100, -100, -100, 21]
    true = vlm.judged(KNOWN | ANSWERS, facts, foils.captions(facts)[0], true=True)
    assert true.targets == [-100, 20, -100, 20, -100, -100, -100, 20]


def test_a_caption_is_written_after_it_is_asked_for(tiny, facts):
    caption = tiny("tiny.foils").captions(facts)[0]
    learnt = tiny("tiny.vlm").written(KNOWN | ANSWERS, caption)
    text = [10, 11, 12, 13, 14, 15]
    assert learnt.ids == [22, 16, 3, *text]
    assert learnt.targets == [-100, -100, *text, 3]


def test_texts_side_by_side_are_padded_with_what_is_not_taught(tiny):
    vlm = tiny("tiny.vlm")
    texts = vlm.side_by_side([vlm.Learnt([5], [6]), vlm.Learnt([7, 8], [-100, 9])], 1)
    assert texts.ids.tolist() == [[[5, 0], [7, 8]]]
    assert texts.targets.tolist() == [[[6, -100], [-100, 9]]]


@pytest.fixture
def train(tiny, tmp_path):
    """Train a model on few rows and few steps, and return its card."""

    def run(name, folder, scale, rows=120):
        words = ["--only", name, "--output", str(tmp_path), "--steps-scale", str(scale)]
        tiny("train_tiny").main([*words, "--limit", str(rows)])
        return json.loads((tmp_path / folder / "card.json").read_text())

    return run


def improved(card, measure):
    """Return whether the loss fell, and the test rows are answered better than blindly."""
    test = card["held_out"][measure]["test"]
    assert card["training"]["last_loss"] < card["training"]["first_loss"]
    return test["value"] - 4 * test["stderr"] > test["chance"]


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
def test_a_classifier_learns_in_seconds(train):
    card = train("tiny-rn", "rn", 0.03)
    assert improved(card, "accuracy")
    # Seven of ten images show one of the eight categories.
    assert card["data"]["images"] == 84


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
def test_a_language_model_learns_in_seconds(train):
    assert improved(train("tiny-bert", "bert", 0.05), "masked_token_accuracy_of_questions")


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
def test_a_joint_models_loss_falls_in_seconds(train):
    told = train("tiny-visualbert", "visualbert", 0.03)["training"]
    assert told["last_loss"] < told["first_loss"] - 1


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
def test_a_captioner_speaks_after_seconds(train, tmp_path):
    # What it sees through lies beside it.
    shutil.copytree(SCRIPTS.with_name("model_adapters") / "tiny" / "eyes", tmp_path / "eyes")
    told = train("tiny-captioner", "captioner", 0.01, rows=40)["training"]
    assert told["last_loss"] < told["first_loss"]
    assert (tmp_path / "captioner" / "model.safetensors").is_file()


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
def test_static_vectors_are_the_same_at_every_training_and_put_kinds_together(train, tmp_path):
    card = train("tiny-word2vec", "word2vec", 1, rows=1200)
    assert improved(card, "nearest_noun_is_of_its_category")
    first = (tmp_path / "word2vec" / "vectors.bin").read_bytes()
    train("tiny-word2vec", "word2vec", 1, rows=1200)
    assert (tmp_path / "word2vec" / "vectors.bin").read_bytes() == first
