import pytest
from honest import Honest

from vlbench import capabilities
from vlbench.capabilities import capabilities_in
from vlbench.check.promises import PROMISES
from vlbench.check.samples import draw_samples


def test_every_capability_of_vlbench_has_promises():
    assert set(PROMISES) == set(capabilities_in(capabilities))


@pytest.mark.parametrize("capability", [c for c, promises in PROMISES.items() if promises.tried])
def test_a_pass_gives_one_output_of_its_dimensions_per_sample(capability):
    tried = PROMISES[capability].tried
    outputs = tried.outputs(Honest(), draw_samples("cpu", 12), [0, 2])
    assert [output.ndim for output in outputs] == [tried.dimensions] * 2
