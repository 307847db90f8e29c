from pathlib import Path

import pytest
import torch
from grounding_fakes import (
    REGIONS,
    Constant,
    Patches,
    Plan,
    Planted,
    Scene,
    data_of,
    picture_of,
    score,
    two_things,
)

from vlbench.cli import main
from vlbench.code.functions import load_object
from vlbench.data.coco_files import Phrase
from vlbench.data.scenes import scenes
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.errors import DataError, TooFewRows
from vlbench.metrics.boxes import iou
from vlbench.metrics.intervals import wilson
from vlbench.probes.grounding.entity_grounding import entity_grounding

ADAPTERS = Path(__file__).resolve().parents[3] / "model_adapters"

SCENES = [two_things(i, i % 4, (i + 1 + i // 4) % 4) for i in range(10)]


def probe(model, data, batch=4, **params):
    engine = Engine(ComputeSettings(torch.device("cpu"), batch_size=batch))
    return entity_grounding(model, data, engine, **{"examples": 0} | params)


def column(outcome, name):
    rows = outcome.artifacts["heads"].to_pylist()
    return {(row["layer"], row["head"]): row[name] for row in rows}


def test_a_planted_head_is_scored_what_was_planted_to_the_count_and_found_in_its_layer():
    model = Planted({(0, 0): Plan(images=3), (1, 1): Plan(images=7), (1, 2): Plan(images=0)})
    outcome = probe(model, data_of(SCENES))
    accuracy = column(outcome, "accuracy")
    assert [accuracy[0, 0], accuracy[1, 1], accuracy[1, 2]] == [0.3, 0.7, 0.0]
    assert score(outcome, "head_accuracy", layer=1, head=1).value == 0.7
    assert score(outcome, "best_head_accuracy").value == 0.7
    outcome = probe(Planted({(1, 2): Plan()}), data_of(SCENES))
    assert outcome.notes[0].endswith("from 0: 1-2")
    assert [score(outcome, "layer_accuracy", layer=layer).value for layer in (0, 1)] == [0.25, 1.0]
    assert score(outcome, "split_half_accuracy").value == 1.0


def test_a_head_that_is_right_with_a_tenth_of_its_attention_is_inactive():
    outcome = probe(Planted({(0, 2): Plan(0.1), (1, 0): Plan(0.8, 5)}), data_of(SCENES))
    accuracy, active = column(outcome, "accuracy"), column(outcome, "active")
    assert (accuracy[0, 2], active[0, 2]) == (1.0, False)
    assert (accuracy[1, 0], active[1, 0]) == (0.5, True)
    assert score(outcome, "best_head_accuracy").value == 1.0
    assert score(outcome, "best_active_head_accuracy").value == 0.5
    assert column(outcome, "attention")[0, 2] == pytest.approx(0.1)
    assert column(outcome, "attention_on_gold")[0, 2] == pytest.approx(0.9)


def test_constant_attention_scores_a_random_region():
    # Scene 0 names its second region alone, which is two of three right: 2/3, and 1/4 elsewhere.
    boxes = [[0, 0, 10, 10], [0, 0, 10, 9], [40, 40, 50, 50]]
    crowded = Scene(["a", "thing0", "0"], [(0, 2, (0,))], boxes, boxes)
    outcome = probe(Constant(), data_of([crowded, *SCENES[:2]]))
    floor = (2 / 3 + 4 * 0.25) / 5
    named = {"split_half_accuracy", "best_head_accuracy", "layer_accuracy", "head_accuracy"}
    for found in outcome.scores:
        if found.metric in named:
            assert found.value == pytest.approx(floor)
            assert found.chance == found.floors["random_region"] == pytest.approx(floor)
    assert outcome.counts["ties"] == 5
    assert score(outcome, "pointing_accuracy").value == pytest.approx(floor)
    assert score(outcome, "attention_on_gold").value == pytest.approx(floor)


def test_constant_attention_on_equal_images_has_wilsons_interval_not_a_point():
    found = score(probe(Constant(), data_of(SCENES)), "split_half_accuracy")
    assert found.ci95 == pytest.approx(wilson(2.5, 10).ci95)


def test_regions_without_scores_have_no_confidence_baseline_and_a_note_says_so():
    outcome = probe(Constant(), data_of(SCENES, confident=False))
    assert set(score(outcome, "best_head_accuracy").floors) == {"random_region", "largest_region"}
    assert any("no baseline of the most confident region" in note for note in outcome.notes)


def test_floors_and_the_upper_bound_are_known_without_the_model():
    # Named are regions 0 (the most confident) and 1 (the largest), then 2 and a box without region.
    lost = Scene(["a", "thing2", "the", "thing0", "1"], [(0, 2, (2,)), (2, 4, (4,))],
                 REGIONS, [*REGIONS, [30, 40, 40, 50]])  # fmt: skip
    outcome = probe(Constant(), data_of([two_things(0, 0, 1), lost]))
    floors = {"random_region": 3 / 16, "largest_region": 0.25, "most_confident_region": 0.25}
    assert score(outcome, "split_half_accuracy").floors == floors
    assert score(outcome, "upper_bound").value == 0.75


class Sorts(Planted):
    """Returns the boxes of an image in another order for each caption."""

    def attend(self, pictures, texts):
        pairs = zip(super().attend(pictures, texts), texts, strict=True)
        orders = [(joint, [(i + int(text[7])) % 4 for i in range(4)]) for joint, text in pairs]
        return [j._replace(weights=j.weights[..., o], boxes=j.boxes[o]) for j, o in orders]


def test_boxes_that_differ_between_the_captions_of_an_image_are_refused():
    data, first = data_of(SCENES), ["a", "thing2", "sees", "the", "thing0", "0"]
    columns = data.splits["test"].columns
    for name, more in {"captions": " ".join(first), "words": first, "phrases": []}.items():
        columns[name].stored[0].append(more)
    columns["phrases"].stored[0][1].append(Phrase(0, 2, (2,)))
    assert score(probe(Planted(), data), "best_head_accuracy").value == 1.0
    with pytest.raises(DataError, match="'a thing2 sees the thing0 0' has other boxes"):
        probe(Sorts(), data)


def test_any_gold_box_of_a_phrase_counts():
    scene = Scene(["two", "thing0", "0"], [(0, 2, (1, 0))])
    outcome = probe(Planted(), data_of([scene, scene]))
    assert column(outcome, "accuracy")[1, 2] == 1.0
    assert score(outcome, "best_head_accuracy").floors["random_region"] == 0.5


def test_a_head_chosen_by_luck_is_worth_nothing_on_the_other_half():
    # (0, 0) is right on the even images, (0, 1) on the odd: each half chooses by its own.
    class Lucky(Planted):
        def plant(self, weights, text, spans):
            even = int(text.rpartition(" ")[2]) % 2 == 0
            self.plans = {(0, 0): Plan(images=1000 * even), (0, 1): Plan(images=1000 * (not even))}
            super().plant(weights, text, spans)

    outcome = probe(Lucky(), data_of(SCENES))
    best, halves = (score(outcome, f"{n}_accuracy").value for n in ("best_head", "split_half"))
    assert best == 0.5
    assert halves <= best


def test_phrases_without_boxes_are_no_entities():
    scene = Scene(["a", "thing1", "on", "grass", "0"], [(0, 2, (1,)), (3, 4, ())])
    outcome = probe(Planted(), data_of([scene, scene]))
    assert score(outcome, "best_head_accuracy").n == 2
    assert outcome.counts["phrases_without_boxes"] == 2


def test_a_phrase_that_is_truncated_away_is_wrong_and_reported():
    outcome = probe(type("Cuts", (Planted,), {"limit": 3})(), data_of(SCENES))
    assert score(outcome, "best_head_accuracy").value == 0.5
    assert outcome.counts["without_token"] == 10
    assert column(outcome, "attention")[1, 2] == pytest.approx(0.8)


def test_an_image_without_regions_is_wrong_and_reported():
    bare = SCENES[0]._replace(regions=[])
    outcome = probe(Planted(), data_of([bare, *SCENES[1:4]]))
    assert score(outcome, "best_head_accuracy").value == 0.75
    assert (outcome.counts["without_regions"], outcome.counts["without_token"]) == (2, 0)


def test_only_the_first_images_are_read_and_one_cannot_be_halved():
    assert score(probe(Planted(), data_of(SCENES), images=3), "best_head_accuracy").n == 6
    with pytest.raises(TooFewRows, match="1 image; two halves need two"):
        probe(Planted(), data_of(SCENES[:1]))
    with pytest.raises(TooFewRows, match="1 image with a word to ask for"):
        probe(Planted(), data_of([SCENES[0], SCENES[1]._replace(phrases=[])]))


def test_attention_of_the_wrong_shape_is_refused():
    class Misfit(Constant):
        def attend(self, pictures, texts):
            return [a._replace(boxes=a.boxes[:2]) for a in super().attend(pictures, texts)]

    with pytest.raises(DataError, match=r"has shape \[2, 3, 10, 4\]; it must be"):
        probe(Misfit(), data_of(SCENES))


@pytest.mark.parametrize(
    ("kind", "changed", "active", "note"),
    [
        (Planted, {"whole": False}, {None}, "does not apply"),
        (Constant, {"image_share": 0.19}, {False}, "no head gives more than 20% of its attention"),
    ],
)
def test_attention_over_the_image_alone_or_away_from_it_has_no_active_heads_and_says_so(
    kind, changed, active, note
):
    outcome = probe(type("Other", (kind,), changed)(), data_of(SCENES))
    assert not [s for s in outcome.scores if s.metric == "best_active_head_accuracy"]
    assert set(column(outcome, "active").values()) == active
    assert any(note in told for told in outcome.notes)


def test_a_model_of_patches_scores_regions_by_the_patches_they_cover():
    # Quarter 0 has four times the others' weight: region 0 covers 100/1024 of it, region 1 of
    # quarters 0 and 1 12 x 24 each, so that region 1 scores more, being large.
    scenes = [two_things(0, 0, 1), two_things(1, 1, 0)]
    outcome = probe(Patches(), data_of(scenes))
    assert score(outcome, "best_head_accuracy").value == 0.5
    assert score(outcome, "best_head_accuracy").floors["largest_region"] == 0.5
    # The centres of quarters 0 and 1 lie in no box: (16, 16) and (48, 16).
    assert score(outcome, "pointing_accuracy").value == 0.0
    # Of quarter 0, weight 4/7, region 0 covers 100/1024; of quarter 1, weight 1/7, nothing.
    thing0 = 4 / 7 * 100 / 1024
    thing1 = (4 / 7 + 1 / 7) * 0 + (1 / 7 + 4 / 7) * 288 / 1024
    found = score(outcome, "attention_on_gold").value
    assert found == pytest.approx((thing0 + thing1) / 2)
    assert any("reads patches, not regions:" in note for note in outcome.notes)


def test_a_planted_region_is_any_that_overlaps_by_half():
    assert (iou(torch.tensor(REGIONS), torch.tensor(REGIONS)) >= 0.5).sum() == 4


class Finds:
    """Proposes the planted regions for every picture, as tensors of a kind."""

    def __init__(self, kind):
        self.kind = kind

    def detect(self, pictures):
        assert all(picture.regions is None for picture in pictures)
        found = picture_of(SCENES[0], confident=True).regions
        boxes, scores = (one.as_subclass(self.kind) for one in (found.boxes, found.scores))
        return [found._replace(boxes=boxes, scores=scores) for _ in pictures]


class Away(torch.Tensor):
    """Lies on another device: it may be brought here, and looked at by itself."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function not in {torch.Tensor.cpu, torch.Tensor.__len__, torch.Tensor.isfinite}:
            raise RuntimeError(f"{function} of tensors on two devices")
        with torch._C.DisableTorchFunctionSubclass():
            found = function(*args, **kwargs or {})
        return found if isinstance(found, int) else found.as_subclass(torch.Tensor)


@pytest.mark.parametrize("kind", [torch.Tensor, Away])
def test_a_detector_on_any_device_proposes_regions_for_pictures_without(kind):
    with_regions, without = data_of(SCENES), data_of(SCENES)
    column = without.splits["test"]["picture"]
    column.stored[:] = [picture._replace(regions=None) for picture in column.stored]
    found = probe(Patches(), without, detector=Finds(kind), examples=1)
    # Examples are a picture of their own.
    file = found.artifacts["examples"]
    assert file.read_bytes()[:4] == b"\x89PNG"
    file.unlink()
    assert found.scores == probe(Patches(), with_regions, detector=Finds(kind)).scores


def test_models_of_regions_are_skipped_where_a_detector_finds_them(capsys):
    # Its own regions are as wide as this detector's, and would be taken for them.
    tasks = ["--tasks", "entity_grounding_flickr30k_d*", "--dry-run", "--offline"]
    main(["--model", "visualbert-nlvr2-coco-pre", *tasks])
    assert "skipped" in capsys.readouterr().out


@pytest.mark.usefixtures("scenes_drawn")
def test_the_best_head_of_tiny_visualbert_beats_every_choice_that_reads_no_word():
    kind = load_object("visualbert:VisualBert", [ADAPTERS])
    model = kind(device=torch.device("cpu"), architecture=str(ADAPTERS / "tiny" / "visualbert"))
    data = scenes()
    outcome = entity_grounding(model, data, Engine.for_tests(), images=400, examples=0)
    (found,) = [score for score in outcome.scores if score.metric == "split_half_accuracy"]
    # The floors are fractions of the same phrases: n of them at their widest, by the normal rule.
    width = 1.96 * (0.25 / found.n) ** 0.5
    assert found.floors.keys() == {"random_region", "largest_region", "most_confident_region"}
    assert max(found.floors.values()) + width < found.ci95[0]
