"""From a graph built by hand to a program, a run and its values, one step at a time."""

from __future__ import annotations

import numpy as np

import accelsim
from accelsim.compiler.state import Options
from accelsim.workload.graph import Graph, Node, Tensor

weights = np.arange(12, dtype=np.float32).reshape(4, 3)
tensors = {
    "x": Tensor("x", (2, 4)),
    "w": Tensor("w", (4, 3), data=weights),
    "product": Tensor("product", (2, 3)),
    "y": Tensor("y", (2, 3)),
}
nodes = [Node("multiply", "MatMul", ["x", "w"], ["product"]), Node("rectify", "Relu", ["product"], ["y"])]
graph = Graph("own", nodes, tensors, inputs=["x"], outputs=["y"], opset=17)

chip = accelsim.load_chip("edu-4x4")
program = accelsim.compile(graph, chip, Options(dtype="fp32"))
run = accelsim.simulate(program, {"x": np.ones((2, 4), np.float32)}, values="exact")

print(f"{len(program.commands)} commands, {run.seconds * 1e6:.2f} us")
print(run.outputs["y"])
