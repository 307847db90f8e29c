import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import evaluate, planned, ran
from sources import TASK, make_source, write

from vlbench.cli import main
from vlbench.errors import DataError, SpecError

# An adapter that says where its weights are, in a source whose images nobody can read. As a library
# does, it finds the file of a name; a path would count by its content.
ADAPTER = """\
from pathlib import Path

import torch
from vlbench.errors import CannotDo, WeightsError


class FromFile:
    def __init__(self, *, device, dtype=torch.float32, weights: str = "absent", tag: str = ""):
        self.require_weights(weights)
        self.scale = torch.ones(1)

    @staticmethod
    def require_weights(weights):
        if not Path(f"{weights}.pt").is_file():
            raise WeightsError(f"no file {weights}.pt")

    def preprocess(self, image):
        return torch.zeros(3, 2, 2)

    def encode_images(self, pixels):
        return pixels.flatten(1) * self.scale


class Asks(FromFile):
    @staticmethod
    def require_weights(tag):
        raise CannotDo("not this checkpoint") if tag else KeyError("tag")


class Strange(FromFile):
    @staticmethod
    def require_weights(wieghts):
        pass
"""
MODELS = """\
from-file: {adapter: "files:FromFile"}
other: {adapter: "files:FromFile", params: {weights: other}}
cannot: {adapter: "files:Asks", params: {tag: cannot}}
breaks: {adapter: "files:Asks"}
strange: {adapter: "files:Strange"}
colours: {adapter: "colours:MeanColour"}
"""
PROBE = """\
from vlbench.capabilities import ImageEncoder
from vlbench.results import Outcome, Score

def looks(model: ImageEncoder, data, engine, *, judge: ImageEncoder) -> Outcome:
    return Outcome([Score("accuracy", 1.0, 1)])
"""
WITH_COMPANION = TASK.replace("probe: few_shot", 'probe: "judged:looks"').replace(
    "params: {shots: [1], trials: 2}", "params: {judge: other}"
)
LOADER = """\
from pathlib import Path
from vlbench.data.presence import begin_reading
from vlbench.data.image_folder import image_folder

def images(*, root: Path):
    if root.is_dir():
        begin_reading()
    if (root / "broken").exists():
        raise AssertionError("the data were read")
    return image_folder(root=root)
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = TASK.replace("vlbench.data.image_folder:image_folder", "mine:images")
    judged = WITH_COMPANION.replace("vlbench.data.image_folder:image_folder", "mine:images")
    source = make_source(tmp_path / "ours", few_shot_colours=task, judged=judged)
    write(source / "model_adapters" / "files.py", ADAPTER)
    write(source / "model_adapters" / "models.yaml", MODELS)
    write(source / "tasks" / "mine.py", LOADER)
    write(source / "tasks" / "judged.py", PROBE)
    return source


def statuses(source, *models, tasks=("few_shot_colours",), **options):
    jobs = planned(list(models), list(tasks), include_path=[source], **options).jobs
    return [(job.status, dict(job.missing)) for job in jobs]


ABSENT, OTHER = {"from-file": "no file absent.pt"}, {"other": "no file other.pt"}


def test_data_are_not_read_for_a_model_whose_weights_are_missing(files):
    write(files / "images" / "broken", "")
    assert statuses(files, "from-file") == [("failed", ABSENT)]
    Path("absent.pt").touch()
    assert statuses(files, "from-file") == [("failed", {})]


def test_the_weights_of_a_companion_are_missed_too(files):
    Path("absent.pt").touch()
    assert statuses(files, "from-file", tasks=["judged"]) == [("failed", OTHER)]


def test_a_kept_row_needs_no_weights(files, tmp_path):
    Path("absent.pt").touch()
    where = {"output": tmp_path / "boards", "cache_dir": tmp_path / "cache"}
    ran(["from-file"], ["few_shot_colours"], include_path=[files], **where)
    Path("absent.pt").unlink()
    assert statuses(files, "from-file", **where) == [("kept", {})]
    assert statuses(files, "from-file", **where, overwrite=True) == [("failed", ABSENT)]
    (files / "images" / "train" / "red" / "0.png").unlink()
    assert statuses(files, "from-file", **where) == [("failed", ABSENT)]


def test_missing_weights_have_failed_results_no_row_and_other_models_go_on(files, tmp_path):
    words = f"--tasks=few_shot_colours --include-path={files} --output={tmp_path / 'b'}".split()
    assert main(["--model=from-file,colours", *words]) == 1
    assert '"from-file"' not in (tmp_path / "b" / "few_shot_colours.json").read_text()
    (result,) = evaluate(files, "from-file")
    assert (result.status, result.reason) == ("failed", "from-file: no file absent.pt")


def test_absent_data_and_missing_weights_of_all_models_are_one_message(files):
    (files / "images").rename(files / "elsewhere")
    message = "few_shot_colours: image folder not found.*\nfrom-file: no file.*\nother: no file"
    with pytest.raises(DataError, match=message):
        planned(["from-file", "other"], ["few_shot_colours"], include_path=[files])


def test_a_dry_run_says_once_what_is_missing_and_for_which_tasks(files, capsys):
    words = f"--tasks=few_shot_colours,judged --include-path={files} --dry-run".split()
    assert main(["--model=from-file", *words]) == 0
    told = capsys.readouterr().out
    assert told.count("no weights: from-file: no file absent.pt") == 1
    assert told.count("no weights: other (for judged): no file other.pt") == 1


def test_an_error_of_an_adapter_is_a_reason_and_that_it_cannot_is_left_to_loading(files):
    assert statuses(files, "breaks") == [("failed", {"breaks": "KeyError: 'tag' (files.py:27)"})]
    assert statuses(files, "cannot") == [("run", {})]


def test_what_init_does_not_take_is_an_error_of_the_adapter(files):
    with pytest.raises(SpecError, match="require_weights takes wieghts; __init__ does not"):
        statuses(files, "strange")


def test_without_weights_and_network_all_tasks_end_before_anything_is_drawn(tmp_path):
    folders = {"HF_HOME": "hub", "XDG_CACHE_HOME": "cache", "TORCH_HOME": "torch"}
    environment = os.environ | {key: str(tmp_path / name) for key, name in folders.items()}
    environment.pop("VLBENCH_DATA", None)
    command = [sys.executable, "-m", "vlbench", "--model=clip-rn50", "--tasks=all"]
    ended = subprocess.run(
        [*command, f"--output={tmp_path / 'boards'}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    missing, nothing = ended.stderr.splitlines()
    assert missing == (
        "vlbench: clip-rn50 did not load: the weights of RN50-quickgelu, tag openai, cannot be "
        "downloaded from timm/resnet50_clip.openai/: this run is offline; give a local copy with "
        "--model-args weights=PATH,tag=openai"
    )
    assert nothing == "vlbench: nothing ran; see the reasons above"
    assert not (tmp_path / "cache" / "vlbench" / "scenes").exists()
