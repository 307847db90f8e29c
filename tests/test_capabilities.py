from types import SimpleNamespace
from typing import Protocol

import pytest

from vlbench import capabilities
from vlbench.capabilities import (
    Classifier,
    ImageEncoder,
    MaskedLanguageModel,
    SharedSpace,
    TextEncoder,
    capabilities_in,
    count_truncated,
    is_log_odds,
    offered,
    score_kind,
)
from vlbench.catalog.missing_capabilities import lacking
from vlbench.schema import alternatives


class DualEncoder(ImageEncoder, TextEncoder, SharedSpace, Protocol):
    """Several capabilities at once."""


class Counter(Protocol):
    """A capability that vlbench does not know of, and that is not runtime-checkable."""

    def count_things(self, image) -> int: ...


class Named(Protocol):
    name: str


class Sees:
    def preprocess(self, image): ...

    def encode_images(self, pixels): ...


class Reads:
    def encode_texts(self, texts): ...


class SeesAndReads(Sees, Reads):
    pass


class Compares(SeesAndReads):
    def similarity(self, images, texts): ...


class Counts(Sees):
    def count_things(self, image): ...


class Undone(Compares):
    encode_texts = None


ALL = capabilities_in(capabilities)


def test_the_capabilities_are_the_protocols_with_methods_of_their_own():
    assert len(ALL) == 18
    assert ALL[0] is ImageEncoder
    assert capabilities.DualEncoder not in ALL


def test_a_class_offers_what_it_has_all_methods_of():
    assert offered(Sees) == [ImageEncoder]
    assert offered(Compares) == [ImageEncoder, TextEncoder, SharedSpace]
    assert offered(object) == []


def test_a_capability_of_a_users_own_is_offered_beside_the_others():
    assert offered(Counts, others=[Counter]) == [ImageEncoder, Counter]
    assert offered(Counts, ["Counter"], [Counter]) == [ImageEncoder]
    assert offered(Sees, others=[Counter]) == [ImageEncoder]


def test_a_method_of_several_is_not_enough():
    class Half:
        def preprocess(self, image): ...

        def logits(self, pixels): ...

    assert offered(Half) == []


def test_what_a_line_is_without_is_not_offered():
    assert offered(Compares, ["TextEncoder"]) == [ImageEncoder, SharedSpace]


def test_a_method_that_is_set_to_none_is_not_offered():
    assert offered(Undone) == [ImageEncoder, SharedSpace]


def test_every_capability_can_be_offered_alone():
    bodies = [{m: print for m in vars(c) if m[0] != "_"} for c in ALL]
    found = [offered(type("Fake", (), body)) for body in bodies]
    assert all(capability in one for capability, one in zip(ALL, found, strict=True))


def test_runtime_checks_agree_with_what_is_offered():
    assert [c for c in ALL if issubclass(Compares, c)] == offered(Compares)


def test_a_composite_needs_all_its_parts():
    assert lacking(Compares, DualEncoder) == ""
    assert lacking(SeesAndReads, DualEncoder) == "SharedSpace"
    assert set(lacking(Sees, DualEncoder).split(" and ")) == {"TextEncoder", "SharedSpace"}


def test_one_alternative_is_enough():
    assert lacking(Reads, ImageEncoder | TextEncoder) == ""
    assert lacking(Sees, ImageEncoder | TextEncoder) == ""
    assert lacking(Sees, Classifier | TextEncoder) == "Classifier or TextEncoder"


def test_a_composite_may_be_an_alternative():
    lacks = lacking(Sees, DualEncoder | MaskedLanguageModel)
    assert lacks.endswith(" or MaskedLanguageModel")
    assert lacking(Compares, MaskedLanguageModel | DualEncoder) == ""


def test_a_list_of_models_asks_of_each_what_its_element_says():
    assert lacking(Sees, list[ImageEncoder]) == ""
    assert lacking(Reads, list[ImageEncoder] | None) == "ImageEncoder"


def test_what_a_line_is_without_is_lacking():
    assert lacking(Compares, DualEncoder, ["SharedSpace"]) == "SharedSpace"
    assert lacking(Compares, ImageEncoder | TextEncoder, ["ImageEncoder"]) == ""


def test_a_protocol_of_ones_own_is_checked_like_any_other():
    assert lacking(Counts, Counter) == ""
    assert lacking(Sees, Counter) == "Counter"
    assert lacking(Counts, Counter, ["Counter"]) == "Counter"


def test_a_model_of_any_kind_will_do_where_nothing_is_asked():
    assert lacking(object, int) == ""


def test_alternatives_are_the_parts_of_a_union():
    assert alternatives(ImageEncoder | None) == [ImageEncoder, type(None)]
    assert alternatives(ImageEncoder) == [ImageEncoder]


def test_texts_beyond_the_context_length_are_counted_where_the_model_can_say():
    reader = SimpleNamespace(
        context_length=2, count_tokens=lambda texts: [len(text.split()) for text in texts]
    )
    assert count_truncated(reader, ["a b", "a b c", "a b c d"]) == {"truncated_texts": 2}
    assert count_truncated(Reads(), ["a b c"]) == {}


class Matcher:
    def score_pairs(self, pictures, texts): ...


class Towers(Matcher):
    def similarity(self, images, texts): ...


class Logits(Matcher):
    score_kind = "logit"


@pytest.mark.parametrize(
    ("model", "kind"), [(Matcher(), "unstated"), (Towers(), "cosine"), (Logits(), "logit")]
)
def test_a_score_is_what_the_adapter_says_else_what_its_towers_say(model, kind):
    assert score_kind(model) == kind


def test_logarithmic_scores_are_those_of_no_bounds():
    kinds = ["logit", "ranking_logit", "log_likelihood", "probability", "cosine", "votes"]
    assert [is_log_odds(kind) for kind in kinds] == [True] * 3 + [False] * 3
