"""Loss and gradients of one microbatch as a graph, and its cut into stages of equal work (GPipe)."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelsim.errors import Gather, ModelError, count_of
from accelsim.workload.gradient.backward import backward
from accelsim.workload.gradient.context import is_float
from accelsim.workload.gradient.rules import ENDS
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops import get
from accelsim.workload.training.emit import Emitter
from accelsim.workload.training.forward import Forward, logits_of, trainable
from accelsim.workload.training.precision import Precision, precision_of
from accelsim.workload.training.step import LABELS, LOSS


def balanced_blocks(times: Sequence[int] | Sequence[float], stages: int) -> tuple[tuple[int, int], ...]:
    """Return ``stages`` contiguous blocks (start, end) of layers, none empty, whose largest sum is least.

    Of all such blocks those with the least sum of squares, so that the smaller ones are even too; of these the ones
    that begin earliest. What GPipe asks of a partition (Huang et al., NeurIPS 2019, section 2.2), and torchgpipe's
    ``balance`` approximates. UsageError: fewer layers than stages, or times below 0.
    """
    gather, layers = Gather(), count_of(len(times), "layer")
    what = f"{layers} on {count_of(stages, 'stage')}"
    gather.refuse(not 1 <= stages <= len(times), what, "stages", f"1 to {len(times)}")
    gather.refuse(any(time < 0 for time in times), "a time below 0", "times", "times of layers from 0")
    gather.done()
    reached = np.concatenate([[0], np.cumsum(np.asarray(times))])
    block = reached[None, :] - reached[:, None]
    size = np.where(np.triu(np.ones_like(block, bool), 1), block.astype(float), np.inf)
    largest = _least(size, stages, np.maximum)[0][-1, -1]
    squares = np.where(size <= largest, size, np.inf) ** 2
    cuts = _least(squares, stages, np.add)[1]
    ends = [len(times)]
    for stage in range(stages - 1, 0, -1):
        ends.append(int(cuts[stage, ends[-1]]))
    starts = [0, *ends[:0:-1]]
    return tuple(zip(starts, ends[::-1], strict=True))


def _least(cost: np.ndarray, stages: int, join: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
    """Least joined cost of the first j layers in k + 1 blocks, and where the last of these begins, both [k, j].

    ``cost[i, j]``: of a block of the layers i to j - 1.
    """
    best, cuts = [cost[0]], [np.zeros(len(cost), np.int64)]
    for _ in range(stages - 1):
        joined = join(best[-1][:, None], cost)
        cuts.append(np.argmin(joined, axis=0))
        best.append(joined[cuts[-1], np.arange(len(cost))])
    return np.array(best), np.array(cuts)


DOUBLE = "fp64"
"""A precision beside those of ``PRECISIONS``: everything in double precision, to tell a fault from rounding."""

COPY = "@"
"""Between the name of a weight and the stage that has a copy of it."""


@dataclass(frozen=True)
class Objective:
    """Loss and gradients of one microbatch.

    ``graph``: inputs are those of ``model``, ``labels`` (one-hot, [rows, classes]) and all weights; outputs are the
    loss and the gradient of each weight, ``grads`` (weight -> tensor). The loss is divided by the rows of the whole
    batch, so that losses and gradients of all microbatches of all replicas only need to be added. ``flows``:
    activation -> its gradient. ``block``: node -> block (what a pipeline may cut between), of the nodes of the forward
    pass; ``place``: block -> stage, of which there are ``stages``.
    ``weights``: weight -> name in the model, several where a weight is read on several stages (``name@stage``).
    ``start``: name in the model -> the constant there, whose values a training begins with.
    """

    graph: Graph
    model: Graph
    loss: str
    weights: dict[str, str]
    grads: dict[str, str]
    flows: dict[str, str]
    block: dict[str, int]
    place: tuple[int, ...]
    precision: Precision
    start: dict[str, Tensor]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return self.place[-1] + 1

    @property
    def stage(self) -> dict[str, int]:
        """Map of the nodes of the forward pass to their stages."""
        return {name: self.place[block] for name, block in self.block.items()}

    @property
    def samples(self) -> int:
        """Samples of one microbatch."""
        return self.model.tensors[self.model.inputs[0]].shape[0]

    @property
    def shared(self) -> dict[str, tuple[str, ...]]:
        """Map of names in the model to the weights that are their copies, where there are several."""
        copies: dict[str, list[str]] = {}
        for weight, name in self.weights.items():
            copies.setdefault(name, []).append(weight)
        return {name: tuple(same) for name, same in copies.items() if len(same) > 1}


Cut = Callable[[Sequence[float], int], Sequence[int]]
"""Cost of each block in order, number of stages -> stage of each block."""


def objective(
    model: Graph, replicas: int = 1, stages: int = 1, precision: str = "fp32", cut: Cut | None = None
) -> Objective:
    """Return the loss of ``model`` (its batch is one microbatch) and all gradients, cut into at most ``stages``.

    ``replicas``: how many microbatches there are in a step, of all replicas. ``precision``: a key of ``PRECISIONS``
    without loss scaling, or 'fp64'. ``cut`` decides which blocks lie on which stage (default: ``balanced``). Raises
    ModelError for a model with fewer blocks than stages, and as ``training_graph``.
    """
    policy = precision_of("fp32" if precision == DOUBLE else precision)
    e = Emitter(f"{model.name}-objective")
    e.graph.opset = model.opset
    logits = Forward(e, model, policy).write(logits_of(model))
    scores = e.graph.tensors[logits].shape
    loss = _loss(e, logits, scores, scores[0] * replicas)
    learnt = trainable(model)
    block = blocks_of(e.graph, {*learnt, *(tensor.name for tensor in e.graph.constants())})
    place = placed(e.graph, block, stages, cut)
    stage = {name: place[index] for name, index in block.items()}
    weights = _copies(e.graph, learnt, stage)
    flowing = _flowing(e.graph, weights, loss)
    found = backward(e.graph, loss, [*weights, *flowing])
    grads = {name: found[name] for name in weights}
    e.graph.outputs += [loss, *grads.values()]
    e.graph.trains = True
    start = {name: model.tensors[name] for name in learnt}
    flows = {name: found[name] for name in flowing}
    names = (loss, weights, grads, flows, block)
    made = Objective(e.graph, model, *names, place, policy, start)
    return in_double(made) if precision == DOUBLE else made


def _loss(e: Emitter, logits: str, shape: tuple[int, ...], rows: int) -> str:
    """-sum(labels * LogSoftmax(logits)) / rows."""
    labels = e.input(LABELS, shape)
    chosen = e.pair("Mul", labels, e.op("LogSoftmax", [logits], "loss.log_softmax", axis=1), "loss.chosen")
    total = e.op("ReduceSum", [chosen], "loss.sum", axes=[0, 1], keepdims=0)
    return e.pair("Div", total, e.number(-rows), LOSS)


def _flowing(graph: Graph, weights: Mapping[str, str], loss: str) -> list[str]:
    """Activations between weights and the loss, in order."""
    active, wanted = set(weights), {loss}
    moving = []
    for node in graph.nodes:
        if node.op not in ENDS and active.intersection(node.inputs):
            moving.append(node)
            active.update(node.outputs)
    for node in reversed(moving):
        if wanted.intersection(node.outputs):
            wanted.update(name for name in node.inputs if name in active)
    made = [name for node in moving for name in node.outputs if name in wanted and name != loss]
    return [name for name in made if is_float(graph.tensors[name].dtype)]  # which expert takes a token is a number


def _copies(graph: Graph, names: Sequence[str], stage: Mapping[str, int]) -> dict[str, str]:
    """Gives each stage a weight of its own of what several read; weight -> name in the model."""
    weights: dict[str, str] = {}
    for name in names:
        readers = [node for node in graph.nodes if name in node.inputs]
        _, *others = sorted({stage[node.name] for node in readers}) or [0]
        weights[name] = name
        for other in others:
            copy = f"{name}{COPY}{other}"
            graph.tensors[copy] = replace(graph.tensors[name], name=copy)
            graph.inputs.append(copy)
            weights[copy] = name
            for node in readers:
                if stage[node.name] == other:
                    node.inputs = [copy if given == name else given for given in node.inputs]
    return weights


LAYER = re.compile(r"l(\d+)(?=[._]|$)")
"""Pattern of the names of nodes in a repeated layer."""

WEIGHTED = ("Conv", "MatMul", "Gemm", "ExpertMatMul")


def blocks_of(graph: Graph, constant: Container[str]) -> dict[str, int]:
    """Return node -> block (from 0, in order) of a forward pass. A pipeline may cut between blocks.

    Where nodes are called after layers (l0.q, l1.q, ...), these are the blocks, with what stands before the first and
    after the last; elsewhere a block begins at each product with a weight (a name in ``constant``). A node that reads
    weights alone belongs to its first reader.
    """
    layered = any(LAYER.match(node.name) for node in graph.nodes)
    found: dict[str, int] = {}
    later: list[Node] = []
    still = {name for name in graph.tensors if name in constant}
    block, begun = 0, False
    for node in graph.nodes:
        if still.issuperset(name for name in node.inputs if name):
            still.update(node.outputs)
            later.append(node)
            continue
        match = LAYER.match(node.name)
        if layered:
            block = max(block, int(match[1])) if match else block
        elif node.op in WEIGHTED and still.intersection(node.inputs):
            block, begun = block + begun, True
        found[node.name] = block
    for node in reversed(later):
        readers = (other for other in graph.nodes if set(node.outputs).intersection(other.inputs))
        found[node.name] = min((found[other.name] for other in readers), default=0)
    return found


def placed(graph: Graph, blocks: Mapping[str, int], stages: int, cut: Cut | None = None) -> tuple[int, ...]:
    """Return block -> stage of a forward pass. Raises ModelError if there are fewer blocks than stages."""
    count = 1 + max(blocks.values(), default=0)
    if count < stages:
        what = f"{count_of(count, 'layer')} on {count_of(stages, 'pipeline stage')}"
        raise ModelError(what, graph.name, f"at most {count_of(count, 'stage')}")
    costs = [0.0] * count
    for node in graph.nodes:
        ins = [graph.tensors[name] if name else None for name in node.inputs]
        work = get(node.op).work(node, ins, [graph.tensors[name] for name in node.outputs])
        costs[blocks[node.name]] += work.macs
    return tuple((cut or balanced)(costs, stages))


def balanced(costs: Sequence[float], stages: int) -> list[int]:
    """Return the stage of each block, contiguous and none empty, so that the largest sum of a stage is smallest
    (GPipe)."""
    blocks = balanced_blocks(costs, stages)
    return [stage for stage, (start, end) in enumerate(blocks) for _ in range(start, end)]


def in_double(made: Objective) -> Objective:
    """Return the objective in double precision: every fp32 tensor becomes fp64."""
    what = "everything in fp64"
    precision = replace(made.precision, name=DOUBLE, master=DOUBLE, compute=DOUBLE, what=what)
    return replace(made, graph=double(made.graph), precision=precision)


def double(graph: Graph) -> Graph:
    """Return a copy of ``graph`` whose fp32 tensors are fp64."""
    wide = graph.copy()
    for tensor in wide.tensors.values():
        if tensor.dtype == "fp32":
            tensor.dtype = DOUBLE
            if tensor.is_constant:
                tensor.data, tensor.source = np.asarray(tensor.value(), np.float64), None
    for node in wide.nodes:
        if node.attrs.get("to") == "fp32":
            node.attrs["to"] = DOUBLE
    return wide
