import pytest

from vlbench.data.word_files import Analogy, read_pairs, read_questions, read_visual_words
from vlbench.errors import DataError


def put(folder, text):
    (folder / "words.txt").write_text(text)
    return folder / "words.txt"


def test_questions_keep_their_section(tmp_path):
    path = put(tmp_path, ": family\nboy girl he she\n: gram1\ncalm calmly free freely\n")
    boys, calm = ["boy", "girl", "he", "she"], ["calm", "calmly", "free", "freely"]
    assert read_questions(path) == [Analogy("family", boys), Analogy("gram1", calm)]


def test_pairs_leave_out_what_is_marked_as_remarks(tmp_path):
    path = put(tmp_path, "# Word 1\tWord 2\tHuman\ntiger\tcat\t7.35\nJerusalem\tIsrael\t8\n")
    assert read_pairs(path) == [("tiger", "cat"), ("Jerusalem", "Israel")]


@pytest.mark.parametrize("header", ["", "Word 1,Word 2,Human (mean)\n"])
def test_pairs_of_a_csv_have_commas_and_perhaps_a_header(tmp_path, header):
    (tmp_path / "pairs.csv").write_text(f"{header}tiger,cat,7.35\nJerusalem,Israel,8\n")
    assert read_pairs(tmp_path / "pairs.csv") == [("tiger", "cat"), ("Jerusalem", "Israel")]
    (tmp_path / "pairs.csv").write_text(f"{header}tiger,cat,7.35\nJerusalem\tIsrael\t8\n")
    message = r"pairs\.csv, line \d: must be word, comma, word, comma, number, not 'Jerusalem"
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / "pairs.csv")


def test_visual_words_are_lower_case(tmp_path):
    path = put(tmp_path, "n01440764\tTench\nn02012849\tcrane \n")
    assert read_visual_words(path) == {"n01440764": "tench", "n02012849": "crane"}


def test_a_byte_order_mark_is_no_part_of_a_word(tmp_path):
    path = put(tmp_path, "\ufefftiger\tcat\t7.35\n")
    assert read_pairs(path) == [("tiger", "cat")]


def test_quotes_in_a_csv_of_pairs_are_named(tmp_path):
    (tmp_path / "pairs.csv").write_text('tiger,cat,7.35\n"tiger","cat",7.35\n')
    with pytest.raises(DataError, match=r"^pairs\.csv, line 2: must be word, comma"):
        read_pairs(tmp_path / "pairs.csv")


REFUSED = [
    (read_questions, "boy girl he she", r"words.txt, line 1: must be ': section'"),
    (read_questions, ": family\nboy girl he", r"words.txt, line 2: must be .* not 'boy girl he'"),
    (read_pairs, "a\tb\t1\na b 1\n", r"words.txt, line 2: must be word, tab, .* not 'a b 1'"),
    (read_pairs, "a\tb\thigh\n", r"words.txt, line 1: must be word, tab"),
    (
        read_visual_words,
        "n1\tcrane\nn1\theron\n",
        "line 2: n1 is 'heron', and 'crane' in an earlier line",
    ),
    (
        read_visual_words,
        "n01440764 tench",
        r"words.txt, line 1: must be a wnid, a tab, a word, not",
    ),
]


@pytest.mark.parametrize(("read", "text", "message"), REFUSED)
def test_a_line_that_is_none_of_the_format_is_named(tmp_path, read, text, message):
    with pytest.raises(DataError, match=message):
        read(put(tmp_path, text))


def test_the_real_sets_have_their_published_sizes(real_data):
    sets = real_data / "text" / "word-sim"
    found = [
        len(read_pairs(sets / f"EN-{name}.txt"))
        for name in ("WS-353-ALL", "SIMLEX-999", "MEN-TR-3k")
    ]
    assert found == [353, 999, 3000]
    questions = read_questions(real_data / "text" / "questions-words.txt")
    gram = sum(question.section.startswith("gram") for question in questions)
    assert (len(questions) - gram, gram) == (8869, 10675)
