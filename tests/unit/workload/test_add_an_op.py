"""The page about new operators: its one file makes an operator that is imported, run, exported and trained."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.helpers.doc_blocks import ROOT

PAGE = ROOT / "docs" / "add-an-op.md"
RUN = """
import onnx
import accelsim
from accelsim.workload.gradient import backward
from accelsim.workload.onnx.exporting.model import export_onnx
from onnx import helper

infos = [helper.make_tensor_value_info(name, 1, [3, 4]) for name in "xy"]
nodes = [helper.make_node("ThresholdedRelu", ["x"], ["y"], name="act", alpha=0.5)]
made = helper.make_graph(nodes, "small", infos[:1], infos[1:])
onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), "small.onnx")
for sets in ([], ["vector.functions.ThresholdedRelu=none"]):
    run = accelsim.run("small.onnx", on="systolic-generic", dtype="fp32", set=sets)
    print([step.engine for step in run.program.steps if "act" in step.name])
graph = accelsim.load_model("small.onnx")
print([node.op_type for node in export_onnx(graph).graph.node])
backward(graph, "y", ["x"], seed="x")
print(graph.nodes[-1].op)
"""


def test_the_file_of_the_page_is_all_it_takes(tmp_path: Path) -> None:
    for folder in ("accelsim", "hwspecs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = PAGE.read_text(encoding="utf-8")
    ((name, code),) = re.findall(r"```python\n# (accelsim/\S+)\n(.*?)```", text, re.S)
    (tmp_path / name).write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['vector']", "['host']", "['ThresholdedRelu']", "Mul"]
