import pytest

from vlbench.data.flickr30k import (
    Annotation,
    Mention,
    ParsedCaption,
    parse_annotation,
    parse_sentences,
)
from vlbench.errors import DataError

SIZE = "<size><width>40</width><height>30</height></size>"
BOX = "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>"
SCENE = "<object><name>3</name><scene>1</scene><nobndbox>1</nobndbox></object>"


def thing(*chains, box=(5, 6, 40, 30)):
    names = "".join(f"<name>{chain}</name>" for chain in chains)
    return f"<object>{names}{BOX.format(*box)}</object>"


def xml(*things):
    return f"<annotation><filename>7.jpg</filename>{SIZE}{''.join(things)}</annotation>".encode()


def test_a_caption_is_its_words_and_the_phrases_of_chains():
    text = "[/EN#1/people A man] with [/EN#2/animals/other two dogs] .\n[/EN#0/notvisual It]\n"
    assert parse_sentences(text, "7.txt") == [
        ParsedCaption(
            ["A", "man", "with", "two", "dogs", "."],
            [Mention(0, 2, 1, ["people"]), Mention(3, 5, 2, ["animals", "other"])],
        ),
        ParsedCaption(["It"], [Mention(0, 1, 0, ["notvisual"])]),
    ]


NO_CAPTIONS = [
    ("A\n[/EN#1/people A man", r"^7\.txt, line 2: the markup of a phrase is not closed:"),
    ("A [/EN#1/people B [/EN#2/other C]]", "line 1: the markup of a phrase is"),
    ("[/EN#1234567890/people A man]", "line 1: a phrase's chain is not a number: '1234567890'"),
    ("A\n\nB\n", r"^7\.txt, line 2: a caption has no words"),
]


@pytest.mark.parametrize(("text", "message"), NO_CAPTIONS)
def test_a_line_that_is_no_caption_is_named(text, message):
    with pytest.raises(DataError, match=message):
        parse_sentences(text, "7.txt")


def test_a_box_may_be_of_several_chains_and_a_scene_has_none():
    found = parse_annotation(xml(thing(2, box=(1, 1, 9, 9)), thing(1, 2), SCENE), "7.xml")
    boxes = [[1, 1, 9, 9], [5, 6, 40, 30]]
    assert found == Annotation("7.jpg", (40, 30), boxes, {2: [0, 1], 1: [1], 3: []})


NOT_WHOLE = [
    (xml(thing(1))[:-20], r"^7\.xml is not a complete XML file \("),
    (b"<annotation/>", r"^7\.xml: size/width is not a number: None"),
    (xml(thing(1, box=(1, "x", 3, 4))), "ymin is not a number: 'x'"),
    (b"<?xml version='1.0' encoding='utf-7'?><annotation/>", r"^7\.xml is not a complete XML"),
    (xml(thing(9**99)), r"7\.xml is not a number: '"),
    (xml(thing("A")), r"7\.xml is not a number: 'A'"),
    (xml(thing(1, box=(5, 5, 5, 9))), r"7\.xml: box \[5, 5, 5, 9\] has no area"),
    (xml(thing(1, box=(5, 5, 41, 9))), r"leaves the image of \(40, 30\)"),
]


@pytest.mark.parametrize(("content", "message"), NOT_WHOLE)
def test_an_annotation_that_is_not_whole_is_named(content, message):
    with pytest.raises(DataError, match=message):
        parse_annotation(content, "7.xml")
