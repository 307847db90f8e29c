from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pytest

from vlbench import capabilities
from vlbench.capabilities import Classifier, ImageEncoder, MaskedLanguageModel, TextEncoder
from vlbench.catalog.missing_capabilities import half_offered, half_offered_by, lacking, signatures


class Singular:
    def preprocess(self, image): ...

    def encode_image(self, pixels): ...


class Unprepared:
    def encode_images(self, pixels): ...


class Unnamed:
    def preprocess(self, image): ...

    def logits(self, pixels): ...


class Prepared:
    def preprocess(self, image): ...


class Sees(Prepared, Unprepared):
    pass


class Captioner(Protocol):
    """A capability of a user's own."""

    def caption(self, pictures: Sequence[str], *, most: int = 3) -> list[str]: ...

    def vocabulary(self) -> list[str]: ...


BEGUN = [
    (Singular, {"ImageEncoder": "encode_images is missing; did you misspell it as encode_image?"}),
    (Unprepared, {"ImageEncoder": "preprocess(image: Image) -> Tensor is missing"}),
    (Unnamed, {"Classifier": "class_names() -> Sequence[str] is missing"}),
    (Sees, {}),
    (object, {}),
]


@pytest.mark.parametrize(("adapter", "gaps"), BEGUN)
def test_a_capability_that_is_begun_is_said_with_what_is_missing(adapter, gaps):
    assert half_offered_by(adapter) == gaps


def test_a_shared_method_alone_begins_all_that_share_it():
    assert set(half_offered_by(Prepared)) == {"ImageEncoder", "Classifier"}


def test_several_missing_methods_stand_in_one_line():
    adapter = type("Half", (), {"class_name": print, "preprocess": print})
    assert half_offered(adapter, Classifier) == (
        "class_names is missing; did you misspell it as class_name?, "
        "logits(pixels: Tensor) -> Tensor is missing"
    )


def test_what_nearly_has_the_name_of_another_capability_begins_nothing():
    adapter = type("Texts", (), {"encode_texts": print, "encode_tokens": print})
    assert half_offered_by(adapter) == {}


def test_a_name_that_is_no_method_is_not_there():
    adapter = type("Typed", (), {"encode_text": "a text"})
    assert half_offered(adapter, TextEncoder) == ""


def test_a_capability_of_a_users_own_is_told_like_the_others():
    adapter = type("Says", (), {"caption": print})
    assert half_offered_by(adapter, others=[Captioner]) == {
        "Captioner": "vocabulary() -> list[str] is missing"
    }


def test_the_signature_is_as_the_capability_writes_it():
    assert signatures(Captioner)[0] == (
        "caption(pictures: Sequence[str], *, most: int = 3) -> list[str]"
    )


def test_what_a_task_lacks_names_the_missing_method():
    told = "ImageEncoder (encode_images is missing; did you misspell it as encode_image?)"
    assert lacking(Singular, ImageEncoder) == told
    assert lacking(Singular, ImageEncoder | MaskedLanguageModel) == f"{told} or MaskedLanguageModel"
    assert lacking(Singular, ImageEncoder, ["ImageEncoder"]) == "ImageEncoder"
    assert lacking(Unnamed, ImageEncoder) == "ImageEncoder"


def test_every_half_of_every_capability_is_told():
    for one in capabilities.capabilities_in(capabilities):
        for name in capabilities.methods(one):
            rest = {other: print for other in capabilities.methods(one) if other != name}
            told = half_offered(type("Half", (), rest), one)
            assert bool(told) == bool(rest)
            assert not rest or told.startswith(name)
