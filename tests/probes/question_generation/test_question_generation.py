import pytest
import torch
from question_fakes import CLASSES, Speaks, masked_lm, tokenizer, toy_model, toy_world

from vlbench.capabilities import Picture
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import CannotDo, DataError, TooFewRows
from vlbench.probes.question_generation.question_generation import Questions, question_generation
from vlbench.probes.question_generation.training import BertGenTraining, StepTraining

QUICK = BertGenTraining(epochs=10, batch_size=10, learning_rate=0.01, projection_learning_rate=0.1)
STEPS = ["1", "2", "2 unfrozen", "3", "3 from scratch"]


def probe(model=None, data=None, **params):
    """Return the outcome; the fields of `Questions` may stand beside the probe's own."""
    kept = {"max_question": 8} | {k: params.pop(k) for k in Questions._fields if k in params}
    params = {"questions": Questions(**kept), "training": QUICK, "metrics": ["cider"]} | params
    given = model or toy_model(), data or toy_world(), Engine.for_tests()
    return question_generation(*given, **params)


def of(outcome, metric):
    return {s.at["step"]: s for s in outcome.scores if s.metric == metric}


@pytest.fixture(scope="module")
def planted():
    """A toy language whose questions name the class of the first region."""
    found = probe(things=["names"], metrics=["bleu_4", "cider"])
    yield found
    for artifact in ("examples", "similarity_by_layer"):
        found.artifacts[artifact].unlink()


def test_one_linear_layer_sees_what_a_region_is(planted):
    nouns = of(planted, "noun_accuracy")
    assert nouns["2"].value == 1
    assert nouns["2"].floors["another_image"] <= 0.3
    assert nouns["2"].floors["untrained_projection"] <= 0.3
    assert nouns["2"].floors["most_frequent_question"] == pytest.approx(1 / len(CLASSES))
    gain, cider = of(planted, "cider_gain_from_image")["2"], of(planted, "cider")["2"]
    assert gain.ci95[0] > 5
    assert gain.value == pytest.approx(cider.value - cider.floors["another_image"])


def test_every_step_learns_the_toy_language_and_the_floors_do_not_know_the_image(planted):
    nouns = of(planted, "noun_accuracy")
    assert list(nouns) == STEPS
    assert all(nouns[step].value >= 0.9 for step in STEPS)
    assert nouns["1"].floors["another_caption"] <= 0.3
    assert of(planted, "bleu_4")["2"].value == pytest.approx(1)


class Blind:
    """Encodes every region as three zeros."""

    def encode_regions(self, pictures, boxes):
        return [torch.zeros(len(own), 3) for own in boxes]


def test_with_an_encoder_of_regions_nothing_else_of_them_is_seen():
    world = toy_world()
    splits = {}
    for name, split in world.splits.items():
        seen = [Picture(None, regions) for regions in split["regions"]]
        pictures = Column(f"pictures {name}", "picture", seen, range(len(seen)))
        splits[name] = Split({**split.columns, "picture": pictures})
    data = Data(splits=splits)
    found = probe(data=data, things=["names"], encoder=Blind())
    nouns = of(found, "noun_accuracy")
    assert nouns["2"].value <= 0.3
    assert nouns["1"].value >= 0.9


def test_artifacts_have_all_questions_and_what_was_looked_at(planted):
    rows = planted.artifacts["questions"].to_pylist()
    # Two floors of all, five steps, five of another's image or caption, and W untrained.
    assert len(rows) == 13 * 24
    own = [r for r in rows if r["step"] == "2" and not r["floor"]]
    assert {r["noun_accuracy"] for r in own} == {1.0}
    assert own[0]["references"] == ["what is the thing0 ?"] * 2
    looked = planted.artifacts["attention"].to_pylist()
    kinds = {("1", "word"), ("2", "region"), ("3", "word"), ("3", "region")}
    assert {(r["step"], r["kind"]) for r in looked} == kinds
    for name in ("examples", "similarity_by_layer"):
        assert planted.artifacts[name].read_bytes().startswith(b"\x89PNG")
    layers = planted.artifacts["similarity"].to_pylist()
    steps = ("random", "1", "2", "3")
    assert [(r["step"], r["layer"]) for r in layers] == [(s, i) for s in steps for i in (1, 2)]


