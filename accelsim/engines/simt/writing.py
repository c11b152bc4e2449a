"""Helpers to lower products and other nodes: launches, homes, shares of the clocks of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from accelsim.engines.base import Lowering
from accelsim.engines.simt.actions import Units
from accelsim.engines.simt.drawn import power
from accelsim.engines.simt.products import ChipRates
from accelsim.engines.simt.spec import Simt
from accelsim.program.commands import Effect
from accelsim.program.roles import HOST, Roles
from accelsim.program.work import Cycles, Duration
from accelsim.program.writing.layout import Layout
from accelsim.spec.levels import levels_before
from accelsim.time import FS_PER_S

LAUNCH = "launch"
"""Label of the command that launches a kernel."""
DISPATCH = "dispatch"
"""Label of the host's request for a kernel, where a framework or a serving stack makes them one by one."""


def clock_Hz(roles: Roles, spec: Simt) -> float:
    """Return the clock of the multiprocessors under load."""
    return float((spec.clock or roles.chip.clock) * spec.sustained_clock)


def chip_rates(roles: Roles, spec: Simt) -> ChipRates:
    """Return the rates of a chip: the buffer of its activations is the L2 cache, of which each stream has an equal
    part."""
    cache, clock = roles.buffer(roles.activations), clock_Hz(roles, spec)
    each_B = cache.capacity // spec.streams
    width = cache.read_width * Fraction(roles.chip.clock) / Fraction(clock)
    return ChipRates(clock, each_B, width, roles.memory(roles.activations_home).rate_Bps, power(roles.chip, spec))


def rates_of(step: Lowering) -> ChipRates:
    """Return the rates of the chip of a step."""
    roles = step.layout.roles
    return step.once(("rates", roles.core, step.unit.name), lambda: chip_rates(roles, step.unit.spec))


def units(step: Lowering) -> Units:
    """Return the names of the multiprocessors and of their cache in the ledger."""
    roles = step.layout.roles
    return Units(roles.engine(step.unit.name), roles.engine(roles.activations))


def device_home(layout: Layout, op: int, tensor: str) -> int:
    """Return where a kernel reads a tensor: its region in a memory of the device, into which it is copied if need
    be."""
    roles, home = layout.roles, layout.place(tensor).home
    device = (roles.activations_home, roles.weights_home, *levels_before(roles.chip, roles.activations_home))
    if home is not None and layout.builder.regions[home].memory in device:
        return home
    return layout.store_whole(op, tensor, layout.result_home(tensor))


def launch(
    step: Lowering, operands: Iterable[int], width: int, call: float = 0.0, begin: float | None = None
) -> list[int]:
    """Write the launch of a kernel, once its operands (regions) are in the memory of the device, the kernel before has
    computed, and a host that asks for every kernel has asked, for which it needs ``call`` seconds more than for others;
    returns what its loads have to wait for. The kernels of a graph follow each other sooner. ``width``: multiprocessors
    that it has blocks for. ``begin``: seconds of a launch in a graph where it is not that of any kernel."""
    layout, spec = step.layout, step.unit.spec
    asked = _dispatch(step, _asking_s(step, call))
    if begin is None or step.eager:
        begin = spec.launch if step.eager else min(spec.follow, spec.launch)
    clocks = ceil(Fraction(begin) * Fraction(clock_Hz(layout.roles, spec)))
    if not clocks:
        return asked
    engine = layout.roles.queue(step.unit.name)
    launched = layout.off_chip(engine, f"{step.node.name} launched", 0)
    reads, writes = [(region, "src") for region in (*operands, *asked)], [(launched, "whole")]
    work = Cycles(clocks, width=width)
    layout.builder.emit("Vector", engine, step.index, LAUNCH, work, Effect("none"), reads, writes)
    return [launched]


def _asking_s(step: Lowering, call: float) -> float:
    """Time of a host that asks for every kernel: of a framework, or of a serving stack without graphs; 0 for none."""
    spec: Simt = step.unit.spec
    if step.eager:
        return float(spec.dispatch) + call
    return float(spec.serving.host) if step.serving and spec.serving is not None else 0.0


def _dispatch(step: Lowering, seconds: float) -> list[int]:
    """The host's request for a kernel: it runs ahead of the device, one request after the other."""
    layout = step.layout
    if not seconds or layout.roles.chip.host is None:
        return []
    asked = layout.off_chip(layout.roles.host_home, f"{step.node.name} asked for", 0)
    work = Duration(round(seconds * FS_PER_S))
    layout.builder.emit("Host", HOST, step.index, DISPATCH, work, Effect("none"), [], [(asked, "whole")])
    return [asked]


def load_parameters(step: Lowering, names: Sequence[str], size_B: int, launched: Sequence[int]) -> list[int]:
    """Write one Load of the constants of a kernel into registers; return its regions, none without constants."""
    layout = step.layout
    if not names:
        return []
    engine, memory = layout.roles.engine(step.unit.name), layout.roles.weights_home
    sources = [device_home(layout, step.index, name) for name in names]
    region = layout.off_chip(engine, f"{step.node.name} parameters", size_B)
    layout.transfers.load_parameters(step.index, [*sources, *launched], region, memory, size_B)
    return [region]


@dataclass
class Shares:
    """Cuts the clocks of a kernel into pieces by weight: at least one each, together all of them."""

    clocks: int
    pieces: int
    weight: int
    done: int = 0

    def take(self, weight: int, width: int) -> Cycles:
        """Return the clocks of the next piece, for ``width`` multiprocessors."""
        spare, before = max(0, self.clocks - self.pieces), self.done
        self.done += weight
        clocks = 1 + spare * self.done // self.weight - spare * before // self.weight
        return Cycles(clocks, width=width)
