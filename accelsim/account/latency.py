"""Per-layer results and the summary of a run: seconds, cycles, utilisation, traffic, joules."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any

from accelsim.account import categories, critical_path, dram, energy, provenance
from accelsim.account.array_share import array_seconds, array_split
from accelsim.account.critical_path import HIDDEN, Times
from accelsim.account.energy_basis import energy_basis
from accelsim.account.interval import energy_interval, in_any_lab, latency_interval, power_interval
from accelsim.account.spans import OUTSIDE, ideal_seconds, is_level, is_off_chip, macs_by_format, own_fs, peak_mac_rate
from accelsim.machine.run import Run
from accelsim.pause import no_collection
from accelsim.program.actions import READ
from accelsim.spec.chip import Chip
from accelsim.time import FS_PER_S
from accelsim.version import tool_version
from accelsim.workload.graph import Graph
from accelsim.workload.ops.base import Gemm

OUT_OF_STEPS = "outside"
"""``edge`` of the line of what no step causes."""


@dataclass(frozen=True)
class Layer:
    """One step of the program. Times in fs. ``gemm`` and ``out_shape`` are those of a core, all counts of all cores.

    ``start_fs``..``end_fs``: from its first command to its last; steps overlap. ``added_fs``: what it adds to the
    latency, its time on the critical path; these add up to it. ``cycles``: the same in cycles of the chip clock.
    ``path``: what that time went to, largest first; ``bound`` its largest part in words, ``bound_key`` one of
    ``critical_path.KEYS`` or ``HIDDEN``. ``own_fs``: the longest of the time that it adds and the time that one
    engine or memory worked for it, hidden behind other layers or not. ``utilisation``: MACs / (peak rate of their
    format x own time), None without matrix work. ``traffic_B``: off-chip memory -> (bytes read, bytes written),
    ``level_B``: the same of the levels before them.
    ``energy_J`` by category adds up to its energy. ``title``: what it is, such as 'conv2_2 3x3 64->64 @56x56';
    ``stage``: the part of the network that it belongs to, '' where none is known. ``edge``: 'input' or 'output'
    for a step that only turns numbers into codes or back at the ends of the model; it is no layer and its
    ``number`` is 0, layers are numbered from 1. Nor is ``OUT_OF_STEPS``, what no step causes: where a model only hands
    out constants, these still travel to the host; and DRAM chips draw power and refresh beside their bursts, which
    memory models that follow commands count.
    """

    index: int
    name: str
    label: str
    engine: str
    out_shape: tuple[int, ...]
    gemm: Gemm | None
    macs: int
    ops: int
    start_fs: int
    end_fs: int
    added_fs: int
    own_fs: int
    cycles: int
    utilisation: float | None
    path: Times
    traffic_B: dict[str, tuple[int, int]]
    energy_by_category_J: dict[str, float] = field(default_factory=dict)
    note: str = ""
    title: str = ""
    stage: str = ""
    number: int = 0
    edge: str = ""
    level_B: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def bound_key(self) -> str:
        """Return the cause of most of the time that the layer adds, a key of ``critical_path.KEYS``;
        'hidden' if it adds none."""
        return next((blame.key for blame in self.path), HIDDEN)

    @property
    def bound(self) -> str:
        """Return the largest cause of the added time in words, with the name of the memory or link."""
        return next((blame.text for blame in self.path), HIDDEN)

    @property
    def reasons(self) -> dict[str, int]:
        """The time that it adds by the keys of ``critical_path.KEYS``, fs."""
        return critical_path.by_key(self.path)

    @property
    def dram_B(self) -> int:
        """Bytes read from and written to all off-chip memories."""
        return sum(read + write for read, write in self.traffic_B.values())

    @property
    def energy_J(self) -> float:
        """Energy of the layer, J, its share of static power included."""
        return sum(self.energy_by_category_J.values())


def layers(run: Run) -> list[Layer]:
    """One entry per step of the program, in its order; after them one for time and energy that no step causes.

    Times, traffic and energies add up to those of the run. Raises UnpricedAction (see ``energy``).
    """
    return list(run.once("layers", lambda: _layers(run)))


@no_collection()
def _layers(run: Run) -> list[Layer]:
    from accelsim.account.titles import is_of_images, stage, titles

    paths, works, formats = critical_path.by_step(run), own_fs(run), macs_by_format(run)
    traffic, levels = traffic_by_step(run), traffic_by_step(run, is_level)
    joules: dict[int, dict[str, float]] = {}
    split = categories.by_op_and_category(run.chip, energy.energy_table(run))
    for (op, category), value in split.items():
        joules.setdefault(op, {})[category] = value
    rows, graph, cores = [], run.program.graph, run.program.cores
    images, numbers = is_of_images(graph), itertools.count(1)
    named = titles(run.program.steps, graph)
    for index, step in enumerate(run.program.steps):
        start, end = run.step_spans[index]
        added = sum(paths[index].values())
        own = max(added, works[index])
        rows.append(
            Layer(
                index=index, name=step.name, label=step.label, engine=step.engine, out_shape=step.out_shape,
                gemm=step.gemm, macs=step.macs * cores, ops=step.ops * cores,
                start_fs=start, end_fs=end, added_fs=added, own_fs=own,
                cycles=round(Fraction(run.chip.clock) * added / FS_PER_S),
                utilisation=_utilisation(run, formats.get(index, {}), own), path=paths[index],
                traffic_B=traffic.get(index, {}), level_B=levels.get(index, {}),
                energy_by_category_J=joules.get(index, {}), note=step.note,
                title=named[index], stage=stage(step.name, step.out_shape, images),
                number=0 if step.edge else next(numbers), edge=step.edge,
            )
        )  # fmt: skip
    return rows + _outside(run, traffic.get(OUTSIDE, {}), joules.get(OUTSIDE, {}))


def _outside(run: Run, traffic: dict[str, tuple[int, int]], joules: dict[str, float]) -> list[Layer]:
    """Return what no step causes, as an entry of its own: time, or what DRAM chips draw beside their bursts. Else
    nothing."""
    path = critical_path.by_step(run).get(OUTSIDE, {})
    added = sum(path.values())
    if not added and not any(joules.values()):
        return []
    name = "input and output" if added else "standby and refresh"
    entry = Layer(
        index=len(run.program.steps), name=name, label="", engine="", out_shape=(), gemm=None, macs=0, ops=0,
        start_fs=0, end_fs=run.time_fs, added_fs=added, own_fs=added,
        cycles=round(Fraction(run.chip.clock) * added / FS_PER_S), utilisation=None, path=path,
        traffic_B=traffic, energy_by_category_J=joules, title=name, edge=OUT_OF_STEPS,
    )  # fmt: skip
    return [entry]


def lines(layers: Sequence[Layer]) -> list[Layer]:
    """The layers, with all conversions at one end of the model as one line before or after them; then what no step
    causes."""
    found = [layer for layer in layers if not layer.edge]
    ends = {end: [layer for layer in layers if layer.edge == end] for end in ("input", "output")}
    first, last = (_together(parts, f"{end} conversion") for end, parts in ends.items())
    return [*first, *found, *last, *(layer for layer in layers if layer.edge == OUT_OF_STEPS)]


def _together(parts: Sequence[Layer], name: str) -> list[Layer]:
    """One line for all of them; nothing for none, or where they happen outside of the run and cost nothing."""
    if not any(layer.added_fs or layer.energy_J for layer in parts):
        return []
    path: Times = {}
    joules: dict[str, float] = {}
    for layer in parts:
        for blame, fs in layer.path.items():
            path[blame] = path.get(blame, 0) + fs
        for category, value in layer.energy_by_category_J.items():
            joules[category] = joules.get(category, 0.0) + value
    whole = replace(
        parts[0], name=name, title=name, stage="", path=critical_path.ranked(path),
        traffic_B=_added(layer.traffic_B for layer in parts), level_B=_added(layer.level_B for layer in parts),
        energy_by_category_J=joules, end_fs=max(layer.end_fs for layer in parts),
        start_fs=min(layer.start_fs for layer in parts), ops=sum(layer.ops for layer in parts),
        added_fs=sum(layer.added_fs for layer in parts), own_fs=max(layer.own_fs for layer in parts),
        cycles=sum(layer.cycles for layer in parts),
    )  # fmt: skip
    return [whole]


def _added(flows: Iterable[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Memory -> bytes read and written of all."""
    found: dict[str, tuple[int, int]] = {}
    for flow in flows:
        for memory, (read, written) in flow.items():
            before = found.get(memory, (0, 0))
            found[memory] = (before[0] + read, before[1] + written)
    return found


