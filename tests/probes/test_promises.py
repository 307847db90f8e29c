"""What is promised of every probe, asked of every shipped probe: a line of LINES each."""

import copy
import json
import math
import re
import zlib
from dataclasses import replace
from inspect import signature

import numpy as np
import pytest
import torch
from item_means import item_means, of_means, scores_with_items, told
from planted_boards import board, result, write
from planted_probes import LINES, WITH_CLASSES, PairsOf

from vlbench.boards.board import read_board
from vlbench.capabilities import Picture
from vlbench.commands.ls import list_things
from vlbench.data.records import Split, copies
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.errors import VlbenchError
from vlbench.metrics.copies import counting_copies_once
from vlbench.metrics.scores import scored

# What a model gives of each example: a row of a tensor, or one of these parts of what is listed.
PARTS = {
    "encode_images": "", "encode_texts": "", "logits": "", "score_pairs": "", "score_answers": "",
    "encode_tokens": "vectors", "encode_regions": "", "detect": "vectors", "attend": "weights",
}  # fmt: skip


def changed(model, change):
    """Return the model, each of whose outputs is what `change(output, example)` returns."""
    made = copy.copy(model)
    kind = type(model)
    own = {
        name: _changed(getattr(model, name), part, change)
        for name, part in PARTS.items()
        if hasattr(model, name)
    }
    made.__class__ = type(kind.__name__, (kind,), own)
    return made


def _changed(method, part, change):
    def call(_self, *given):
        outputs = []
        for found, *example in zip(method(*given), *given, strict=True):
            if part:
                outputs.append(found._replace(**{part: change(getattr(found, part), example)}))
            else:
                outputs.append(change(found, example))
        return outputs if part or method.__name__ == "encode_regions" else torch.stack(outputs)

    call.__name__ = method.__name__  # an engine knows what it computes by the method's name
    return call


def always(value):
    # An attack asks for the gradient. The attention of a word sums to at most 1.
    return lambda output, example: below_0(
        0 * output + (value / 10 if output.ndim > 2 else value), example
    )


def below_0(output, example):
    """Return a log-likelihood below 0; its example is a picture, a question and an answer."""
    return output - 10 if len(example) == 3 else output


def content(value):
    """Return what an example is, as a text."""
    if isinstance(value, torch.Tensor):
        return str(value.tolist())
    if isinstance(value, Picture):
        boxes = value.regions and value.regions.boxes
        seen = getattr(value.image, "tobytes", lambda: value.image)()
        return content((seen, boxes))
    return "".join(map(content, value)) if isinstance(value, tuple) else repr(value)


def noise(output, example):
    seed = zlib.crc32("".join(map(content, example)).encode())
    drawn = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed))
    is_attention = output.ndim > 2
    drawn = drawn.softmax(-1) / 2 if is_attention else below_0(drawn, example)
    return drawn.to(output.dtype)


@pytest.fixture
def world(line, tmp_path, monkeypatch):
    return line.world(tmp_path, monkeypatch)


@pytest.fixture
def ask(line, world):
    """Ask the line's probe of a model and data, by default those of its world."""

    def run(model=None, data=None, engine=None):
        asked = model or world.model, data or world.data, engine or Engine.for_tests()
        return scored(line.ask(*asked, **world.params))

    return run


def promised(name):
    """Ask a test of each line, less those that are excused from this promise."""
    kept = [line for line in LINES if name not in line.excused]
    return pytest.mark.parametrize("line", kept, ids=str)


def values(outcome):
    return {(score.metric, *sorted(score.at.items())): score.value for score in outcome.scores}


def with_split(data, name, change):
    splits = type(data.splits)({**data.splits, name: change(data.splits[name])})
    return replace(data, splits=splits)


def test_every_shipped_probe_has_a_line():
    shipped = {row["name"] for row in list_things("probes", [])}
    assert {f"{line.probe.__module__}:{line.probe.__name__}" for line in LINES} == shipped
    assert [line for line in LINES if not all(line.excused.values())] == []


