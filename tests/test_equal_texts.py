"""Texts equal but for outer blanks and Unicode form are one text, at each door that compares texts.

Case stays a difference, and is noted. Planted are a text, the same text in another spelling, and in
another case.
"""

import re
from pathlib import Path

import pytest
import torch
from foil_fakes import question_rows
from PIL import Image

import vlbench
from vlbench.adapter_kit.recordings import Columns, Recordings
from vlbench.asking.questions import ask_for_captions, read_questions
from vlbench.capabilities import Asked
from vlbench.data.names import case_notes
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.probes.generalization import zero_shot
from vlbench.probes.matching.retrieval import retrieval

TEXT, SPELLED, CASED, OTHER = "a caf\u00e9 {}", " a cafe\u0301 {} ", "A caf\u00e9 {}", "a tea {}"
IMAGES = [Image.new("RGB", (4, 4), (40 * i, 0, 0)) for i in range(3)]


class Towers:
    """Encodes an image by its red, and a text by its length, so that spellings differ."""

    def preprocess(self, image):
        return torch.full((3, 4, 4), image.getpixel((0, 0))[0] / 255)

    def encode_images(self, pixels):
        return torch.stack([torch.ones(len(pixels)), pixels[:, 0, 0, 0]], 1)

    def encode_texts(self, texts):
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    def similarity(self, images, texts):
        return images @ texts.T


def images():
    return Column("i", "image", IMAGES, range(3), names=["a", "b", "c"])


def prompted(prompts):
    rows = Split({"image": images(), "label": value_column([0, 1, 0])})
    data = Data(splits={"test": rows}, classes=["cat", "dog"])
    return zero_shot.zero_shot(Towers(), data, Engine.for_tests(), prompts=prompts)


def named(names):
    rows = Split({"image": images(), "label": value_column([0, 1, 0])})
    data = Data(splits={"test": rows}, classes=["0", "1"], class_order="listed")
    return zero_shot.zero_shot(Towers(), data, Engine.for_tests(), class_names=names)


def retrieved(captions):
    rows = Split({"image": images(), "captions": value_column([[one] for one in captions])})
    return retrieval(Towers(), Data(splits={"test": rows}), Engine.for_tests(), k=[1])


def scores(outcome):
    metrics = [(one.metric, one.credit.tolist()) for one in outcome.metrics]
    return metrics, [(one.metric, one.at, one.value) for one in outcome.scores]


def test_prompts_that_are_equal_are_one_prompt_and_counted():
    several = prompted([TEXT, OTHER, SPELLED])
    assert several.counts["repeated_prompts"] == 1
    assert scores(several) == scores(prompted([TEXT, OTHER]))
    assert "repeated_prompts" not in prompted([TEXT, CASED]).counts


@pytest.mark.parametrize("ask", [prompted, named, retrieved])
def test_a_difference_in_case_stays_and_is_noted(ask):
    given = [TEXT, CASED] if ask is not retrieved else [TEXT, CASED, OTHER]
    (note,) = [one for one in ask(given).notes if "only in case" in one]
    assert note.endswith("2 texts differ only in case from another, such as "
                         f"{CASED!r} and {TEXT!r}")  # fmt: skip


def test_names_of_classes_that_are_equal_are_one_text_and_counted():
    assert named(["caf\u00e9", " cafe\u0301"]).counts["repeated_class_names"] == 1
    assert "repeated_class_names" not in named(["caf\u00e9", "Caf\u00e9"]).counts


def test_captions_that_are_equal_are_one_text_and_counted():
    captions = [TEXT, OTHER, SPELLED]
    assert retrieved(captions).counts["repeated_captions"] == 2
    assert scores(retrieved(captions)) == scores(retrieved([TEXT, OTHER, TEXT]))
    assert retrieved([TEXT, OTHER, CASED]).counts["repeated_captions"] == 0


def rows_of(**columns):
    return Split(
        {"image": images().select([0])} | {k: value_column([v]) for k, v in columns.items()}
    )


def test_foils_that_are_equal_are_one_option():
    rows = rows_of(caption=OTHER, foils=[TEXT, SPELLED, CASED])
    assert ask_for_captions(rows)[0].options == [OTHER, TEXT, CASED]
    with pytest.raises(DataError, match="a wrong text is the caption itself"):
        ask_for_captions(rows_of(caption=TEXT, foils=[SPELLED]))


def test_options_that_are_equal_are_refused_and_case_is_noted():
    columns = {"question": "which ?", "right_answers": [OTHER]}
    with pytest.raises(DataError, match="two options are the same"):
        read_questions(rows_of(options=[TEXT, SPELLED, OTHER], **columns))
    (note,) = read_questions(rows_of(options=[TEXT, CASED, OTHER], **columns)).notes
    assert note.startswith("options: 2 texts differ only in case")
    assert note.endswith("(in 1 of 1 rows)")
    assert read_questions(question_rows().splits["test"]).notes == []


def test_a_recording_names_the_options_in_any_spelling(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(f"image,one,two,answer\na.png,{SPELLED},{OTHER},A\n", "utf-8")
    recordings = Recordings(file, Columns(texts=("one", "two")), "letters")
    items = [Asked("a.png", (TEXT, OTHER)), Asked("a.png", (CASED, OTHER))]
    assert [len(own) for own in recordings.look_up(items).replies] == [1, 0]


def test_no_note_on_texts_that_differ_otherwise():
    assert case_notes("x", [TEXT, SPELLED, OTHER]) == []


# Modules that give texts to a model, and the function through which their candidates go, or why
# there are no candidates that could be equal.
DOORS = {
    "ablation": "ask_for_captions|read_questions",
    "choice": "ask_for_captions",
    "chooser": "",  # asks what the functions of `questions` return
    "pair_scores": "",  # scores each distinct pair of an image and a text once
    "questions": "read_questions",
    "retrieval": "count_repeated",
    "zero_shot": "one_spelling",
    "class_vectors": "",  # names of a data set's classes, which are distinct where data are read
    "named_objects": "",  # names of categories, as above
    "noun_replacement": "",  # a caption against itself with another noun
    "noun_count": "",  # captions are described, not chosen among
    "caption_templates": "",  # a caption against its nouns in a template
    "captioner": "",  # a caption is scored, not chosen among others
    "favourites": "",  # as above
    "word_similarity": "",  # each pair has its own rating
    "similarity": "",  # vectors of captions are compared with vectors of images
}


def test_the_doors_are_all_modules_that_give_texts_to_a_model():
    gives = re.compile(r"\b(encode_texts|encode_tokens|score_pairs|Chooser\(|PairScorer\()")
    folder = Path(vlbench.__file__).parent
    files = [*folder.glob("probes/**/*.py"), *folder.glob("asking/*.py")]
    texts = {file.stem: text for file in files if gives.search(text := file.read_text("utf-8"))}
    assert {*texts} == {*DOORS}
    assert [name for name, text in texts.items() if not re.search(DOORS[name], text)] == []
