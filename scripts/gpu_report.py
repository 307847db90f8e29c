"""Writes build/gpu.md: the results of tests marked gpu and of benchmarks/gpu.py on this machine.

make gpu
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import torch

from vlbench.run.row import code_version

ROOT = Path(__file__).resolve().parents[1]
RESULTS, REPORT = ROOT / "build" / "gpu.xml", ROOT / "build" / "gpu.md"
TESTS = ["-m", "pytest", "-q", "-n", "0", "-m", "gpu", "tests/gpu"]
BENCHMARK = "benchmarks/gpu.py"


def main() -> int:
    """Run tests and benchmark, write the report, and return the first exit code that is not 0."""
    if not torch.cuda.is_available():
        sys.exit("make gpu: no GPU that PyTorch can use is here, so nothing was run")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.unlink(missing_ok=True)
    start = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    tests, benchmark = [*TESTS, f"--junitxml={RESULTS}"], ROOT / BENCHMARK
    tested = subprocess.run([sys.executable, *tests], cwd=ROOT, env=environment, check=False)  # noqa: S603 - ours
    measured = subprocess.run([sys.executable, benchmark], stdout=subprocess.PIPE, check=False)  # noqa: S603
    output = measured.stdout.decode()
    print(output)
    facts = [*machine(), f"{(time.monotonic() - start) / 60:.1f} minutes"]
    codes = tested.returncode, measured.returncode
    REPORT.write_text(report(facts, test_rows(RESULTS), output, codes), "utf-8")
    print(f"wrote {REPORT}")
    return codes[0] or codes[1]


def machine() -> list[str]:
    """Return the facts on the machine and the code that a reader of the numbers needs."""
    of_gpu = torch.cuda.get_device_properties(0)
    return [
        f"{torch.cuda.device_count()} x {of_gpu.name}, {of_gpu.total_memory / 2**30:.0f} GiB",
        f"{os.cpu_count()} processor cores",
        f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}",
        f"vlbench {code_version()}",
    ]


def test_rows(results: Path) -> list[tuple[str, str, str]]:
    """Return the name, the result and the seconds of each test in a file of JUnit's format."""
    rows = []
    for case in ET.parse(results).iter("testcase") if results.is_file() else ():  # noqa: S314 - ours
        words = [mark.tag for mark in case if mark.tag in {"failure", "error", "skipped"}]
        name = f"{case.get('classname')}::{case.get('name')}"
        rows.append((name, words[0] if words else "passed", f"{float(case.get('time', 0)):.1f}"))
    return rows


def report(
    facts: list[str], tests: list[tuple[str, str, str]], measured: str, codes: tuple[int, int]
) -> str:
    """Return the report in Markdown; `codes` are the exit codes of the tests and the benchmark."""
    passed = sum(result == "passed" for _, result, _ in tests)
    lines = ["# vlbench on a GPU", "", *(f"- {fact}" for fact in facts), ""]
    lines += [f"Tests marked `gpu`: {passed} of {len(tests)} passed, exit code {codes[0]}.", ""]
    lines += ["| test | result | seconds |", "|---|---|---|"]
    lines += [f"| `{name}` | {result} | {seconds} |" for name, result, seconds in tests]
    lines += [
        "",
        f"`benchmarks/gpu.py`, exit code {codes[1]}:",
        "",
        "```",
        measured.rstrip(),
        "```",
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
