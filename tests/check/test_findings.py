import inspect
import re
from typing import Protocol

import numpy as np
import pytest
import torch
from honest import Honest, broken, failures
from torch import nn

from vlbench import capabilities
from vlbench.capabilities import capabilities_in
from vlbench.check import check_adapter
from vlbench.check.findings import PROMISES
from vlbench.check.samples import draw_samples


def test_an_honest_adapter_keeps_every_promise_of_every_capability():
    findings = check_adapter(Honest())
    assert {finding.capability for finding in findings} == {
        c.__name__ for c in capabilities.capabilities_in(capabilities)
    }
    assert failures(Honest()) == {}


class Captioner(Protocol):
    """A capability of a user's own."""

    def caption(self, pictures): ...


def test_a_capability_without_promises_is_said_to_have_none_yet():
    class Captions:
        def caption(self, pictures): ...

    (finding,) = check_adapter(Captions(), others=[Captioner])
    assert finding[:4] == ("Captioner", "has no promises yet", True, "")
    assert check_adapter(Captions(), others=[Captioner], without=["Captioner"]) == []


def test_a_capability_that_is_taken_out_is_not_tried():
    findings = check_adapter(broken(detect=lambda *_: []), without=["Detector"])
    assert all(finding.ok for finding in findings)


def test_what_an_adapter_raises_is_the_finding():
    class Refusing(Honest):
        def encode_texts(self, texts):
            raise ZeroDivisionError("no texts today")

    why = failures(Refusing())
    found = why["TextEncoder", "finite"]
    assert re.fullmatch(r"ZeroDivisionError: no texts today \(test_findings\.py:\d+\)", found)


def test_an_error_below_the_adapter_points_at_the_adapters_line():
    class Deep(Honest):
        def encode_texts(self, texts):
            return torch.stack([])  # the line of the error

    here = inspect.getsourcelines(Deep.encode_texts)[1] + 1
    assert failures(Deep())["TextEncoder", "finite"].endswith(f" (test_findings.py:{here})")


def test_findings_of_one_error_share_their_cause():
    class Blind(Honest):
        def preprocess(self, image):
            return {}[image.mode]

    found = [finding for finding in check_adapter(Blind()) if not finding.ok]
    assert {finding.capability for finding in found} == {
        "ImageEncoder",
        "GridEncoder",
        "LayerEncoder",
        "Classifier",
        "SharedSpace",
        "Intervenable",
    }
    assert len({finding.cause for finding in found}) == 1


def test_what_is_no_tensor_is_named_with_the_line_of_its_method():
    class Arrays(Honest):
        def preprocess(self, image):
            return np.zeros((3, 4, 4), "float32")

    line = inspect.getsourcelines(Arrays.preprocess)[1]
    assert failures(Arrays())["Classifier", "finite"] == (
        f"test_findings.py:{line}: preprocess returns ndarray, not a float32 Tensor [3, H, W]"
    )


def test_outputs_that_are_no_tensors_are_named():
    why = failures(broken(encode_texts=lambda _, texts: np.ones((len(texts), 3), "float32")))
    assert why["TextEncoder", "finite"] == "an output is of type ndarray, not a float32 Tensor"


def test_an_output_of_the_wrong_shape_is_shown():
    why = failures(broken(encode_images=lambda _, pixels: pixels.flatten(2)))
    message = why["ImageEncoder", "one float32 output per example"]
    assert message.startswith("outputs are torch.float32 (3, 4), ")
    assert message.endswith("float32 of 1 dimensions expected")


def test_an_output_too_few_is_counted():
    why = failures(broken(encode_images=lambda _, pixels: pixels.flatten(1)[1:]))
    assert why["ImageEncoder", "one float32 output per example"] == "a batch of 3 gave 2 outputs"
    assert why["ImageEncoder", "takes a grayscale image"] == "a batch of 1 gave 0 outputs"


def test_vectors_of_unequal_width_are_shown():
    class Growing(Honest):
        def logits(self, pixels):
            return [torch.ones(2 + i) for i, _ in enumerate(pixels)]

    message = failures(Growing())["Classifier", "one float32 output per example"]
    assert "(2,), torch.float32 (3,), torch.float32 (4,)" in message


def test_an_output_that_changes_from_call_to_call_differs():
    why = failures(broken(encode_images=lambda _, pixels: pixels.flatten(1) + torch.rand(12)))
    assert why["ImageEncoder", "the same twice"].startswith("values differ by ")


def test_an_output_in_training_mode_depends_on_its_neighbours():
    norm = nn.BatchNorm1d(12, track_running_stats=False)
    why = failures(broken(encode_images=lambda _, pixels: norm(pixels.flatten(1))))
    assert ("ImageEncoder", "does not depend on its neighbours") in why
    assert ("ImageEncoder", "the same twice") not in why


def test_a_length_that_depends_on_the_batch_is_shown():
    class Padding(Honest):
        def encode_texts(self, texts):
            return torch.ones(len(texts), max(len(text) for text in texts))

    why = failures(Padding())
    assert why["TextEncoder", "a batch of one equals a batch of three"] == (
        "shape (18,) becomes (16,)"
    )


