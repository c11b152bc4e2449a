"""The update of the weights as a graph: Adam in FP32 beside weights in the format of the products."""

from __future__ import annotations

from accelsim.cluster.step.passes import local
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder

ROW = 4096
"""Parameters of a row of the arrays that hold them."""


def update(parameters: int, library: bool = False, tiles: bool = False) -> Graph:
    """Adam (Kingma and Ba, 2015) on gradients, moments and weights in FP32, behind the norm of the gradients and its
    clipping. With ``library`` what one fused kernel for all tensors moves: 16 bytes of a parameter read, 12 written,
    and 2 of the weight that products read. ``tiles``: rows are added up for the norm each where it lies, then their
    sums, as one tile has no room for all."""
    b = Builder("adam")
    shape = (max(1, parameters // ROW), min(ROW, parameters))
    inputs = [b.input(name, shape) for name in ("weight", "grad", "first", "second")]
    clip = b.constant("clip", 1.0)
    rows = b.op("ReduceSum", [inputs[1]], "rows", axes=[1], keepdims=1) if tiles else inputs[1]
    norm = b.op("ReduceSum", [rows], "norm", axes=[0, 1], keepdims=0)
    inputs[1] = b.op("Mul", [inputs[1], clip], "clipped")
    weight, *moments = (_fused if library else _written)(b, *inputs)
    short = b.op("Cast", [weight], "weight.short", to="fp16")
    graph = b.finish(norm, weight, *moments, short)
    graph.trains = True
    return local(graph)


def _written(b: Builder, weight: str, grad: str, first: str, second: str) -> tuple[str, ...]:
    """Node by node: the new weight and moments."""
    number = {
        name: b.constant(name, value)
        for name, value in (("b1", 0.9), ("c1", 0.1), ("b2", 0.95), ("c2", 0.05), ("eps", 1e-8), ("lr", 1e-4))
    }
    part = b.op("Mul", [grad, number["c1"]], "grad.part")
    first = b.op("Add", [b.op("Mul", [first, number["b1"]], "first.kept"), part], "first.next")
    square = b.op("Mul", [b.op("Mul", [grad, grad], "square"), number["c2"]], "square.part")
    second = b.op("Add", [b.op("Mul", [second, number["b2"]], "second.kept"), square], "second.next")
    deviation = b.op("Add", [b.op("Sqrt", [second], "root"), number["eps"]], "deviation")
    step = b.op("Mul", [b.op("Div", [first, deviation], "ratio"), number["lr"]], "step")
    return b.op("Sub", [weight, step], "weight.next"), first, second


def _fused(b: Builder, weight: str, grad: str, first: str, second: str) -> tuple[str, ...]:
    """What such a kernel moves, as two: it keeps no result but weight and moments."""
    return b.op("Add", [weight, grad], "weight.next"), b.op("Add", [first, second], "moments.next")
