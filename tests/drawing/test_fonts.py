import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from vlbench.drawing import fonts
from vlbench.report.figures.charts import save, styled


@pytest.fixture
def kanji(tmp_path, monkeypatch):
    """A font that has one character, a square, among the installed fonts."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 900), (900, 900), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    font = FontBuilder(1000)
    font.setupGlyphOrder([".notdef", "cat"])
    font.setupCharacterMap({ord("猫"): "cat"})
    font.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "cat": pen.glyph()})
    font.setupHorizontalMetrics({".notdef": (1000, 0), "cat": (1000, 0)})
    font.setupHorizontalHeader(ascent=900, descent=-100)
    font.setupNameTable({"familyName": "One Kanji", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(tmp_path / "kanji.ttf")
    monkeypatch.setattr(fontManager, "ttflist", list(fontManager.ttflist))
    fontManager.addfont(tmp_path / "kanji.ttf")
    yield "One Kanji"
    fontManager._findfont_cached.cache_clear()


def write(tmp_path, name):
    with styled():
        figure = Figure()
        axes = figure.add_subplot(title=name)
        axes.set_yticks([0, 1], [name, "cat"])
        save(figure, tmp_path / "figure")
    return figure


def test_an_installed_font_draws_what_matplotlibs_own_lacks(tmp_path, kanji, caplog):
    write(tmp_path, "猫")
    assert not caplog.messages
    assert kanji in (tmp_path / "figure.svg").read_text("utf-8")


def test_other_figures_keep_their_font(tmp_path, kanji):
    write(tmp_path, "dog")
    assert kanji not in (tmp_path / "figure.svg").read_text("utf-8")


def test_characters_that_no_font_has_are_named_once(tmp_path, caplog):
    fonts._name.cache_clear()
    for _ in range(2):
        write(tmp_path, "\U00012000 and \U00012001")
    (message,) = caplog.messages
    assert message.startswith("figures show boxes for \U00012000\U00012001: no installed font has")
