import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu_report.py"

# As pytest writes it.
RESULTS = """\
<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.gpu.test_gpu" name="test_a[cuda]" time="1.25"/>
<testcase classname="tests.gpu.test_gpu" name="test_b[cuda]" time="0.04"><error>e</error></testcase>
<testcase classname="tests.gpu.test_gpu" name="test_c[cuda]" time="0"><skipped/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_one_sentence_says_so_and_nothing_runs():
    before = (ROOT / "build" / "gpu.md").exists()
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "make gpu: no GPU that PyTorch can use is here, so nothing was run\n"
    assert done.stdout == ""
    assert (ROOT / "build" / "gpu.md").exists() == before


def test_the_report_says_what_failed_and_what_was_measured(script, tmp_path):
    (tmp_path / "gpu.xml").write_text(RESULTS)
    rows = script["test_rows"](tmp_path / "gpu.xml")
    text = script["report"](["1 x H100, 80 GiB"], rows, "RN50: ratio 0.95\n", (1, 0))
    assert "- 1 x H100, 80 GiB\n" in text
    assert "1 of 3 passed, exit code 1." in text
    assert "| `tests.gpu.test_gpu::test_a[cuda]` | passed | 1.2 |" in text
    assert "| `tests.gpu.test_gpu::test_b[cuda]` | error | 0.0 |" in text
    assert "```\nRN50: ratio 0.95\n```\n" in text


def test_tests_that_did_not_even_start_are_none(script, tmp_path):
    assert script["test_rows"](tmp_path / "gpu.xml") == []


def test_all_tests_marked_gpu_are_run(script):
    texts = {file: file.read_text("utf-8") for file in (ROOT / "tests").rglob("*.py")}
    marked = {file.parent for file, text in texts.items() if "mark" + ".gpu" in text}
    assert marked == {ROOT / script["TESTS"][-1]}
    assert (ROOT / script["BENCHMARK"]).is_file()