def _utilisation(run: Run, formats: dict[str, int], own: int) -> float | None:
    if not formats or not own:
        return None
    return min(1.0, ideal_seconds(run.chip, formats) * FS_PER_S / own)  # times are whole fs, rounded down


def traffic_by_step(
    run: Run, counts: Callable[[Chip, str, str], bool] = is_off_chip
) -> dict[int, dict[str, tuple[int, int]]]:
    """Step (-1: none) -> memory off the chip (or whichever rows ``counts`` accepts) -> bytes read, bytes written."""
    table: dict[int, dict[str, tuple[int, int]]] = {}
    for row in run.ledger:
        if counts(run.chip, row.component, row.action):
            memories = table.setdefault(row.op, {})
            read, write = memories.get(row.component, (0, 0))
            is_read = row.action == READ
            memories[row.component] = (read + row.count * is_read, write + row.count * (not is_read))
    return table


def traffic_by_memory(run: Run) -> dict[str, dict[str, int]]:
    """Off-chip memory -> {'read_B', 'write_B'}: every attached memory, and that of a host that worked."""
    names = [name for name in run.chip.memories if not is_level(run.chip, name)]
    return _by_memory(names, traffic_by_step(run))


def traffic_by_level(run: Run) -> dict[str, dict[str, int]]:
    """Level between buffers and memories -> {'read_B', 'write_B'}."""
    names = [name for name in run.chip.memories if is_level(run.chip, name)]
    return _by_memory(names, traffic_by_step(run, is_level)) if names else {}


