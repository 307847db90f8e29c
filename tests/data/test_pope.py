import json
import os
from pathlib import Path

import pytest
from foil_files import put_images
from PIL import Image

from vlbench.data.pope import NEGATIVES, pope
from vlbench.engine import Engine
from vlbench.errors import DataAbsent, DataError
from vlbench.probes.matching.questions import questions

REAL = Path(os.environ.get("VLBENCH_DATA", "absent"), "pope")


def line(image="1.jpg", text="Is there a dog in the image?", label="yes"):
    return json.dumps({"question_id": 1, "image": image, "text": text, "label": label})


def put(root, **files):
    for name in NEGATIVES:
        content = "\n".join(files.get(name, [line()]))
        (root / f"coco_pope_{name}.json").write_text(content + "\n", "utf-8")
    put_images(root / "val2014", "1.jpg", "2.jpg")
    return root


def load(root):
    return pope(root=root, images=root / "val2014")


def test_questions_are_those_of_all_lists_and_their_list_is_the_category(tmp_path):
    more = [line("2.jpg", "Is there a cat in the image?", "no"), line()]
    data = load(put(tmp_path, popular=more))
    test = data.splits["test"]
    assert [*test["category"]] == ["random", "popular", "popular", "adversarial"]
    assert [*test["right_answers"]] == [["yes"], ["no"], ["yes"], ["yes"]]
    assert {*map(tuple, test["options"])} == {("yes", "no")}
    assert test["image"].examples().ids == ["1.jpg", "2.jpg", "1.jpg", "1.jpg"]
    assert data.missing_rows() == {"test": 8996}


def test_files_that_are_absent_and_labels_that_are_none_are_named(tmp_path):
    with pytest.raises(DataAbsent, match="POPE"):
        load(tmp_path)
    with pytest.raises(DataError, match=r"coco_pope_random.json, line 1 .*neither yes nor no"):
        load(put(tmp_path, random=[line(label="maybe")]))


class Always:
    """Says yes; or yes of the objects that are popular in the lists."""

    def __init__(self, popular=()):
        self.popular = popular

    def answer(self, pictures, questions):
        says = [not self.popular or any(one in q for one in self.popular) for q in questions]
        return ["Yes, there is." if yes else "No." for yes in says]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The three published lists, with an image of a colour of its own under each real name."""
    if not REAL.is_dir():
        pytest.skip("POPE's lists are not there (VLBENCH_DATA/pope)")
    root = tmp_path_factory.mktemp("pope")
    files = [REAL / f"coco_pope_{name}.json" for name in NEGATIVES]
    names = {json.loads(one)["image"] for f in files for one in f.read_text("utf-8").splitlines()}
    for i, name in enumerate(sorted(names)):
        Image.new("RGB", (8, 6), (i % 256, i // 256, 0)).save(root / name, "PNG")
    return pope(root=REAL, images=root)


def values(outcome, metric):
    return {s.at.get("category", ""): s.value for s in outcome.scores if s.metric == metric}


def test_who_always_says_yes_has_the_published_scores_of_it(real):
    assert real.missing_rows() == {}
    found = questions(Always(), real, Engine.for_tests(), asked="words", positive="yes")
    each = ("", "adversarial", "popular", "random")
    for rule in ("", "_published_rule"):
        # 1,500 of 3,000 are there: accuracy 1/2, F1 2/3, all yes.
        assert values(found, f"accuracy{rule}") == dict.fromkeys(each, 0.5)
        assert values(found, f"f1{rule}") == pytest.approx(dict.fromkeys(each, 2 / 3))
        assert values(found, f"positive_share{rule}") == dict.fromkeys(each, 1.0)
    (score,) = [s for s in found.scores if s.metric == "accuracy" and not s.at]
    assert (score.n, found.counts["clusters"]) == (9000, 500)


def test_who_says_yes_of_popular_objects_is_caught_by_the_popular_list(real):
    said = Always(["person", "car", "chair", "dining table", "cup", "bottle"])
    found = questions(said, real, Engine.for_tests(), asked="words", positive="yes")
    by_list = values(found, "accuracy")
    assert by_list["popular"] < 0.5 < by_list["random"]
    assert values(found, "positive_share")["popular"] > values(found, "positive_share")["random"]
