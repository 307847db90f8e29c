import pytest
from sources import MODELS, TASK, write

from vlbench.catalog.sources import shipped_source
from vlbench.cli import main
from vlbench.commands.validate import validate
from vlbench.errors import UnknownNameError


def told(source, text, name="few_shot_colours"):
    file = write(source / "tasks" / f"{name}.yaml", text)
    return validate([file])[file]


def test_what_is_shipped_is_right():
    found = validate([shipped_source() / "tasks", shipped_source() / "model_adapters"])
    assert {file.name: problem for file, problem in found.items() if problem} == {}
    assert {"few_shot.yaml", "data_sets.yaml"} <= {file.name for file in found}


def test_every_file_below_a_folder_is_looked_at(source):
    found = validate([source])
    assert found == {
        source / "model_adapters" / "models.yaml": "",
        source / "tasks" / "few_shot_colours.yaml": "",
    }


def test_a_task_that_extends_a_shipped_one_is_right_or_told_with_its_own_line(source):
    text = "version: 1\nextends: few_shot_digits\nparams: {shots: [1, 5]}\n"
    assert told(source, text, "mine") == ""
    wrong = told(source, text.replace("shots", "shot"), "mine")
    assert wrong.endswith("tasks/mine.yaml:3: 'shot' is unknown; did you mean 'shots'?")
    assert "mine.yaml:2: no task is named" in told(source, text.replace("digits", "digit"), "mine")


def test_data_and_weights_need_not_be_there(source):
    assert told(source, TASK.replace("../images", "$VLBENCH_DATA/gone")) == ""


PROBLEMS = [
    ("version: 1", "version: one", 1, "'version' must be a whole number, not 'one'"),
    ("paper:", "papr:", 3, "'papr' is unknown; did you mean 'paper'?"),
    ("few_shot\n", "fewshot\n", 2, "no probe is named 'fewshot'; did you mean few_shot"),
    ("few_shot\n", "few_shot:fewshot\n", 2, "no 'fewshot'; did you mean 'few_shot'?"),
    ("image_folder:image", "image_foldr:image", 5, "did you mean 'image_folder'?"),
    ("root: ../images", "roots: x", 5, "'roots' is unknown; did you mean 'root'?"),
    ("root: ../images", "root: 5", 5, "'root' must be a path, not 5"),
    ("trials: 2", "trial: 2", 6, "'trial' is unknown; did you mean 'trials'?"),
    ("shots: [1]", "shots: [1.5]", 6, r"'shots[0]' must be a whole number, not 1.5"),
    ("trials: 2", "trials: true", 6, "'trials' must be a whole number, not true"),
    ("shots: [1], ", "", 6, "'shots' is missing"),
    ("trials: 2", "trials: -2", 6, "'trials' must be a whole number of at least 1, not -2"),
    ("shots: [1]", "shots: [0]", 6, "'shots[0]' must be a whole number of at least 1, not 0"),
    ("{shots: 1}", "{shots: 99}", 7, "'primary.at.shots' must be one of 1, not 99"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), PROBLEMS)
def test_a_problem_is_told_with_file_and_line(source, old, new, line, message):
    problem = told(source, TASK.replace(old, new))
    assert f"few_shot_colours.yaml:{line}: " in problem
    assert message in problem


COUNTS_AND_CONDITIONS = [
    ("knn_images", "primary: {metric: accuracy, at: {k: 6}}", "k' must be one of 1, 5, 20,"),
    ("transfer_cifar10", "params: {training: {epochs: 0}}", "epochs' must be a whole number"),
    ("robustness_scenes", "params: {sample: {images: -1}}", "images' must be a whole number"),
    ("patch_retrieval_scenes", "primary: {metric: recall, at: {k: 7}}", "k' must be one of"),
    ("entity_grounding_scenes", "params: {images: 0}", "at least 1 or null, not 0"),
]


@pytest.mark.parametrize(("base", "changed", "problem"), COUNTS_AND_CONDITIONS)
def test_counts_and_conditions_of_defaults_are_checked(source, base, changed, problem):
    assert problem in told(source, f"version: 1\nextends: {base}\n{changed}\n", "mine")


def test_a_lost_condition_that_was_taken_over_is_told_with_the_parameters(source):
    problem = told(source, "version: 1\nextends: few_shot_digits\nparams: {shots: [1]}\n", "mine")
    assert problem.endswith("tasks/mine.yaml:3: 'primary.at.shots' must be one of 1, not 5")


def test_a_condition_that_is_a_word_or_of_no_list_is_not_in_doubt(source):
    at = "primary: {metric: accuracy_unseen, at: {objects: all, mine: 7}}"
    assert (
        told(source, f"version: 1\nextends: zero_shot_alignment_regions_scenes\n{at}\n", "mine")
        == ""
    )


def test_all_problems_of_a_task_are_told(source):
    problem = told(source, TASK.replace("trials: 2", "trial: 2").replace("root:", "roots:"))
    assert [line.rpartition(": ")[2] for line in problem.splitlines()] == [
        "'trial' is unknown; did you mean 'trials'?",
        "'roots' is unknown; did you mean 'root'?",
    ]


def test_a_file_outside_a_source_is_looked_at_alone(tmp_path):
    file = write(tmp_path / "zz.yaml", TASK)
    assert validate([file]) == {file: ""}


def test_a_file_that_is_no_yaml_is_told(source):
    assert "not YAML" in told(source, "a: [\n")


def test_a_folder_without_yaml_files_is_told(tmp_path):
    with pytest.raises(UnknownNameError, match=r"contains no file that ends in \.yaml"):
        validate([tmp_path])


def test_a_folder_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(UnknownNameError, match=r"cannot be read: Permission denied"):
        validate([tmp_path])


