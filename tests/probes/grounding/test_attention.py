import json

import grounding_fakes
import pytest
import torch
from grounding_fakes import REGIONS, Constant, Planted, data_of, picture_of, two_things
from pair_commands import run_command
from sources import write

from vlbench.data.records import Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.errors import CannotDo
from vlbench.probes.grounding.attention import COUNTED, AttentionReader, head_sums, with_proposals
from vlbench.probes.grounding.measures import MEASURES, Query

PICTURE = picture_of(two_things(0, 0, 1), confident=True)


class Proposes:
    """Finds one region in every picture."""

    def detect(self, pictures):
        return [p.regions or PICTURE.regions._replace(labels=["found"]) for p in pictures]


def test_a_detector_proposes_regions_only_where_there_are_none():
    bare = PICTURE._replace(regions=None)
    kept, found = with_proposals([PICTURE, bare], Proposes().detect)
    assert kept is PICTURE
    assert found.regions.labels == ["found"]
    assert with_proposals([bare], None) == [bare]


def scenes(n=6):
    """Return the pictures and the queries of so many scenes: `thing<i>` should look at region i."""
    made = [two_things(i, i % 4, (i + 1) % 4) for i in range(n)]
    split = data_of(made).splits["test"]
    return split["picture"], value_column([queries_of(split, i) for i in range(n)])


def queries_of(split: Split, i):
    (text,) = split["captions"][i]
    start = text.index("thing")
    target = REGIONS[int(text[start + 5])]
    return {"texts": [text], "targets": [[target]], "queries": [[Query(0, start, start + 6, 0)]]}


def test_sums_have_a_row_per_image_whatever_the_batch():
    pictures, queries = scenes()
    places = [ComputeSettings(torch.device("cpu"), batch_size=size) for size in (1, 4)]
    reader = AttentionReader(Planted(), 1)
    found = [head_sums(reader, pictures, queries, Engine(place)) for place in places]
    accuracy = found[0].heads[..., MEASURES.index("accuracy")]
    assert accuracy.shape == (6, 1, 2, 3)
    assert accuracy[:, 0, 1, 2].tolist() == [1] * 6
    assert (found[0].heads == found[1].heads).all()
    assert found[0].stats[:, 0, COUNTED.index("read")].tolist() == [1] * 6


def test_attention_that_a_known_model_gave_is_stored(tmp_path):
    pictures, queries = scenes()
    model = Planted()
    known = {"store": Store(tmp_path), "identities": {id(model): "a fake"}}
    engine = Engine(ComputeSettings(torch.device("cpu")), **known)
    before = head_sums(AttentionReader(model, 1), pictures, queries, engine)
    model.attend = None
    after = head_sums(AttentionReader(model, 1), pictures, queries, engine)
    assert (before.heads == after.heads).all()


@pytest.mark.parametrize("detector", [None, Proposes()])
def test_attention_of_a_model_or_detector_without_an_identity_is_not_stored(tmp_path, detector):
    pictures, queries = scenes()
    model = Planted()
    known = {id(model): "a fake" if detector else "", id(detector): ""}
    options = {"store": Store(tmp_path), "identities": known}
    place, reader = ComputeSettings(torch.device("cpu")), AttentionReader(model, 1, detector)
    before = head_sums(reader, pictures, queries, Engine(place, **options))
    model.plans = {(0, 0): model.plans[1, 2]}
    after = head_sums(reader, pictures, queries, Engine(place, **options))
    assert (before.heads != after.heads).any()


def test_no_image_with_regions_is_what_the_model_cannot_do():
    split = data_of([two_things(0, 0, 1)._replace(regions=[])]).splits["test"]
    queries = value_column([queries_of(split, 0)])
    with pytest.raises(CannotDo, match="no picture has regions"):
        head_sums(AttentionReader(Constant(), 1), split["picture"], queries, Engine.for_tests())


def sums_of_noise(processes):
    """Return the sums of a model's attention to enough scenes for a shard per process."""
    engine = Engine(ComputeSettings(torch.device("cpu")), processes=processes)
    split = grounding_fakes.many_scenes().splits["test"]
    queries = value_column([queries_of(split, i) for i in range(len(split["picture"]))])
    return head_sums(AttentionReader(grounding_fakes.Noisy(), 1), split["picture"], queries, engine)


def test_two_processes_sum_the_same_bytes_as_one(pair):
    alone = sums_of_noise(Processes(cpu=True))
    for found in pair(sums_of_noise):
        assert found.heads.tobytes() == alone.heads.tobytes()
        assert found.stats.tobytes() == alone.stats.tobytes()
        assert found[2:5] == alone[2:5]
        assert torch.equal(torch.cat(found.queries), torch.cat(alone.queries))


TASK = """\
version: 1
probe: entity_grounding
paper: "a paper"
tags: [ours]
data: {loader: "grounding_fakes:many_scenes"}
params: {examples: 2}
primary: {metric: split_half_accuracy}
"""

MODELS = 'planted: {adapter: "grounding_fakes:Noisy"}\n'


@pytest.mark.nightly
def test_two_processes_give_the_same_table_as_one(tmp_path, pair):
    source = tmp_path / "ours"
    write(source / "tasks" / "planted_grounding.yaml", TASK)
    write(source / "model_adapters" / "models.yaml", MODELS)
    words = ["--model", "planted", "--tasks", "planted_grounding", "--no-cache", "--trust"]
    words += ["--include-path", str(source), "--device", "cpu", "--processes"]
    rows = []
    for number in ("1", "2"):
        output = ["--output", str(tmp_path / number)]
        ((code, _, errors),) = pair(run_command, [*words, number, *output], size=1)
        assert code == 0, errors
        (row,) = json.loads((tmp_path / number / "planted_grounding.json").read_text())["rows"]
        rows.append(row)
    assert [row.pop("run")["processes"] for row in rows] == [1, 2]
    # The rows have the digests of the table and of the picture.
    assert json.dumps(rows[0]) == json.dumps(rows[1])
    assert set(rows[0]["artifacts"]) == {"heads", "examples", "items"}
