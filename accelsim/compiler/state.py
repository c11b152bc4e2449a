"""State that the passes hand to each other, and options of the user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import NamedTuple

from accelsim.engines.base import Tuner
from accelsim.errors import Problem, UsageError, known, nearest
from accelsim.program.mapping import Pin
from accelsim.spec.chip import Chip
from accelsim.types import Array
from accelsim.workload.graph import Graph

SHARES = ("batch", "layer")
"""Work that the cores of a chip share: each takes a batch of its own, or all of them work on each layer."""

EDGES = ("host", "outside")
"""Converters of the inputs and results of a network that computes with codes."""

COMPILED, SERVING = "compiled", "serving"
FUSIONS = (COMPILED, SERVING, "eager", "sdpa")
"""Nodes that run as one kernel. 'compiled': a node with those that can follow it; 'serving': also with moves around it,
as in serving stacks; 'eager': none; 'sdpa': none but attention."""
EAGER = ("eager", "sdpa")
"""Fusions for which the host asks for every node."""

QUANTISERS = ("fused", "kernel")
"""Ways in which a serving stack quantises inputs of narrow layers: with the kernel before, by static scales, or by a
kernel of its own, which measures them."""

SCHEMES = ("symmetric", "affine")
"""Ranges of codes: as far on either side of zero, or from the least to the largest number."""


@dataclass(frozen=True)
class Options:
    """Choices of one compilation. ``dtype``: operand format of the matrix unit ('' = the chip's preferred
    one).

    ``dataflow`` and ``schedule`` ('' = the chip's) override the array. ``fusion``: 'compiled' (''), nodes
    run behind those that feed them and batch normalisation goes into weights, or 'eager', each by itself, or 'sdpa', as
    eager with attention in one call.
    ``ranges_from``: feeds (input name -> array) whose absolute maxima set the activation scales of an integer
    format; None: one batch drawn with ``seed``. ``values``: 'exact', 'fast' or 'off'; off skips the
    data, so scales are placeholders, and changes nothing else. ``cores``: how many cores of the chip work
    (None: all of them). ``share``: what they share: 'batch', each runs the graph on its own part of it, or 'layer', all
    of them work on each layer. ``pinned``: node name -> mapping fields that the search must keep.

    ``layers``: node name -> operand format of that layer. ``emulate``: a format that the unit lacks is computed in
    the narrowest of its formats that holds it. ``ranges``: how a range becomes a scale (a key of
    ``formats.ranges.methods.METHODS``), with ``percentile`` for the method of that name. ``scheme``: 'symmetric', or
    'affine' for activations with a zero point. ``per_channel``: a scale per output channel of the weights.
    ``bias_correction``: biases take back the mean error of the rounded weights. ``scales``: tensor or weight name
    -> scale that is given, as learnt in training. ``sparsity``: 'N:M' keeps the N largest of M weights, '' all.
    ``edges``: who turns inputs into codes and results back: the 'host', in its time, or somebody 'outside' the run.
    ``quantiser``: a row of ``QUANTISERS`` ('' = the first), where ``fusion`` is 'serving'. ``kv_dtype``: format of keys
    and values in memory ('' = that of activations), where values are off.
    ``search``: the effort of searches for mappings, see ``mapping.search.solve``; ``tuner``: who decides among the best
    that they find.
    ``repeat``: whether blocks that are alike may be copies of each other, see ``accelsim.program.repeated``; without
    that each is lowered and simulated, which gives the same.
    """

    dtype: str = ""
    dataflow: str = ""
    schedule: str = ""
    fusion: str = ""
    ranges_from: Mapping[str, Array] | None = None
    seed: int = 0
    values: str = "exact"
    cores: int | None = None
    share: str = "batch"
    pinned: Mapping[str, Mapping[str, Pin]] = field(default_factory=dict)
    layers: Mapping[str, str] = field(default_factory=dict)
    emulate: bool = False
    ranges: str = "absmax"
    percentile: float | None = None
    scheme: str = "symmetric"
    per_channel: bool = True
    bias_correction: bool = False
    scales: Mapping[str, Array] = field(default_factory=dict)
    sparsity: str = ""
    edges: str = "host"
    quantiser: str = ""
    kv_dtype: str = ""
    search: str | float = "fast"
    tuner: Tuner | None = None
    repeat: bool = True

    @property
    def serves(self) -> bool:
        """Return whether kernels are those of a serving stack."""
        return self.fusion == SERVING


def check_kinds(options: Options, chip: Chip) -> None:
    """Raise UsageError, all at once, for what cores of several kinds cannot do: share a layer, take one mapping."""
    kinds = f"the cores of {chip.name} are of several kinds ({', '.join(chip.cores)})"
    asked = {
        "share 'layer'": (options.share == "layer", "and share no layer", "share 'batch'"),
        "mapping": (bool(options.pinned), "and one mapping does not suit all", "no mapping"),
    }
    problems = [Problem(f"{kinds} {why}", where, instead) for where, (wanted, why, instead) in asked.items() if wanted]
    if problems and len(chip.cores) > 1:
        raise UsageError(problems)


def check_choices(options: Options) -> None:
    """Raise UsageError, all at once, for choices that do not exist."""
    problems: list[Problem] = []
    for what, given, valid in (
        ("range method", options.ranges, _range_methods(options)),
        ("scheme", options.scheme, SCHEMES),
        ("edges", options.edges, EDGES),
        ("share", options.share, SHARES),
        ("fusion", options.fusion or COMPILED, FUSIONS),
        ("quantiser", options.quantiser or QUANTISERS[0], QUANTISERS),
    ):
        try:
            known(what, given, valid)
        except UsageError as error:
            problems += error.problems
    if options.kv_dtype:
        problems += _of_caches(options)
    UsageError.raise_for(problems)


def _range_methods(options: Options) -> Collection[str]:
    if options.ranges == Options.ranges:
        return (options.ranges,)
    from accelsim.formats.ranges.methods import METHODS

    return METHODS


KV_FORMATS = ("fp8_e4m3fn", "fp8_e5m2", "int8")
"""Formats of keys and values that are narrower than those of attention."""


def _of_caches(options: Options) -> Iterator[Problem]:
    from accelsim.formats.table import ALIASES

    name = ALIASES.get(options.kv_dtype, options.kv_dtype)
    if name not in KV_FORMATS:
        what = f"no format of keys and values {options.kv_dtype!r}"
        yield Problem(what, "kv_dtype", f"one of {', '.join(KV_FORMATS)}", nearest(name, KV_FORMATS))
    if options.values != "off":
        yield Problem(
            f"kv_dtype {options.kv_dtype} with values {options.values}",
            "",
            "values off: keys and values are counted in that format, and not rounded to it",
        )


@dataclass
class State:
    """The work in progress: each pass reads and changes it, and says in ``notes`` what a user should know."""

    graph: Graph
    chip: Chip
    options: Options
    dtype: str
    notes: list[str] = field(default_factory=list)
    means: dict[str, Array] = field(default_factory=dict)  # per channel, see ``ranges.input_means``
    choices: defaultdict[str, dict[Hashable, object]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # kind of core -> searches that were made, see ``search.choose``

    @property
    def copies(self) -> int:
        """Return how often the graph is there: once for each core, or once for all."""
        return copies(self.chip, self.options)


def copies(chip: Chip, options: Options) -> int:
    """Return how often the graph is there: once for each core, or once for all cores together."""
    return 1 if options.share == "layer" else chip.core_count


class Pass(NamedTuple):
    """One entry of the visible list: a ``module`` of ``compiler`` with a function of its name, and what that does.

    Elsewhere than where it ``works`` it would change nothing, and its module is not loaded.
    """

    module: str
    what: str
    works: Callable[[State], bool] = lambda state: True

    @property
    def name(self) -> str:
        """Name of the pass, its function and its module."""
        return self.module.rpartition(".")[2]

    def run(self, state: State) -> None:
        """Load the module and call its function, if it would change anything."""
        if self.works(state):
            getattr(import_module(f"accelsim.compiler.{self.module}"), self.name)(state)