def test_a_file_that_ends_in_yml_is_told(source):
    file = write(source / "tasks" / "other.yml", TASK)
    assert validate([source])[file] == f"{file}: this file is not read; rename it other.yaml"


def test_a_reference_to_a_model_that_nobody_lists_is_told_with_its_line(source):
    published = "reference:\n- {model: mean-colour, metric: m, value: 1, where: here}\n"
    published += "- {model: gone, metric: m, value: 1, where: here}\n"
    published += "- {model: mean-color, metric: m, value: 1, where: here}\n"
    problem = told(source, TASK + published)
    (line,) = problem.splitlines()
    assert "few_shot_colours.yaml:11: no model is named 'mean-color'; did you mean mean-c" in line


def test_the_problem_of_one_file_is_not_told_of_another(source):
    right = source / "tasks" / "few_shot_colours.yaml"
    wrong = write(source / "tasks" / "zz_wrong.yaml", "papr: x\n")
    found = validate([source / "tasks"])
    assert (found[right], "'papr' is unknown" in found[wrong]) == ("", True)


def test_a_group_of_nothing_known_is_told(tmp_path):
    file = write(tmp_path / "zz_group.yaml", "group: [zz_nowhere]\n")
    assert "zz_nowhere" in validate([file])[file]


NO_FUNCTIONS = [
    ('"vlbench.data.image_folder:image_folder"', "5"),
    ('"vlbench.data.image_folder:image_folder"', '"math:pi"'),
    ("few_shot\n", "os.path:sep\n"),
    ("{shots: [1], trials: 2}", "{shots: [1], 2: 3}"),
]


@pytest.mark.parametrize(("old", "new"), NO_FUNCTIONS)
def test_what_names_no_function_is_told_with_its_line(source, old, new):
    assert "few_shot_colours.yaml:" in told(source, TASK.replace(old, new))


ASKS = "from vlbench.capabilities import TextEncoder\n"
ASKS += "def zz_look(model, data, engine, *, other: TextEncoder): ...\n"


@pytest.mark.parametrize(
    ("file", "probe", "params", "message"),
    [
        ("tasks", "def zz_look(model, data, engine, *, k: int): ...\n", "{k: x}",
         ":6: 'k' must be a whole number, not 'x'"),
        ("probes", "import zz_nowhere\n", "{k: x}",
         "'zz_look' cannot be imported: ModuleNotFoundError: No module named 'zz_n"),
        ("probes", ASKS, "{other: wrds}", ":6: no model is named 'wrds'; did you mean words?"),
        ("probes", ASKS, "{other: mean-colour}", ":6: mean-colour has no TextEncoder"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_of_a_probe_of_ones_own_is_told(source, file, probe, params, message):
    write(source / file / "zz_look.py", probe)
    task = TASK.replace("few_shot\n", "zz_look\n").replace("{shots: [1], trials: 2}", params)
    assert message in told(source, task)


NEW = "new: {adapter: 'colours:MeanColour'}\n"


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        (MODELS + "wrong: {adapter: 'colours:MeanColour', params: {shft: 1}}\n",
         ["models.yaml:6: wrong: 'shft' is unknown; did you mean 'shift'?"]),
        ("one: {adapter: 'colours:Colour'}\ntwo: {adapter: 'nowhere:A'}\n",
         [":1: 'colours' has no 'Colour'", ":2: no module is named 'nowhere'"]),
        ("gone: {unavailable: 'withdrawn'}\n", []),
        (NEW + "old: {renamed: nwe}\n", ["models.yaml:2: no model is named"]),
        (NEW + "old: {renamed: new}\n", []),
    ],
)  # fmt: skip
def test_all_wrong_models_of_a_file_are_told_with_their_lines(source, lines, problems):
    file = write(source / "model_adapters" / "models.yaml", lines)
    found = validate([file])[file].splitlines()
    assert [part in line for part, line in zip(problems, found, strict=True)] == [True] * len(found)


CLAIMS = (
    "findings: [{finding: a, model: m, task: few_shot_colours, metric: accuracy, within: [0, 1]}]\n"
)
MISSPELT = CLAIMS.replace("few_shot_colours", "few_shot_colors")


WRONG_FINDINGS = [
    ("ours", CLAIMS, ""),
    ("ours", MISSPELT, "ours.yaml:1: no task is named 'few_shot_colors'; did you mean"),
    ("vsep", CLAIMS, f"findings 'vsep' is in {shipped_source()}"),
]


@pytest.mark.parametrize(("name", "text", "problem"), WRONG_FINDINGS)
def test_findings_are_looked_at_too(source, name, text, problem):
    file = write(source / "tasks" / "findings" / f"{name}.yaml", text)
    found = validate([file])[file]
    assert (problem in found, bool(found)) == (True, bool(problem))


def test_functions_of_strangers_are_refused_unless_trusted(source):
    file = write(
        source / "tasks" / "few_shot_colours.yaml",
        TASK.replace("few_shot", "xml.dom:getDOMImplementation"),
    )
    assert "'xml.dom:getDOMImplementation' is not trusted" in validate([file])[file]
    assert "is not trusted" not in validate([file], trust=True)[file]


@pytest.mark.parametrize(
    ("metric", "near"), [("acuracy", "'accuracy'"), ("acc", "'accuracy'"), ("brand_new", "")]
)
def test_a_metric_that_no_other_task_has_is_asked_about(source, capsys, metric, near):
    file = write(source / "tasks" / "a.yaml", TASK.replace("accuracy", metric))
    assert main(["validate", str(file)]) == 0
    question = (
        f", but no other task has the metric '{metric}'; did you mean {near}?" if near else ""
    )
    assert capsys.readouterr().out == f"{file}: ok{question}\n"
