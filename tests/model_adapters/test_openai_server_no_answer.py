"""Questions to which a server gives no answer: the reason, what it costs, and what is kept."""

import json
import pickle
import time

import pytest
from foil_files import put_images
from planted_server import chat, planted_server
from tiny_joint import CPU, adapter, noise

import vlbench
from vlbench.capabilities import NoAnswer, Picture
from vlbench.errors import ServerError

KEY = "planted-key-7f3a"
PICTURES = [Picture(noise(20, 12), None)]
TEXTS = [f"question {i}" for i in range(8)]


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with planted_server() as server:
        yield server


def made(planted, **options):
    given = {"served": "org/tiny", "address": planted.address, "pause": 0.001}
    return adapter("openai_server:OpenAiServer")(device=CPU, **given | options)


def says(text):
    return {"choices": [{"message": {"content": text}}]}


def ends(reason, content=None, **message):
    return {"choices": [{"finish_reason": reason, "message": {"content": content, **message}}]}


def error(status, **fields):
    return status, {}, json.dumps({"error": fields}).encode()


def one_of_eight(planted, answer, **options):
    """Return the replies of a server that answers A, but to question 2 as given."""

    def give(request):
        return answer if request.text() == TEXTS[2] else says("A")

    planted.answers["/chat/completions"] = give
    said = made(planted, retries=0, **options).answer(PICTURES * 8, TEXTS)
    assert [one for i, one in enumerate(said) if i != 2] == ["A"] * 7
    return said[2]


REFUSED, FILTER, LIMIT = "refused", "content filter", "length"
THINKING, UNFIT = "cut off while thinking", "the question does not fit"
NO_TEXT, UNSAID = "no text", "cut off before the first word"
FORMS = [
    # Azure: an error for the question, and an end of the answer.
    (FILTER, error(400, code="content_filter", message="The response was filtered.")),
    (FILTER, error(400, code="bad", innererror={"code": "ResponsibleAIPolicyViolation"})),
    (FILTER, ends("content_filter")),
    (FILTER, ends("content_filter", "A part")),
    (FILTER, (400, {}, json.dumps(ends("content_filter", "")).encode())),
    # OpenAI, LiteLLM, OpenRouter, xAI.
    (FILTER, error(400, message="your prompt was flagged as potentially violating our policy")),
    (FILTER, error(400, type="image_generation", message='\\"x\\" hit our safety system')),
    (FILTER, error(400, code="content_policy_violation")),
    (FILTER, error(403, code=403, message="Your chosen model requires moderation")),
    (FILTER, error(200, code=403, message="Your chosen model requires moderation")),
    (FILTER, error(403, message="Content violates usage guidelines")),
    # DashScope, DeepSeek, Moonshot, Zhipu.
    (FILTER, error(400, code="data_inspection_failed")),
    (FILTER, error(400, message="<400> InternalError.Algo.DataInspectionFailed: Input text")),
    (FILTER, error(400, message="Content Exists Risk")),
    (FILTER, error(400, message="rejected because it was considered high risk")),
    (FILTER, error(400, code="1301")),
    (FILTER, ends("sensitive", "")),
    (FILTER, ends("content_filter: SAFETY")),
    (REFUSED, ends("stop", None, refusal="I cannot help with that.")),
    (REFUSED, ends("stop", "", refusal="I cannot help with that.")),
    (THINKING, ends(LIMIT, None, reasoning_content="The image shows")),
    (THINKING, ends(LIMIT, "", reasoning="The image shows")),
    (UNSAID, ends(LIMIT, " \n")),
    (UNSAID, ends(LIMIT, None)),
    (NO_TEXT, ends("stop", "")),
    (NO_TEXT, ends("stop", None, reasoning_content="It is A")),
    (NO_TEXT, ends("tool_calls", None, tool_calls=[{"id": "1"}])),
    (NO_TEXT, ends("stop", [{"type": "text"}])),
    (NO_TEXT, {"choices": []}),
    (NO_TEXT, {"choices": [None]}),
    (NO_TEXT, {"choices": [{"message": None}]}),
    (NO_TEXT, []),
    (NO_TEXT, {}),
    ("too long an answer", says("a" * 100_001)),
    # OpenAI, vLLM, llama.cpp.
    (UNFIT, error(400, code="x", message="This model's maximum context length is 9 tokens")),
    (UNFIT, error(400, message="The prompt (length 9) is longer than the maximum model length")),
    (UNFIT, error(400, message="the request exceeds the available context size")),
]


