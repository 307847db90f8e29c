from textwrap import dedent

import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image

from vlbench.capabilities import Regions
from vlbench.probes.question_generation import pictures
from vlbench.probes.question_generation.pictures import ATTENTION, draw_looks, draw_similarity

BOXES = torch.tensor([[0.0, 0.0, 10.0, 20.0], [20.0, 5.0, 40.0, 20.0]])
REGIONS = Regions(BOXES, torch.zeros(2, 3), None, None, (40, 20))
ROWS = [
    {"step": step, "layer": layer, "caption": own, "another_caption": other}
    for step, layer, own, other in (
        ("random", 1, 0.9, 0.8),
        ("random", 2, 0.7, 0.6),
        ("3", 1, 0.5, 0.25),
        ("3", 2, 0.4, -0.25),
    )
]


def look(question="who?", *, words=(), weights=((0.1, 0.4), (0.1, 0.0))):
    """Return what a question of two tokens looks at: two regions, then words."""
    kinds = ["region"] * 2 + ["word"] * len(words)
    return {
        "question": question,
        "tokens": ["who", "?"],
        "kinds": kinds,
        "places": ["0", "1", *words],
        "weights": torch.tensor(weights),
    }


@pytest.fixture
def figure(monkeypatch):
    """Give the figure that is drawn instead of its file."""
    monkeypatch.setattr(pictures, "_saved", lambda drawn: drawn)


def test_looks_are_drawn_with_and_without_an_image():
    words = look("what is $a$ ?", words=["a", "$thing0$"], weights=[[0.1, 0.2, 0.3, 0.0]] * 2)
    looks = {"2": [look(), look()], "3": [words, look()]}
    file = draw_looks([Image.new("RGB", (40, 20)), None], [REGIONS] * 2, looks)
    with Image.open(file) as drawn:
        width, height = drawn.size
        assert drawn.format == "PNG"
        assert min(width, height) > 100
    file.unlink()


@pytest.mark.usefixtures("figure")
def test_a_region_s_shade_is_its_mean_attention_by_the_most():
    (panel,) = draw_looks([None], [REGIONS], {"2": [look()]}).axes
    # The means over two tokens are 0.1 and 0.2.
    assert [area.get_alpha() for area in panel.collections] == pytest.approx([0.25, 0.5])
    assert [line.get_alpha() for line in panel.lines] == pytest.approx([0.575, 1.0])
    assert {to_hex(line.get_color()) for line in panel.lines} == {ATTENTION}
    spans = [(min(x), min(y), max(x), max(y)) for x, y in (line.get_data() for line in panel.lines)]
    assert spans == [tuple(box) for box in BOXES.tolist()]


@pytest.mark.usefixtures("figure")
def test_a_word_s_shade_is_two_digits_of_its_strength():
    given = look(words=["a", "dog"], weights=[[0.0, 0.1, 0.4, 0.0]] * 2)
    (panel,) = draw_looks([None], [REGIONS], {"3": [given]}).axes
    shades = {t.get_text(): t.get_bbox_patch().get_facecolor()[3] for t in panel.texts}
    assert shades == {"a": pytest.approx(200 / 255), "dog": 0}


@pytest.mark.usefixtures("figure")
def test_no_attention_at_all_is_drawn_without_a_shade():
    (panel,) = draw_looks([None], [REGIONS], {"2": [look(weights=[[0.0, 0.0]] * 2)]}).axes
    assert [area.get_alpha() for area in panel.collections] == [0, 0]


@pytest.mark.usefixtures("figure")
def test_panels_are_of_images_down_and_steps_across():
    looks = {step: [look(f"{step} {image} ?") for image in "ab"] for step in ("1", "2", "3")}
    drawn = draw_looks([None, None], [REGIONS] * 2, looks)
    titles = [panel.get_title() for panel in drawn.axes]
    assert titles == ["1: 1 a ?", "2: 2 a ?", "3: 3 a ?", "1: 1 b ?", "2: 2 b ?", "3: 3 b ?"]


@pytest.mark.usefixtures("figure")
def test_an_image_is_drawn_in_the_pixels_of_its_boxes():
    # The image may be stored at another size than the one that its boxes are of.
    (panel,) = draw_looks([Image.new("RGB", (20, 10))], [REGIONS], {"2": [look()]}).axes
    assert panel.images[0].get_extent() == [0, 40, 20, 0]
    assert (panel.get_xlim(), panel.get_ylim()) == ((0, 40), (20, 0))


@pytest.mark.usefixtures("figure")
def test_long_questions_and_captions_go_on_in_the_next_line():
    words = ["twelve-long."] * 3
    given = look("x" * 25 + " " + "y" * 10, words=words, weights=[[0.1] * 5] * 2)
    (panel,) = draw_looks([None], [REGIONS], {"2": [given]}).axes
    assert panel.get_title() == dedent(f"""\
        2: {"x" * 25}
        {"y" * 10}""")
    places = [text.get_position() for text in panel.texts]
    assert [x for x, _ in places] == pytest.approx([0, 13 / 30, 0])
    assert [y for _, y in places] == pytest.approx([-0.04, -0.04, -0.15])


@pytest.mark.usefixtures("figure")
def test_images_must_be_as_many_as_their_looks():
    with pytest.raises(ValueError, match="is shorter than argument"):
        draw_looks([None, None], [REGIONS], {"2": [look()]})


def test_similarity_is_a_file_of_a_picture():
    file = draw_similarity(iter(ROWS))
    with Image.open(file) as drawn:
        assert drawn.format == "PNG"
    file.unlink()


@pytest.mark.usefixtures("figure")
def test_each_step_has_a_solid_line_and_a_dashed_one_of_another_s_caption():
    (panel,) = draw_similarity(iter(ROWS)).axes
    lines = [
        (line.get_linestyle(), line.get_xdata().tolist(), line.get_ydata().tolist())
        for line in panel.lines
    ]
    assert lines == [
        ("-", [1, 2], [0.9, 0.7]),
        ("--", [1, 2], [0.8, 0.6]),
        ("-", [1, 2], [0.5, 0.4]),
        ("--", [1, 2], [0.25, -0.25]),
    ]
    colours = [line.get_color() for line in panel.lines]
    assert colours == ["C0", "C0", "C1", "C1"]
    legend = [text.get_text() for text in panel.get_legend().get_texts()]
    assert legend == ["step random", "step 3"]
