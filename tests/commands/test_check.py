import re

import pytest
from sources import TASK, make_source, write

from vlbench.check import PromiseCheck
from vlbench.cli import main
from vlbench.commands.check import check_model, lines_of
from vlbench.run.options import Options


@pytest.fixture
def options(tmp_path):
    return Options(include_path=[make_source(tmp_path / "ours")])


def test_every_capability_of_the_adapter_is_tried(options):
    findings = check_model("mean-colour", options)
    assert {finding.capability for finding in findings} == {"ImageEncoder"}


def test_an_adapter_that_does_not_load_has_that_as_its_finding(options):
    (finding,) = check_model("will-not-load", options)
    assert (finding.what, finding.ok) == ("does not load", False)
    assert finding.why.startswith("OSError: no weights here (colours.py:")


@pytest.mark.parametrize(
    ("method", "what"),
    [("__init__(self, *, device)", "does not load"), ("preprocess(self, image)", "finite")],
)
def test_an_adapter_that_would_end_the_program_is_a_finding(options, capsys, method, what):
    rest = "    def preprocess(self, image): ...\n    def encode_images(self, pixels): ...\n"
    ends = f"    def {method}:\n        raise SystemExit(0)\n"
    file = write(options.include_path[0] / "mine.py", f"class Mine:\n{rest}{ends}")
    assert main(["check", f"{file}:Mine"]) == 1
    told = capsys.readouterr().out
    assert re.search(r"FAILED .*: SystemExit: 0 \(mine.py:5\) would end the program", told)
    assert what in told


def test_a_capability_that_is_begun_is_incomplete(options):
    methods = "def preprocess(self, image): ...\n    def encode_image(self, pixels): ...\n"
    write(options.include_path[0] / "mine.py", f"class Mine:\n    {methods}")
    (finding,) = check_model(f"{options.include_path[0]}/mine.py:Mine", options)
    assert finding[:3] == ("ImageEncoder", "is incomplete", False)
    assert finding.why == "encode_images is missing; did you misspell it as encode_image?"


def test_an_adapter_with_no_capability_is_told_what_one_wants(options):
    write(options.include_path[0] / "mine.py", "class Mine:\n    def embed(self, x): ...\n")
    (finding,) = check_model(f"{options.include_path[0]}/mine.py:Mine", options)
    assert (finding.what, finding.ok) == ("has no capability", False)
    assert finding.why == (
        "Mine has the methods of no capability; an ImageEncoder has "
        "preprocess(image: Image) -> Tensor and encode_images(pixels: Tensor) -> "
        "Tensor"
    )


def test_one_cause_is_printed_once_with_all_that_it_breaks(options):
    lines = lines_of(check_model("fails", options))
    failed = [line for line in lines if "the model broke" in line]
    assert len(failed) == 1
    assert failed[0].startswith("FAILED ImageEncoder: takes a grayscale image: RuntimeError: ")
    assert re.search(r"the model broke \(colours\.py:\d+\)$", failed[0])
    (rest,) = [line for line in lines if line.startswith("       ")]
    assert rest.startswith(
        "       the same problem breaks 9 more of ImageEncoder: takes an image once"
    )
    assert [line for line in lines if line.startswith("ok")] == [
        "ok     ImageEncoder: preprocess gives float32 [3, H, W] in [0, 1]"
    ]


def test_different_causes_have_a_line_each():
    lines = lines_of([
        PromiseCheck("A", "kept", ok=True, why=""),
        PromiseCheck("A", "finite", ok=False, why="2 of 4 values are NaN"),
        PromiseCheck("A", "first", ok=False, why="E: 1 (a.py:3)", cause="E a.py:3"),
        PromiseCheck("B", "second", ok=False, why="E: 2 (a.py:3)", cause="E a.py:3"),
        PromiseCheck("B", "third", ok=False, why="F: 2 (a.py:3)", cause="F a.py:3"),
        PromiseCheck("B", "finite", ok=False, why="2 of 4 values are NaN"),
    ])  # fmt: skip
    assert lines == [
        "ok     A: kept",
        "FAILED A: finite: 2 of 4 values are NaN",
        "       the same problem breaks 1 more of B: finite",
        "FAILED A: first: E: 1 (a.py:3)",
        "       the same problem breaks 1 more of B: second",
        "FAILED B: third: F: 2 (a.py:3)",
    ]


@pytest.mark.parametrize(("way", "ok"), [("crops", True), ("grid", False)])
def test_regions_are_tried_in_the_way_that_is_asked_for(options, way, ok):
    asked = Options(include_path=options.include_path, model_args={"encode_by": way})
    found = [one for one in check_model("raw-pixels", asked) if one.capability == "RegionEncoder"]
    assert {one.ok for one in found} == {ok}
    why = "GridEncoder, which encode_by=grid needs"
    assert ok or [one.why for one in found] == [f"the model has no {why}"]


WRONG_ARGUMENTS = [
    ("", "'' is not a name for a model"),
    ("\x01", "is not a name for a model"),
    ("a" * 5000, "is not a name for a model"),
    ("hf:", "'hf:' does not name a model; write hf:ORG/NAME"),
    ("timm:", "'timm:' does not name a model; write timm:NAME"),
    ("open_clip:", "'open_clip:' does not name a model; write open_clip:ARCHITECTURE/TAG"),
    ("file.py:", "no model is named 'file.py:'"),
    ("file.py:Nope", "no file file.py"),
    ("mine.py", "did you mean mine.py:Mine?"),
    ("mine.py:", "did you mean mine.py:Mine?"),
    ("mine.py:Mein", "'mine' has no 'Mein'; did you mean 'Mine'?"),
    ("raw-pixels,raw-pixels", "no model is named 'raw-pixels,raw-pixels'"),
    ("nonsense", "no model is named 'nonsense'"),
    ("*", "no model is named '*'"),
    ("zz*", "no available model matches 'zz*'"),
    (".", "did you mean hf:.?"),
    ("folder", "did you mean hf:./folder?"),
    ("task.yaml", "no model is named 'task.yaml'"),
]


@pytest.mark.parametrize(("name", "told"), WRONG_ARGUMENTS)
def test_a_wrong_argument_is_told_with_the_way_out(tmp_path, monkeypatch, capsys, name, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    write(tmp_path / "mine.py", "class Mine: ...\n")
    write(tmp_path / "task.yaml", TASK)
    assert main(["check", name]) == 2
    assert told in capsys.readouterr().err
