from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from runs import evaluate, planned, ran
from sources import TASK, make_source, write

from vlbench.errors import SpecError, UnknownNameError
from vlbench.run.task import loader_names, metrics_of_others, paths_in, require_known, resolve_paths

FILE = Path("/source/tasks/t.yaml")


class Inner(NamedTuple):
    weights: Path | None = None
    rate: float = 0.1


@dataclass(frozen=True)
class Outer:
    inner: Inner
    files: list


OUTER = Outer(Inner(Path("w")), [Path("../a"), "b"])


def test_relative_paths_lie_beside_their_file_at_any_depth():
    assert resolve_paths(FILE, Path("/whole")) == Path("/whole")
    assert resolve_paths(FILE, Path("$VLBENCH_DATA/x")) == Path("$VLBENCH_DATA/x")
    placed = resolve_paths(FILE, OUTER)
    assert placed == Outer(Inner(FILE.parent / "w"), [FILE.parent / "../a", "b"])
    assert resolve_paths(FILE, Inner(None)) == Inner(None)
    assert resolve_paths(FILE, Outer(Inner(), (1, Path("c")))).files == (1, FILE.parent / "c")


def test_paths_are_found_under_dotted_keys():
    assert dict(paths_in(OUTER, "a")) == {"a.inner.weights": Path("w"), "a.files.0": Path("../a")}


def test_a_script_of_evaluate_is_a_file_beside_the_task_and_its_metrics_need_trust():
    metrics = ["cider", "evaluate:bleu", "evaluate:ours/near.py"]
    placed = resolve_paths(FILE, metrics)
    assert placed == [*metrics[:2], f"evaluate:{FILE.parent}/ours/near.py"]
    assert dict(paths_in(placed, "metrics")) == {"metrics.2": FILE.parent / "ours/near.py"}
    assert metrics_of_others(Outer(Inner(), metrics)) == metrics[1:]


PROBE = """\
from pathlib import Path
from vlbench.results import Outcome, Score

def length(model, data, engine, *, file: Path | None = None):
    value = float(len(file.read_text()))
    return Outcome(scores=[Score(metric="length", value=value, n=3, unit="words")])
"""


@pytest.fixture
def source(tmp_path):
    ours = make_source(tmp_path / "ours")
    write(ours / "tasks" / "mine.py", PROBE)
    text = TASK.replace("probe: few_shot", 'probe: "mine:length"')
    text = text.replace("{metric: accuracy, at: {shots: 1}}", "{metric: length}")
    write(ours / "tasks/b.yaml", text.replace("{shots: [1], trials: 2}", "{file: ../names.txt}"))
    (ours / "names.txt").write_text("four")
    return ours


@pytest.mark.parametrize("by_default", [False, True])
def test_a_file_of_a_task_lies_beside_it_and_counts_by_its_content(source, tmp_path, by_default):
    if by_default:
        probe = PROBE.replace("Path | None = None", f"Path = Path({str(source)!r}) / 'names.txt'")
        write(source / "tasks" / "mine.py", probe)
        task = (source / "tasks/b.yaml").read_text()
        write(source / "tasks/b.yaml", task.replace("{file: ../names.txt}", "{}"))
    where = {"include_path": [source], "output": tmp_path / "boards"}
    (first,) = ran(["mean-colour"], ["b"], **where).results
    assert first.scores[0].value == 4
    assert planned(["mean-colour"], ["b"], **where).jobs[0].status == "kept"
    (source / "names.txt").write_text("three")
    (second,) = ran(["mean-colour"], ["b"], **where).results
    assert second.scores[0].value == 5
    assert first.comparable != second.comparable


def test_a_file_of_the_data_folder_is_found_there(source, tmp_path):
    task = source / "tasks/b.yaml"
    task.write_text(task.read_text().replace("../names.txt", "$VLBENCH_DATA/n.txt"))
    (tmp_path / "n.txt").write_text("sixsix")
    (result,) = evaluate(source, tasks="b", data_dir=tmp_path)
    assert result.scores[0].value == 6


def test_a_file_that_is_not_there_makes_a_task_unavailable(source):
    (source / "names.txt").unlink()
    job = planned(["mean-colour"], ["ours"], include_path=[source]).jobs
    absent = next(one for one in job if one.task.spec.name == "b")
    assert absent.status == "unavailable"
    assert "what 'file' of the task names not found" in absent.reason


