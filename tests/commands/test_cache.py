import json

import pytest
import torch

from vlbench.cli import main
from vlbench.engine.store import Store


@pytest.fixture
def cache(tmp_path):
    store = Store(tmp_path / "features")
    for model in ("first", "second"):
        key = f"sha256:{model}"
        store.describe(key, {"models": [model], "what": "features", "data": "vlbench.data.coco:c"})
        store.save(key, "000000", {"values": torch.zeros(1_000_000)})
    return tmp_path


def run(cache, *words):
    return main(["cache", *words, f"--cache-dir={cache}"])


def test_the_listing_has_a_line_for_each_model_and_the_sum(cache, capsys):
    assert run(cache) == 0
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    assert ["first", "coco:c", "features", "4.0", "MB", "0", "min", "ago"] in lines
    assert f"8.0 MB in {cache}; to remove entries: vlbench cache prune --help" in printed
    assert run(cache, "--json") == 0
    assert [one["data"] for one in json.loads(capsys.readouterr().out)] == [
        "vlbench.data.coco:c"
    ] * 2


def test_pruning_says_what_would_go_and_then_removes_it(cache, capsys):
    assert run(cache, "prune", "--model=first", "--dry-run") == 0
    assert f"4.0 MB would be removed from {cache}; nothing was" in capsys.readouterr().out
    assert run(cache, "prune", "--model=first") == 0
    assert capsys.readouterr().out == f"removed 4.0 MB from {cache}, 4.0 MB left\n"
    assert run(cache, "prune", "--to=1MB", "--older=2w") == 0
    assert capsys.readouterr().out == f"removed 0.0 kB from {cache}, 4.0 MB left\n"
    assert run(cache, "prune", "--to=1MB") == 0
    assert run(cache) == 0
    assert capsys.readouterr().out.endswith(f"{cache} is empty\n")


REFUSED = [
    (["prune"], "pass what to remove: --older 30d, --model NAME or --to 50GB"),
    (["--older=2d"], "--older is for `vlbench cache prune`"),
    (["prune", "--json"], "--json is for `vlbench cache show`"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED)
def test_what_cannot_be_meant_is_refused(cache, capsys, words, why):
    assert run(cache, *words) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--older=5", "--older=5 years", "--to=3", "--to=GB"])
def test_an_age_and_a_size_need_their_units(cache, capsys, word):
    with pytest.raises(SystemExit, match="2"):
        run(cache, "prune", word)
    assert "is not of the form" in capsys.readouterr().err
