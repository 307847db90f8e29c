"""scripts/tiny/foils.py and uniter.py: what makes a caption false, and what a word is asked."""

import importlib
import json
import math
import random
from pathlib import Path

import pytest
import torch

from vlbench.data.coco_files import Phrase
from vlbench.data.scenes.loaders import drawn_rows

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
PUPPY = frozenset({"puppy", "dog", "red", "small", "plain"})
OWL = frozenset({"owl", "bird", "blue", "medium", "striped"})


@pytest.fixture
def tiny(monkeypatch):
    """Import a module of the script's package by its name."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


@pytest.fixture
def foils(tiny):
    return tiny("tiny.foils")


@pytest.fixture
def facts(tiny):
    """A red puppy above a striped blue owl, on a striped background."""
    centres = [(0.5, 0.25), (0.5, 0.75)]
    return tiny("tiny.world").Facts([], [], [PUPPY, OWL], centres, "striped", [])


def caption(foils, text, *phrases):
    return foils.Caption(text.split(), [Phrase(*phrase) for phrase in phrases])


@pytest.fixture
def above(foils):
    phrases = (0, 3, (0,)), (4, 6, (1,)), (7, 10, ())
    return caption(foils, "a red puppy above an owl on a striped background .", *phrases)


def draws(seed=0):
    return random.Random(seed)  # noqa: S311 - no secret


def texts(foil, facts, above):
    """Return the different foils that 1,000 seeds draw."""
    drawn = [foil(facts, above, draws(seed)) for seed in range(1000)]
    return {" ".join(one.words) for one in drawn}


def test_a_noun_becomes_that_of_no_thing_in_the_image(foils, facts, above):
    found = texts(foils.noun, facts, above)
    # 40 fine-grained nouns without the two, for either of the two.
    assert len(found) == 2 * 38
    assert "a red eel above an owl on a striped background ." in found
    assert "a red puppy above a jeep on a striped background ." in found


def test_a_category_becomes_a_category_and_a_plural_a_plural(foils, facts):
    two = caption(foils, "two birds .", (0, 2, (1, 2)))
    found = texts(foils.noun, facts._replace(things=[PUPPY, OWL, OWL]), two)
    assert len(found) == 10
    assert {"two cups .", "two fish ."} < found


def test_an_attribute_becomes_one_that_the_thing_does_not_have(foils, facts, above):
    found = texts(foils.attribute, facts, above)
    assert len(found) == 9 + 3
    assert "a blue puppy above an owl on a striped background ." in found
    assert "a red puppy above an owl on a checked background ." in found


def test_an_attribute_outside_the_phrase_is_that_of_the_only_thing(foils, facts):
    red = caption(foils, "the puppy is red .", (0, 2, (0,)))
    assert len(texts(foils.attribute, facts, red)) == 9
    marked = caption(foils, "the owl covered with stripes .", (0, 2, (1,)))
    assert texts(foils.attribute, facts, marked) == {"the owl covered with spots ."}


def test_the_article_agrees_with_the_new_word(foils, facts):
    small = caption(foils, "a red puppy .", (0, 3, (0,)))
    assert "an orange puppy ." in texts(foils.attribute, facts, small)


def test_names_are_exchanged_around_a_place(foils, facts, above):
    foil = foils.order(facts, above, draws())
    assert " ".join(foil.words) == "an owl above a red puppy on a striped background ."
    assert foil.phrases == [Phrase(0, 2, (1,)), Phrase(3, 6, (0,)), Phrase(7, 10, ())]


@pytest.mark.parametrize("between", ["near", "facing", "and"])
def test_names_are_not_exchanged_where_the_caption_might_stay_true(foils, facts, between):
    other = caption(foils, f"a puppy {between} an owl .", (0, 2, (0,)), (3, 5, (1,)))
    assert foils.order(facts, other, draws()) is None


def test_a_place_becomes_its_opposite(foils, facts, above):
    found = texts(foils.place, facts, above)
    assert found == {"a red puppy below an owl on a striped background ."}


@pytest.mark.parametrize("kind", ["noun", "attribute", "order", "place"])
def test_a_caption_that_says_nothing_of_the_kind_has_no_foil(foils, facts, kind):
    things = caption(foils, "there are two things .", (2, 4, (0, 1)))
    assert foils.FOILS[kind](facts, things, draws()) is None


def test_a_word_is_seen_where_the_image_has_it(foils, facts, above):
    expected = [None, True, True, None, None, True, None, None, True, None, None]
    assert foils.seen(facts, above) == expected


def test_an_attribute_is_that_of_the_thing_it_is_said_of(foils, facts):
    both = caption(foils, "a blue puppy and a blue shark .", (0, 3, (0,)), (4, 7, (1,)))
    # No shark is there, but something blue.
    assert foils.seen(facts, both) == [None, False, True, None, None, True, False, None]


@pytest.fixture
def lesson(tiny, facts, above):
    """Two images alike, and the tokens of their words."""
    one = facts._replace(words=[above.words], phrases=[above.phrases])
    spelling = {word: [7] for word in above.words} | {"puppy": [8, 9]}
    return tiny("tiny.uniter").Lesson([one, one], None, spelling)


def test_an_image_gets_a_caption_a_foil_and_another_caption(tiny, lesson):
    drawn = tiny("tiny.uniter").draw(lesson, [1, 0], draws(), ["order"])
    assert [(text.row, text.true) for text in drawn] == [
        *((1, True), (1, False), (1, False)),
        *((0, True), (0, False), (0, False)),
    ]
    assert drawn[1].words[:3] == ["an", "owl", "above"]


@pytest.mark.parametrize(
    ("kind", "placed"), [("order", 0.0), ("place", 0.0), ("attribute", 1.0), ("noun", math.nan)]
)
def test_a_word_for_a_place_is_false_in_foils_of_order_and_place(tiny, lesson, kind, placed):
    true, false, other = tiny("tiny.uniter").draw(lesson, [0], draws(), [kind])
    place = [word in {"above", "below"} for word in false.words].index(True)
    found = [true.answers[3][1], false.answers[place][1], other.answers[3][1]]
    assert found == pytest.approx([1.0, placed, math.nan], nan_ok=True)


def test_nouns_of_a_true_caption_are_asked_where_their_things_are(tiny, lesson):
    true, false, _ = tiny("tiny.uniter").draw(lesson, [0], draws(), ["order"])
    where = {i: answer[2:] for i, answer in enumerate(true.answers) if not math.isnan(answer[2])}
    assert where == {2: [0.5, 0.25], 5: [0.5, 0.75]}
    assert all(math.isnan(answer[2]) for answer in false.answers)


def test_every_token_of_a_word_has_its_answers(tiny, lesson):
    module = tiny("tiny.uniter")
    answers = module._answers_of_tokens(lesson, module.draw(lesson, [0], draws(), []))
    # [CLS], eleven words of which one has two tokens, [SEP].
    assert answers.shape == (2, 14, 4)
    assert answers[0, 2:5, 0].tolist() == [1, 1, 1]
    assert answers[0, [0, 1, 13]].isnan().all()


def test_true_and_false_have_the_same_weight(tiny):
    logits, true = torch.tensor([0.0, 0.0, 0.0, 2.0]), torch.tensor([0.0, 0.0, 0.0, 1.0])
    expected = (math.log(2) + math.log(1 + math.exp(-2))) / 2
    assert float(tiny("tiny.uniter")._balanced(logits, true)) == pytest.approx(expected)


def test_what_is_not_asked_costs_nothing_and_teaches_nothing(tiny):
    module = tiny("tiny.uniter")
    found = torch.zeros(1, 2, 4, requires_grad=True)
    answers = torch.full((1, 2, 4), math.nan)
    answers[0, 1, 2:] = torch.tensor([0.5, 0.0])
    loss = module._asked(found, answers)
    loss.backward()
    assert loss.item() == pytest.approx(module.FAR * 0.25 / 2)
    assert found.grad.nonzero().tolist() == [[0, 1, 2]]


@pytest.mark.nightly
@pytest.mark.usefixtures("scenes_drawn")
@pytest.mark.filterwarnings("ignore:The number of unique classes")  # of a few drawings
def test_the_same_seed_writes_the_same_weights(tiny, tmp_path):
    options = ["--only", "tiny-uniter", "--steps-scale", "0.001", "--limit", "60"]
    for name in "ab":
        tiny("train_tiny").main([*options, "--output", str(tmp_path / name)])
    files = [tmp_path / name / "uniter" / "model.safetensors" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()
    card = json.loads(files[0].with_name("card.json").read_text())
    assert card["held_out"]["caption_above_order_foil"]["test"]["n"] > 20


def test_no_word_of_a_true_caption_is_unseen_and_foils_differ_from_all_captions(
    tiny, foils, tmp_path
):
    for facts in tiny("tiny.world")._facts(drawn_rows("scenes", "val", 120, tmp_path)):
        for true in foils.captions(facts):
            assert False not in foils.seen(facts, true)
            found = [foil(facts, true, draws()) for foil in foils.FOILS.values()]
            assert all(list(foil.words) not in facts.words for foil in found if foil)
