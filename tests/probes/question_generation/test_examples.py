from textwrap import dedent

import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image
from question_fakes import TOY_WORDS, toy_asked, toy_trainings

from vlbench.capabilities import Regions
from vlbench.data.records import Split
from vlbench.engine import Engine
from vlbench.errors import CannotDo
from vlbench.probes.question_generation import examples
from vlbench.probes.question_generation.bert_gen import Example
from vlbench.probes.question_generation.examples import (
    ATTENTION,
    AskerAttention,
    attention_artifacts,
    draw_looks,
    draw_similarity,
    look_rows,
)
from vlbench.probes.question_generation.steps import STEPS


class Second(Engine):
    """The engine of a process that does not write."""

    is_main = False


@pytest.fixture(scope="module")
def trainings():
    return toy_trainings(5)


@pytest.fixture
def drawn(monkeypatch):
    """What was to be drawn: images, regions and looks, instead of a picture."""
    calls = []

    def draw(images, regions, looks):
        calls.append((images, regions, looks))
        return "a picture"

    monkeypatch.setattr(examples, "draw_looks", draw)
    return calls


@pytest.mark.parametrize(
    ("asked_for", "names"),
    [(1, ["0"]), (2, ["0", "2"]), (3, ["0", "1", "3"]), (9, ["0", "1", "2", "3", "4"])],
)
def test_examples_are_spread_evenly_and_no_more_than_there_are(trainings, drawn, asked_for, names):
    test = toy_asked(5)
    found = attention_artifacts(trainings, test, asked_for)
    assert list(dict.fromkeys(found["attention"]["id"].to_pylist())) == names
    assert found["examples"] == "a picture"
    ((images, regions, looks),) = drawn
    assert images == [test.split["image"][int(name)] for name in names]
    expected = [test.split["regions"][int(name)].boxes for name in names]
    assert [r.boxes.tolist() for r in regions] == [boxes.tolist() for boxes in expected]
    assert {step: len(own) for step, own in looks.items()} == dict.fromkeys("123", len(names))


@pytest.mark.usefixtures("drawn")
def test_the_table_has_what_each_trained_step_looks_at(trainings):
    test = toy_asked(5)
    expected = []
    for step in (STEPS[0], STEPS[1], STEPS[3]):
        regions = [test.split["regions"][0] if step.images else None]
        (look,) = AskerAttention(trainings.asker(step)).looks(regions, ["0"], ["thing0 here"])
        expected += look_rows("0", step.name, look)
    found = attention_artifacts(trainings, test, 1)["attention"].to_pylist()
    assert len(found) == len(expected) > 20
    for row, other in zip(found, expected, strict=True):
        assert row.pop("weight") == pytest.approx(other.pop("weight"), abs=1e-6)
        assert row == other


def test_images_that_are_not_there_are_drawn_by_their_regions_alone(trainings, drawn):
    test = toy_asked(5)
    columns = {name: c for name, c in test.split.columns.items() if name != "image"}
    attention_artifacts(trainings, test._replace(split=Split(columns)), 2)
    assert drawn[0][0] == [None, None]


def test_a_process_that_does_not_write_and_no_examples_draw_nothing(trainings, drawn):
    assert attention_artifacts(trainings, toy_asked(5), 0) == {}
    engine = Second(Engine.for_tests().settings)
    found = attention_artifacts(toy_trainings(5, engine=engine), toy_asked(5), 2)
    assert list(found) == ["attention"]
    assert not drawn


BY_NAME = {step.name: step for step in STEPS}
CAPTION = "a thing0 here"


@pytest.fixture(scope="module")
def column():
    return toy_asked().split["regions"]


def untrained(step):
    return toy_trainings().asker(BY_NAME[step], untrained=True)


def look_of(asker, column):
    """Return what the first image's question, with its caption, looks at."""
    (look,) = AskerAttention(asker).looks([column[0]], ["0"], [CAPTION])
    return look


def test_attention_is_that_of_the_mask_in_the_place_of_each_token(column):
    asker = untrained("3")
    look = look_of(asker, column)
    source = asker.sources([column[0]], ["0"], [CAPTION])[0]
    said = TOY_WORDS.convert_tokens_to_ids(look["tokens"])
    assert look["kinds"] == ["region"] * 2 + ["word"] * 3
    assert look["places"] == ["0", "1", "a", "thing0", "here"]
    inputs, _ = asker.network.one_pass([Example(source, said)])
    n = source.length
    for t in range(len(said)):
        # X, the tokens before, and the [MASK], in a pass of their own.
        own = [*range(n + t), n + len(said) - 1 + t]
        places = torch.arange(n + t + 1)[None]
        alone = {"inputs_embeds": inputs.embedded[:, own], "position_ids": places}
        sees = torch.ones(n + t + 1, n + t + 1).tril()
        sees[:n, :n] = 1
        mask = torch.zeros_like(sees).masked_fill(sees == 0, torch.finfo(torch.float32).min)
        alone |= {"attention_mask": mask[None, None], "output_attentions": True}
        with torch.no_grad():
            row = asker.network.module(**alone).attentions[-1][0].mean(0)[-1]
        assert torch.allclose(look["weights"][t], row[[1, 2, 4, 5, 6]], atol=1e-5)