def test_seeds_are_draws_whose_mean_is_the_score():
    once = QUICK._replace(epochs=1)
    found = probe(training=once, seeds=[0, 1], data=toy_world(20, 8), things=["names"])
    for score in of(found, "cider").values():
        assert score.value == pytest.approx(sum(score.draws) / 2)


def nothing_is_trained(monkeypatch):
    def fail(*_):
        pytest.fail("a step was trained")

    monkeypatch.setattr(StepTraining, "step", fail)


WRONG = {
    "has no regions": lambda r: r._replace(boxes=r.boxes[:0], vectors=r.vectors[:0]),
    "image 0 has 1 regions, not 2": lambda r: r._replace(boxes=r.boxes[:1], vectors=r.vectors[:1]),
    "has a box outside it": lambda r: r._replace(boxes=r.boxes + 6),
    "or an empty one": lambda r: r._replace(boxes=r.boxes[:, [2, 1, 0, 3]]),
    "without a vector": lambda r: r._replace(vectors=None),
    "of finite numbers": lambda r: r._replace(vectors=r.vectors / 0),
    "of another width": lambda r: r._replace(vectors=r.vectors[:, :3]),
}


@pytest.mark.parametrize("message", WRONG)
def test_regions_that_cannot_be_read_name_the_image(message, monkeypatch):
    nothing_is_trained(monkeypatch)
    with pytest.raises(DataError, match=message):
        probe(data=toy_world(change=WRONG[message]), regions=2)


def with_column(name, values):
    """Return the toy world with other values of the first train images."""
    data = toy_world()
    train = data.splits["train"]
    changed = value_column([*values, *list(train[name])[len(values) :]])
    return Data(splits={**data.splits, "train": Split({**train.columns, name: changed})})


@pytest.mark.parametrize("captions", [[], [" "]])
def test_an_image_without_a_caption_is_named(captions, monkeypatch):
    nothing_is_trained(monkeypatch)
    with pytest.raises(DataError, match="image 0 has no caption, or an empty one"):
        probe(data=with_column("captions", [captions]))


def test_a_model_with_too_few_positions_is_refused_before_training(monkeypatch):
    nothing_is_trained(monkeypatch)
    # [CLS], two regions, [SEP], three words, and eight tokens of a question.
    with pytest.raises(CannotDo, match=r"have 7 tokens, and .* 14 positions"):
        probe(toy_model(max_position_embeddings=14))


def test_a_tokenizer_without_a_mask_is_refused(monkeypatch):
    nothing_is_trained(monkeypatch)
    with pytest.raises(CannotDo, match=r"no \[MASK\]"):
        probe(Speaks(tokenizer(["a"], without="mask"), masked_lm()))


def test_a_split_without_questions_is_too_small(monkeypatch):
    nothing_is_trained(monkeypatch)
    with pytest.raises(TooFewRows, match="0 images with a question"):
        probe(data=with_column("questions", [[]] * 60))


def test_no_seed_and_no_question_are_refused():
    for wrong in ({"seeds": []}, {"max_question": 0}):
        with pytest.raises(ValueError, match="must be 1 or more"):
            probe(**wrong)


def test_a_question_that_is_too_long_is_cut_and_counted():
    long = " ".join(["what is the thing0"] * 3)
    data = with_column("questions", [[long, "what is here ?"]])
    found = probe(data=data, training=QUICK._replace(epochs=1))
    assert found.counts["truncated_texts"] == 1
    assert found.counts["train_questions"] == 120


def test_questions_that_differ_in_case_and_blanks_are_seen_in_training():
    asked = [*toy_world().splits["train"]["questions"]]
    spelt = [[text.upper().replace(" ?", "?") for text in texts] for texts in asked]
    short = QUICK._replace(epochs=1)
    counts = [
        probe(data=with_column("questions", one), training=short).counts for one in (asked, spelt)
    ]
    first, second = (one["test_questions_seen_in_training"] for one in counts)
    assert first == second > 0


def test_a_constant_model_scores_the_floor():
    model = toy_model()
    torch.nn.init.zeros_(model.module.base_model.embeddings.word_embeddings.weight)
    torch.nn.init.zeros_(model.module.cls.predictions.bias)
    frozen = BertGenTraining(epochs=1, batch_size=60, learning_rate=0.0)
    found = probe(model, training=frozen, things=["names"])
    for step in STEPS:
        assert of(found, "noun_accuracy")[step].value == 0
        assert of(found, "distinct_questions")[step].value == pytest.approx(1 / 24)
