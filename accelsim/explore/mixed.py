"""Mixed precision after training: the few layers to keep in a wider format so that little accuracy is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from accelsim.compiler.numbers.formats import resolve
from accelsim.compiler.passes import transform
from accelsim.compiler.state import Options
from accelsim.explore.accuracy import STEPS, range_feeds, right_share, trained, with_matrix
from accelsim.explore.sensitivity import Choice, choose
from accelsim.explore.training_inputs import labelled
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.ops import base
from accelsim.workload.sources.datasets import Dataset


def keep_layers(
    model: str | Path | Graph,
    on: str | Path | Chip,
    data: str | Path | Dataset = "digits",
    *,
    dtype: str = "int4",
    keep: str = "fp16",
    budget: float = 0.005,
    batch: int = 32,
    steps: int = STEPS,
    options: Options | None = None,
    seed: int = 0,
) -> Choice:
    """The matrix layers of ``model`` to compute in ``keep`` so that at most ``budget`` of the accuracy is lost.

    All others are computed in ``dtype``. ``budget`` is a share (0.005 is half a point) of what the model gets right
    with every layer in ``keep``; the accuracy is that of the test samples of ``data``. Layers are tried alone and
    all but one, then kept greedily by gain per MAC, see ``sensitivity.choose``. Other arguments and errors as in
    ``explore.accuracy.accuracy``.
    """
    chip = with_matrix(on if isinstance(on, Chip) else load_chip(on))
    for name in (dtype, keep):
        resolve(chip, name, emulate=True)
    samples = labelled(data)
    graph = trained(model, samples, steps, seed)(batch)
    macs = layer_macs(graph)
    chosen = replace(options or Options(), dtype=dtype, emulate=True, seed=seed,
                     ranges_from=range_feeds(samples, graph))  # fmt: skip

    def score(narrow: Mapping[str, bool]) -> float:
        layers = {name: keep for name, is_narrow in narrow.items() if not is_narrow}
        return right_share(samples, transform(graph, chip, replace(chosen, layers=layers)))

    return choose(list(macs), score, budget, {name: float(count) for name, count in macs.items()})


def layer_macs(graph: Graph) -> dict[str, int]:
    """MACs of each node that a matrix unit could do, by name."""
    found = {}
    for node in graph.nodes:
        op = base.find(node.op)
        if op is not None and op.kind == "matrix":
            ins = [graph.tensors[name] if name else None for name in node.inputs]
            found[node.name] = op.work(node, ins, [graph.tensors[name] for name in node.outputs]).macs
    return found