def test_a_task_with_a_metric_of_others_is_refused_without_trust(source):
    probe = (
        "\ndef told(model, data, engine, *, metrics: list[str]):\n    raise ValueError(metrics)\n"
    )
    write(source / "tasks" / "telling.py", probe)
    text = (source / "tasks/b.yaml").read_text().replace("mine:length", "telling:told")
    text = text.replace("{file: ../names.txt}", "{metrics: [evaluate:bleu]}")
    write(source / "tasks" / "b.yaml", text)
    message = r"evaluate:bleu runs other people's code; allow it with --tr"
    with pytest.raises(SpecError, match=message):
        evaluate(source, tasks="b")
    assert evaluate(source, tasks="b", trust=True)[0].status == "failed"


# A metric shipped with a task, and a probe that scores by it.
METRIC = """\
import datasets
import evaluate

class Words(evaluate.Metric):
    def _info(self):
        word = datasets.Value("string")
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="",
            features=datasets.Features({"predictions": word, "references": word}),
        )

    def _compute(self, predictions, references):
        return {"words": sum(len(text.split()) for text in predictions)}
"""
SCORING = """\
from vlbench.capabilities import ImageEncoder
from vlbench.metrics.captions import CaptionMetrics
from vlbench.results import Outcome, Score

def told(model: ImageEncoder, data, engine, *, metrics: list[str]) -> Outcome:
    with CaptionMetrics(metrics, words=None) as scored:
        (found,) = scored({1: ["a red dog"], 2: ["a cat"]}, {1: ["x"], 2: ["y"]}).values()
    return Outcome([Score("length", found.estimate.value, 2, unit="words")])
"""


@pytest.fixture
def scored(source):
    write(source / "tasks" / "telling.py", SCORING)
    write(source / "tasks" / "words.py", METRIC)
    text = (source / "tasks/b.yaml").read_text().replace("mine:length", "telling:told")

    def run(script, **options):
        named = text.replace("{file: ../names.txt}", f"{{metrics: ['evaluate:{script}']}}")
        write(source / "tasks" / "b.yaml", named)
        return evaluate(source, tasks="b", **options)

    return run


@pytest.mark.filterwarnings("ignore")
def test_a_metric_shipped_with_a_task_is_trusted_as_its_probe_is(scored):
    (result,) = scored("words.py")
    assert result.reason == ""
    assert (result.status, result.scores[0].value) == ("ok", 5)


@pytest.mark.parametrize("script", ["../words.py", "linked.py", "$VLBENCH_DATA/words.py"])
def test_a_script_that_lies_elsewhere_is_not(scored, source, script, monkeypatch):
    monkeypatch.setenv("VLBENCH_DATA", str(source))
    write(source / "words.py", METRIC)
    (source / "tasks" / "linked.py").symlink_to(source / "words.py")
    message = r"words.py|linked.py runs other people's code; allow it with"
    with pytest.raises(SpecError, match=message):
        scored(script)


HUB, TABLE = "vlbench.data.hub:images", "vlbench.data.table:images"


def test_a_loader_has_a_whole_name_a_short_one_and_that_of_its_function():
    assert loader_names(HUB) == (HUB, "hub:images", "images")
    assert loader_names("mine:read") == ("mine:read", "mine:read", "read")


@pytest.mark.parametrize("name", ["", "a", "b", "hub:images", HUB, "table:images"])
def test_a_task_or_one_loader_is_known(name):
    require_known([name], {"a": HUB, "b": TABLE})


def test_a_name_of_one_loader_that_several_tasks_read_is_clear():
    require_known(["images"], {"a": HUB, "b": HUB})


REFUSED = [
    ("images", [HUB, TABLE], r"images=DIR: .* hub:images, table:images; give"),
    (
        "hub:images",
        ["one.hub:images", "two.hub:images"],
        r"are one\.hub:images, two\.hub:images; give",
    ),
    ("tabel:images", [TABLE], "named 'tabel:images'; did you mean table:images"),
    ("few_shot", [HUB], "a selected task or of its loader, not a ta"),
]


@pytest.mark.parametrize(("name", "loaders", "message"), REFUSED)
def test_a_name_of_no_one_task_or_loader_is_refused(name, loaders, message):
    with pytest.raises(UnknownNameError, match=message):
        require_known([name], dict(zip(["few_shot_cub", "b"], loaders, strict=False)))


def test_a_loaders_short_name_says_where_its_data_lie(tmp_path):
    source = make_source(tmp_path / "theirs")
    moved = (source / "images").rename(tmp_path / "elsewhere")
    for name in ("image_folder:image_folder", "vlbench.data.image_folder:image_folder"):
        (result,) = evaluate(source, data_dir={name: moved})
        assert result.status == "ok"
