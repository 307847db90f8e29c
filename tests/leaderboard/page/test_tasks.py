from vlbench.catalog.specs import load_task
from vlbench.leaderboard.page.tasks import departures_of, paper_of, settings_of

TASK = """version: 1
description: Words
# Departure: ours instead
# of theirs.
probe: few_shot
data: {loader: "x:y", root: /home/ada/pictures}
# The paper gives no seed.
params: {seed: 0}
primary: {metric: accuracy}
"""


def spec(folder):
    (folder / "t.yaml").write_text(TASK)
    (found,) = load_task(folder / "t.yaml", folder)
    return found


def test_the_comments_of_a_task_are_its_departures(tmp_path):
    told = ["Departure: ours instead of theirs.", "The paper gives no seed."]
    assert departures_of(spec(tmp_path)) == told


def test_the_settings_name_no_folder_of_the_machine(tmp_path):
    text = settings_of(spec(tmp_path))
    assert "root: pictures" in text
    assert "ada" not in text
    assert "description" not in text


def test_a_task_that_no_catalog_knows_has_neither():
    assert (departures_of(None), settings_of(None)) == ([], "")


def test_a_paper_is_named_without_the_place_in_it():
    assert paper_of("arXiv:2104.08313, section 3.1") == "arXiv:2104.08313"