@pytest.mark.parametrize("value", [0.3, 0.0])
@promised("constant")
def test_the_same_answer_for_everything_scores_chance(world, ask, value):
    for score in ask(changed(world.model, always(value))).scores:
        if score.chance is not None and "_gain_over_" not in score.metric:
            assert score.value == pytest.approx(score.chance, abs=1e-7), told(score)


@promised("noise")
def test_noise_scores_chance_within_its_error(world, ask):
    for score in ask(changed(world.model, noise)).scores:
        if score.chance is None or "_gain" in score.metric:
            continue
        guessing = math.sqrt(score.chance * max(1 - score.chance, 0) / score.n)
        error = max(score.stderr or 0, guessing)
        assert abs(score.value - score.chance) <= 4 * error + 1e-9, told(score)


def reads_pairs(line):
    return "ImageTextScorer" in str(next(iter(signature(line.probe).parameters.values())))


@pytest.mark.parametrize("line", [*filter(reads_pairs, LINES)], ids=str)
def test_what_is_chosen_is_the_same_however_sure_the_model_is(world, ask):
    scorer = world.model if hasattr(world.model, "score_pairs") else PairsOf(world.model)

    def surer(by):
        model = changed(scorer, lambda score, _: score + by)
        model.score_kind = "logit"
        return ask(model)

    # What is printed as a probability is on its scale.
    printed = {s.metric for s in ask().scores if s.unit not in {"fraction", "rank"}}
    first, other = (values(surer(by)) for by in (0, 60))
    compared = [place for place in first if place[0] not in printed]
    assert {p: other[p] for p in compared} == pytest.approx({p: first[p] for p in compared})


@promised("items")
def test_the_mean_of_the_items_is_the_score(ask):
    outcome = ask()
    items = of_means(outcome.items)
    assert item_means(items) == pytest.approx(scores_with_items(outcome.scores, items), abs=1e-7)
    for column in ("id", "digest"):
        assert all(items[column].to_pylist())


@promised("answers")
def test_items_say_what_was_right_and_what_was_said_unless_it_was_tied(ask):
    answered = [row for row in ask().items.to_pylist() if row["target"]]
    assert answered
    assert [row for row in answered if not (row["prediction"] or 0 < row["credit"] < 1)] == []


@promised("few")
def test_a_split_without_rows_is_refused_in_words_or_not_read(world, ask):
    before = values(ask())
    for name in world.data.splits:
        empty = with_split(world.data, name, lambda split: split.select([]))
        try:
            found = values(ask(data=empty))
        except VlbenchError as error:
            found, why = None, str(error)
        assert found == before or (found is None and re.search(r"\b(0|no) \w+", why)), name


@promised("finite")
def test_numbers_that_are_none_are_refused_by_the_name_of_what_gave_them(world, ask):
    def broken(output, _):
        output = output.clone()
        output.view(-1)[0] = math.nan
        return output

    why = r"gave (NaN or infinite|the score)|gradient"
    with pytest.raises((ValueError, VlbenchError), match=why):
        ask(changed(world.model, broken))


@pytest.mark.parametrize("line", [one for one in LINES if str(one) in WITH_CLASSES], ids=str)
def test_one_class_is_nothing_to_tell_apart(world, ask):
    data = world.data
    for name in data.splits:
        if "label" in data.splits[name].columns:
            rows = [i for i, label in enumerate(data.splits[name]["label"]) if label == 0]
            data = with_split(data, name, lambda split, rows=rows: split.select(rows))
    with pytest.raises((ValueError, VlbenchError), match=r"1 class|one class"):
        ask(data=replace(data, classes=data.classes[:1]))


def copied(split):
    """Return the rows twice, the second time under other names."""

    def twice(column):
        stored, ids = [*column, *column], column.examples().ids
        names = [f"{i}{again}" for again in ("", " again") for i in ids] if column.names else ()
        digests = [column.digests[row] for row in column.rows] * 2 if column.digests else ()
        changed = {"stored": stored, "rows": range(len(stored)), "names": names, "digests": digests}
        return replace(column, key=f"{column.key} twice", **changed)

    return Split({name: twice(column) for name, column in split.columns.items()})


