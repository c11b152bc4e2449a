"""accelsim as a backend of ONNX (``onnx.backend.base``): the reference execution of an imported model.

``prepare(model)`` keeps the model, ``run(inputs)`` imports it for the shapes of these inputs and executes it. A graph
has static shapes and static parameters after import. Where they depend on an input (the target of a Reshape, the k of a
TopK, the bounds of a Clip), the import is repeated with the values of just these inputs as constants, as somebody who
compiles a model for an accelerator would have to give them; ``Outcome.bound`` names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx.backend.base import Backend, BackendRep

from accelsim.errors import ModelError, Problem, UsageError
from accelsim.types import Array
from accelsim.workload.constants import constant_tensor
from accelsim.workload.execute import run
from accelsim.workload.graph import Graph
from accelsim.workload.onnx.canonical.rules import Trace
from accelsim.workload.onnx.importing.importer import build
from accelsim.workload.onnx.importing.read import raw_model
from accelsim.workload.ops.base import find
from accelsim.workload.ops.foreign import op_type, stored

MAX_BOUND = 4096
"""Elements of an input beyond which it never becomes a constant."""


@dataclass(frozen=True)
class Outcome:
    """How a model was executed: ops that the host's reference kernels computed, inputs that became constants.

    ``host`` is empty when kernels of the op registry computed everything.
    """

    graph: Graph
    host: list[str] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)


class Prepared(BackendRep):
    """A model that runs; ``outcome`` tells how the last run went (None before the first)."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.outcome: Outcome | None = None
        constants = {item.name for item in model.graph.initializer}
        self.inputs = [item.name for item in model.graph.input if item.name not in constants]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for ``inputs``: a sequence in the order of the model's inputs, a mapping by name, or one array.

        Types are those of ONNX (ml_dtypes where NumPy has none). Raises ModelError when the model cannot be imported
        for these inputs, UsageError when they do not fit the model.
        """
        feeds = self._named(inputs)
        self.outcome = specialised(self.model, feeds)
        graph = self.outcome.graph
        results = run(graph, {name: feeds[name] for name in graph.inputs})
        return tuple(stored(results[name], graph.tensors[name].dtype) for name in graph.outputs)

    def _named(self, inputs: Any) -> dict[str, Array]:
        if isinstance(inputs, Mapping):
            pairs = list(inputs.items())
        else:
            given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(given) > len(self.inputs):
                raise UsageError(Problem(f"{len(given)} inputs", "", f"{len(self.inputs)} of them"))
            pairs = list(zip(self.inputs, given, strict=False))
        return {name: array_of(name, value) for name, value in pairs}


def array_of(name: str, value: Any) -> Array:
    """``value`` as an array; ModelError for a sequence, a mapping or nothing, which no tensor can hold."""
    if value is None or isinstance(value, (list, tuple, Mapping)):
        kind = "an absent optional value" if value is None else f"a {type(value).__name__} of values"
        raise ModelError(Problem(f"input {name!r} is {kind}", expected="a tensor"))
    return np.asarray(value)


def specialised(model: Any, feeds: Mapping[str, Array]) -> Outcome:
    """The graph of ``model`` for ``feeds``: as few of them as constants as the registry's own ops need.

    Inputs become constants step by step, those that the import asked for, until nothing goes to the host or nothing
    more is asked for. Raises ModelError when that ends without a graph.
    """
    bound: dict[str, Array] = {}
    best: Outcome | None = None
    while True:
        trace = Trace()
        failure = None
        try:
            graph = _imported(model, feeds, bound, trace)
            best = Outcome(graph, host_ops(graph, trace), sorted(bound))
        except ModelError as error:
            failure = error
        more = _wanted(trace.asked, trace, feeds, bound) or _wanted(trace.shaping, trace, feeds, bound)
        if best is not None and (not best.host or not more):
            return best
        if not more:
            assert failure is not None
            raise failure
        bound |= {name: feeds[name] for name in sorted(more)}


def _wanted(names: set[str], trace: Trace, feeds: Mapping[str, Array], bound: Mapping[str, Array]) -> set[str]:
    """Inputs that ``names`` depend on, that are small and no constants yet."""
    return {name for name in trace.sources(names, feeds) - set(bound) if feeds[name].size <= MAX_BOUND}


def _imported(model: Any, feeds: Mapping[str, Array], bound: Mapping[str, Array], trace: Trace) -> Graph:
    shapes = {name: value.shape for name, value in feeds.items() if name not in bound}
    raw = raw_model(model, Path("model"))
    raw.inputs = [item for item in raw.inputs if item.name not in bound]
    raw.initialisers |= {name: constant_tensor(name, value) for name, value in bound.items()}
    return build(raw, None, shapes, trace)


def host_ops(graph: Graph, trace: Trace) -> list[str]:
    """Names of the ops of a graph that the host's reference kernels compute, in a run or already at import."""
    return sorted({*trace.host, *(op_type(node) for node in graph.nodes if find(node.op) is None)})


class AccelsimBackend(Backend):
    """The interface that ``onnx.backend.test.BackendTest`` and other users of ONNX backends expect."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        """``model`` ready to run; nothing is imported before the shapes of the inputs are known."""
        return Prepared(model)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Outputs of ``model`` on ``inputs``; see ``Prepared.run``."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Outputs of a model of that one node, of the newest operator set."""
        from onnx import TensorProto, helper

        names = [name for name in node.input if name]
        given = dict(zip(names, inputs, strict=True))
        kinds = {name: helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype) for name, value in given.items()}
        infos = [helper.make_tensor_value_info(name, kinds[name], np.shape(given[name])) for name in names]
        made = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output if name]
        return cls.run_model(helper.make_model(helper.make_graph([node], "node", infos, made)), inputs, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU: this is the reference execution, not a simulated chip."""
        return device.split(":")[0] == "CPU"
