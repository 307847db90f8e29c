"""Scores that can be no probabilities or log-likelihoods, at each door that they come through."""

import inspect
import json
import math
import typing

import pytest
import torch
from foil_fakes import question_rows
from PIL import Image
from planted_server import chat, planted_server

from model_adapters.openai_server import OpenAiServer
from model_adapters.recorded import Recorded
from vlbench import capabilities
from vlbench.asking.chooser import look_up
from vlbench.asking.pair_scores import PairScorer
from vlbench.asking.questions import read_questions
from vlbench.capabilities import (
    BOUNDS,
    LOG_LIKELIHOOD,
    ROUNDING,
    UNSTATED,
    JointAttention,
    Picture,
    capabilities_in,
    methods,
)
from vlbench.check.findings import PROMISES
from vlbench.data.records import Column, Split
from vlbench.engine import Engine
from vlbench.errors import DataError, ServerError
from vlbench.probes.grounding.measures import require_attention

IMAGES = [Image.new("RGB", (4, 4)) for _ in range(2)]
ROWS = Split({"image": Column("i", "image", IMAGES, range(2), names=["one.png", "two.png"])})
ASKED = {"rows": [0, 1], "texts": ["a cat", "a dog"], "questions": ["who ?"] * 2, "classes": 2}

# The methods of models that return scores, with what the scores are.
SCORING = {
    name: method
    for capability in capabilities_in(capabilities)
    for name in methods(capability)
    if name.startswith("score_")
    for method in [getattr(capability, name)]
    if typing.get_type_hints(method)["return"] is torch.Tensor
}
# The methods of a scorer that return a model's scores.
READING = [
    name
    for name, method in vars(PairScorer).items()
    if (name == "__call__" or name[0] != "_")
    and inspect.isfunction(method)
    and method.__annotations__["return"] == "Tensor"
]
WRONG = [
    (kind, value)
    for kind, (low, high) in BOUNDS.items()
    for value in (low - 0.1, high + 0.1, math.nan)
    if value != -math.inf
]
DOORS = [
    (kind, value, name)
    for kind, value in WRONG
    for name in READING
    # The scores of answers are only read by calling the scorer.
    if kind != LOG_LIKELIHOOD or name == "__call__"
]


class Planted:
    """Gives the second image's pairs a score, and others a right one."""

    def __init__(self, kind, value):
        self.score_kind, self.value, self.right = kind, value, BOUNDS[kind][1]

    def score_pairs(self, pictures, texts):
        wrong = [picture.image is IMAGES[1] for picture in pictures]
        return torch.tensor([self.value if one else self.right for one in wrong])

    def score_answers(self, pictures, questions, answers):
        return self.score_pairs(pictures, answers)


def read(kind, value, name):
    model = Planted(kind, value)
    scorer = PairScorer(model, ROWS, Engine.for_tests(), answers=kind == LOG_LIKELIHOOD)
    method = getattr(scorer, name)
    wanted = [one for one in inspect.signature(method).parameters if one in ASKED]
    if kind != LOG_LIKELIHOOD:
        wanted = [one for one in wanted if one != "questions"]
    return method(**{one: ASKED[one] for one in wanted})


@pytest.mark.parametrize(("kind", "value", "name"), DOORS)
def test_a_score_that_is_not_of_its_kind_names_model_item_and_value(kind, value, name):
    item = "two.png" if kind != LOG_LIKELIHOOD else "'a dog' to 'who \\?'"
    with pytest.raises(DataError, match=rf"Planted gave the score {value:.6g} to .*{item}.*; a "):
        read(kind, value, name)


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("kind", BOUNDS)
def test_a_score_that_was_rounded_is_of_its_kind(kind, name):
    if kind == LOG_LIKELIHOOD:
        name = "__call__"
    assert read(kind, BOUNDS[kind][1] + ROUNDING / 2, name).max() > BOUNDS[kind][1]


def test_all_doors_were_found_and_each_is_checked_before_a_run():
    assert {*SCORING} == {"score_pairs", "score_answers"}
    assert {*READING} >= {"__call__", "published", "of_classes"}
    assert {one for c in PROMISES for one in methods(c)} >= {*SCORING, "attend"}


def test_scores_of_no_stated_kind_may_be_any_finite_number():
    model = Planted("probability", 7.0)
    model.score_kind = ""
    scorer = PairScorer(model, ROWS, Engine.for_tests())
    assert (scorer.kind, scorer([0, 1], ["a", "b"]).tolist()) == (UNSTATED, [1.0, 7.0])


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ([0.6, 0.5], "a row that sums to 1.1; weights must .* sum to at most 1, up to 0.01"),
        ([-0.1, 0.5], "has a weight of -0.1"),
        ([math.nan, 0.5], "has a weight of nan"),
        ([0.2], r"has shape \[1, 1, 1, 1\]"),
    ],
)
def test_attention_that_is_no_distribution_names_its_text(weights, why):
    rows = torch.tensor(weights).view(1, 1, 1, -1)
    attention = JointAttention([(0, 3)], rows, torch.zeros(2, 4), whole=True)
    with pytest.raises(DataError, match=f"the attention for 'cat' .*{why}"):
        require_attention(attention, "cat")


@pytest.mark.parametrize("listed", [{"Yes": 0.7, "No": 0.4}, {"Yes": 1.1, "No": 1e-9}])
def test_probabilities_of_a_server_that_sum_to_more_than_1_are_refused(listed):
    why = r"m, asked '.*a cat.*: .*sum to at most 1, up to 0.01"
    with planted_server() as planted:
        planted.answers["/chat/completions"] = chat(**listed)
        address, cpu = f"http://{planted.host}", torch.device("cpu")
        model = OpenAiServer(device=cpu, served="m", address=address, retries=0)
        with pytest.raises(ServerError, match=why):
            model.score_pairs([Picture(IMAGES[0], None)], ["a cat"])


def test_a_log_likelihood_of_a_log_above_0_names_file_row_and_value(tmp_path):
    rows = [{"doc_id": i, "filtered_resps": [[-1.5, False], [0.5 * i, True]]} for i in range(2)]
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with pytest.raises(DataError, match=r"log.jsonl, row 2: the score is 0.5; a log-like"):
        Recorded(path=file)


@pytest.mark.parametrize("score", ["nan", "inf", "-inf"])
def test_a_recorded_score_that_is_no_number_names_the_item(score, tmp_path):
    data = question_rows().splits["test"]
    found = read_questions(data)
    texts = [f"{i},{score if i == 1 else 0},1" for i in range(len(data))]
    (tmp_path / "log.csv").write_text("\n".join(["item,yes,no", *texts]), "utf-8")
    model = Recorded(path=tmp_path / "log.csv", item="item", scores=["yes", "no"])
    with pytest.raises(DataError, match=rf": a score is {score}; a score must be a finite number"):
        look_up(model, data, found.asked, found.right)
