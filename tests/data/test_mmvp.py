import pytest
from foil_files import put_images

from vlbench.data.mmvp import CORRECTED, PUBLISHED, mmvp
from vlbench.errors import DataAbsent, DataError

HEAD = "Index,Question,Options,Correct Answer"


def put(root, *rows, head=HEAD):
    (root / "Questions.csv").write_text("\n".join([head, *rows]) + "\n", "utf-8")
    put_images(root / "MMVP Images", *(f"{i + 1}.jpg" for i in range(len(rows))))
    return root


def rows(count, labels):
    texts = '"Is it open, or closed?",(a) Open (b) Closed'
    return [f"{i},{texts},{labels.get(i, '(a)' if i % 2 else '(b)')}" for i in range(1, count + 1)]


def test_two_images_in_a_row_are_a_pair_with_options_and_answers(tmp_path):
    data = mmvp(root=put(tmp_path, *rows(4, {})))
    test = data.splits["test"]
    assert [*test["options"]] == [["Open", "Closed"]] * 4
    assert [*test["right_answers"]] == [["(a)"], ["(b)"], ["(a)"], ["(b)"]]
    assert [*test["pair"]] == [*test["cluster"]] == ["1", "1", "2", "2"]
    assert test["image"].examples().ids == ["1.jpg", "2.jpg", "3.jpg", "4.jpg"]
    assert data.missing_rows() == {"test": 296}


VERSIONS = [
    (PUBLISHED, "as first published"),
    (CORRECTED, "as corrected later"),
    ({99: "(a)", 100: "(a)"}, "of neither version"),
]


@pytest.mark.parametrize(("labels", "version"), VERSIONS)
def test_a_note_says_which_labels_the_table_has(tmp_path, labels, version):
    data = mmvp(root=put(tmp_path, *rows(300, labels)))
    assert data.missing_rows() == {}
    assert data.notes == [f"labels of 99, 100, 279, 280: {version}"]


WRONG = {
    "1,Is it?,Open or closed,(a)": "the options 'Open or closed' are not .a. and .b.",
    "1,Is it?,(a) Open (b) Closed,b": "the answer 'b' is neither .a. nor .b.",
    "2,Is it?,(a) Open (b) Closed,(b)": "the index is '2', not 1",
    "1,,(a) Open (b) Closed,(b)": "a text is empty",
    "1,Is it?": "row 1",
}


@pytest.mark.parametrize(("row", "why"), WRONG.items())
def test_a_row_that_does_not_fit_is_named(tmp_path, row, why):
    with pytest.raises(DataError, match=rf"Questions.csv, row 1: .*{why}|Questions.csv, {why}"):
        mmvp(root=put(tmp_path, row))


def test_what_is_absent_is_named(tmp_path):
    with pytest.raises(DataAbsent, match="MMVP"):
        mmvp(root=tmp_path)
