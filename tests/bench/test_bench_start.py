"""What the first import and the first line of help cost."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

REPEATS = 3
IMPORT = """
import sys, time
start = time.process_time()
import accelsim
accelsim.load_chip, accelsim.compile, accelsim.simulate
print(time.process_time() - start)
heavy = {"onnx", "onnxruntime", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


def cpu_of(command: list[str]) -> float:
    """User and system seconds of a child process, the start of Python included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import(benchmark: Any, figure: Any) -> None:
    whole = benchmark.pedantic(lambda: cpu_of([sys.executable, "-c", "import accelsim"]), rounds=REPEATS)
    code = [sys.executable, "-c", IMPORT]
    api = min(
        float(subprocess.run(code, check=True, capture_output=True, text=True).stdout) for _ in range(REPEATS)
    )
    figure(
        "import of load_chip, compile and simulate",
        api,
        " s",
        None,
        "numpy, pydantic, PyYAML and simpy included",
    )
    assert figure("import accelsim, the start of Python included", whole, " s", 0.3).holds


def test_help(benchmark: Any, figure: Any) -> None:
    command = [sys.executable, "-m", "accelsim", "--help"]
    benchmark.pedantic(lambda: cpu_of(command), rounds=1)
    best = min(cpu_of(command) for _ in range(REPEATS))
    assert figure("accelsim --help, the start of Python included", best, " s", 0.5).holds
