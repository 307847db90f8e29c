import pytest
from sources import make_source

from vlbench.commands.checking import check_model
from vlbench.errors import UnknownNameError
from vlbench.planning.options import Options


@pytest.fixture
def options(tmp_path):
    return Options(include_path=[make_source(tmp_path / "ours")])


def test_every_capability_of_the_adapter_is_tried(options):
    findings = check_model("mean-colour", options)
    assert {finding.capability for finding in findings} == {"ImageEncoder"}


def test_an_adapter_that_does_not_load_has_that_as_its_finding(options):
    (finding,) = check_model("will-not-load", options)
    assert (finding.what, finding.ok) == ("does not load", False)
    assert finding.why.startswith("OSError: no weights here (colours.py:")


def test_a_name_that_no_source_has_is_refused(options):
    with pytest.raises(UnknownNameError, match="did you mean mean-colour"):
        check_model("mean-color", options)
