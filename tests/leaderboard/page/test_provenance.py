from planted_boards import result

from vlbench.leaderboard.page.provenance import facts_of, overridden


def row(**provenance):
    return result("m", provenance=provenance)


def test_what_holds_for_every_task_is_said_once_and_the_rest_names_its_tasks():
    rows = {"t": [row(weights="w", dtype="float32")], "u": [row(weights="w", dtype="float16")]}
    told = [("weights", "w", ""), ("dtype", "float32", "t"), ("dtype", "float16", "u")]
    assert [tuple(fact) for fact in facts_of(rows)] == told


def test_libraries_of_the_same_tasks_stand_together():
    libraries = {"torch": "2.0", "numpy": "2.4"}
    rows = {"t": [row(libraries=libraries)], "u": [row(libraries={**libraries, "scipy": "1"})]}
    told = [("libraries", "numpy 2.4, torch 2.0", ""), ("libraries", "scipy 1", "u")]
    assert [tuple(fact) for fact in facts_of(rows)] == told


def test_arguments_are_written_as_on_the_command_line():
    (fact,) = facts_of({"t": [row(params={"size": 8, "name": "x", "flip": True})]})
    assert fact.text == "size=8, name=x, flip=true"


def test_provenance_of_another_shape_is_shown_as_text():
    assert [fact.text for fact in facts_of({"t": [row(params=["<b>"], libraries=3)]})] == [
        "['<b>']"
    ]


def test_what_was_overridden_stands_in_brackets():
    assert overridden("clip-rn50[weights=random]") == "weights=random"
    assert (overridden("clip-rn50"), overridden("[x]")) == ("", "")
