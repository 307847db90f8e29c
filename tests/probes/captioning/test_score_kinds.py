import pytest

from vlbench.probes.captioning.score_kinds import score_kind


class Matcher:
    def score_pairs(self, pictures, texts): ...


class Towers(Matcher):
    def similarity(self, images, texts): ...


class Logits(Matcher):
    score_kind = "logit"


@pytest.mark.parametrize(
    ("model", "kind"), [(Matcher(), "probability"), (Towers(), "cosine"), (Logits(), "logit")]
)
def test_a_score_is_what_the_adapter_says_else_what_its_towers_say(model, kind):
    assert score_kind(model) == kind
