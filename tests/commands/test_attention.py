import numpy as np
import pytest
from PIL import Image

from vlbench.cli import main
from vlbench.drawing.attention_maps import attention_by_pixel, attention_figure

LOOKS = """
import torch
from vlbench.capabilities import JointAttention, Parts

class LooksLeft:
    \"\"\"The first word looks at the left half, others at the right.\"\"\"

    def __init__(self, *, device):
        del device

    def attend(self, pictures, texts):
        width, height = pictures[0].image.size
        half = width / 2
        boxes = torch.tensor([[0, 0, half, height], [half, 0, width, height]])
        words = texts[0].split()
        starts = [texts[0].index(word) for word in words]
        spans = [(start, start + len(word)) for start, word in zip(starts, words)]
        weights = torch.zeros(2, 3, len(words), 2)
        weights[:, :, 0, 0] = 0.5
        weights[:, :, 1:, 1] = 0.25
        return [JointAttention(spans, weights, boxes, whole=True)]

class NeedsAHead(LooksLeft):
    \"\"\"Without head 1 of layer 0, all words look at the left half.\"\"\"

    gone = ()

    def parts(self):
        return Parts((3, 3), ("image", "text"))

    def cut(self, what):
        other = NeedsAHead(device=None)
        other.gone = what.heads
        return other

    def attend(self, pictures, texts):
        (found,) = super().attend(pictures, texts)
        if (0, 1) in self.gone:
            found.weights[1] = found.weights[1].flip(-1)
        return [found]
"""


@pytest.fixture
def words(tmp_path):
    Image.new("RGB", (40, 30), "white").save(tmp_path / "white.png")
    (tmp_path / "looks.py").write_text(LOOKS)
    return [f"{tmp_path}/looks.py:LooksLeft", str(tmp_path / "white.png")]


def test_the_word_that_is_named_is_where_heads_look_from(words, tmp_path, capsys):
    file = tmp_path / "a.png"
    assert main(["attention", *words, "one two three", "--word", "one", "-o", str(file)]) == 0
    assert capsys.readouterr().out == f"2 layers x 3 heads in {file}\n"
    left = np.asarray(Image.open(file).convert("L"), float)
    assert main(["attention", *words, "one two three", "--word", "two", "-o", str(file)]) == 0
    right = np.asarray(Image.open(file).convert("L"), float)
    assert left.shape == right.shape
    assert np.abs(left - right).max() > 100


def test_attention_of_a_model_without_a_head_is_drawn(words, tmp_path):
    needs, file = words[0].replace("LooksLeft", "NeedsAHead"), tmp_path / "a.png"

    def drawn(*more):
        given = [needs, words[1], "one two", "--word", "two", "-o", str(file)]
        assert main(["attention", *given, *more]) == 0
        return np.asarray(Image.open(file).convert("L"), float)

    # Below the title, which names the heads.
    cut, other, third = (drawn("--without", head)[70:] for head in ("0-1", "0-0", "1-1"))
    assert np.abs(cut - other).max() > 100
    assert np.array_equal(other, third)


NOT_DRAWN = [
    ({2: "zero", 3: ["--word", "on"]}, "the text 'zero' has no word 'on'"),
    ({2: "one", 3: ["--without", "0-1"]}, "LooksLeft is not Intervenable: it has no cut"),
    ({0: "raw-pixels"}, "raw-pixels is not a JointAttender: it has no attend"),
    ({0: "tiny-uniter"}, "tiny-uniter reads regions of kind scenes-crops; give --regions"),
]


@pytest.mark.parametrize(("changed", "message"), NOT_DRAWN)
def test_what_cannot_be_drawn_is_said(words, changed, message, tmp_path, capsys):
    given = [*words, "one two"]
    for place, value in changed.items():
        given[place:] = [value, *given[place + 1 :]] if isinstance(value, str) else value
    assert main(["attention", *given, "-o", str(tmp_path / "a.png")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize("heads", ["3", "0-1-2", "0-1,", "a-b"])
def test_heads_are_named_by_layer_and_number(words, heads, capsys):
    with pytest.raises(SystemExit):
        main(["attention", *words, "one", "--without", heads, "-o", "a.png"])
    assert "must be LAYER-HEAD,... such as 2-0,3-1" in capsys.readouterr().err


def test_a_boxs_attention_is_spread_over_its_pixels_and_overlaps_add_up():
    boxes = np.array([[0, 0, 2, 1], [1, 0, 3, 2], [-5, -5, 0, 0]], float)
    found = attention_by_pixel(np.array([0.4, 0.4, 0.2]), boxes, (3, 2))
    assert found == pytest.approx(np.array([[0.2, 0.3, 0.1], [0, 0.1, 0.1]]))


def test_each_head_of_each_layer_has_a_panel():
    maps = np.zeros((2, 3, 4, 5))
    figure = attention_figure(Image.new("RGB", (5, 4)), maps, np.full((2, 3), 0.5), "title")
    assert len(figure.axes) == 6
    assert [panel.get_title() for panel in figure.axes] == ["50%"] * 6
    assert [p.get_ylabel() for p in figure.axes] == ["layer 0", "", "", "layer 1", "", ""]