@pytest.mark.parametrize(("why", "answer"), FORMS)
def test_one_question_without_an_answer_costs_only_itself(planted, why, answer):
    said = one_of_eight(planted, answer)
    assert (said.why, said.may_pass) == (why, False)
    assert 0 < len(said.words) <= 300
    assert pickle.loads(pickle.dumps(said)) == said  # noqa: S301 - our own


PASSING = [
    error(429, message="slow down"),
    error(500, message="out of memory"),
    error(503, code="content_filter_error", message="the filter is down"),
    b"<html>",
    error(400, message="the image is too large"),
    (413, {}, b""),
    ends("error", "A"),
    ends("insufficient_system_resource", "A"),
]


@pytest.mark.parametrize("answer", PASSING)
def test_a_failure_that_may_pass_costs_only_its_question(planted, answer):
    assert one_of_eight(planted, answer).may_pass


def test_a_question_that_is_answered_late_costs_only_itself(planted):
    def give(request):
        time.sleep(0.5 * (request.text() == TEXTS[2]))
        return says("A")

    planted.answers["/chat/completions"] = give
    said = made(planted, retries=0, timeout=0.25).answer(PICTURES * 8, TEXTS)
    assert [one for one in said if one == "A"] == ["A"] * 7
    assert said[2].may_pass
    assert "no answer within" in said[2].words


@pytest.mark.parametrize("text", ["B", "<think>A? B?", " B\n"])
def test_a_text_that_is_cut_off_stays_a_text(planted, text):
    assert one_of_eight(planted, ends("length", text)) == text


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 501])
def test_a_status_that_concerns_every_request_ends_the_task_at_once(planted, status):
    planted.answers["/chat/completions"] = (status, {}, b"no such model or key")
    with pytest.raises(ServerError, match=f"answered {status}: no such model or key"):
        made(planted, concurrent=1).answer(PICTURES * 8, TEXTS)
    assert len(planted.requests) == 1


@pytest.mark.parametrize("answer", [(500, {}, b"gone"), (400, {}, b"gone"), b"gone"])
def test_a_task_ends_after_five_failures_in_a_row(planted, answer):
    planted.answers["/chat/completions"] = answer
    with pytest.raises(ServerError, match=r"gone|not JSON"):
        made(planted, retries=0, concurrent=1).answer(PICTURES * 8, TEXTS)
    assert len(planted.requests) == 5


def test_a_server_that_cannot_be_reached_ends_the_task():
    with planted_server() as gone:
        pass
    with pytest.raises(ServerError, match=r"nothing answers there .*Connection refused"):
        made(gone, retries=0).answer(PICTURES * 8, TEXTS)


def test_failures_between_answers_do_not_end_the_task(planted):
    def give(request):
        return (500, {}, b"") if int(request.text()[-1]) % 4 else says("A")

    planted.answers["/chat/completions"] = give
    said = made(planted, retries=0, concurrent=1).answer(PICTURES * 8, TEXTS)
    assert [one == "A" for one in said] == [True, False, False, False] * 2


def test_the_words_are_short_and_have_neither_address_nor_key(planted):
    words = f"I cannot {KEY}\n at {planted.address} " + "x" * 1000
    said = one_of_eight(planted, ends("stop", None, refusal=words))
    assert said.words.startswith("I cannot <hidden> at <hidden> xxx")
    assert len(said.words) == 200


