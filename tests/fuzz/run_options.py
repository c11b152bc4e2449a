"""Every option of a run, drawn from where it is declared: the fields of ``Request`` and of ``Options``.

A new field is drawn by its type (a flag is on or off); one of another type must be named here, or a test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from accelsim.compiler.state import EDGES, FUSIONS, SCHEMES, SHARES, Options
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.timing import SCHEDULES
from accelsim.formats.ranges.methods import METHODS
from accelsim.formats.table import FORMATS
from accelsim.machine.memory_models import MODELS
from accelsim.machine.values.effects import POLICIES
from accelsim.request import Request
from accelsim.request.job import Job, execute, prepare
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph

Pick = Callable[[Sequence[Any]], Any]

CHIPS = ("edu-4x4", "systolic-generic", "tpu-v1", "neuroncore-v2", "edu-mixed", "haswell-e5-2699v3")

SPEC: dict[str, tuple[str, ...]] = {
    "cores": ("1", "1", "1", "2", "3"),
    "matrix.epilogue": ("true", "true", "false"),
    "matrix.zero_gating": ("false", "true"),
    "matrix.padded_tiles": ("false", "true"),
    "vector.requantisation": ("fp32", "fixed_point"),
    "vector.chained": ("false", "true"),
    "token_delay": ("0", "3"),
}
"""Fields of a chip that change how a graph is compiled and run -> values to draw."""

STATED: dict[str, Callable[[Graph, Chip], Sequence[Any]]] = {
    "dtype": lambda graph, chip: ["", *(chip.matrix.formats if chip.matrix else ["fp32"])],
    "values": lambda graph, chip: list(POLICIES),
    "seed": lambda graph, chip: [0, 1, 7],
    "search": lambda graph, chip: ["fast", "fast", "best"],
    "array_timing": lambda graph, chip: ["", *(SCHEDULES if chip.matrix else [])],
    "dataflow": lambda graph, chip: ["", "", *(DATAFLOWS if chip.matrix else [])],
    "ranges": lambda graph, chip: list(METHODS),
    "percentile": lambda graph, chip: [None],
    "scheme": lambda graph, chip: list(SCHEMES),
    "sparsity": lambda graph, chip: ["", "", "", "2:4"],
    "edges": lambda graph, chip: list(EDGES),
    "fusion": lambda graph, chip: ["compiled", *FUSIONS],
    "share": lambda graph, chip: ["batch", *SHARES],
    "memory_model": lambda graph, chip: [name for name in MODELS if _followed(name, chip)],
    "layer_dtype": lambda graph, chip: [{}, {}, *({name: fmt} for name in _products(graph)
                                                for fmt in (chip.matrix.formats if chip.matrix else []))],
    "layers": lambda graph, chip: [{}],
}  # fmt: skip
"""Options with values of their own -> what they may be, given the model and the chip."""

NOT_DRAWN = {
    "model": "the graph", "on": "the chip", "set": "drawn from SPEC", "batch": "the graph has its shapes",
    "shape": "the graph has its shapes", "param": "of listed models", "weights": "the graph has its weights",
    "inputs": "drawn with the seed", "ranges_from": "the default is drawn data", "mapping": "laws of pins draw it",
    "pinned": "laws of pins draw it", "scales": "learnt in training", "energy": "no part of time", "site": "of GPUs, which the chips here are not",
    "streams": "of GPUs: test_simt_run_laws draws them",
    "quantiser": "of GPUs with constants of a serving stack", "kv_dtype": "the same, without values", "stack": "the same",
    "limit_commands": "ends a run", "limit_bytes": "ends a run", "cores": "drawn from SPEC",
    "schedule": "array_timing of a request", "tune": "writes a file", "tune_cache": "no file", "tuner": "writes a file", "prompt": "of language models", "new": "of language models",
}  # fmt: skip


def _products(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes if node.op in ("Conv", "MatMul", "Gemm")]


def _followed(model: str, chip: Chip) -> bool:
    followed = MODELS[model].dram is not None
    behind = [entry.memory for entry in chip.memories.values() if entry.fed_by is None]
    return not followed or all(memory.dram is not None for memory in behind)


def candidates(name: str, kind: str, graph: Graph, chip: Chip) -> Sequence[Any]:
    """Values that an option may have. Raises KeyError for one that nobody has said how to draw."""
    if name in STATED:
        return STATED[name](graph, chip)
    if kind == "bool":
        return [False, True]
    raise KeyError(f"option {name!r} of type {kind}: say in STATED what it may be, or in NOT_DRAWN why not")


def compile_loops() -> None:
    """Compile the loops over DRAM bursts: in a fresh checkout that takes longer than a case may."""
    for model in ("pattern", "bank"):
        execute(prepare(Request("mlp?hidden=8", "tpu-v1", values="off", memory_model=model)))


def drawn_chip(pick: Pick) -> Chip:
    """A chip of the list with some of its fields changed."""
    name = pick(CHIPS)
    base = load_chip(name)
    settings = []
    for path, values in SPEC.items():
        block = path.rpartition(".")[0]
        if (not block or getattr(base, block) is not None) and pick([False, False, True]):
            settings.append(f"{path}={pick(values)}")
    return load_chip(name, settings)


def drawn_request(pick: Pick, graph: Graph, chip: Chip) -> Request:
    """A request with every option drawn, most of them at their default; its ``values`` are 'exact'."""
    given: dict[str, Any] = {}
    for entry in fields(Request):
        if entry.name not in NOT_DRAWN:
            values = candidates(entry.name, str(entry.type), graph, chip)
            given[entry.name] = pick(values)
    if given.get("emulate"):
        given["dtype"] = pick([given["dtype"], *FORMATS])
    if given["ranges"] == "percentile":
        given["percentile"] = 99.0
    return Request(model=graph, on=chip, **{**given, "values": "exact"})


def drawn_options(pick: Pick, graph: Graph, chip: Chip) -> dict[str, Any]:
    """The options of a compilation that a request does not have."""
    asked = {entry.name for entry in fields(Request)} | {"layers", "per_channel"}
    own = [entry for entry in fields(Options) if entry.name not in asked | NOT_DRAWN.keys()]
    return {entry.name: pick(candidates(entry.name, str(entry.type), graph, chip)) for entry in own}


def jobs(request: Request, extra: dict[str, Any]) -> dict[str, Job]:
    """The job by value policy. Raises as ``prepare``."""
    found = {}
    for values in POLICIES:
        job = prepare(replace(request, values=values))
        found[values] = replace(job, options=replace(job.options, **extra))
    return found
