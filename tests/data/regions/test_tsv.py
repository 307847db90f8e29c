import pytest
import torch
from region_files import BOXES, butd, encode, is_whole, lxmert, put_tsv

from vlbench.data.regions import region_features
from vlbench.data.regions.tsv import index
from vlbench.errors import DataError


def test_a_row_of_ten_columns_has_scores(tmp_path):
    regions = region_features(put_tsv(tmp_path, lxmert("7"), lxmert("42")))["42"]
    assert is_whole(regions)
    assert regions.scores.tolist() == [0.5, 0.25]
    assert regions.size == (40, 30)
    assert regions.labels is None


def test_a_row_of_six_columns_has_no_scores(tmp_path):
    regions = region_features(put_tsv(tmp_path, butd()))["42"]
    assert is_whole(regions)
    assert regions.scores is None
    assert regions.size == (40, 30)


@pytest.mark.parametrize("line", [butd(), lxmert("42")])
def test_base64_that_python_wrote_as_bytes_is_read(tmp_path, line):
    name, *columns = line.rstrip("\n").split("\t")
    quoted = [cell if cell.isdigit() else str(cell.encode()) for cell in columns]
    row = "\t".join([name, *quoted]) + "\n"
    assert is_whole(region_features(put_tsv(tmp_path, row))["42"])


WRONG_ROWS = [
    ((butd("1"), butd("2")[:-10]), r"^features\.tsv, line 2: the features are not 2 vectors"),
    ((butd("1"), butd("2")[:9]), r"^features\.tsv, line 2: 4 columns, not 6 or 10"),
    (
        (butd("1"), lxmert(vectors=torch.eye(2))),
        r"line 2: vectors 2 wide, but the rows above are 3 wide",
    ),
    ((butd("1"), butd("1")), r"^features\.tsv, line 2: a second row of image 1$"),
    ((butd().replace("\t40\t", "\twide\t"),), r"^features\.tsv, line 1: img_w is not a number"),
]


@pytest.mark.parametrize(("lines", "message"), WRONG_ROWS)
def test_a_row_that_does_not_fit_is_named_with_its_line(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        index(put_tsv(tmp_path, *lines))


WRONG_COLUMNS = [
    (lxmert(boxes=BOXES[:1]), r"features\.tsv, line 1: boxes has 4 numbers for 2 boxes"),
    (butd().replace(encode(BOXES), "A" * 5), r"line 1: boxes is not base64 of numbers"),
]


@pytest.mark.parametrize(("row", "message"), WRONG_COLUMNS)
def test_a_column_that_does_not_fit_is_named_when_it_is_read(tmp_path, row, message):
    (read,) = index(put_tsv(tmp_path, row)).values()
    with pytest.raises(DataError, match=message):
        read()


def test_the_real_tsv_has_36_regions_with_scores_and_words(real_data, tmp_path):
    folder = real_data / "bottom_up_features/lxmert_tsv"
    words = folder / "genome/1600-400-20/objects_vocab.txt"
    (tmp_path / "features.tsv").symlink_to(folder / "train2014_obj36.tsv")
    (tmp_path / "objects_vocab.txt").symlink_to(words)
    features = region_features(tmp_path / "features.tsv", numbered=True)
    assert len(features) == 10
    for regions in features.values():
        assert regions.vectors.shape == (36, 2048)
        assert 0 < regions.scores.min() <= regions.scores.max() <= 1
        assert (regions.boxes[:, 2:].max(0).values <= torch.tensor(regions.size)).all()
    first = features["132417"]
    assert (first.labels[0], first.boxes[0, 1].item()) == ("sky", 0)


def test_no_label_of_the_real_vocabulary_has_a_synonym(real_data, tmp_path):
    words = real_data / "bottom_up_features/lxmert_tsv/genome/1600-400-20/objects_vocab.txt"
    (tmp_path / "objects_vocab.txt").symlink_to(words)
    file = put_tsv(tmp_path, lxmert("7", objects=(16, 43)))
    assert region_features(file)["7"].labels == ["stop sign", "television"]
