"""LLaVA's answers: matched to items by image and question, through its file of questions."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from model_adapters.recorded import Recorded
from vlbench.capabilities import Asked
from vlbench.errors import DataError

REAL = Path(os.environ.get("VLBENCH_DATA", "absent"), "pope", "llava")
ASKED = "Is there a cat in the image?"
PROMPT = f"{ASKED}\nAnswer the question using a single word or phrase."
ITEMS = [Asked(f"{n}.jpg", ("yes", "no"), ASKED, list_) for n in (1, 2) for list_ in ("a", "b")]
QUESTIONS = [
    {"question_id": n, "image": f"{image}.jpg", "text": PROMPT, "category": "b"}
    for n, image in ((1, 2), (2, 1))
]
ANSWERS = [
    {"question_id": n, "prompt": PROMPT, "text": text, "model_id": "m", "metadata": {}}
    for n, text in ((1, "Yes"), (2, "No"))
]


def put(tmp_path, name, rows):
    (tmp_path / name).write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return tmp_path / name


def test_answers_belong_to_the_images_and_lists_of_their_questions(tmp_path):
    path = put(tmp_path, "answers.jsonl", ANSWERS)
    model = Recorded(path=path, questions=put(tmp_path, "q.jsonl", QUESTIONS))
    said = [[reply.said for reply in own] for own in model.replies(ITEMS)]
    assert said == [[], ["No"], [], ["Yes"]]
    assert len(model.fingerprint()) == 2


def test_prompts_are_enough_if_each_fits_one_item(tmp_path):
    model = Recorded(path=put(tmp_path, "answers.jsonl", ANSWERS[:1]))
    assert [reply.said for reply in model.replies(ITEMS[:1])[0]] == ["Yes"]
    with pytest.raises(DataError, match="its description fits several items"):
        model.replies(ITEMS)


WRONG = {
    "other questions": ([{**QUESTIONS[0], "text": "Why?"}], "row 1: the prompt is 'Is there a cat"),
    "no such question": (QUESTIONS[1:], "answers.jsonl, row 1: KeyError: 1"),
    "a question twice": ([QUESTIONS[0]] * 2, "q.jsonl, row 2: the question_id 1 occurs twice"),
    "no question": ([{"question_id": 1}], "q.jsonl, row 1, is no question: KeyError: 'text'"),
    "a list": ([{**QUESTIONS[0], "question_id": [1]}], "q.jsonl, row 1, is no question: TypeError"),
}


@pytest.mark.parametrize(("asked", "why"), WRONG.values(), ids=[*WRONG])
def test_questions_that_do_not_fit_are_named(tmp_path, asked, why):
    path = put(tmp_path, "answers.jsonl", ANSWERS)
    with pytest.raises(DataError, match=why):
        Recorded(path=path, questions=put(tmp_path, "q.jsonl", asked))


def test_the_published_f1_comes_from_the_published_answers():
    if not REAL.is_dir():
        pytest.skip("LLaVA's answers are not there (VLBENCH_DATA/pope/llava)")
    items, labels = [], []
    for name in ("random", "popular", "adversarial"):
        for line in (REAL / "coco" / f"coco_pope_{name}.json").read_text("utf-8").splitlines():
            one = json.loads(line)
            labels.append(one["label"])
            items.append(Asked(one["image"], ("yes", "no"), one["text"], name))
    asked = REAL / "llava_pope_test.jsonl"
    replies = Recorded(path=REAL / "llava-v1.5-13b.jsonl", questions=asked).replies(items)
    counts = Counter(
        (item.category, own[0].said.lower(), label)
        for item, own, label in zip(items, replies, labels, strict=True)
    )
    f1 = {
        name: 2 * counts[name, "yes", "yes"] / (
            2 * counts[name, "yes", "yes"] + counts[name, "yes", "no"] + counts[name, "no", "yes"]
        )
        for name in ("random", "popular", "adversarial")
    }  # fmt: skip
    # arXiv:2310.03744, Table 4: 87.1, 86.2, 84.5.
    assert f1 == pytest.approx({"random": 0.871, "popular": 0.862, "adversarial": 0.845}, abs=6e-4)
