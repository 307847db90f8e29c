import json
from pathlib import Path

import numpy as np
import pytest
from question_fakes import toy_asked

from vlbench.data.records import Split
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.items import Examples
from vlbench.probes.question_generation import scores
from vlbench.probes.question_generation.measures import MeasuredSystem, System
from vlbench.probes.question_generation.scores import (
    Measurements,
    estimate,
    gain,
    items_of,
    metric_items,
    outcome,
    scores_of,
    similarity_rows,
)


def measured(step="2", floor="", **statistics):
    own = {name: np.array(values)[..., None] for name, values in statistics.items()}
    return MeasuredSystem(System(step, floor, []), own)


def test_a_gain_is_paired_by_image_and_seed():
    one = measured(cider=[[3.0, 5.0, 1.0], [2.0, 4.0, 0.0]])
    other = measured(floor="another_image", cider=[[1.0, 3.0, -1.0], [0.0, 2.0, -2.0]])
    score = gain(one, other)
    assert (score.value, score.chance, score.draws) == (2.0, 0.0, [2.0, 2.0])
    assert score.ci95 == (2.0, 2.0)


def test_floors_of_all_steps_and_of_one_stand_beside_its_score():
    systems = [
        measured("", "most_frequent_question", cider=[[0.5, 0.7]]),
        measured("1", cider=[[1.0, 2.0]]),
        measured("2", cider=[[2.0, 4.0]]),
        measured("2", "another_image", cider=[[1.0, 1.0]]),
    ]
    found = {(s.metric, s.at["step"]): s for s in scores_of(systems)}
    frequent = {"most_frequent_question": pytest.approx(0.6)}
    assert found["cider", "1"].floors == frequent
    assert found["cider", "2"].floors == frequent | {"another_image": 1.0}
    assert found["cider_gain_from_image", "2"].value == 2.0
    assert ("cider_gain_from_image", "1") not in found


