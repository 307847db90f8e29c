import pytest

from vlbench.cli import main

HINTS = [
    (["leaderbord", "show"], "did you mean leaderboard?"),
    (["leaderboard", "biuld"], "did you mean build?"),
    (["build"], "did you mean vlbench leaderboard build?"),
    (["ls", "task"], "did you mean tasks?"),
    (["--modl", "a", "--taskss", "b"], "did you mean --model?; did you mean --tasks?"),
    (["ls", "tasks", "--jsn"], "did you mean --json?"),
    (["leaderboard", "show", "--outptu", "x"], "did you mean --output?"),
    (["items", "few_shot_scenes", "tiny-rn", "--format", "json"], "did you mean --json?"),
    (["leaderboard", "compare", "a", "b", "--json"], "did you mean --format?"),
]


@pytest.mark.parametrize(("words", "hint"), HINTS)
def test_a_word_that_is_not_known_is_an_error_with_what_was_meant(words, hint, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--zzz", "--split"])  # --split is not --limit
def test_a_word_that_is_like_no_other_gets_no_hint(word, capsys):
    with pytest.raises(SystemExit):
        main(["--model", "x", "--tasks", "y", word])
    told = capsys.readouterr().err
    assert f"unrecognized arguments: {word}" in told
    assert "did you mean" not in told


def test_a_library_alone_is_told_how_its_models_are_named(capsys):
    assert main(["--model", "open_clip", "--tasks", "few_shot_digits"]) == 2
    assert "'open_clip' is a library; a model of it is named open_clip:ARCH" in (
        capsys.readouterr().err
    )
