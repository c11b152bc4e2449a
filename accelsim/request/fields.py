"""Fields of a request: each is declared here, once, with all that is said and done with it.

The signature of ``accelsim.run``, the options of the command line, the record of a run and the table of
``docs/python.md`` are made of these fields. Importing this loads none of the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from accelsim.request.option import COMPUTED, FORMATS, KEY, MAPPED, RUNS, Choices, Option, option

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip
    from accelsim.spec.energy import EnergyTable
    from accelsim.types import Array
    from accelsim.workload.graph import Graph

    Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Request:
    """Everything that one can ask of a run; fields, arguments of :func:`accelsim.run` and options have one name."""

    # fmt: off
    model: str | Path | Graph = field(metadata=option(
        "A name of 'accelsim models', an ONNX file, or a topology CSV.", kind="argument", file=True,
        python="A name of 'accelsim models' ('mlp?hidden=64'), an ONNX file, a topology CSV, or a graph."))
    on: str | Path | Chip = field(metadata=option(
        "A chip's name (see 'accelsim chips') or its YAML file. Repeatable, or with commas: one row each.",
        RUNS, "chips", "CHIP", file=True, python="A name of 'accelsim chips', a YAML file, or a chip."))
    _: KW_ONLY
    dtype: str = field(default="", metadata=option(
        "Operand format of the matrix unit; nvfp4 and mxfp4 (blocks of FP4 with scales) need --values off; "
        "default: the chip's preferred one.", FORMATS, compiled="dtype",
        python="Operand format of the matrix unit; 'nvfp4' and 'mxfp4' (blocks of FP4 with scales) need values 'off'; "
        "default: the chip's preferred one."))
    values: str = field(default="exact", metadata=option(
        "Compute tile by tile as the hardware does, layer by layer, or nothing.",
        COMPUTED, metavar="exact|fast|off", compiled="values",
        choices=Choices("value policy", "accelsim.machine.values.effects:POLICIES"),
        python="'exact' computes tile by tile as the hardware does, 'fast' layer by layer, 'off' nothing; time and "
        "energy are the same."))
    batch: int | None = field(default=None, metadata=option(
        "First dimension of every input.", RUNS, "count",
        python="First dimension of every input. A chip of several cores runs as many batches side by side; inputs and "
        "outputs hold all of them, one after the other along the first axis."))
    share: str = field(default="batch", metadata=option(
        "What the cores of a chip share: each has a batch of its own, or all of them work on each layer.", RUNS,
        metavar="batch|layer", compiled="share",
        choices=Choices("share", "accelsim.compiler.state:SHARES")))
    weights: str = field(default="model", metadata=option(
        "Values of the weights.", RUNS, metavar="random:SEED|model",
        python="Values of the weights: 'model', or 'random:SEED'."))
    inputs: str | Path | Arrays | None = field(default=None, metadata=option(
        "Inputs: an npz file with one array per input; else they are drawn.", RUNS, "file", file=True,
        python="Inputs: an npz file, or arrays by input name; else they are drawn."))
    ranges_from: str | Path | Arrays | None = field(default=None, metadata=option(
        "Data that set the scales of an integer format: an npz file.", FORMATS, "file", file=True,
        python="Data that set the scales of an integer format: an npz file, or arrays by input name; else the inputs "
        "that were given, else one drawn batch of another seed.", former="calibration"))
    seed: int = field(default=0, metadata=option("Seed of drawn inputs.", RUNS, "whole"))
    shape: Mapping[str, tuple[int, ...]] | None = field(default=None, metadata=option(
        "Shape of an input. Repeatable.", RUNS, "extents", "NAME=1,3,224,224",
        python="Input -> its whole shape: {'tokens': (1, 128)}."))
    param: Mapping[str, int] | None = field(default=None, metadata=option(
        "Parameter of a listed model. Repeatable.", RUNS, "counts", "NAME=VALUE",
        python="Parameters of a listed model: {'hidden': 64}."))
    set: Sequence[str] = field(default=(), metadata=option(
        "Change a field of the spec. Repeatable; a field set twice is run with each value.",
        RUNS, "texts", "PATH=VALUE",
        python="Changes of the spec: ['clock=1 GHz', 'matrix.rows=8']. Of a field set twice the last holds."))
    array_timing: str = field(default="", metadata=option(
        "How consecutive passes over the array overlap.", MAPPED, metavar="scalesim|sequential|overlapped",
        choices=Choices("array timing", "accelsim.engines.systolic.timing:SCHEDULES"), compiled="schedule",
        python="How consecutive passes over the array overlap: 'scalesim', 'sequential', 'overlapped'; default: as the "
        "chip says."))
    dataflow: str = field(default="", metadata=option(
        "What stays in the PEs.", MAPPED, metavar="ws|os|is",
        choices=Choices("dataflow", "accelsim.engines.systolic.dataflow:DATAFLOWS"), compiled="dataflow",
        python="What stays in the PEs: 'ws' the weights, 'os' the outputs, 'is' the inputs; default: as the chip "
        "says."))
    mapping: str | Path | Mapping[str, Mapping[str, Any]] | None = field(default=None, metadata=option(
        "Mappings to keep, as --save-mapping writes them.", MAPPED, "file", file=True,
        python="Mappings that the search must keep: a file of them, or layer -> fields."))
    search: str | float = field(default="fast", metadata=option(
        "Effort of the search for mappings: fast; best (many more tilings, all of small products); or seconds for each "
        "different product.", MAPPED, metavar="fast|best|SECONDS", compiled="search",
        python="Effort of the search for mappings: 'fast'; 'best': many more tilings, all of small products; or "
        "seconds for each different product."))
    tune: int | None = field(default=None, metadata=option(
        "Simulate the N best mappings of each different product alone and take the fastest.", MAPPED, "count", "N"))
    tune_cache: str | None = field(default=None, metadata=option(
        "File that remembers what --tune found; default: tuned.json in the user's cache.", MAPPED, metavar="FILE",
        python="File that remembers what ``tune`` found; default: tuned.json in the user's cache."))
    layer_dtype: Mapping[str, str] | None = field(default=None, metadata=option(
        "Operand format of one layer. Repeatable.", FORMATS, "formats", "LAYER=FORMAT",
        shared="numbers", compiled="layers", python="Layer -> its own operand format: {'conv1': 'fp16'}."))
    emulate: bool = field(default=False, metadata=option(
        "Compute a format that the chip lacks in a wider one that it has.", FORMATS, "flag",
        shared="numbers", compiled="emulate",
        python="Compute a format that the chip lacks in the narrowest of its formats that holds it."))
    ranges: str = field(default="absmax", metadata=option(
        "How ranges of codes are chosen: absmax, percentile, mse, entropy, percentile-ort, entropy-ort.",
        FORMATS, metavar="METHOD", shared="numbers", compiled="ranges", former="calibrate",
        choices=Choices("range method", "accelsim.formats.ranges.methods:METHODS")))
    percentile: float | None = field(default=None, metadata=option(
        "Percent of the values that method 'percentile' keeps.", FORMATS, "percent", shared="numbers",
        compiled="percentile",
        python="Share of the values that the method 'percentile' keeps, percent."))
    scheme: str = field(default="symmetric", metadata=option(
        "Affine: activations have a zero point.", FORMATS, metavar="symmetric|affine",
        shared="numbers", compiled="scheme", choices=Choices("scheme", "accelsim.compiler.state:SCHEMES"),
        python="'symmetric', or 'affine': activations have a zero point."))
    per_tensor: bool = field(default=False, metadata=option(
        "One scale for all weights of a layer, not one per channel.", FORMATS, "flag",
        shared="numbers", compiled="not per_channel"))
    bias_correction: bool = field(default=False, metadata=option(
        "Correct biases for the mean error of rounded weights.", FORMATS, "flag",
        shared="numbers", compiled="bias_correction"))
    scales: Mapping[str, Array] | None = field(default=None, metadata=option(
        "Tensor -> its scale or scales, such as training has learnt.", kind="none", compiled="scales",
        why_not="arrays that training has learnt are no text"))
    sparsity: str = field(default="", metadata=option(
        "Prune weights: the N largest of each M stay.", FORMATS, metavar="N:M", last=True,
        shared="numbers", compiled="sparsity", python="Prune weights: of '2:4' the 2 largest of each 4 stay."))
    edges: str = field(default="", metadata=option(
        "Where inputs become codes and results real numbers: on the host, which takes time, or outside the run; "
        "default: host; outside for a single product or a topology CSV.", FORMATS, metavar="host|outside",
        shared="numbers", compiled="edges", choices=Choices("edges", "accelsim.compiler.state:EDGES"),
        python="Where inputs become codes and results real numbers: on the 'host', which takes time, or 'outside' the "
        "run, where it costs nothing; default: 'host'; 'outside' for a single product or a topology CSV."))
    energy: str | Path | EnergyTable | None = field(default=None, metadata=option(
        "Another energy table than the chip's: a name or a YAML file.", RUNS, metavar="TABLE", file=True,
        python="Another energy table than the chip's: a name ('horowitz-45nm'), a YAML file, or a table."))
    memory_model: str = field(default="bandwidth", metadata=option(
        "How off-chip memories are timed: not at all; by latency and bandwidth; by samples of the DRAM commands of "
        "long tiles; by every DRAM command.", RUNS, metavar="ideal|bandwidth|pattern|bank",
        choices=Choices("memory model", "accelsim.machine.memory_models:MODELS"),
        python="Off-chip memories: 'ideal' takes no time, 'bandwidth' latency and a rate; 'bank' follows "
        "every DRAM command, 'pattern' samples long tiles of it."))
    fusion: str = field(default="", metadata=option(
        "Kernels: compiled puts element-wise functions after the node that feeds them and folds batch normalisation "
        "into weights; serving also joins moves around such functions (rotary positions are one kernel), as serving "
        "stacks do; eager runs every node by itself; sdpa is eager with attention in one call; default: serving for "
        "a model with prompt=, else compiled.", MAPPED, metavar="compiled|serving|eager|sdpa",
        choices=Choices("fusion", "accelsim.compiler.state:FUSIONS"), compiled="fusion",
        python="'compiled': element-wise functions run after the node that feeds them, batch normalisation goes into "
        "weights; 'serving': moves around such functions are joined too; 'eager': every node runs by itself; 'sdpa': "
        "the same with attention in one call; default: 'serving' for a generation, else 'compiled'."))
    quantiser: str = field(default="", metadata=option(
        "With --fusion serving, inputs of layers in narrow formats are quantised by the kernel before, with static "
        "scales (fused), or by a kernel of their own (kernel); default: fused.", MAPPED, metavar="fused|kernel",
        choices=Choices("quantiser", "accelsim.compiler.state:QUANTISERS"), compiled="quantiser",
        python="Where kernels are those of a serving stack, inputs of layers in narrow formats are quantised by the "
        "kernel before, with static scales ('fused'), or by a kernel of their own ('kernel'); default: 'fused'."))
    stack: str = field(default="", metadata=option(
        "With --fusion serving, the stack whose kernels and host these are: vllm, tensorrt-llm; default: that of the "
        "chip, vllm.", MAPPED, metavar="STACK",
        python="Where kernels are those of a serving stack: which one ('vllm', 'tensorrt-llm'); default: that of the "
        "chip, 'vllm'."))
    kv_dtype: str = field(default="", metadata=option(
        "Number format of keys and values in memory, under attention in 16 bits: fp8, int8; with --values off; "
        "default: that of attention.", FORMATS, metavar="FORMAT", compiled="kv_dtype",
        python="Number format of keys and values in memory, under attention in 16 bits ('fp8', 'int8'), without "
        "values; default: that of attention."))
    streams: int | None = field(default=None, metadata=option(
        "Run kernels of N streams side by side, where they do not depend on each other; default: as the chip says,"
        " 1.", MAPPED, "count", "N",
        python="Kernels of so many streams run side by side, where they do not depend on each other; default: as the "
        "chip says, 1."))
    site: str | Path | None = field(default=None, metadata=option(
        "Clock under load and host of the machine that holds the chip: a name or a YAML file.", RUNS, metavar="SITE",
        file=True))
    limit_commands: int | None = field(default=None, metadata=option(
        "Refuse, before building it, a program of more commands; default: 4,000,000.", COMPUTED, "count", "N",
        limits="commands"))
    limit_bytes: int | None = field(default=None, metadata=option(
        "Refuse what would take more of this machine's memory, such as '32 GiB'; default: 16 GiB.",
        COMPUTED, "size", "SIZE", unit="B", limits="memory_B",
        python="Refuse what would take more bytes of this machine's memory; default: 16 GiB."))
    ignore_capacity: bool = field(default=False, metadata=option(
        "Run although the memories of the chip are too small for the model; the report says so.", COMPUTED, "flag",
        limits="ignore_capacity",
        python="Run although weights, states and activations do not fit into the memories of the chip; the notes of "
        "the run say so."))
    # fmt: on

    def __post_init__(self) -> None:
        """A mapping that was not given is empty."""
        for name in MAPPINGS:
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})


def declared(record: type[Request]) -> dict[str, Option]:
    """Field -> what it says of itself, in the order of declaration."""
    return {entry.name: entry.metadata[KEY] for entry in fields(record)}


OPTIONS = declared(Request)
"""The rows of the declaration, by name."""
DEFAULTS: dict[str, object] = {entry.name: entry.default for entry in fields(Request)}
"""Default of each field; ``dataclasses.MISSING`` where there is none."""
FORMER = {row.former: name for name, row in OPTIONS.items() if row.former}
"""Former name of a field -> what it is called now."""
MAPPINGS = tuple(entry.name for entry in fields(Request) if str(entry.type).startswith("Mapping["))
"""Fields that are mappings and nothing else; an empty one where none is given."""


def arguments(record: type[Request]) -> str:
    """Return the fields and their meanings as lines of a docstring."""
    told = (f"``{name}``: {row.text}" for name, row in declared(record).items())
    return "\n".join(fill(text, 115, subsequent_indent="    ") for text in told)


def compiled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given fields that ``compiler.state.Options`` takes as they are, under its names."""
    found = {}
    for name, row in OPTIONS.items():
        if row.compiled and name in values:
            found[row.compiled_name] = not values[name] if row.negated else values[name]
    return found


def asked_of(options: object) -> dict[str, object]:
    """``compiled`` the other way: what ``options`` of a compilation hold, under the names of the fields."""
    held = {name: getattr(options, row.compiled_name) for name, row in OPTIONS.items() if row.compiled}
    return {name: not value if OPTIONS[name].negated else value for name, value in held.items()}


Request.__doc__ = f"{Request.__doc__}\n\n{arguments(Request)}"
