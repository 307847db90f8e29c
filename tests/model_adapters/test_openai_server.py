"""A scorer behind an address, against a server on the loopback whose answers are planted."""

import json
import logging
import math
import time
from io import StringIO

import numpy as np
import pytest
import torch
from foil_files import put_images
from planted_server import chat, embeddings, planted_server
from rich.console import Console
from runs import planned
from tiny_joint import CPU, adapter, noise

import vlbench
from vlbench.adapter_kit.servers import RefusedError
from vlbench.capabilities import Answerer, ImageTextScorer, Picture
from vlbench.cli import main
from vlbench.commands.printing import print_plan
from vlbench.errors import CannotDo, DataError, ServerError, SpecError

OpenAiServer = adapter("openai_server:OpenAiServer")
KEY = "planted-key-7f3a"
IMAGES = [noise(20, 12), noise(9, 16, 1)]
PICTURES = [Picture(image, None) for image in IMAGES]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def planted():
    with planted_server() as server:
        yield server


def made(planted, **options):
    given = {"served": "org/tiny", "address": planted.address, "pause": 0.001}
    return OpenAiServer(device=CPU, **given | options)


def scored(planted, answer):
    planted.answers["/chat/completions"] = answer
    return made(planted).score_pairs(PICTURES[:1], ["a cat"]).tolist()


ODDS = [
    ({"Yes": 0.6, "No": 0.2}, 0.75),
    ({"Yes": 0.3, "yes": 0.1, "_yes": 0.1, "YES": 0.1, "_No": 0.1, "no": 0.1}, 0.75),
    ({"▁Yes": 0.1, "ĠNo": 0.3, "Yesterday": 0.2, "Nope": 0.2}, 0.25),
    # `No` has at most 1e-5, which leaves less than 1e-3 open.
    ({"Yes": 0.9, "Maybe": 0.01, "I": 1e-5}, 0.9 / 0.90001),
    ({"No": 0.9, "Maybe": 0.01, "I": 1e-5}, 1e-5 / 0.90001),
]


@pytest.mark.parametrize(("listed", "expected"), ODDS)
def test_a_score_is_the_log_odds_of_yes_over_all_its_variants(planted, listed, expected):
    odds = math.log(expected / (1 - expected))
    assert scored(planted, chat(**listed)) == pytest.approx([odds], rel=1e-5)


def test_a_probability_of_zero_leaves_log_odds_finite(planted):
    answer = chat(Yes=0.5, No=0.5)
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["logprob"] = -9999.0
    assert scored(planted, answer) == pytest.approx([math.log(0.5) + 9999])


LEFT_OPEN = [
    ({"Yes": 0.5, "A": 0.1}, "'No' is not among the 2 tokens listed, which leaves .* by 0.17"),
    ({"_no": 0.5, "A": 0.1}, "'Yes' is not among the 2 tokens listed, which leaves"),
    ({"<think>": 0.9, "A": 0.01}, "neither answer is among the 2 .* tokens are '<think>', 'A'"),
]


@pytest.mark.parametrize(("listed", "message"), LEFT_OPEN)
def test_a_score_that_is_left_open_fails(planted, listed, message):
    with pytest.raises(ServerError, match=message):
        scored(planted, chat(**listed))


NO_LOGS = [
    {"choices": [{"message": {}}]},
    {"choices": [{"logprobs": None}]},
    {"choices": [{"logprobs": {"content": []}}]},
    chat(),
    (400, {}, b'{"error": {"message": "logprobs are not supported by this model"}}'),
]


@pytest.mark.parametrize("answer", NO_LOGS)
def test_a_server_without_log_probabilities_only_answers_and_is_asked_once(planted, answer):
    planted.answers["/chat/completions"] = answer
    why = "the server lists no log-probabilities of tokens, so it"
    assert made(planted).lacks(ImageTextScorer).startswith(why)
    assert len(planted.requests) == 1
    with pytest.raises(CannotDo, match=f"^{why}"):
        made(planted).score_pairs(PICTURES[:1], ["a cat"])


def test_a_refusal_of_more_log_probabilities_fails_in_the_words_of_the_server(planted):
    with pytest.raises(RefusedError, match=r"400: top_logprobs is at most 5$"):
        scored(planted, (400, {}, b"top_logprobs is at most 5"))


def with_logprob(value):
    answer = chat(Yes=0.5)
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["logprob"] = value
    return answer


@pytest.mark.parametrize(
    "answer", [{"choices": []}, [], chat(Yes=2.0, No=0.1), with_logprob("x"), with_logprob(10**400)]
)
def test_log_probabilities_of_another_form_are_refused(planted, answer):
    with pytest.raises(ServerError, match="the answer has no log-probabilities of that form"):
        scored(planted, answer)


