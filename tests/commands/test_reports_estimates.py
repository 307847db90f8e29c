from io import StringIO

import pytest
from rich.console import Console

from vlbench.commands.reports import between, lasting, print_estimates, size
from vlbench.run.history import LOADING, PastCost, Step

STEPS = [
    Step("tiny-clip", LOADING, PastCost(4.0, 6.1, 820.0, 0.0)),
    Step("tiny-clip", "few_shot_digits", PastCost(0.74, 56.4, 936.0, 0.388)),
    Step("tiny-clip", "transfer_digits", PastCost(8.4, 8.41, 1300.0, 0.2), others=1),
    Step("tiny-clip", "clustering_digits", PastCost(70.0, 90.0, 10.0, 0.0), others=3),
]
UNKNOWN = Step("tiny-clip", "object_label_alignment_regions_scenes", None)


def printed(steps, device="cpu", width=200, *, verbose=False):
    console = Console(file=StringIO(), width=width)
    print_estimates(console, steps, device, verbose=verbose)
    return console.file.getvalue().splitlines()


def test_one_line_tells_the_sum_of_all_steps_and_how_many_it_counts():
    (line,) = printed([*STEPS, UNKNOWN])
    assert line == (
        "estimate of 4 of 5 steps, from earlier runs here: 1.4 to 2.7 min, memory up to 1.3 GB per "
        "process, cache up to 0.6 MB"
    )
    assert printed(STEPS)[0].startswith("estimate of all steps, ")


def test_each_step_is_told_besides_if_asked_for():
    assert printed([*STEPS, UNKNOWN], verbose=True)[:-1] == [
        "tiny-clip · loading: 4.0 to 6.1 s",
        "tiny-clip · few_shot_digits: 0.7 to 56 s",
        "tiny-clip · transfer_digits: 8.4 s (of 1 other model)",
        "tiny-clip · clustering_digits: 1.2 to 1.5 min (of 3 other models)",
        "tiny-clip · object_label_alignment_regions_scenes: no estimate",
    ]


def test_where_nothing_is_known_no_number_is_told():
    (line,) = printed([UNKNOWN])
    assert line == "no estimate of time, memory and disk: no earlier run here did any of this"
    assert len(line) <= 80


def test_a_plan_that_runs_nothing_is_not_estimated():
    assert printed([]) == []


def test_the_memory_of_a_gpu_is_called_so():
    assert "GPU memory up to 1.3 GB per process" in printed(STEPS, device="cuda")[0]


def test_a_name_that_would_change_the_terminal_is_spelled_out():
    text = "\n".join(printed([Step("[red]\x1b[31m", "t", STEPS[0].past)], verbose=True))
    assert r"[red]\x1b[31m · t: 4.0 to 6.1 s" in text


def test_a_narrow_terminal_breaks_no_word():
    words = {word for line in printed([*STEPS, UNKNOWN]) for word in line.split()}
    assert {word for line in printed([*STEPS, UNKNOWN], width=60) for word in line.split()} == words


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1.0 min"),
        (569.0, "9.5 min"),
        (600.0, "10 min"),
        (3541.0, "59 min"),
        (3600.0, "1.0 h"),
        (36_000.0, "10 h"),
    ],
)
def test_seconds_are_told_in_the_unit_that_one_would_say_them_in(seconds, told):
    assert lasting(seconds) == told


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [(2, 8, "2.0 to 8.0 s"), (50, 180, "50 s to 3.0 min"), (5, 5.01, "5.0 s")],
)
def test_a_range_names_a_unit_that_both_ends_share_once(least, most, told):
    assert between(least, most) == told


@pytest.mark.parametrize(
    ("megabytes", "told"),
    [(0.0, "0.0 MB"), (9.96, "10 MB"), (999.4, "999 MB"), (999.6, "1.0 GB"), (20480.0, "20 GB")],
)
def test_megabytes_are_told_as_mb_or_gb(megabytes, told):
    assert size(megabytes) == told