def test_a_gain_over_a_floor_of_all_steps_is_paired_by_image():
    systems = [
        measured("", "most_frequent_question", cider=[[0.5, 0.5, 1.5]]),
        measured("", "nearest_caption", cider=[[1.0, 2.0, 3.0]]),
        measured("1", cider=[[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]),
    ]
    found = {s.metric: s for s in scores_of(systems)}
    names = ("constant", "nearest_caption")
    constant, nearest = (found[f"cider_gain_over_{floor}"] for floor in names)
    assert constant.draws == pytest.approx([3.5 / 3, 6.5 / 3])
    assert (constant.value, constant.chance) == (pytest.approx(5 / 3), 0.0)
    # One seed asks just what the nearest caption's question scores, the other 1 more everywhere.
    assert (nearest.draws, nearest.value, nearest.chance) == ([0.0, 1.0], 0.5, 0.0)
    assert nearest.range == (-10.0, 10.0)


def test_the_error_over_seeds_adds_that_of_seeds_and_that_of_images():
    rng = np.random.default_rng(0)
    images, seeds = rng.normal(2, 1, 400), np.array([-0.3, 0.0, 0.3])
    statistics = (images + seeds[:, None])[..., None]
    found = estimate("cider", statistics)
    expected = np.sqrt(0.09 / 3 + images.var(ddof=1) / 400)
    assert found.value == pytest.approx(images.mean())
    assert found.stderr == pytest.approx(expected, rel=0.05)
    # Nearly all the variance is that of three seeds: t with about two degrees of freedom.
    assert (found.ci95[1] - found.value) / found.stderr == pytest.approx(3.6, abs=0.7)


def test_shares_of_one_seed_have_wilson_s_interval():
    found = estimate("noun_accuracy", np.array([[1.0] * 9 + [0.0]])[..., None])
    assert found.value == pytest.approx(0.9)
    assert found.ci95 == pytest.approx((0.596, 0.982), abs=0.001)


def test_corpus_scores_of_seeds_are_of_their_questions_together():
    statistics = np.abs(np.random.default_rng(1).normal(5, 1, (2, 6, 10)))
    statistics[..., 4:8] += statistics[..., :4]
    found = estimate("bleu_2", statistics)
    together = statistics.sum((0, 1))
    assert found.value == pytest.approx(float(CORPORA["bleu_2"].formula(together)))
    examples = Examples(list("abcdef"), ["x"] * 6)
    table = metric_items(examples, "bleu_2", {"step": "2"}, statistics)
    assert np.allclose(np.array(table["statistics"].to_pylist()).sum(0), together)
    assert table["trial"].null_count == 6


def test_items_have_the_questions_of_all_seeds_and_the_references_of_the_image():
    asked = System("2", "", [["what is it?"], ["who is it?"]])
    numbers = {"bleu_1": np.array([[RIGHT], [HALF]]), "question_length": np.full((2, 1, 1), 3.0)}
    given = Examples(["a"], ["x"]), [["who?", "why?"]], [MeasuredSystem(asked, numbers)]
    together, of_seeds = items_of(*given)
    assert together["prediction"].to_pylist() == ["what is it? / who is it?"]
    assert of_seeds["prediction"].to_pylist() == ["what is it?", "who is it?"]
    assert {*together["target"].to_pylist(), *of_seeds["target"].to_pylist()} == {"who? / why?"}


# Two of two words right, and one of two; as many words as the closest reference has.
RIGHT = [2.0, 1.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 2.0, 2.0]
HALF = [1.0, 0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 2.0, 2.0]

# Seeds, images, own and another's caption, layers.
COSINES = np.array([[[[0.5, 0.25], [0.0, 0.5]], [[1.0, 0.75], [-0.5, 0.0]]]])


def system(step, floor, *questions):
    return System(step, floor, [list(of_seed) for of_seed in questions])


def cider(*by_seed):
    return {"cider": np.array(by_seed)[..., None]}


def bleu(*by_seed):
    return {"bleu_1": np.array(by_seed)}


def of_two(step, floor, questions, ciders, bleus):
    return MeasuredSystem(system(step, floor, questions), cider(ciders) | bleu(bleus))


MEASURED = [
    of_two("", "most_frequent_question", ["q ?"] * 2, [0.5, 0.5], [HALF, HALF]),
    of_two("2", "", ["a ?", "b ?"], [3.0, 1.0], [RIGHT, HALF]),
    of_two("2", "another_image", ["c ?", "d ?"], [1.0, 0.0], [RIGHT, RIGHT]),
]

# Of people, each stands in the place of a seed.
PEOPLE = [
    measured("", "most_frequent_question", cider_leave_one_out=[[0.25, 0.75]]),
    measured("people", cider_leave_one_out=[[2.0, 3.0], [4.0, 3.0]]),
    measured("2", cider_leave_one_out=[[2.5, 1.5]]),
]


def found_of(measured=MEASURED, alike=None, seeds=(7,)):
    alike = {"2": COSINES} if alike is None else alike
    return Measurements(toy_asked(2), measured, PEOPLE, alike, seeds)


def rows(made, name):
    return made.artifacts[name].to_pylist()


def of(made, metric):
    return [score for score in made.scores if score.metric == metric]


def test_every_question_of_a_system_is_a_row_with_its_image_s_scores():
    found = found_of()
    given = rows(outcome(found, {}, {}), "questions")
    assert [(r["step"], r["floor"], r["seed"], r["question"]) for r in given] == [
        (None, "most_frequent_question", None, "q ?"),
        (None, "most_frequent_question", None, "q ?"),
        ("2", None, 7, "a ?"),
        ("2", None, 7, "b ?"),
        ("2", "another_image", 7, "c ?"),
        ("2", "another_image", 7, "d ?"),
    ]
    assert [r["cider"] for r in given] == [0.5, 0.5, 3, 1, 1, 0]
    # A corpus score of one image is the formula of its own statistics.
    assert [r["bleu_1"] for r in given] == pytest.approx([0.5, 0.5, 1, 0.5, 1, 1])
    first, second = given[2:4]
    assert (first["caption"], second["caption"]) == ("thing0 here", "thing1 here")
    assert (first["id"], first["references"]) == ("0", ["what is the thing0 ?"] * 2)
    assert first["digest"] == found.test.split["image"].examples().digests[0] != second["digest"]


def test_rows_of_several_seeds_name_the_seed_of_each_and_floors_of_one_none():
    floor = MeasuredSystem(system("", "most_frequent_question", ["q ?"] * 2), cider([0.5, 0.5]))
    asked = system("1", "", ["a ?", "b ?"], ["c ?", "d ?"])
    measured = [floor, MeasuredSystem(asked, cider([1.0, 2.0], [3.0, 4.0]))]
    given = rows(outcome(found_of(measured, seeds=(7, 9)), {}, {}), "questions")
    assert [r["seed"] for r in given] == [None, None, 7, 7, 9, 9]
    told = [(r["question"], r["cider"]) for r in given[2:]]
    assert told == [("a ?", 1.0), ("b ?", 2.0), ("c ?", 3.0), ("d ?", 4.0)]


def test_scores_are_of_steps_people_the_gain_and_similarity():
    made = outcome(found_of(), {"train_images": 5}, {"examples": Path("a.png")})
    assert sorted(made.artifacts) == ["examples", "questions", "similarity"]
    names = ["cider", "bleu_1", "cider_gain_from_image", "cider_gain_over_constant"]
    names += ["cider_leave_one_out"] * 2 + ["cls_similarity"] * 2
    assert [s.metric for s in made.scores] == names
    assert [s.at["step"] for s in made.scores] == [*"2222", "people", *"222"]
    assert of(made, "cider")[0].floors == {"most_frequent_question": 0.5, "another_image": 0.5}
    (bleu_1,) = of(made, "bleu_1")
    assert bleu_1.value == pytest.approx(3 / 4)
    assert bleu_1.floors == pytest.approx({"most_frequent_question": 0.5, "another_image": 1.0})
    assert of(made, "cider_gain_from_image")[0].value == 1.5
    assert of(made, "cider_gain_over_constant")[0].value == 1.5
    people, step = of(made, "cider_leave_one_out")
    assert (people.value, people.n, people.floors) == (3.0, 2, {})
    assert (step.value, step.n, step.floors) == (2.0, 2, {"most_frequent_question": 0.5})
    assert made.counts == {"clusters": 2, "train_images": 5}


def test_similarity_is_the_mean_cosine_and_its_floor_another_s_caption():
    first, last = of(outcome(found_of(), {}, {}), "cls_similarity")
    assert (first.at, first.value, first.n) == ({"step": "2", "layer": 1}, 0.75, 2)
    assert first.floors == {"another_caption": -0.25}
    assert (last.at, last.value, last.n) == ({"step": "2", "layer": 2}, 0.5, 2)
    assert last.floors == {"another_caption": 0.25}


def test_rows_of_similarity_are_means_over_seeds_and_images():
    cosines = np.concatenate([COSINES, COSINES + 0.5])
    assert list(similarity_rows({"1": cosines, "random": COSINES})) == [
        {"step": "1", "layer": 1, "caption": 1.0, "another_caption": 0.0},
        {"step": "1", "layer": 2, "caption": 0.75, "another_caption": 0.5},
        {"step": "random", "layer": 1, "caption": 0.75, "another_caption": -0.25},
        {"step": "random", "layer": 2, "caption": 0.5, "another_caption": 0.25},
    ]


def test_items_are_of_each_score_but_those_beside_people():
    found = {}
    for item in outcome(found_of(), {}, {}).items.to_pylist():
        at = json.loads(item["at"])
        key = (item["metric"], at["step"], at.get("layer"))
        found.setdefault(key, []).append((item["id"], item["credit"]))
    assert found == {
        ("cider", "2", None): [("0", 3.0), ("1", 1.0)],
        ("bleu_1", "2", None): [("0", pytest.approx(1)), ("1", pytest.approx(0.5))],
        ("cider_gain_from_image", "2", None): [("0", 2.0), ("1", 1.0)],
        ("cider_gain_over_constant", "2", None): [("0", 2.5), ("1", 0.5)],
        ("cls_similarity", "2", 1): [("0", 0.5), ("1", 1.0)],
        ("cls_similarity", "2", 2): [("0", 0.25), ("1", 0.75)],
    }


@pytest.mark.parametrize("limit", ["MOST_SCORES", "MOST_ITEMS"])
def test_where_scores_or_items_are_many_similarity_is_of_the_last_layer(limit, monkeypatch):
    # Six other scores and two of layers; eight items of other scores and two of each layer.
    most = {"MOST_SCORES": 8, "MOST_ITEMS": 12}[limit]
    for allowed, layers in ((most, [1, 2]), (most - 1, [2])):
        monkeypatch.setattr(scores, limit, allowed)
        made = outcome(found_of(), {}, {})
        assert [score.at["layer"] for score in of(made, "cls_similarity")] == layers
        assert len(rows(made, "similarity")) == 2


def test_images_are_told_apart_by_their_regions_where_there_is_no_image():
    found = found_of()
    columns = {name: c for name, c in found.test.split.columns.items() if name != "image"}
    bare = found._replace(test=found.test._replace(split=Split(columns)))
    given = rows(outcome(bare, {}, {}), "questions")
    digests = columns["regions"].examples().digests
    assert [row["digest"] for row in given[2:4]] == list(digests)


def test_statistics_that_are_not_finite_are_no_score():
    measured = [MeasuredSystem(system("2", "", ["a ?", "b ?"]), cider([np.nan, 1.0]))]
    with pytest.raises(ValueError, match="finite"):
        outcome(found_of(measured), {}, {})
