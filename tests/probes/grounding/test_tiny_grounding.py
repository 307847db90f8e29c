"""The joint model that comes with vlbench: some of its heads find in scenes what words name."""

from pathlib import Path

import pytest
import torch

from vlbench.data.scenes import REGION_KIND, scenes
from vlbench.engine import Engine
from vlbench.probes.grounding.entity_grounding import entity_grounding
from vlbench.resolve import load_object

ADAPTERS = Path(__file__).resolve().parents[3] / "model_adapters"


@pytest.mark.slow
@pytest.mark.usefixtures("scenes_drawn")
def test_the_best_head_on_scenes_stands_clear_of_every_choice_that_reads_no_word():
    kind = load_object("visualbert:VisualBert", [ADAPTERS])
    model = kind(device=torch.device("cpu"), architecture=str(ADAPTERS / "tiny" / "visualbert"))
    data = scenes(regions=REGION_KIND)
    outcome = entity_grounding(model, data, Engine.for_tests(), images=300, examples=0)
    (found,) = [score for score in outcome.scores if score.metric == "split_half_accuracy"]
    # The floors are shares of the same phrases: n of them at their widest, by the normal rule.
    width = 1.96 * (0.25 / found.n) ** 0.5
    assert found.floors.keys() == {"random_region", "largest_region", "most_confident_region"}
    assert max(found.floors.values()) + width < found.ci95[0]
