import pytest

from vlbench.adapter_kit.prefix_lm import PlainPrompt, SharedImage
from vlbench.adapter_kit.runs import OneByOne
from vlbench.adapter_kit.shared_prefix import SharedPrefix
from vlbench.adapter_kit.vlm_families import family


@pytest.mark.parametrize(
    ("kind", "runner"),
    [("llava", SharedPrefix), ("paligemma", SharedImage), ("unheard_of", OneByOne)],
)
def test_a_type_shares_what_it_was_seen_to_share(kind, runner):
    assert family(kind).runner is runner
    assert (family(kind).form is PlainPrompt) == (kind == "paligemma")
