"""Random graphs, chips and mappings for the laws, and the whole path from a graph to a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.systolic.spec import MacFormat
from accelsim.errors import Infeasible, UsageError
from accelsim.machine.check import check
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.mapping import SPLITS
from accelsim.program.program import Program
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Array, Graph
from accelsim.workload.zoo.build import Builder
from tests.fuzz.run_options import candidates

Draw = Callable[[st.SearchStrategy[Any]], Any]


@cache
def base_chip(name: str) -> Chip:
    return load_chip(name)


def changed(chip: Chip, path: str, **fields: Any) -> Chip:
    """The chip with fields of the block at ``path`` replaced: an engine or a memory of a core, '' for the chip itself."""
    keys = path.removeprefix("engines.").split(".") if path else []
    for table in ("engines", "memories"):
        if keys and keys[0] in getattr(chip.core, table):
            keys = [str(key) for key in chip.path_to(table, *keys)]
    return _changed(chip, keys, fields)


def _changed(value: Any, path: list[str], fields: Mapping[str, Any]) -> Any:
    if not path:
        assert fields.keys() <= type(value).model_fields.keys()
        return value.model_copy(update=dict(fields))
    key, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, key: _changed(value[key], rest, fields)}
    return value.model_copy(update={key: _changed(getattr(value, key), rest, fields)})


class RandomGraph(Builder):
    """The zoo's builder with random weights and general convolutions."""

    def __init__(self, seed: int) -> None:
        super().__init__("random")
        self.rng = np.random.default_rng(seed)
        self.made = 0

    def weight(self, name: str, shape: Any) -> str:
        values = self.rng.standard_normal(tuple(shape)).astype(np.float32) / np.float32(max(1, shape[0])) ** 0.5
        return self.constant(name, np.abs(values) + 0.5 if name.endswith(".var") else values)

    def fresh(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def conv2d(self, x: str, filters: int, kernel: tuple[int, int], stride: tuple[int, int], pads: list[int],
               dilation: int, group: int, bias: bool) -> str:  # fmt: skip
        name = self.fresh("conv")
        inputs = [x, self.weight(f"{name}.weight", (filters, self.shape(x)[1] // group, *kernel))]
        if bias:
            inputs.append(self.weight(f"{name}.bias", (filters,)))
        return self.op("Conv", inputs, name, kernel_shape=list(kernel), strides=list(stride), pads=pads,
                       dilations=[dilation] * 2, group=group, a_zero_point=0, b_zero_point=0)  # fmt: skip

    def pool(self, x: str, op: str, size: int, stride: int, pad: int) -> str:
        extra = {} if op == "MaxPool" else {"count_include_pad": 0}
        return self.op(op, [x], self.fresh("pool"), kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4,
                       dilations=[1, 1], ceil_mode=0, **extra)  # fmt: skip

    def transpose(self, x: str) -> str:
        rank = len(self.shape(x))
        return self.op("Transpose", [x], self.fresh("transposed"), perm=[*range(rank - 2), rank - 1, rank - 2])

    def softmax(self, x: str) -> str:
        return self.op("Softmax", [x], self.fresh("softmax"), axis=len(self.shape(x)) - 1)


def _conv(draw: Draw, g: RandomGraph, x: str) -> str:
    _, channels, height, width = g.shape(x)
    group = draw(st.sampled_from([n for n in (1, 1, 2, channels) if channels % n == 0]))
    filters = group * draw(st.integers(1, 4 if group > 1 else 7))
    dilation = draw(st.sampled_from([1, 1, 2]))
    pads = [draw(st.sampled_from([0, 0, 1])) for _ in range(4)]
    kernel = tuple(
        draw(st.sampled_from([k for k in (1, 2, 3) if (k - 1) * dilation < extent + pads[axis]] or [1]))
        for axis, extent in enumerate((height, width))
    )
    stride = (draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from([1, 1, 2])))
    return g.conv2d(x, filters, kernel, stride, pads, dilation, group, draw(st.booleans()))


def _residual(draw: Draw, g: RandomGraph, x: str) -> str:
    """x + conv(x) (and a ReLU): the sum is fused behind the convolution."""
    channels = g.shape(x)[1]
    branch = g.conv2d(x, channels, (3, 3), (1, 1), [1] * 4, 1, 1, draw(st.booleans()))
    total = g.op("Add", draw(st.permutations([branch, x])), g.fresh("add"))
    return g.op("Relu", [total], g.fresh("relu")) if draw(st.booleans()) else total


def _fork(draw: Draw, g: RandomGraph, x: str) -> str:
    """Two branches, joined channel by channel."""
    one = g.conv2d(x, draw(st.integers(1, 4)), (1, 1), (1, 1), [0] * 4, 1, 1, True)
    two = g.conv2d(x, draw(st.integers(1, 4)), (3, 3), (1, 1), [1] * 4, 1, 1, False)
    return g.op("Concat", [one, two], g.fresh("concat"), axis=1)


def _pool(draw: Draw, g: RandomGraph, x: str) -> str:
    size = draw(st.sampled_from([size for size in (1, 2, 3) if size <= min(g.shape(x)[2:])]))
    stride = draw(st.integers(1, 2))
    return g.pool(x, draw(st.sampled_from(["MaxPool", "AveragePool"])), size, stride, draw(st.integers(0, size // 2)))


def _dense(draw: Draw, g: RandomGraph, x: str) -> str:
    return g.dense(x, draw(st.integers(1, 24)), g.fresh("dense"), relu=draw(st.booleans()))


def _skip(draw: Draw, g: RandomGraph, x: str) -> str:
    """x + (x W + b): a residual of a product."""
    return g.op("Add", [x, g.project(x, g.shape(x)[-1], g.fresh("project"))], g.fresh("add"))


def _attention(draw: Draw, g: RandomGraph, x: str) -> str:
    """f(x x^T) x: products of two activations."""
    scores = g.matmul(x, g.transpose(x), g.fresh("scores"))
    weights = g.softmax(scores) if draw(st.booleans()) else g.op("Tanh", [scores], g.fresh("act"))
    return g.matmul(weights, x, g.fresh("mixed"))


def _relu(draw: Draw, g: RandomGraph, x: str) -> str:
    return g.op(draw(st.sampled_from(["Relu", "Sigmoid", "Tanh"])), [x], g.fresh("act"))


IMAGE_OPS = (_conv, _conv, _conv, _residual, _fork, _pool, _relu)
MATRIX_OPS = (_dense, _dense, _skip, _relu, lambda draw, g, x: g.softmax(x))
BATCH_OPS = (_skip, _attention, _attention, _relu)


@st.composite
def image_graphs(draw: Draw, most: int = 4) -> Graph:
    """Convolutional networks: a chain with residuals and branches, perhaps a classifier at its end."""
    g = RandomGraph(draw(st.integers(0, 99)))
    x = g.input(
        "x", (draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(3, 9)), draw(st.integers(3, 9)))
    )
    for _ in range(draw(st.integers(1, most))):
        x = draw(st.sampled_from(IMAGE_OPS))(draw, g, x)
    if draw(st.booleans()):
        if draw(st.booleans()):
            x = g.op("GlobalAveragePool", [x], g.fresh("gap"))
        x = _dense(draw, g, g.op("Flatten", [x], g.fresh("flat"), axis=1))
    return _finish(draw, g, x)


def _finish(draw: Draw, g: RandomGraph, x: str) -> Graph:
    """The graph; sometimes a tensor from within is an output too."""
    inside = [node.outputs[0] for node in g.graph.nodes]
    return g.finish(*dict.fromkeys([x, *([draw(st.sampled_from(inside))] if draw(st.integers(0, 3)) == 0 else [])]))


@st.composite
def matrix_graphs(draw: Draw, most: int = 4) -> Graph:
    """Perceptrons and attention: products of matrices, with weights or with each other."""
    g = RandomGraph(draw(st.integers(0, 99)))
    batched = draw(st.booleans())
    lead = (draw(st.integers(1, 3)),) if batched else ()
    x = g.input("x", (*lead, draw(st.integers(1, 20)), draw(st.integers(1, 24))))
    for _ in range(draw(st.integers(1, most))):
        x = draw(st.sampled_from(BATCH_OPS if batched else MATRIX_OPS))(draw, g, x)
    if not any(node.op in ("MatMul", "Gemm") for node in g.graph.nodes):
        x = g.project(x, draw(st.integers(1, 12)), g.fresh("project"))
    return _finish(draw, g, x)


@st.composite
def cached_graphs(draw: Draw) -> Graph:
    """Attention over rows of earlier runs, one or more times: states to which new rows are appended."""
    g = RandomGraph(draw(st.integers(0, 99)))
    batch, rows, depth = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
    x = g.input("x", (batch, rows, depth))
    caches: list[str] = []
    for layer in range(draw(st.integers(1, 2))):
        k, v = (g.project(x, depth, f"l{layer}.{part}") for part in "kv")
        past = (batch, draw(st.integers(1, 9)), depth)
        k = g.appended(f"l{layer}.k", past, k, 1)
        v = g.appended(f"l{layer}.v", past, v, 1) if draw(st.booleans()) else k
        caches += [k, v]
        x = g.matmul(g.softmax(g.matmul(x, g.transpose(k), f"l{layer}.scores")), v, f"l{layer}.mixed")
    return g.finish(x, *dict.fromkeys(caches))


@st.composite
def expert_graphs(draw: Draw) -> Graph:
    """Two products by the experts that each row chooses, with something elementwise between."""
    g = RandomGraph(draw(st.integers(0, 99)))
    rows, depth, experts = draw(st.integers(1, 7)), draw(st.integers(1, 9)), draw(st.integers(1, 5))
    x, k, wide = g.input("x", (rows, depth)), draw(st.integers(1, experts)), draw(st.integers(1, 8))
    scores = g.project(x, experts, "router", bias=draw(st.booleans()))
    gates, chosen = g.ops("TopKGating", [scores], ["gates", "chosen"], "gating", k=k)
    y = g.op("ExpertMatMul", [x, g.weight("up.weight", (experts, depth, wide)), chosen], "up",
             a_zero_point=0, b_zero_point=0)  # fmt: skip
    if draw(st.booleans()):
        y = g.op("Relu", [y], "act")
    y = g.op("ExpertMatMul", [y, g.weight("down.weight", (experts, wide, depth)), chosen], "down",
             a_zero_point=0, b_zero_point=0)  # fmt: skip
    return g.finish(y, gates)


@st.composite
def lone_products(draw: Draw, convolutions: bool = True) -> Graph:
    """One product with weights and what can be fused behind it, in float: a program of one step."""
    g = RandomGraph(draw(st.integers(0, 99)))
    if convolutions and draw(st.booleans()):
        shape = (draw(st.integers(1, 2)), draw(st.integers(1, 6)), draw(st.integers(3, 9)), draw(st.integers(3, 9)))
        return g.finish(_conv(draw, g, g.input("x", shape)))
    x = g.input("x", (draw(st.integers(1, 40)), draw(st.integers(1, 40))))
    return g.finish(draw(st.sampled_from([_dense, _skip]))(draw, g, x))


def graphs() -> st.SearchStrategy[Graph]:
    """Any small graph."""
    return st.one_of(image_graphs(), matrix_graphs())


BASES = ("edu-4x4", "systolic-generic", "tpu-v1")
"""Chips that the random ones start from; each has a host and a vector unit."""


def with_float(chip: Chip) -> Chip:
    """The chip, able to compute in float too: then a graph runs without quantisation steps on the host."""
    assert chip.matrix is not None
    formats = chip.matrix.formats
    return changed(chip, "matrix", formats={**formats, "fp32": formats.get("fp32", MacFormat(accumulate="fp32"))})


@st.composite
def chips(
    draw: Draw, bases: tuple[str, ...] = BASES, tight: bool | None = None, arrays: tuple[int, ...] = (1,)
) -> Chip:
    """A small chip; ``tight``: buffers so small that activations and results must be streamed; ``arrays``: how many
    may share the buffers."""
    chip = with_float(base_chip(draw(st.sampled_from(bases))))
    rows, cols = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    assert chip.matrix is not None
    dataflow = draw(st.sampled_from(["ws", "os", "is"]))
    if "activations" not in chip.matrix.stationary_from:
        dataflow = draw(st.sampled_from(["ws", "os"]))
    chip = changed(
        chip, "matrix", rows=rows, cols=cols, dataflow=dataflow,
        count=draw(st.sampled_from(arrays)) if len(arrays) > 1 else arrays[0],
        schedule=draw(st.sampled_from(["overlapped", "overlapped", "sequential"])),
        shadow_load=draw(st.sampled_from(["column", "diagonal"])), load_rows_per_clock=draw(st.integers(1, 3)),
        padded_tiles=draw(st.booleans()),
        min_interval=draw(st.sampled_from([0, 0, 5])), accumulator_latency=draw(st.integers(0, 3)),
        clock=draw(st.sampled_from([None, None, 0.7 * chip.clock, 3.0 * chip.clock])),
    )  # fmt: skip
    chip = changed(
        chip,
        "cores.core.engines.vector",
        lanes=draw(st.integers(1, 8)),
        latency=draw(st.integers(0, 5)),
        chained=draw(st.booleans()),
    )
    chip = _paced(chip, draw(st.sampled_from([None, None, 2, Fraction(1, 2), Fraction(2, 3)])))
    chip = changed(chip, "", token_delay=draw(st.integers(0, 3)), peak={})
    return _memories(draw, _buffers(draw, chip, rows, cols, draw(st.booleans()) if tight is None else tight))


def _paced(chip: Chip, pace: int | Fraction | None) -> Chip:
    """The chip with this many clocks per row in every format."""
    assert chip.matrix is not None
    formats = chip.matrix.formats
    if pace is None:
        return chip
    paced = {name: each.model_copy(update={"cycles_per_row": pace}) for name, each in formats.items()}
    return changed(chip, "matrix", formats=paced)


def _buffers(draw: Draw, chip: Chip, rows: int, cols: int, tight: bool) -> Chip:
    for name, buffer in chip.buffers.items():
        fold = 4 * max(rows * cols, rows, cols) * (buffer.slots or 1)
        sizes = {
            "activations": (900, 3000, 20000),
            "weights": (fold, 2 * fold, 9000),
            "partial_sums": (1200, 2500, 9000),
        }
        small, middle, large = sizes[buffer.holds[0]]
        capacity = draw(st.sampled_from([small, middle] if tight else [large, 1 << 22]))
        width = st.sampled_from([4, 16, 64])
        chip = changed(
            chip, name, capacity=max(capacity, 2 * fold), slot_capacity=None,
            read_width=draw(width), write_width=draw(width), ports=draw(st.sampled_from([1, 2, 2])),
        )  # fmt: skip
    return shared(chip, draw(st.sampled_from(SHARED))) if draw(st.integers(0, 2)) == 0 else chip


SHARED = (
    ("activations", "weights"), ("activations", "partial_sums"), ("weights", "partial_sums"),
    ("activations", "weights", "partial_sums"),
)  # fmt: skip
"""Roles that may lie in one buffer together."""


def shared(chip: Chip, roles: tuple[str, ...]) -> Chip:
    """The chip with one buffer for several roles, as large as theirs together; its widths are those of the last."""
    theirs = [name for name, buffer in chip.buffers.items() if set(buffer.holds) & set(roles)]
    capacity = sum(chip.buffers[name].capacity for name in theirs)
    kept = {name: buffer for name, buffer in chip.buffers.items() if name not in theirs[:-1]}
    chip = chip.with_core(memories=kept)
    return changed(chip, theirs[-1], holds=list(roles), capacity=capacity, slots=None, slot_capacity=None)


def _memories(draw: Draw, chip: Chip) -> Chip:
    for name, attached in chip.memories.items():
        per_clock = draw(st.sampled_from([0.5, 1.0, 4.0, 7.0, 64.0]))
        chip = changed(
            chip, f"memories.{name}.memory", bandwidth=per_clock * chip.clock, channels=1,
            beat=draw(st.sampled_from([1, 4, 8])), latency=draw(st.sampled_from([0.0, 10.0, 33.3])) / chip.clock,
            pipelined=draw(st.booleans()),
        )  # fmt: skip
        chip = changed(chip, f"memories.{name}", arbitration=draw(st.sampled_from(["loads_first", "stores_first"])))
        if attached.link is not None:
            chip = changed(chip, f"memories.{name}.link", duplex=draw(st.sampled_from(["full", "half"])))
    return chip


@st.composite
def pins(draw: Draw, arrays: bool = False) -> dict[str, Any]:
    """Part of a mapping, drawn without looking at the product: any subset of its fields (with ``arrays`` the split)."""
    fields: dict[str, Any] = {}
    sizes = st.one_of(st.integers(1, 40), st.just(10**6))
    for name, values in (
        ("order", st.sampled_from(["nmk", "mnk", "nkm", "mkn"])), ("tm", sizes), ("tn", sizes), ("tk", sizes),
        ("tq", st.integers(1, 9)),
        ("reuse", st.booleans()), ("a_resident", st.booleans()), ("y_resident", st.booleans()),
        ("a_whole_k", st.booleans()), ("y_slots", st.integers(1, 4)), ("w_slots", st.integers(1, 3)),
        ("a_slots", st.integers(1, 3)), *([("split", st.sampled_from(SPLITS))] if arrays else []),
    ):  # fmt: skip
        if draw(st.booleans()):
            fields[name] = draw(values)
    return fields


@dataclass(frozen=True)
class Case:
    """A program, what it was compiled from, with which options besides the format, and its inputs."""

    graph: Graph
    chip: Chip
    program: Program
    feeds: dict[str, Array]
    options: dict[str, Any]

    def run(self, values: str = "off", keep: bool = False) -> Run:
        """Simulate and assert all laws of ``machine.check``, the slow ones too."""
        run = simulate(self.program, None if values == "off" else self.feeds, values, keep)
        check(run, thorough=True)
        return run

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Return what is needed to see what a failing example is, for Hypothesis."""
        unit = self.chip.matrix
        array = "" if unit is None else f" {unit.rows}x{unit.cols} {unit.dataflow}"
        steps = [f"{s.label} on {s.engine} {s.gemm} {s.mapping}" for s in self.program.steps]
        printer.text("\n  ".join([f"{self.chip.name}{array} {self.program.dtype} {self.options}", *steps]))


def formats(chip: Chip) -> list[str]:
    """Operand formats that a graph can be compiled in, one per kind of arithmetic."""
    assert chip.matrix is not None
    return [name for name in ("int8", "fp32") if name in chip.matrix.formats]


def compiled(graph: Graph, chip: Chip, dtype: str = "", **options: Any) -> Case:
    """Compile; ``pinned`` may name any product, since products keep their names in all passes."""
    program = compile(graph, chip, Options(dtype=dtype, **options))
    return Case(graph, chip, program, synthetic(graph, 1), options)


def products(graph: Graph) -> list[str]:
    """Names of the nodes that a matrix unit could do."""
    return [node.name for node in graph.nodes if node.op in ("Conv", "MatMul", "Gemm")]


ELSEWHERE = {
    "dtype": "formats()", "values": "each run has its own", "dataflow": "chips()", "schedule": "chips()", "pinned": "pins()",
    "ranges_from": "the default is drawn data", "seed": "of that data", "percentile": "with its method",
    "cores": "drawn where a law is about them", "scales": "learnt in training", "tuner": "remembers in a file",
    "quantiser": "of GPUs with constants of a serving stack", "kv_dtype": "the same, without values",
}  # fmt: skip
"""Options of a compilation that ``options`` does not draw -> who does, or why not."""


@st.composite
def options(draw: Draw, graph: Graph, chip: Chip) -> dict[str, Any]:
    """Every other option of a compilation, as declared; half of the cases leave all of them at their default."""
    if draw(st.booleans()):
        return {}
    found = {
        entry.name: draw(st.sampled_from(list(candidates(entry.name, str(entry.type), graph, chip))))
        for entry in fields(Options)
        if entry.name not in ELSEWHERE
    }
    found["layers"] = draw(
        st.sampled_from([{}, *({name: draw(st.sampled_from(formats(chip)))} for name in products(graph))])
    )
    if found["ranges"] == "percentile":
        found["percentile"] = 99.0
    return found


@st.composite
def cases(draw: Draw, bases: tuple[str, ...] = BASES, tight: bool | None = None, pinned: bool = True,
          models: Callable[[], st.SearchStrategy[Graph]] = graphs) -> Case:  # fmt: skip
    """A compiled random graph on a random chip, with every option, and with random mappings where they fit."""
    chip, graph = draw(chips(bases, tight)), draw(models())
    dtype = draw(st.sampled_from(formats(chip)))
    mapping = {name: draw(pins()) for name in products(graph)} if pinned and draw(st.booleans()) else {}
    return fitted(graph, chip, dtype, mapping, **draw(options(graph, chip)))


def fitted(graph: Graph, chip: Chip, dtype: str, mapping: dict[str, dict[str, Any]], **extra: Any) -> Case:
    """Compile; pins that cannot be kept are dropped, and a chip that is too small gets larger buffers."""
    mapping = dict(mapping)
    while True:
        try:
            return compiled(graph, chip, dtype, pinned=mapping, **extra)
        except Infeasible as error:
            if mapping.pop(error.op, None) is None:
                chip = larger(chip)
        except UsageError:
            if not extra.pop("layers", None):  # a product that nobody reads has no format
                raise


def larger(chip: Chip, factor: int = 2) -> Chip:
    """The chip with larger buffers."""
    for name, buffer in chip.buffers.items():
        chip = changed(chip, name, capacity=factor * buffer.capacity)
    return chip


def small_chip() -> st.SearchStrategy[Chip]:
    """A random chip on which every small graph fits."""
    return chips(tight=False)


def scaled_energy(chip: Chip, factor: float) -> Chip:
    """The chip with the energy of everything inside it multiplied."""
    table = chip.energy
    update = {
        "mac": {name: factor * energy for name, energy in table.mac.items()},
        "vector": {name: factor * energy for name, energy in table.vector.items()},
        "register": factor * table.register,
    }
    return chip.model_copy(update={"energy": table.model_copy(update=update)})


def whole_tiles(chip: Chip) -> Chip:
    """The chip with buffers in which everything fits, in tiles of any size."""
    for name in chip.buffers:
        chip = changed(chip, name, capacity=1 << 24, slots=None, ports=2)
    return chip
