import pytest

from vlbench.cli import main
from vlbench.commands.parser import parser_of


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["leaderbord", "show"], "did you mean leaderboard?"),
        (["leaderboard", "biuld"], "did you mean build?"),
        (["build"], "did you mean vlbench leaderboard build?"),
        (["judge", "sheets"], "did you mean vlbench leaderboard rate?"),
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


RUN = ["--tasks", "few_shot_digits"]


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["--model", "hf", "--model_args", "pretrained=gpt2", *RUN], "--model hf:gpt2"),
        (["--model=hf-multimodal", "--model-args=pretrained=o/n", *RUN], "--model hf:o/n"),
        (["run", "--model", "timm", "--model_args", "pretrained=vit", *RUN], "--model timm:vit"),
        (
            ["--model", "hf", "--model_args", "pretrained=o/n,revision=ab,dtype=float16,x=1", *RUN],
            "--model hf:o/n@ab --model-args x=1",
        ),
    ],
)
def test_a_model_in_lm_evals_words_is_told_as_the_command_to_type(words, typed, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    *_, so, line = capsys.readouterr().err.splitlines()
    dtype = " --dtype float16" if "float16" in str(words) else ""
    assert (so, line) == ("so type:", f"  vlbench {typed} --tasks few_shot_digits{dtype}")


@pytest.mark.parametrize(
    ("habits", "ours"),
    [
        (["--log_samples", "--output_path", "my boards"], "--output 'my boards'"),
        (["--use_cache=there", "--verbosity", "INFO", "--offline"], "--cache-dir there --offline"),
        (["--dataset_root", "x", "--data-dir", "y=z"], "--data-dir x --data-dir y=z"),
    ],
)
def test_options_of_other_tools_become_the_command_to_type(habits, ours, capsys):
    with pytest.raises(SystemExit):
        main(["--model", "tiny-clip", *RUN, *habits])
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"  vlbench --model tiny-clip --tasks few_shot_digits {ours}"


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "tiny-clip", *RUN, "--num_fewshot", "5"],
        ["--model", "tiny-clip", *RUN, "--output_path", "x", "--zzz"],
        ["leaderboard", "show", "--output_path", "x"],
    ],
)
def test_what_has_no_like_here_makes_no_command(words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert "so type" not in capsys.readouterr().err


def test_the_command_that_is_told_is_understood():
    told = "--model hf:gpt2 --tasks few_shot_digits --output out --dtype float16"
    arguments = parser_of().parse_args(["run", *told.split()])
    assert (arguments.model, arguments.dtype) == ("hf:gpt2", "float16")


def test_a_library_alone_is_told_how_its_models_are_named(capsys):
    assert main(["--model", "open_clip", *RUN]) == 2
    assert "'open_clip' is a library; a model of it is named open_clip:ARCH" in (
        capsys.readouterr().err
    )