def _cached(run: Run, level: str) -> dict[str, Any]:
    """Return what a level did as a cache; nothing of one that the compiler manages."""
    return run.caches[level].as_dict() if level in run.caches else {}


def _by_memory(names: Iterable[str], by_step: dict[int, dict[str, tuple[int, int]]]) -> dict[str, dict[str, int]]:
    found = dict.fromkeys(names, (0, 0)) | _added(by_step.values())
    return {name: {"read_B": read, "write_B": write} for name, (read, write) in found.items()}


def batch_size(graph: Graph) -> int:
    """Inferences of one run: the first dimension of the first input of rank 2 or more, else 1.

    Of a graph of single layers, where that dimension may be the rows of a product: as many as were asked for.
    """
    if graph.products:
        return graph.products
    shapes = (graph.tensors[name].shape for name in graph.inputs)
    return next((int(shape[0]) for shape in shapes if len(shape) > 1 and shape[0] > 0), 1)


COUNTED = {"inferences": "inference", "products": "product", "passes": "pass"}
"""Units that ``batch`` counts, plural -> singular: inferences of a network, single products, or passes through a list
of layers that need not be a network."""


def counted(run: Run) -> str:
    """Return what a run makes ``batch`` of, a key of ``COUNTED``."""
    if not run.program.graph.products:
        return "inferences"
    return "products" if sum(step.macs > 0 for step in run.program.steps) == 1 else "passes"


def main_format(run: Run) -> str:
    """Return the operand format of most MACs ('' without matrix work)."""
    totals = _macs_in_all(run)
    return max(totals, key=lambda name: totals[name], default="")


def _macs_in_all(run: Run) -> Counter[str]:
    """MACs of engines which multiply by operand format, all steps together."""
    totals = Counter[str]()
    for formats in macs_by_format(run).values():
        totals.update(formats)
    return totals


