import pytest

from vlbench.cli import main


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["leaderbord", "show"], "did you mean leaderboard?"),
        (["leaderboard", "biuld"], "did you mean build?"),
        (["ls", "task"], "did you mean tasks?"),
        (["--modl", "a", "--taskss", "b"], "did you mean --model?; did you mean --tasks?"),
        (["--model", "a", "--tasks", "b", "--log_samples"], "`vlbench items TASK MODEL` lists"),
        (["--model", "a", "--tasks", "b", "--output_path=x"], "--output DIR says where boards go"),
        (["ls", "tasks", "--jsn"], "did you mean --json?"),
        (["leaderboard", "show", "--outptu", "x"], "did you mean --output?"),
    ],
)
def test_a_word_that_is_not_known_is_an_error_with_what_was_meant(words, hint, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err


def test_a_word_that_is_like_no_other_gets_no_hint(capsys):
    with pytest.raises(SystemExit):
        main(["ls", "tasks", "--zzz"])
    told = capsys.readouterr().err
    assert "unrecognized arguments: --zzz" in told
    assert "did you mean" not in told