@promised("copies")
def test_copies_of_images_narrow_no_interval(world, ask):
    data = with_split(world.data, "test", copied)
    assert copies(data.splits["test"]) == len(world.data.splits["test"])
    once, twice = ask(), ask(data=data)
    # Correlations of images count copies once by themselves.
    kept = scores_with_items(once.scores, of_means(once.items)) if once.items else values(once)
    for score in once.scores:
        place = (score.metric, *sorted(score.at.items()))
        if place in kept and score.stderr and score.unit == "fraction":
            (beside,) = [s for s in twice.scores if (s.metric, s.at) == (score.metric, score.at)]
            beside = counting_copies_once(beside, twice.items) if twice.items else beside
            assert beside.value == pytest.approx(score.value)
            assert beside.stderr >= 0.9 * score.stderr, told(beside)


@promised("order")
def test_rows_in_another_order_give_the_same_scores(world, ask):
    order = np.random.default_rng(1).permutation(len(world.data.splits["test"])).tolist()
    data = with_split(world.data, "test", lambda split: split.select(order))
    assert values(ask(data=data)) == pytest.approx(values(ask()), abs=1e-6)


def turned(split):
    """Return other data: the same rows stored the other way round."""
    columns = {
        name: replace(
            column, key=f"{column.key} turned", stored=column.stored[::-1],
            names=column.names[::-1], digests=column.digests[::-1],
        )
        for name, column in split.columns.items()
    }  # fmt: skip
    return Split(columns)


@promised("cache")
def test_what_is_stored_is_found_again_and_never_for_other_data(world, ask, tmp_path):
    def stored():
        live = [world.model, *world.params.values()]
        identities = {id(model): f"model {i}" for i, model in enumerate(live)}
        settings = ComputeSettings(torch.device("cpu"))
        return Engine(settings, store=Store(tmp_path / "store"), identities=identities)

    other = with_split(world.data, "test", turned)
    fresh = [values(ask(data=data)) for data in (None, other)]
    for _ in range(2):
        found = [values(ask(data=data, engine=stored())) for data in (None, other)]
        assert found == [pytest.approx(one, abs=1e-6) for one in fresh]


@promised("schema")
def test_a_row_keeps_every_score_which_has_something_beside_it(ask, tmp_path):
    outcome = ask()
    assert outcome.scores
    more = {"notes": list(outcome.notes), "counts": outcome.counts | {"n": 1, "expected": 1}}
    row = result("m", *outcome.scores, **more)
    write(tmp_path, board(row))
    (kept,) = read_board(tmp_path / "t.json").results
    assert json.dumps(kept.row()) == json.dumps(row.row())
    for score in outcome.scores:
        assert score.chance is not None or score.floors or score.no_chance, told(score)
    for artifact in outcome.artifacts.values():
        getattr(artifact, "unlink", lambda: None)()


def scores_of_all(processes, folder, batch_size):
    """Return the values of every probe, with the processes of which this is one."""
    found = {}
    for line in LINES:
        with pytest.MonkeyPatch.context() as patch:
            own = folder / str(line) / str(processes.rank)
            own.mkdir(parents=True)
            world = line.world(own, patch)
            settings = ComputeSettings(torch.device("cpu"), batch_size=batch_size)
            engine = Engine(settings, processes=processes)
            outcome = line.ask(world.model, world.data, engine, **world.params)
            found[str(line)] = values(scored(outcome))
    return found


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_two_processes_and_other_batches_give_the_same_scores(pair, tmp_path):
    alone = scores_of_all(Processes(cpu=True), tmp_path / "alone", 32)
    others = [scores_of_all(Processes(cpu=True), tmp_path / "batches", 3)]
    others += pair(scores_of_all, tmp_path / "both", 32)
    for found in others:
        for name, expected in alone.items():
            assert found[name] == pytest.approx(expected, abs=1e-4), name