def test_a_token_of_any_length_is_shown_cut(planted):
    with pytest.raises(ServerError, match="neither answer") as caught:
        scored(planted, chat(**{"a" * 10_000: 0.5}))
    assert len(str(caught.value)) < 300


def test_the_question_of_hf_vlm_is_asked_with_the_picture_as_it_is(planted):
    scored(planted, chat(Yes=0.5, No=0.5))
    (request,) = planted.requests
    np.testing.assert_array_equal(np.array(request.image()), np.array(IMAGES[0]))
    assert request.text() == 'Does this figure show "a cat"? Please answer Yes or No.'
    content = request.asked.pop("messages")
    assert request.asked == {
        "model": "org/tiny",
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert [one["role"] for one in content] == ["user"]
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    hf_vlm = adapter("hf_vlm:HfVlm").__init__.__kwdefaults__
    ours = OpenAiServer.__init__.__kwdefaults__
    assert [ours[key] for key in ("question", "answer")] == [
        hf_vlm[key] for key in ("question", "answer")
    ]


def test_several_pairs_are_scored_in_order(planted):
    # The share is the image's width in hundredths, or less by the length of the text.
    def answer(request):
        p = request.image().width / 100 - len(request.text().split('"')[1]) / 1000
        return chat(Yes=p, No=1 - p)

    planted.answers["/chat/completions"] = answer
    texts = ["a" * (i % 5) for i in range(20)]
    scores = made(planted).score_pairs([PICTURES[i % 2] for i in range(20)], texts)
    widths = [IMAGES[i % 2].width for i in range(20)]
    expected = [w / 100 - len(t) / 1000 for w, t in zip(widths, texts, strict=True)]
    assert scores.dtype == torch.float32
    assert scores.sigmoid().tolist() == pytest.approx(expected)


def test_a_picture_without_an_image_is_not_scored(planted):
    with pytest.raises(DataError, match="has no image"):
        made(planted).score_pairs([Picture(None, None)], ["a"])
    assert planted.requests == []


def test_embeddings_come_in_the_order_of_their_index(planted):
    planted.answers["/embeddings"] = embeddings
    vectors = made(planted).encode_texts(["a", "bb", ""])
    assert vectors.tolist() == [[1, 97], [2, 98], [0, 32]]
    assert vectors.dtype == torch.float32
    asked = {"model": "org/tiny", "input": ["a", "bb", ""], "encoding_format": "float"}
    assert planted.requests[0].asked == asked


def test_embeddings_without_an_index_come_in_the_order_given(planted):
    planted.answers["/embeddings"] = {"data": [{"embedding": [1]}, {"embedding": [2]}]}
    assert made(planted).encode_texts(["a", "b"]).tolist() == [[1], [2]]


def test_probabilities_of_one_and_zero_are_said_once_to_rank_nothing(planted, caplog):
    answer = chat(Yes=1.0, No=0.5)
    answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["logprob"] = -9999.0
    planted.answers["/chat/completions"] = answer
    made(planted).score_pairs(PICTURES, ["a", "b"])
    told = [one for one in caplog.messages if "rank nothing" in one]
    assert len(told) == 1
    planted.answers["/chat/completions"] = chat(Yes=1.0, No=1e-9)
    made(planted).score_pairs(PICTURES, ["a", "b"])
    assert [one for one in caplog.messages if "rank nothing" in one] == told


def row(index, *values):
    return {"index": index, "embedding": list(values)}


OTHER_FORMS = [
    ([row(0, 1)], "2 requested; the answer has 1"),
    ([row(0, 1), row(1, 1), row(2, 1)], "2 requested; the answer has 3"),
    ([row(0, 1), row(0, 1)], "or wrong indices"),
    ([row(0, 1), row(1, 1, 2)], "vectors of 2 lengths"),
    ([row(0), row(1)], "or empty"),
    ([row(0, 1), row(1, "x")], "not finite numbers"),
    ([row(0, 1), row(1, float("nan"))], "not finite numbers"),
    ([row(0, 1), row(1, 1e300)], "not finite numbers"),
    ([row(0, 1), row(1, 10**400)], "not finite numbers"),
    ([{"index": 0}], "has no data of that form"),
    ([row(0, 1), {"embedding": [1]}], "has no data of that form"),
    ([{"embedding": [1]}], "2 requested; the answer has 1"),
    (None, "has no data of that form"),
]


@pytest.mark.parametrize(("data", "message"), OTHER_FORMS)
def test_embeddings_of_another_form_are_refused(planted, data, message):
    planted.answers["/embeddings"] = {"data": data}
    with pytest.raises(ServerError, match=message):
        made(planted).encode_texts(["a", "b"])


@pytest.mark.parametrize("answer", [(404, {}, b""), (501, {}, b""), (400, {}, b"not supported")])
def test_a_server_without_embeddings_encodes_no_texts(planted, answer):
    planted.answers["/embeddings"] = answer
    message = r"^the server encodes no texts: embeddings: the server answ"
    with pytest.raises(CannotDo, match=message):
        made(planted).encode_texts(["a"])
    assert len(planted.requests) == 1


def test_another_refusal_of_embeddings_is_an_error(planted):
    planted.answers["/embeddings"] = (400, {}, b"the text is too long")
    with pytest.raises(RefusedError, match=r"400: the text is too long$"):
        made(planted).encode_texts(["a"])


def says(text):
    return {"choices": [{"message": {"content": text}}]}


def test_a_question_is_answered_in_words_with_and_without_a_picture(planted):
    def answer(request):
        (*images, text) = request.asked["messages"][0]["content"]
        return says(f"{len(images)} {text['text']}")

    planted.answers["/chat/completions"] = answer
    pictures = [PICTURES[0], Picture(None, None), PICTURES[1]]
    assert made(planted).answer(pictures, ["a", "b", "c"]) == ["1 a", "0 b", "1 c"]
    limits = [(one.asked["max_tokens"], one.asked["temperature"]) for one in planted.requests]
    assert limits == [(32, 0)] * 3
    assert "logprobs" not in planted.requests[0].asked


def test_a_picture_of_regions_without_an_image_is_not_asked_about(planted):
    with pytest.raises(DataError, match="has no image"):
        made(planted).answer([Picture(None, (None, None, None))], ["a"])


def test_what_a_server_refuses_can_be_left_out_or_go_by_another_name(planted):
    planted.answers["/chat/completions"] = chat(Yes=0.5, No=0.5)
    options = {"max_completion_tokens": 7, "temperature": None, "top_logprobs": 5}
    made(planted, **options).score_pairs(PICTURES[:1], ["a"])
    asked = planted.requests[0].asked
    assert asked.keys() == {
        "model",
        "messages",
        "max_completion_tokens",
        "logprobs",
        "top_logprobs",
    }
    assert (asked["max_completion_tokens"], asked["top_logprobs"]) == (7, 5)


def test_a_question_has_a_place_for_the_text(planted):
    with pytest.raises(SpecError, match=r"needs \{\} once"):
        made(planted, question="Is it?")


# Whole runs.


@pytest.fixture
def run(planted, tmp_path):
    """Run `tiny` of the planted server, with boards and a cache below the test's folder."""
    put_images(tmp_path / "foils", "a.png", "b.png", "c.png")
    lines = ["image,caption,foil", "a.png,a cat,a dog", "b.png,a cat,a cow", "c.png,a cat,an ox"]
    (tmp_path / "foils" / "foils.csv").write_text("\n".join(lines))

    def run(tasks="foils_table", model=None, **options):
        given = {
            "output": tmp_path / "boards",
            "cache_dir": tmp_path / "cache",
            "data_dir": {"": tmp_path},
            "model_args": {"pause": 0.001},
        }
        (result,) = vlbench.evaluate(
            model or f"openai:tiny@{planted.address}", tasks, **given | options
        )
        return result

    return run


def cat_is_right(request):
    return chat(Yes=0.8, No=0.2) if "a cat" in request.text() else chat(Yes=0.2, No=0.8)


def contents(folder):
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_row_says_what_was_served_but_not_where_or_with_which_key(planted, run, tmp_path, caplog):
    planted.answers["/chat/completions"] = cat_is_right
    result = run()
    assert (result.status, result.primary_score.value) == ("ok", 1.0)
    assert result.model == "openai:tiny"
    assert result.provenance["weights"] == "served:tiny"
    why = "the weights are not known, so this row cannot be recomputed"
    assert f"served: tiny: {why}" in result.notes
    assert planted.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    port = planted.host.removeprefix("127.0.0.1")
    for file, content in contents(tmp_path).items():
        assert [w for w in (port, "127.0.0.1", KEY) if w.encode() in content] == [], file
    assert [m for m in caplog.messages if KEY in m] == []
    assert caplog.messages[0].startswith(f"sending images and texts of the tasks to {planted.host}")


def test_what_leaves_is_said_before_the_first_request(planted, run, caplog):
    said = []

    def answer(request):
        if request.shows_an_image():
            said.append(len(caplog.messages))
        return cat_is_right(request)

    planted.answers["/chat/completions"] = answer
    with caplog.at_level(logging.WARNING, "vlbench"):
        run()
    assert set(said) == {1}


def test_the_plan_says_what_leaves_for_which_host(planted, run, tmp_path):
    planted.answers["/chat/completions"] = cat_is_right
    run(model_args={})
    asked = len(planted.requests)
    plan = planned(
        [f"openai:tiny@{planted.address}"],
        ["foils_table", "word_similarity_wordsim353"],
        data_dir={"": tmp_path},
        output=tmp_path / "boards",
    )
    console = Console(file=StringIO(), width=200)
    print_plan(console, plan)
    lines = console.file.getvalue().splitlines()
    leaves = f"will be sent to {planted.host}"
    assert f"tiny on foils_table: images and texts of 3 rows {leaves}" in lines
    assert f"tiny on word_similarity_wordsim353: texts of 353 rows {leaves}" in lines
    again = "the server's weights may have changed since the row; pass --name if they have not"
    assert f"run: {again}" in lines
    assert len(planted.requests) == asked


def test_a_row_is_computed_again_only_with_an_address(planted, run, tmp_path, capsys, monkeypatch):
    planted.answers["/chat/completions"] = cat_is_right
    run(model_args={})
    monkeypatch.setenv("VLBENCH_DATA", str(tmp_path))
    words = ["rerun", str(tmp_path / "boards" / "foils_table.json"), "openai:tiny", "--no-cache"]
    assert main(words) == 2
    assert "openai:tiny came from a server: the weights are not known" in capsys.readouterr().err
    assert main([*words, "--as-model", f"openai:tiny@{planted.address}"]) == 0


def test_nothing_is_kept_for_another_run_unless_the_model_is_named(planted, run):
    planted.answers["/embeddings"] = embeddings
    counts = []
    for name in (None, None, "v1", "v1", "v2"):
        result = run("word_similarity_wordsim353", name=name)
        assert result.status == "ok", result.reason
        counts.append(len(planted.requests))
    first, second, named, again, other = np.diff([0, *counts])
    assert (first, second, named, again, other) == (first, first, first, 0, first)
    assert result.provenance["weights"] == "served:tiny"


FAILURES = [
    ({"choices": []}, "the answer has no log-probabilities of that form"),
    ((500, {}, b"out of memory"), "the server answered 500: out of memory, 7 times"),
]


@pytest.mark.parametrize(("answer", "reason"), FAILURES)
def test_a_task_fails_whose_scores_cannot_be_had(planted, run, tmp_path, answer, reason):
    planted.answers["/chat/completions"] = answer
    result = run()
    assert result.status == "failed"
    assert reason in result.reason
    board = json.loads((tmp_path / "boards" / "foils_table.json").read_text())
    assert [row["scores"] for row in board["rows"]] == [[]]


def test_a_server_that_only_answers_is_asked_by_letter_where_a_probe_can(planted, run):
    def answer(request):
        shown = request.asked["messages"][0]["content"][-1]["text"]
        return NO_LOGS[0] if "logprobs" in request.asked else says("AB"["A. a cat" not in shown])

    planted.answers["/chat/completions"] = answer
    result = run()
    assert (result.status, result.primary_score.value) == ("ok", 1.0), result.reason
    assert result.provenance["asked_by"] == "letter"
    assert sum("logprobs" in one.asked for one in planted.requests) == 1


def test_a_task_of_scores_is_skipped_where_a_server_only_answers(planted, run):
    planted.answers["/chat/completions"] = NO_LOGS[0]
    result = run("noun_count_scenes")
    assert (result.status, len(planted.requests)) == ("skipped", 1)
    assert result.reason.endswith("so it can answer only in words")


def test_an_object_made_by_hand_is_asked_too_and_keeps_what_it_can_do(planted, run):
    planted.answers["/chat/completions"] = NO_LOGS[0]
    model = made(planted)
    result = run("noun_count_scenes", model, model_args={})
    assert result.reason.endswith("so it can answer only in words")
    assert not isinstance(model, ImageTextScorer)
    assert isinstance(model, Answerer)
    assert isinstance(model, OpenAiServer)


def test_a_run_after_a_failure_asks_only_what_was_not_answered(planted, run, tmp_path):
    def answer(request):
        return (400, {}, b"no") if len(planted.requests) == 5 else cat_is_right(request)

    planted.answers["/chat/completions"] = answer
    args = {"concurrent": 1, "pause": 0.001}
    assert run(name="v1", model_args=args).status == "failed"
    assert run(name="v1", model_args=args).status == "ok"
    shown = [one for one in planted.requests if one.shows_an_image()]
    texts = [(one.text(), one.image().tobytes()) for one in shown]
    assert texts[3] == texts[4]
    assert len({*texts}) == len(texts) - 1
    count = len(planted.requests)
    assert run(name="v1", model_args=args, overwrite=True).status == "ok"
    assert len(planted.requests) == count
    (file,) = (tmp_path / "cache" / "answers").iterdir()
    told = file.read_bytes()
    assert [one for one in (KEY, planted.host, "a cat") if one.encode() in told] == []


def test_what_was_answered_is_not_asked_for_again_by_the_same_adapter(planted):
    planted.answers["/chat/completions"] = chat(Yes=0.5, No=0.5)
    model = made(planted)
    assert model.score_pairs(PICTURES, ["a", "b"]).tolist() == [0, 0]
    assert model.score_pairs(PICTURES, ["a", "c"]).tolist() == [0, 0]
    assert len(planted.requests) == 3


def test_nothing_is_asked_after_the_time_of_the_run_is_over(planted):
    planted.answers["/chat/completions"] = lambda _: time.sleep(0.1) or says("yes")
    model = made(planted, run_timeout=0.25, concurrent=1)
    said = model.answer(PICTURES[:1] * 9, list("abcdefghi"))
    count = len(planted.requests)
    assert count in {2, 3}
    assert said[:count] == ["yes"] * count
    assert {(one.why, one.may_pass) for one in said[count:]} == {("the request failed", True)}
    assert "the run_timeout of 0.25 s is over; with --name" in said[-1].words


OWN = """\
import torch

from vlbench.capabilities import TextEncoder

class Half:
    def __init__(self, *, device, encoder: TextEncoder):
        self.encoder = encoder

    def encode_texts(self, texts):
        return self.encoder.encode_texts(texts) / 2

class Own:
    is_served = True

    def __init__(self, *, device, served: str = "mine", address: str = "http://localhost:1"):
        self.served = served

    def encode_texts(self, texts):
        return torch.tensor([[len(text), ord(text[0])] for text in texts]).float()
"""


def test_an_adapter_of_ones_own_says_that_it_asks_a_server(run, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    own = {"model": f"{tmp_path}/own.py:Own", "model_args": {}}
    result = run("word_similarity_wordsim353", **own)
    assert (result.status, result.provenance["weights"]) == ("ok", "served:mine")
    assert result.notes[-1].startswith("served: mine: the weights are not known")
    assert (result.request, result.provenance["params"]["address"]) == ("", "<hidden>")


def test_what_is_made_from_what_a_server_has_is_not_kept_either(planted, run, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    planted.answers["/embeddings"] = embeddings
    encoder = f"openai:tiny@{planted.address}"
    given = {"model": f"{tmp_path}/own.py:Half", "model_args": {"encoder": encoder}}
    counts = []
    for _ in range(2):
        result = run("word_similarity_wordsim353", **given)
        assert result.status == "ok", result.reason
        counts.append(len(planted.requests))
    assert counts[1] == 2 * counts[0]
    assert result.model == "Half[encoder=openai:tiny]"
    assert result.notes[-1].startswith("served: tiny: the weights are not known")
    boards = contents(tmp_path / "boards").items()
    assert [file for file, content in boards if b"127.0.0.1" in content] == []


def test_a_path_that_a_server_has_for_a_name_is_shortened(planted, run, tmp_path):
    planted.answers["/chat/completions"] = cat_is_right
    result = run(model=f"openai:/home/alice/models/tiny@{planted.address}")
    assert (result.model, result.provenance["weights"]) == ("openai:tiny", "served:tiny")
    assert [f for f, content in contents(tmp_path / "boards").items() if b"alice" in content] == []


def test_offline_another_machine_is_not_asked(run):
    result = run(model="openai:tiny@http://example.org/v1")
    assert (result.status, "not on this machine" in result.reason) == ("failed", True)


def test_an_adapter_made_by_hand_is_not_kept_either(planted, run):
    planted.answers["/chat/completions"] = cat_is_right
    results = [run(model=made(planted), model_args={}) for _ in range(2)]
    asked = [request.text() for request in planted.requests]
    assert sorted(asked[: len(asked) // 2]) == sorted(asked[len(asked) // 2 :])
    result = results[1]
    assert (result.request, result.provenance["weights"]) == ("", "served:org/tiny")
