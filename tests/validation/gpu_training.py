"""Training steps of language models on GPUs, forward and backward, as NeuSight measured them in FP32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from accelsim.workload.gradient.backward import backward
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.training.emit import Emitter
from accelsim.workload.training.forward import Forward, trainable
from accelsim.workload.training.precision import precision_of
from tests.validation.gpu_rows import EAGER, Row, rows_of, simulated, without_link_s


def training(data: Path, networks: Mapping[str, str], devices: Mapping[str, str]) -> Iterator[Row]:
    """Steps on one device, eager, without an optimiser. ``networks``, ``devices``: names there -> names here."""
    for row in rows_of(data / "neusight_model_e2e.csv"):
        chip, network = devices.get(row["device"]), networks.get(row["model"])
        if row["mode"] != "train" or chip is None or network is None:
            continue
        step = gradients(load_model(network, batch=int(row["batch"])))
        run = simulated(step, chip, "fp32", fusion="eager", site=EAGER)
        name = f"{row['model']}, training, batch {row['batch']}, on {chip}"
        yield Row(name, float(row["time_us"]) * 1e-6, without_link_s(run))


def gradients(model: Graph) -> Graph:
    """The pass forward and back: gradients of all weights, of the mean of the first output (scores, not caches)."""
    e = Emitter(f"{model.name}-gradients")
    e.graph.opset, e.graph.values_from = model.opset, model.values_from
    weights, scored = trainable(model), model.outputs[0]
    scores = Forward(e, model, precision_of("fp32"), None).write(scored)
    axes = tuple(range(len(model.tensors[scored].shape)))
    e.ops("ReduceMean", [scores], ["loss"], "loss", axes=axes, keepdims=0)
    found = backward(e.graph, "loss", weights)
    e.graph.outputs += ["loss", *dict.fromkeys(found.values())]
    return e.graph
