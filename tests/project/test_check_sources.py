import importlib
from pathlib import Path

import pytest
from sources import make_source


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
    return importlib.import_module("check_sources")


@pytest.mark.nightly
def test_what_loads_is_counted_and_what_does_not_is_named_with_the_reason(script, tmp_path, capsys):
    source = make_source(tmp_path / "ours")
    words = ["--only", "w[io]*", "--include-path", str(source)]
    assert script.main(words) == 1
    told = capsys.readouterr().out
    assert told.startswith("1 of 2 sources load.")
    assert "## No longer loads\n\n- model `will-not-load`: " in told
    assert "no weights here" in told


def test_data_that_can_be_downloaded_are_tried_once_each(script):
    from vlbench.catalog.catalog import load_catalog
    from vlbench.run.options import Options

    names = [name for _, name, _ in script._data(load_catalog(), Options())]
    assert len([name for name in names if name.endswith("_cifar10")]) == 1
    assert len([name for name in names if name.endswith("_svhn")]) == 1
    assert not [name for name in names if name.endswith("_cub")]


def test_what_is_fetched_by_hand_is_listed_and_is_no_failure(script, monkeypatch, capsys):
    by_hand = script.Tried("model", "a", ok=False, said="a.pt is absent; put it at b/a.pt")
    monkeypatch.setattr(script, "_try", lambda *_: by_hand)
    assert script.main(["--only", "raw-pixels"]) == 0
    assert "## Fetched by hand\n\n- model `a`" in capsys.readouterr().out


def test_the_smallest_row_of_each_paper_is_run(script):
    from vlbench.catalog.catalog import load_all_findings, load_catalog

    papers = load_all_findings(load_catalog())
    commands = {name: words for _, name, words in script._papers(papers)}
    assert commands.keys() == papers.keys()
    assert commands["vsep"][:4] == ["papers", "vsep", "--rows", "1"]
