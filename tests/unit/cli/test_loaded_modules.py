"""A command loads what it uses: the engine types of the chip, the operators of the graph, the laws of the specs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.doc_blocks import ROOT

COUNT = """
import json, sys
from accelsim.cli import main
main(sys.argv[1:], standalone_mode=False)
files = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "accelsim"}
print("\\n" + json.dumps([len(files), sum(open(file).read().count("\\n") for file in files.values()), sorted(files)]))
"""
MOST = {
    "run resnet50 --on tpu-v1 --values off": (220, 30_400),
    "run cnn --on edu-4x4": (256, 35_100),
    "kernel gemm 8192 12288 1536 --on a100-80-sxm --dtype fp16": (184, 25_500),
    "collective all_reduce --on dgx-a100 --size 1GB": (125, 17_000),
    "dram ddr3-1600 --limit 20": (135, 18_500),
    "plan digits-mlp --on 4x-edu --batch 4": (328, 46_400),
}
"""Command -> most modules and lines that it loads, when the user's cache has its chip and its mappings."""


def _loaded(command: str, cache: Path) -> tuple[int, int, list[str]]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "ACCELSIM_CACHE": "on"}
    for _ in range(2):
        done: Any = subprocess.run([sys.executable, "-c", COUNT, *shlex.split(command)], cwd=ROOT, env=environment,
                                   capture_output=True, text=True, check=True, timeout=120)  # fmt: skip
    modules, lines, names = json.loads(done.stdout.splitlines()[-1])
    return modules, lines, names


@pytest.mark.parametrize("command", MOST)
def test_a_command_loads_few_modules(command: str, tmp_path: Path) -> None:
    modules, lines, _ = _loaded(command, tmp_path)
    assert modules <= MOST[command][0] and lines <= MOST[command][1], (modules, lines)


def test_a_run_loads_only_the_engine_types_and_operators_that_it_has(tmp_path: Path) -> None:
    _, _, names = _loaded("run 'gemm?M=8,N=4,K=8' --on edu-4x4 --values off", tmp_path)
    engines = {
        name.split(".")[2] for name in names if name.startswith("accelsim.engines.") and name.endswith(".engine")
    }
    assert engines == {"systolic", "simd", "dma", "cpu"}
    assert not {f"accelsim.workload.ops.{name}" for name in ("index", "pool", "unary", "gradients")} & {*names}
    assert not [name for name in names if name.startswith(("accelsim.spec.laws.chip", "accelsim.dram."))]
