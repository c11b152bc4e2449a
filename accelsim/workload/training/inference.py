"""From learnt states back to models that one can run, export and compile."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.training.emit import Emitter
from accelsim.workload.training.fake import QuantConfig
from accelsim.workload.training.forward import Forward, logits_of
from accelsim.workload.training.precision import precision_of


def with_weights(model: Graph, values: Mapping[str, Array], values_from: str = "training") -> Graph:
    """A copy of ``model`` whose constants named in ``values`` have those values (float32)."""
    graph = model.copy()
    for name, array in values.items():
        if name in graph.tensors:
            graph.tensors[name].data = np.asarray(array, np.float32)
            graph.tensors[name].source = None
    graph.values_from = values_from
    return graph


def fake_quantised(model: Graph, config: QuantConfig, values: Mapping[str, Array]) -> Graph:
    """The model with its fake quantisation as nodes; ``values``: weights and learnt scales. It gives the logits."""
    e = Emitter(f"{model.name}-fake-quantised")
    e.graph.opset = model.opset
    forward = Forward(e, model, precision_of("fp32"), config)
    e.graph.outputs.append(forward.write(logits_of(model)))
    for name in [name for name in e.graph.inputs if name not in model.inputs]:
        e.graph.inputs.remove(name)
        e.graph.tensors[name].data = np.asarray(values[name], np.float32)
    e.graph.values_from = "training"
    return e.graph
