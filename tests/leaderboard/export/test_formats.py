import argparse

from vlbench.commands.leaderboard.parser import add_words
from vlbench.leaderboard.export.formats import FOLDERS, TEXTS


def test_the_command_offers_every_format():
    added = {}

    def add(name, about):
        added[name] = argparse.ArgumentParser(description=about)
        return added[name]

    add_words(add)
    (option,) = [one for one in added["export"]._actions if one.dest == "format"]
    assert set(option.choices) == {*TEXTS, *FOLDERS}


def test_no_format_is_both_a_text_and_a_folder():
    assert set(TEXTS) & set(FOLDERS) == set()