@pytest.mark.parametrize(("step", "columns", "x"), [("1", 3, 4), ("2", 2, 3), ("3", 5, 7)])
def test_without_queries_all_that_is_seen_is_looked_at_alike(column, step, columns, x):
    asker = untrained(step)
    query = asker.network.module.base_model.encoder.layer[-1].attention.self.query
    torch.nn.init.zeros_(query.weight)
    torch.nn.init.zeros_(query.bias)
    weights = look_of(asker, column)["weights"]
    # Token t sees X, t tokens before it, and its own [MASK].
    expected = 1 / (x + 1 + torch.arange(len(weights)))
    torch.testing.assert_close(weights, expected[:, None].expand(-1, columns))


def test_a_look_has_the_question_that_is_asked_and_at_most_so_many_tokens(column):
    asker = untrained("3")
    look = look_of(asker, column)
    assert [look["question"]] == asker.ask([column[0]], ["0"], [CAPTION])
    assert 1 <= len(look["tokens"]) == len(look["weights"]) <= asker.texts.most


def test_the_end_is_a_token_that_looks(column):
    asker = untrained("1")
    with torch.no_grad():
        asker.network.module.cls.predictions.bias[asker.texts.end] += 1000
    look = look_of(asker, column)
    assert (look["question"], look["tokens"]) == ("", ["[SEP]"])
    assert (look["kinds"], look["places"]) == (["word"] * 3, ["a", "thing0", "here"])


def test_a_module_that_returns_no_attention_is_refused(column):
    asker = untrained("1")
    own = asker.network.module.forward
    asker.network.module.forward = lambda **given: own(**given | {"output_attentions": False})
    with pytest.raises(CannotDo, match="BertForMaskedLM returns no attention"):
        look_of(asker, column)


def test_a_row_is_of_a_token_and_what_it_looks_at():
    seen = {"kinds": ["region", "word"], "places": ["0", "dog"]}
    given = look(weights=[[0.5, 0.25], [0.125, 0.0]]) | seen
    common = {"id": "7.jpg", "step": "3", "question": "who?"}
    region = {"kind": "region", "column": 0, "text": "0"}
    word = {"kind": "word", "column": 1, "text": "dog"}
    first, second = {"token": 0, "token_text": "who"}, {"token": 1, "token_text": "?"}
    assert look_rows("7.jpg", "3", given) == [
        {**common, **first, **region, "weight": 0.5},
        {**common, **first, **word, "weight": 0.25},
        {**common, **second, **region, "weight": 0.125},
        {**common, **second, **word, "weight": 0.0},
    ]


BOXES = torch.tensor([[0.0, 0.0, 10.0, 20.0], [20.0, 5.0, 40.0, 20.0]])
REGIONS = Regions(BOXES, torch.zeros(2, 3), None, None, (40, 20))
COLUMNS = ("step", "layer", "caption", "another_caption")
OWN = [("random", 1, 0.9, 0.8), ("random", 2, 0.7, 0.6), ("3", 1, 0.5, 0.25), ("3", 2, 0.4, -0.25)]
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in OWN]


def look(question="who?", *, words=(), weights=((0.1, 0.4), (0.1, 0.0))):
    """Return what a question of two tokens looks at: two regions, then words."""
    seen = {"kinds": ["region"] * 2 + ["word"] * len(words), "places": ["0", "1", *words]}
    return {"question": question, "tokens": ["who", "?"], "weights": torch.tensor(weights), **seen}


@pytest.fixture
def figure(monkeypatch):
    """Give the figure that is drawn instead of its file."""
    monkeypatch.setattr(examples, "save_figure", lambda drawn: drawn)


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
    # No attention at all is drawn without a shade.
    (panel,) = draw_looks([None], [REGIONS], {"2": [look(weights=[[0.0, 0.0]] * 2)]}).axes
    assert [area.get_alpha() for area in panel.collections] == [0, 0]


@pytest.mark.usefixtures("figure")
def test_a_word_s_shade_is_two_digits_of_its_strength():
    given = look(words=["a", "dog"], weights=[[0.0, 0.1, 0.4, 0.0]] * 2)
    (panel,) = draw_looks([None], [REGIONS], {"3": [given]}).axes
    shades = {t.get_text(): t.get_bbox_patch().get_facecolor()[3] for t in panel.texts}
    assert shades == {"a": pytest.approx(200 / 255), "dog": 0}


@pytest.mark.usefixtures("figure")
def test_panels_are_of_images_down_and_steps_across():
    looks = {step: [look(f"{step} {image} ?") for image in "ab"] for step in ("1", "2", "3")}
    drawn = draw_looks([None, None], [REGIONS] * 2, looks)
    titles = [panel.get_title() for panel in drawn.axes]
    with pytest.raises(ValueError, match="is shorter than argument"):
        draw_looks([None, None], [REGIONS], {"2": [look()]})
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


def test_similarity_is_a_file_of_a_picture():
    file = draw_similarity(iter(ROWS))
    with Image.open(file) as drawn:
        assert drawn.format == "PNG"
    file.unlink()


@pytest.mark.usefixtures("figure")
def test_each_step_has_a_solid_line_and_a_dashed_one_of_another_s_caption():
    (panel,) = draw_similarity(iter(ROWS)).axes
    assert [line.get_linestyle() for line in panel.lines] == ["-", "--", "-", "--"]
    assert [line.get_xdata().tolist() for line in panel.lines] == [[1, 2]] * 4
    heights = [line.get_ydata().tolist() for line in panel.lines]
    assert heights == [[0.9, 0.7], [0.8, 0.6], [0.5, 0.4], [0.25, -0.25]]
    assert [line.get_color() for line in panel.lines] == ["C0", "C0", "C1", "C1"]
    legend = [text.get_text() for text in panel.get_legend().get_texts()]
    assert legend == ["step random", "step 3"]
