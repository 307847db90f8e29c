import argparse
from pathlib import Path

from vlbench.commands.leaderboard.parser import add_words


def words_and_help():
    added = {}

    def add(name, about):
        added[name] = argparse.ArgumentParser(description=about)
        return added[name]

    add_words(add)
    return added


def test_each_word_has_a_module_that_answers_it():
    folder = Path(__file__).parents[3] / "vlbench" / "commands" / "leaderboard"
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "parser"}
    assert set(words_and_help()) == modules


def test_boards_are_looked_for_in_leaderboards():
    show = words_and_help()["show"].parse_args(["few_shot_digits"])
    assert (show.tasks, show.output) == (["few_shot_digits"], Path("leaderboards"))


def test_models_are_compared_on_the_boards_of_all_unless_tasks_are_named():
    given = words_and_help()["compare"].parse_args(["a", "b", "c"])
    assert (given.models, given.tasks, given.all_scores) == (["a", "b", "c"], None, False)
