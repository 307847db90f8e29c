from pathlib import Path

import pytest
from gensim.test.utils import datapath

from vlbench.data.word_files import read_pairs
from vlbench.data.word_pairs import gensim_word_pairs, read_judged, word_pairs
from vlbench.errors import DataAbsent, DataError

TIGER, CAR = ("tiger", "cat", 7.35), ("car", "train", 6.31)


@pytest.fixture
def put(tmp_path):
    """Write a file of these lines."""

    def write(*lines, name="pairs.txt"):
        (tmp_path / name).write_text("\n".join(lines), "utf-8")
        return tmp_path / name

    return write


INSIDE_GENSIM = [
    ("wordsim353", "wordsim353.tsv", 353, ("love", "sex", 6.77)),
    ("simlex999", "simlex999.txt", 999, ("old", "new", 1.58)),
]


@pytest.mark.parametrize(("name", "file", "rows", "first"), INSIDE_GENSIM)
def test_the_sets_inside_gensim_are_read_whole(name, file, rows, first):
    data = gensim_word_pairs(name=name)
    test = data.splits["test"]
    pairs = list(zip(test["word_a"], test["word_b"], strict=True))
    assert pairs == read_pairs(Path(datapath(file)))
    assert (len(test), data.missing_rows(), data.limited(9).splits["test"]["score"].kind) == (
        rows,
        {},
        "value",
    )
    assert (*pairs[0], test["score"][0]) == first


def test_without_gensim_its_sets_are_absent(monkeypatch):
    monkeypatch.setattr("vlbench.data.presence.importlib.util.find_spec", lambda _: None)
    with pytest.raises(DataAbsent, match="WordSim-353 not found; get it from `pip install gensim`"):
        gensim_word_pairs(name="wordsim353")


SEPARATED = [
    ["# how alike", "tiger\tcat\t7.35", "", "car\ttrain\t6.31"],
    ["tiger cat 7.35", "car  train 6.31"],
    ["tiger;cat;7.35", "car;train;6.31"],
    ["word_a,word_b,score", 'tiger,"cat",7.35', "car,train,6.31"],
    ["score\tn\tword_b\tword_a", "7.35\t13\tcat\ttiger", "6.31\t13\ttrain\tcar"],
    ["tiger\tcat\t7.35\t8\t7", "car\ttrain\t6.31\t6\t7"],
]


@pytest.mark.parametrize("lines", SEPARATED)
def test_words_and_scores_are_found_whatever_separates_and_names_them(put, lines):
    assert read_judged(put(*lines)) == [TIGER, CAR]


def test_columns_of_other_names_and_places_are_read_if_they_are_said(put):
    named = put("word1\tword2\tPOS\tSimLex999", "tiger\tcat\tN\t7.35", name="SimLex-999.txt")
    assert read_judged(named, ["word1", "word2", "SimLex999"]) == [TIGER]
    placed = put("tiger\tcat\tN\t7.35\tSYNONYMS", name="SimVerb-3500.txt")
    assert read_judged(placed, ["1", "2", "4"]) == [TIGER]


REFUSED = [
    (["a b 1", "a b"], None, r"pairs\.txt, line 2: 2 cells; column 3 is needed"),
    (["# c", "w1 w2 s", "a b 1"], None, r"pairs\.txt, line 2: the score is 's', not a number"),
    (["a b nan"], None, r"line 1: the score is 'nan', not a number"),
    (["a,,1"], None, "line 1: a word is empty"),
    (["w1 w2 s", "a b 1"], ["w1", "w2", "t"], "no columns w1, w2, t; there are w1, w2, s"),
    (["a b 1"], ["0", "1", "2"], "no columns 0, 1, 2; there are a, b, 1"),
    (["a b 1"], ["1", "2"], r"2 columns \(1, 2\); three are needed, for two words and a score"),
    (["word_a,word_b,score", 'a,"b,1'], None, "line 2, cannot be read as CSV: unexpected end"),
    (["# nothing"], None, r"pairs\.txt has no word pairs"),
    (["word_a,word_b,score"], None, r"pairs\.txt has no word pairs"),
]


@pytest.mark.parametrize(("lines", "columns", "message"), REFUSED)
def test_what_is_no_pair_is_named_with_its_line(put, lines, columns, message):
    with pytest.raises(DataError, match=message):
        read_judged(put(*lines), columns)


def test_a_file_of_ones_own_is_a_split(put, tmp_path):
    put("tiger\tcat\t7.35", "car\ttrain\t6.31")
    test = word_pairs(root=tmp_path, file="pairs.txt").splits["test"]
    assert [list(test[name]) for name in ("word_a", "word_b", "score")] == [
        ["tiger", "car"],
        ["cat", "train"],
        [7.35, 6.31],
    ]
    with pytest.raises(DataAbsent, match=r"the word pairs pairs\.csv not found"):
        word_pairs(root=tmp_path)


@pytest.mark.parametrize(
    ("file", "rows"), [("EN-MEN-TR-3k.txt", 3000), ("EN-RW-STANFORD.txt", 2034)]
)
def test_other_published_sets_are_read(real_data, file, rows):
    assert len(word_pairs(root=real_data / "text" / "word-sim", file=file).splits["test"]) == rows