def test_nan_is_counted():
    why = failures(broken(encode_images=lambda _, pixels: pixels.flatten(1) / 0 * 0))
    assert why["ImageEncoder", "finite"] == "36 of 36 values are NaN or infinite"
    assert why["ImageEncoder", "gradients reach pixels"] == "gradients are missing, NaN or infinite"


@pytest.mark.parametrize("scale", [1e38, 1e-20])
def test_numbers_whose_squares_do_not_fit_are_refused_as_in_a_run(scale):
    found = failures(broken(encode_images=lambda _, pixels: (pixels.flatten(1) + 0.1) * scale))
    assert "whose squares overflow or underflow float32" in found["ImageEncoder", "finite"]


def test_memory_may_be_used_again():
    buffer = torch.empty(8, 12)

    def reuses(_, pixels):
        return buffer[: len(pixels)].copy_(pixels.detach().flatten(1))

    found = failures(broken(encode_images=reuses))
    assert {what for _, what in found} == {"gradients reach pixels"}


def test_a_gradient_that_is_cut_off_names_the_way_out():
    cut = {"encode_images": lambda _, pixels: pixels.detach().flatten(1)}
    why = failures(broken(**cut))
    assert (
        "if that is so, set differentiable = False" in why["ImageEncoder", "gradients reach pixels"]
    )
    assert failures(broken(**cut, differentiable=False)) == {}


@pytest.mark.parametrize(
    ("capability", "method", "width"),
    [("ImageEncoder", "encode_images", 12), ("Classifier", "logits", 2)],
)
def test_pixels_changed_in_place_are_a_broken_promise(capability, method, width):
    in_place = {method: lambda _, pixels: pixels.sub_(0.5).flatten(1)[:, :width].clone()}
    why = failures(broken(**in_place, differentiable=False))
    assert why.keys() == {(capability, "does not change its pixels")}
    (message,) = why.values()
    assert message.startswith(f"{method} changes the pixels that it is given; copy them first,")


@pytest.mark.parametrize(
    ("dtype", "apart", "kept"),
    [
        (torch.float32, 9e-5, True),
        (torch.float32, 2e-4, False),
        (torch.float16, 1e-2, True),
        (torch.float16, 2e-2, False),
        (torch.bfloat16, 1e-1, True),
    ],
)
def test_check_allows_as_much_rounding_as_a_run_does(dtype, apart, kept):
    def rounds(_, pixels):
        return pixels.flatten(1) * 0 + 1 + apart * (len(pixels) == 1)

    adapter = broken(encode_images=rounds, similarity=lambda _, images, texts: images @ texts.T)
    why = {f.what for f in check_adapter(adapter, dtype=dtype) if not f.ok}
    assert ("a batch of one equals a batch of three" not in why) == kept


def test_a_gradient_of_zero_is_no_gradient():
    why = failures(broken(encode_images=lambda _, pixels: pixels.flatten(1).round()))
    assert why["ImageEncoder", "gradients reach pixels"].endswith(
        "for images [0, 1, 2] of the batch"
    )


@pytest.mark.parametrize(("rounding", "kept"), [(1e-8, True), (1e-3, False)])
def test_scores_are_compared_on_the_scale_of_their_batch(rounding, kept):
    def nearly(*given):
        scores = torch.tensor([float(len(text) > 3) for text in given[2]])
        return scores + rounding * len(given[2])

    why = failures(broken(score_pairs=nearly))
    assert (("ImageTextScorer", "a batch of one equals a batch of three") not in why) == kept


def test_every_capability_of_vlbench_has_promises():
    assert set(PROMISES) == set(capabilities_in(capabilities))


@pytest.mark.parametrize("capability", [c for c, promises in PROMISES.items() if promises.tried])
def test_a_pass_gives_one_output_of_its_dimensions_per_sample(capability):
    tried = PROMISES[capability].tried
    outputs = tried.outputs(Honest(), draw_samples("cpu", 12), [0, 2])
    assert [output.ndim for output in outputs] == [tried.dimensions] * 2


def test_a_model_that_ignores_what_is_taken_away_is_told():
    why = failures(broken(cut=lambda self, _: self))
    assert why["Intervenable", "other outputs without its parts"] == (
        "without any part, all outputs are the same"
    )


class Hooked(Honest):
    """Scores by a torch module, from which an error takes a hook too many."""

    def __init__(self, *, leaves=False):
        self.linear, self.leaves = torch.nn.Linear(1, 1), leaves

    def score_pairs(self, pictures, texts):
        if not self.taken.heads:
            return self.linear(torch.ones(len(texts), 1))[:, 0]
        hook = self.linear.register_forward_hook(lambda *_: torch.zeros(len(texts), 1))
        scores = self.linear(torch.ones(len(texts), 1))[:, 0]
        if not self.leaves:
            hook.remove()
        return scores


def test_a_hook_left_behind_after_a_use_or_an_error_is_told():
    promise = "Intervenable", "unchanged after a cut model was used"
    assert failures(Hooked(leaves=True))[promise].startswith("after a cut model was used")
    assert failures(Hooked())[promise].startswith("after an error in a cut model")
