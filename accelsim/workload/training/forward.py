"""The forward part of a training step: the model once more, with its weights as inputs and in the right formats."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelsim.errors import ModelError, count_of
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import needed_nodes
from accelsim.workload.sources.weights import NEAR_ONE, law_of
from accelsim.workload.training.emit import Emitter
from accelsim.workload.training.fake import MATRIX, QuantConfig, Wrapped, wrapped_tensors
from accelsim.workload.training.precision import Precision

FROZEN = {("BatchNormalization", 3), ("BatchNormalization", 4)}
"""(op, input) of statistics, which a gradient does not train: they keep the values of the model."""

SOFTMAX = ("Softmax", "LogSoftmax")


def logits_of(graph: Graph) -> str:
    """The tensor of the class scores, or what a softmax at the end makes it from: the one output, of several the only
    one that is [batch, classes] (the pooled one of BERT, after which a classifier stands).

    Raises ModelError where there is no such output, or several.
    """
    scores = [name for name in graph.outputs if _is_scores(graph, name)]
    if len(graph.outputs) > 1 and len(scores) != 1:
        what = f"the model has {count_of(len(graph.outputs), 'output')}, {len(scores)} of them [batch, classes]"
        raise ModelError(what, graph.name, "one, the scores of the classes")
    name = scores[0] if scores else graph.outputs[0]
    maker = {out: node for node in graph.nodes for out in node.outputs}.get(name)
    if maker is not None and maker.op in SOFTMAX:
        name = maker.inputs[0]
    if not _is_scores(graph, name):
        shape = list(graph.tensors[name].shape)
        raise ModelError(f"output {name!r} has shape {shape}", graph.name, "[batch, classes]")
    return name


def _is_scores(graph: Graph, name: str) -> bool:
    shape = graph.tensors[name].shape
    return len(shape) == 2 and shape[1] >= 2


def trainable(graph: Graph) -> list[str]:
    """Names of the constants that training changes, in the order of their first use: weights, biases, scales."""
    found: dict[str, None] = {}
    for node in graph.nodes:
        for index, name in enumerate(node.inputs):
            tensor = graph.tensors.get(name)
            if tensor is None or not tensor.is_constant or (node.op, index) in FROZEN:
                continue
            if tensor.dtype in ("fp32", "fp16", "bf16") and law_of(node, index, tensor, NEAR_ONE) is not None:
                found[name] = None
    return list(found)


@dataclass
class Forward:
    """Writes the model into ``e``; ``names``: tensor -> its fake-quantised form."""

    e: Emitter
    model: Graph
    precision: Precision
    quant: QuantConfig | None = None
    names: dict[str, str] = field(default_factory=dict)
    wrapped: dict[str, Wrapped] = field(default_factory=dict)

    def write(self, logits: str) -> str:
        """Write the inputs, the weights and the nodes that ``logits`` depends on; return the logits in fp32."""
        for name in self.model.inputs:
            self.e.input(name, self.model.tensors[name].shape, self.model.tensors[name].dtype)
        for name in trainable(self.model):
            self.e.input(name, self.model.tensors[name].shape, self.precision.master)
        nodes = needed_nodes(self.model.nodes, [logits])
        if self.quant is not None:
            self.wrapped = wrapped_tensors(self.model, nodes, self.quant)
        for node in nodes:
            inputs = [self._used(node, index, name) if name else "" for index, name in enumerate(node.inputs)]
            self.e.ops(node.op, inputs, node.outputs, node.name, **node.attrs)
        return self.e.cast(logits, "fp32")

    def _used(self, node: Node, index: int, name: str) -> str:
        """The name under which ``node`` reads tensor ``name`` as input ``index``."""
        if name not in self.wrapped or node.op not in MATRIX or index > 1:
            return self._plain(name)
        if name not in self.names:
            self.names[name] = self.wrapped[name].write(self.e, self._plain(name))
        return self.names[name]

    def _plain(self, name: str) -> str:
        if name in self.e.graph.inputs:
            return self.e.cast(name, self.precision.compute) if self._floats(name) else name
        if self.model.tensors[name].is_constant and name not in self.e.graph.tensors:
            self.e.fixed(self.model.tensors[name], self.precision.compute)
        return name

    def _floats(self, name: str) -> bool:
        return self.model.tensors[name].dtype in ("fp32", "fp16", "bf16")
