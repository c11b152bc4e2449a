"""What the first import, the first line of help and the shortest commands cost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


TRAIN = "--train --values off"
COMMANDS = {
    "chips": 1.5, "clusters": 2.0, "models": 1.5, "memories": 2.0,
    "run gemm?M=4,N=4,K=4 --on edu-4x4 --json": 4.5,
    "run resnet50 --on tpu-v1 --values off --no-advice --json": 6.5,
    "run resnet50 --on systolic-generic --values off --no-advice --json": 7.5,
    "run resnet18?resolution=96 --on edu-cache --values off --no-advice --json": 55.0,
    "run gpt3?layers=2 --on tpu-v4 --values off --no-advice --json": 11.0,
    "run gpt3 --on tpu-v4 --values off --no-advice --json --ignore-capacity": 35.0,
    "run llama3-8b?prompt=2048,new=256 --on h100-sxm --values off": 28.0,
    f"run gpt3?layers=96 --on 128x-dgx-a100 --plan tp=8,pp=8,dp=16 --batch 1536 {TRAIN}": 22.0,
    f"run gpt3?layers=96 --on 128x-dgx-a100 --plan tp=8,pp=8,dp=16 --batch 1536 {TRAIN} --no-advice": 12.0,
    f"run gpt3?layers=96 --on 512x-dgx-a100 --plan tp=8,pp=8,dp=64 --batch 6144 {TRAIN} --no-advice": 18.0,
    f"run gpt3?layers=96 --on 2048x-dgx-a100 --plan tp=8,pp=8,dp=256 --batch 24576 {TRAIN} --no-advice": 38.0,
}  # fmt: skip
"""Command line -> CPU time that it may take, as a multiple of that of ``python -c "import numpy"``."""


def cpu_of(command: list[str], environment: dict[str, str] | None = None) -> float:
    """User and system seconds of a child process, the start of Python included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import(benchmark: Any, figure: Any) -> None:
    whole = benchmark.pedantic(lambda: cpu_of([sys.executable, "-c", "import accelsim"]), rounds=REPEATS)
    code = [sys.executable, "-c", IMPORT]
    api = min(float(subprocess.run(code, check=True, capture_output=True, text=True).stdout) for _ in range(REPEATS))
    figure("import of load_chip, compile and simulate", api, " s", None, "numpy and simpy included")
    assert figure("import accelsim, the start of Python included", whole, " s", 0.1).holds


def test_help(benchmark: Any, figure: Any) -> None:
    command = [sys.executable, "-m", "accelsim", "--help"]
    benchmark.pedantic(lambda: cpu_of(command), rounds=1)
    best = min(cpu_of(command) for _ in range(REPEATS))
    assert figure("accelsim --help, the start of Python included", best, " s", 0.2).holds


@pytest.mark.parametrize("line", COMMANDS)
def test_commands(benchmark: Any, figure: Any, tmp_path: Path, line: str) -> None:
    """Whole processes; the first one fills the user's cache."""
    environment = {name: value for name, value in os.environ.items() if name != "ACCELSIM_CACHE"}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    numpy = min(cpu_of([sys.executable, "-c", "import numpy"]) for _ in range(REPEATS))
    command = [sys.executable, "-m", "accelsim", *line.split()]
    benchmark.pedantic(lambda: cpu_of(command, environment), rounds=1)
    best = min(cpu_of(command, environment) for _ in range(REPEATS)) / numpy
    assert figure(f"accelsim {line} / import numpy", best, " x", COMMANDS[line]).holds
