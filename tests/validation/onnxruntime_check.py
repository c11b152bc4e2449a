"""Check ``onnxruntime``: real networks, executed here and by ONNX Runtime, compared at every intermediate
tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.errors import UsageError
from accelsim.seeds import generator
from accelsim.types import Array
from accelsim.workload.execute import run
from accelsim.workload.graph import Graph
from accelsim.workload.onnx.reference import Difference, compare, reference_outputs
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.light import LIGHT
from tests.validation.base import Check, check, within

TOLERANCE = 1e-4
"""Largest allowed max |a - b| / max |b| of a tensor: float32 sums in another order, through over 100 layers.
"""


def normal_feeds(graph: Graph, seed: int) -> dict[str, Array]:
    """Standard normal values for every float input of ``graph``, zeros for the others; same seed, same
    values.
    """
    rng = generator(seed)
    feeds = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        floating = tensor.dtype.startswith(("fp", "bf"))
        feeds[name] = rng.standard_normal(tensor.shape, np.float32) if floating else np.zeros(tensor.shape, np.int64)
    return feeds


def tensor_differences(name: str, seed: int = 0, batch: int | None = None) -> tuple[list[Difference], str]:
    """Difference of every tensor of a model with weights 'random:SEED', and who the reference is."""
    graph = load_model(name, batch=batch, weights=f"random:{seed}")
    feeds = normal_feeds(graph, seed)
    theirs = reference_outputs(graph, feeds, every_tensor=True)
    return compare(run(graph, feeds, keep=True), theirs.values), theirs.by


@check("onnxruntime")
def onnxruntime(models: Sequence[str] = tuple(LIGHT), seed: int = 0) -> Check:
    """Every tensor of ``models`` within ``TOLERANCE`` of ONNX Runtime (``onnx.reference`` where it is
    missing).

    ``equal`` counts the tensors within the tolerance. Raises UsageError when ``models`` is empty.
    """
    if not models:
        raise UsageError("no models to check")
    rows: list[Difference] = []
    details: list[str] = []
    by = ""
    for name in models:
        found, by = tensor_differences(name, seed)
        worst = max(found, key=lambda row: row.relative)
        details.append(f"{name}: {len(found)} tensors, largest relative error {worst.relative:.1e} at {worst.tensor}")
        details += [f"{name}: {row.tensor} {row.relative:.1e}" for row in found if row.relative > TOLERANCE][:5]
        rows += found
    held = sum(row.relative <= TOLERANCE for row in rows)
    what = f"every tensor of {len(models)} models against {by}, relative error at most {TOLERANCE:g}"
    errors = np.array([row.relative for row in rows])
    return Check("onnxruntime", what, len(rows), held, errors, details, within([TOLERANCE]))