@no_collection()
def summary(run: Run) -> dict[str, Any]:
    """The run in one dictionary that JSON can hold; the unit is the end of each key.

    ``achieved_TOPS`` counts a MAC as two operations; like ``utilisation`` it is what the matrix unit did, of its peak,
    and without matrix work what all engines did. ``macs`` are those of all engines. ``commands_replayed``: those of
    the ``commands`` that were not simulated, as they do what earlier ones did, later (``machine.replay``). Keys that
    make no sense for this chip are None. ``latency_interval``: nine of ten runs take that long, where kernels of the
    chip's kind were compared with measured times; ``calibrated``: the share of the time of kernels that were on it;
    ``any_lab``: whether it covers other labs than that which measured the chip. ``throughput_interval_per_s``: that,
    turned over. ``energy_interval`` and ``power_interval_W``: likewise, by measured power of servers.
    """
    rows, interval = energy.energy_table(run), latency_interval(run)
    total_J, seconds = energy.total_J(rows), run.seconds
    batch = batch_size(run.program.graph) * run.program.cores
    joules, watts = energy_interval(run, total_J), total_J / seconds if seconds else None
    return {
        "tool": "accelsim",
        "tool_version": tool_version(),
        "run": run.asked,
        "chip": run.chip.name,
        "chip_title": run.chip.title,
        "model": run.program.graph.name,
        "dtype": run.program.dtype,
        "values": run.values,
        "memory_model": run.memory_model,
        "weights_from": run.program.graph.values_from,
        "batch": batch,
        "counts": counted(run),
        "steps": len(run.program.steps),
        "steps_on_host": sum(step.engine == "host" for step in run.program.steps),
        "layers": sum(not step.edge for step in run.program.steps),
        "layers_on_host": sum(step.engine == "host" and not step.edge for step in run.program.steps),
        "latency_s": seconds,
        "latency_interval": interval and interval._asdict() | {"any_lab": in_any_lab(run.chip)},
        "cycles": round(Fraction(run.chip.clock) * run.time_fs / FS_PER_S),
        "throughput_per_s": batch / seconds if seconds else None,
        "throughput_interval_per_s": interval and list(interval.rates(batch)),
        "energy_J": total_J,
        "energy_interval": None if joules is None else joules._asdict(),
        "energy_per_inference_J": total_J / batch,
        "power_average_W": watts,
        "power_interval_W": watts and power_interval(run, watts),
        **_rates(run),
        "array_percent": array_split(run.step_stalls),
        "array_s": array_seconds(run.step_stalls),
        "critical_path_s": {blame.text: fs / FS_PER_S for blame, fs in critical_path.by_blame(run).items()},
        "traffic": traffic_by_memory(run),
        "levels": {name: flow | _cached(run, name) for name, flow in traffic_by_level(run).items()},
        "memory_needs": {name: need.as_dict() for name, need in run.program.needs.items()},
        "dram": {name: stats.as_dict() for name, stats in run.dram.items()},
        "energy_by_component_J": energy.by_component(rows),
        "energy_by_category_J": categories.by_category(run.chip, rows),
        "energy_status": provenance.by_status(run, rows),
        "energy_basis": energy_basis(run.chip, dram.followed(run)),
        "energy_outside_steps_J": energy.by_op(rows).get(OUTSIDE, 0.0),
        "uncalibrated": provenance.uncalibrated(run),
        "commands": len(run.program.commands),
        "commands_replayed": run.replay.commands if run.replay is not None else 0,
        "notes": notes(run),
    }


def notes(run: Run) -> list[str]:
    """Return what the compiler has to say of a run, and how much of it was replayed."""
    return [*run.program.notes, *([run.replay.text] if run.replay is not None and run.replay.commands else [])]


def _rates(run: Run) -> dict[str, object]:
    macs = sum(step.macs for step in run.program.steps) * run.program.cores
    seconds, mac_format = run.seconds, main_format(run)
    formats = _macs_in_all(run)
    done = sum(formats.values()) or macs
    return {
        "macs": macs,
        "achieved_TOPS": 2e-12 * done / seconds if seconds else None,
        "peak_TOPS": 2e-12 * peak_mac_rate(run.chip, mac_format) if mac_format else None,
        "utilisation": ideal_seconds(run.chip, formats) / seconds if formats and seconds else None,
    }


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text: '1x64x56x56'; 'scalar' for an empty one."""
    return "x".join(str(extent) for extent in shape) if prod(shape) or shape else "scalar"