# What is kept for a later run.


KEPT_OR_NOT = [
    (says("B"), 1),
    (ends("stop", None, refusal="No."), 1),
    (ends("content_filter"), 1),
    (error(400, code="content_filter"), 1),
    (ends(LIMIT, ""), 2),
    (ends("stop", ""), 2),
    (ends("error", "A"), 2),
    (error(500, message="gone"), 2),
    (error(400, message="maximum context length"), 2),
]


@pytest.mark.parametrize(("answer", "count"), KEPT_OR_NOT)
def test_only_texts_refusals_and_filters_are_kept(planted, tmp_path, answer, count):
    planted.answers["/chat/completions"] = answer
    replies = []
    for _ in range(2):
        model = made(planted, retries=0)
        model.keep_answers(tmp_path / "v1.jsonl")
        replies += model.answer(PICTURES, ["a"])
    assert replies[0] == replies[1]
    assert len(planted.requests) == count


OTHER = [7, None, True, [], {}, "", " ", 1e400, [["Yes", 1.0]], [["Yes"]], [[1, -1]], {"why": "x"}]
OTHER += [{"why": REFUSED, "words": 1, "may_pass": False}, {**vars(NoAnswer("x")), "why": [1]}]
OTHER += [vars(NoAnswer(REFUSED, may_pass=True)), "a" * 100_001, "é" * 100_001]


def edit(file, value):
    """Replace the answer of each record."""
    records = [json.loads(line) for line in file.read_text().splitlines() if line]
    file.write_text("\n".join(json.dumps([key, value]) for key, _ in records))


KEPT = [(value, False) for value in (*OTHER, [["Yes", -0.5], ["No", -1.0]])]
KEPT += [(value, True) for value in (*OTHER, "B", vars(NoAnswer(REFUSED, "No.")))]


@pytest.mark.parametrize(("value", "scores"), KEPT)
def test_a_kept_answer_or_score_of_another_kind_is_requested_again_and_said(
    planted, tmp_path, caplog, value, scores
):
    planted.answers["/chat/completions"] = chat(Yes=0.5, No=0.5) if scores else says("B")
    file = tmp_path / "v1.jsonl"
    for _ in range(3):
        model = made(planted)
        model.keep_answers(file)
        found = (model.score_pairs if scores else model.answer)(PICTURES, ["a"])
        assert list(found) == ([0] if scores else ["B"])
        if len(planted.requests) == 1:
            edit(file, value)
    assert len(planted.requests) == 2
    told = f"{file}: 1 kept answer of another form; requested again"
    assert [one for one in caplog.messages if "kept" in one] == [told]


# Whole runs.


NOT_ANSWERED = [
    (ends("stop", None, refusal="I cannot."), "ok", "refused 1 (such as 'I cannot.')"),
    (ends(LIMIT, None, reasoning_content="Hm"), "ok", "cut off while thinking 1"),
    (error(500, message="gone"), "failed", "1 of 4 answers are lacking for reasons that may pass"),
]


@pytest.mark.parametrize(("answer", "status", "note"), NOT_ANSWERED)
def test_a_row_states_what_was_not_answered(planted, tmp_path, answer, status, note):
    put_images(tmp_path / "foils", "a.png", "b.png")
    lines = ["image,caption,foil", "a.png,a cat,a dog", "b.png,a cat,a cow"]
    (tmp_path / "foils" / "foils.csv").write_text("\n".join(lines))

    def give(request):
        return chat() if "logprobs" in request.asked else shown(request.text())

    def shown(text):
        return answer if "A. a cow" in text else says("AB"["B. a cat" in text])

    planted.answers["/chat/completions"] = give
    given = {"data_dir": {"": tmp_path}, "model_args": {"pause": 0.001, "retries": 0}}
    (result,) = vlbench.evaluate(f"openai:tiny@{planted.address}", "foils_table", **given)
    assert result.status == status
    assert note in " ".join([*result.notes, result.reason])
