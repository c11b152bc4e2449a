"""Laws that every run obeys, whatever the chip, the model and the mapping; asserted at the end of every simulation.

They need nothing but the run: what the commands asked for, what the records say happened, and the limits of the chip.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from accelsim.machine.critical_path import critical_path
from accelsim.machine.run import LawError, Run
from accelsim.program.actions import COMMANDS, MAC, PADDING, RD, READ, WAYS, WR, WRITE, is_done
from accelsim.program.roles import multiplier, spec_of
from accelsim.program.work import Transfer
from accelsim.spec.levels import cache_of
from accelsim.time import FS_PER_S, transfer_fs
from accelsim.workload.nodes import is_attention

SHOWN = 5
"""Broken laws that the error spells out."""


Law = Callable[[Run], Iterator[str]]


def check(run: Run, thorough: bool = False, laws: Sequence[Law] = ()) -> None:
    """Assert every law of ``laws``, without them of ``LAWS`` (``THOROUGH``). Raises LawError with the numbers of those
    that are broken."""
    laws = laws or (THOROUGH if thorough else LAWS)
    broken = [f"{law.__name__.replace('_', ' ')}: {text}" for law in laws for text in law(run)]
    if broken:
        more = f"\n... and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
        raise LawError("\n".join(broken[:SHOWN]) + more)


def every_command_runs_once(run: Run) -> Iterator[str]:
    """No command is left waiting (a deadlock), none runs twice, and times are in order."""
    done = [piece.command for piece in run.slices]
    missing = sorted({command.id for command in run.program.commands} - set(done))
    if missing or len(done) != len(run.program.commands):
        names = ", ".join(f"{run.program.commands[index].label} ({index})" for index in missing[:SHOWN])
        yield f"{len(done)} of {len(run.program.commands)} commands completed; waiting for ever: {names}"
    start, data, end = run.times
    wrong = (start < 0) | (start > data) | (data > end) | (end > run.time_fs)
    yield from (f"{run.slices[index]} of a run of {run.time_fs} fs" for index in np.nonzero(wrong)[0].tolist())


def engine_times_add_up(run: Run) -> Iterator[str]:
    """Busy + stalled + idle = the time of the run, and none of them is negative."""
    for entry in run.engines:
        parts = [entry.busy, *entry.stalled.values(), entry.idle]
        if sum(parts) != run.time_fs or min(parts) < 0:
            yield f"{entry} of a run of {run.time_fs} fs"


def macs_are_those_of_the_graph(run: Run) -> Iterator[str]:
    """MACs in the ledger, by step, are the MACs of the node's product, those of pruned weights (skipped) among them;
    padding is separate and not negative."""
    counted: dict[int, int] = defaultdict(int)
    for row in run.ledger:
        if row.count < 0:
            yield f"negative count: {row}"
        if row.action.kind == MAC and row.action != PADDING:
            counted[row.op] += row.count
    for index, step in enumerate(run.program.steps):
        macs = step.macs if is_attention(step.node) else step.gemm.macs if step.gemm is not None else 0
        expected = macs * run.program.cores
        if counted[index] != expected:
            yield f"{step.name}: {counted[index]} MACs in the ledger, {expected} in the graph"


def arrays_stay_below_their_peak(run: Run) -> Iterator[str]:
    """Check that each queue of an engine takes at least the time that its MACs need at its share of the peak."""
    unit = multiplier(run.chip)
    if unit is None:
        return
    counts: Counter[tuple[str, str]] = Counter()
    for row in run.ledger:
        if is_done(row.action):
            counts[row.component, row.action.of] += row.count
    needed_fs: dict[str, Fraction] = defaultdict(Fraction)
    for (component, fmt), count in counts.items():
        spec = spec_of(run.chip, component)
        clocks = count * len(spec.queues(unit.name)) / spec.rates()[fmt]
        needed_fs[component] += clocks * Fraction(FS_PER_S) / Fraction(spec.clock or run.chip.clock)
    for array, needed in needed_fs.items():
        if needed > run.time_fs + 1:
            yield f"{array} needs {float(needed):.0f} fs at its peak, the run took {run.time_fs}"


def ports_stay_below_their_peak(run: Run) -> Iterator[str]:
    """Data of a port is never interleaved, and none moves faster than the port: so over no interval either.

    That is what 'bandwidth' promises, which also serves levels. 'ideal' takes no time; of memories that are followed
    see ``drams_stay_below_their_peak``.
    """
    by_port: dict[tuple[str, bool], list[tuple[int, int]]] = defaultdict(list)
    lanes = _lanes(run)
    for index, piece in enumerate(run.slices):
        work = run.program.commands[piece.command].work
        if isinstance(work, Transfer) and (lane := lanes.get((work.memory, work.write))):
            by_port[lane].append((index, work.nbytes))
    for (memory, _), moves in by_port.items():
        attached = run.chip.memories[memory]
        bandwidth, beat_B = attached.rate_Bps, attached.memory.beats_B
        index, nbytes = np.array(moves, np.int64).T
        data, end = run.times[1:, index]
        sizes, of = np.unique(nbytes, return_inverse=True)
        least = np.array([transfer_fs(size, beat_B, bandwidth) for size in sizes.tolist()], np.int64)
        for at in np.nonzero(end - data < least[of])[0]:
            piece = run.slices[index[at]]
            yield f"{nbytes[at]} B in {end[at] - data[at]} fs through {memory} ({bandwidth:g} B/s): {piece}"
        order = np.lexsort((end, data))
        for at in np.nonzero(data[order[1:]] < end[order[:-1]])[0]:
            one, other = (run.slices[index[each]] for each in order[at : at + 2])
            yield f"two transfers at once through {memory}: {one}, {other}"


def _lanes(run: Run) -> dict[tuple[str, bool], tuple[str, bool]]:
    """(memory, write) of a transfer -> the memory or cache whose port it takes at a rate in bytes, and which way of
    it."""
    found: dict[tuple[str, bool], tuple[str, bool]] = {}
    for memory in run.chip.memories if run.memory_model != "ideal" else ():
        port = cache_of(run.chip, memory) or memory
        if port not in run.dram:
            duplex = run.chip.memories[port].full_duplex
            found |= {(memory, write): (port, write and duplex) for write in (False, True)}
    return found


def _passed(run: Run) -> dict[tuple[str, str], int]:
    """(memory, way) -> bytes by the transfers; of a cache and the memory behind it with what passed between them."""
    moved: dict[tuple[str, str], int] = defaultdict(int)
    for command in run.program.commands:
        if isinstance(command.work, Transfer):
            moved[command.work.memory, WRITE if command.work.write else READ] += command.work.nbytes
    for name, stats in run.caches.items():
        asked = {way: moved.pop((stats.memory, way), 0) for way in WAYS}
        stored_B = stats.changed_B if stats.through_B else asked[WRITE]
        moved[name, READ] = asked[READ] + stats.written_back_B
        moved[name, WRITE] = stored_B + stats.fetched_B
        moved[stats.memory, READ] = stats.fetched_B
        moved[stats.memory, WRITE] = stats.written_back_B + stats.through_B
    return moved


def caches_keep_to_the_memory_behind(run: Run) -> Iterator[str]:
    """A cache fetches no line that did not miss, a store passes it whole or not at all, and what passes takes the
    memory behind at least its time."""
    for name, stats in run.caches.items():
        attached, line_B = run.chip.memories[stats.memory], stats.line_B
        spec = run.chip.memories[name].cache
        works = [command.work for command in run.program.commands if isinstance(command.work, Transfer)]
        stored_B = sum(work.nbytes for work in works if work.write and work.memory == stats.memory)
        if stats.fetched_B > stats.misses * line_B or stats.dirty_B > run.chip.memories[name].memory.capacity:
            yield f"{name}: {stats}"
        if spec is not None and stats.through_B != (stored_B if spec.policy == "write_through" else 0):
            yield f"{name}: {stats.through_B} of {stored_B} B passed through"
        passed_B = stats.fetched_B + stats.through_B  # the last lines may still be on their way back
        if run.memory_model == "bandwidth" and passed_B / attached.rate_Bps * FS_PER_S > run.time_fs + 1:
            yield f"{name}: {passed_B} B of {stats.memory} in {run.time_fs} fs"


def traffic_is_in_the_ledger(run: Run) -> Iterator[str]:
    """Off-chip bytes in the ledger are those of the transfers, and what the array works on came and went, unless it was
    on the chip from the start."""
    moved = _passed(run)
    memories = run.chip.memories
    rows = [row for row in run.ledger if row.component in memories and row.action in WAYS]
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        counted[row.component, row.action] += row.count
    if {key: n for key, n in moved.items() if n} != {key: n for key, n in counted.items() if n}:
        yield f"transfers moved {dict(moved)}, the ledger has {dict(counted)}"
    read: dict[str, int] = defaultdict(int)
    for row in rows:
        read[row.tensor] += row.count
    there = {
        name
        for region, (name, _) in run.program.presets.items()
        if (entry := run.program.regions[region]).offset >= 0 and entry.memory not in memories
    }
    for step in run.program.steps:
        weight = run.program.graph.tensors[step.gemm.b] if step.gemm is not None else None
        if weight is None or step.gemm is None or not weight.is_constant or weight.name in there:
            continue
        used = min(weight.elements, step.gemm.groups * step.gemm.K * step.gemm.N)  # not of all experts
        if read[weight.name] < used * weight.element_B:
            yield f"{step.name} works on {used} elements of {weight.name}, {read[weight.name]} B were read"


def drams_stay_below_their_peak(run: Run) -> Iterator[str]:
    """Data are on no bus longer than the run, and those of a transfer take at least their time on all of them."""
    for name, stats in run.dram.items():
        if stats.bus_utilisation > 1 or stats.served.open_clocks < 0:
            yield f"{name}: {stats.served.bus_clocks} clocks of data in {stats.served.elapsed} of each channel"
    for piece in run.slices if run.dram else ():
        work = run.program.commands[piece.command].work
        if isinstance(work, Transfer) and work.memory in run.dram and not cache_of(run.chip, work.memory):
            device = run.dram[work.memory].device
            geometry = device.geometry
            clocks = -(-work.nbytes // (geometry.access_B * geometry.channels)) * device.burst
            if piece.end - piece.start < clocks * device.clock_fs:
                yield f"{work.nbytes} B of {work.memory} need {clocks} clocks of {device.clock_fs} fs: {piece}"


def bursts_are_served_once(run: Run) -> Iterator[str]:
    """Every byte asked for is in a burst, every burst found its row somehow, the ledger has all commands."""
    moved = _passed(run) if run.dram else {}
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for row in run.ledger if run.dram else ():
        counted[row.component, row.action] += row.count
    for name, stats in run.dram.items():
        counts, access_B = stats.served.counts, stats.device.geometry.access_B
        for action, way in ((RD, READ), (WR, WRITE)):
            if counts[action] * access_B < moved[name, way]:
                yield f"{name}: {counts[action]} {action} of {access_B} B for {moved[name, way]} B"
        if counts["hits"] + counts["misses"] + counts["conflicts"] != stats.bursts:
            yield f"{name}: {counts} are not {stats.bursts} bursts"
        read_B, written_B = moved[name, READ], moved[name, WRITE]
        if stats.requested_B != read_B + written_B:
            yield f"{name}: {stats.requested_B} B served, {read_B} B read and {written_B} B written"
        wrong = {action: counts[action] for action in COMMANDS if counted[name, action] != counts[action]}
        if wrong:
            yield f"{name} issued {wrong}, which is not what the ledger has"


def bytes_hold_one_thing_at_a_time(run: Run) -> Iterator[str]:
    """No byte of a buffer belongs to two versions in use at once, and no tile exceeds its region, unless it streams."""
    from accelsim.machine.lifetimes import lifetimes

    regions = run.program.regions
    events: list[tuple[int, int, int, int]] = []
    for live in lifetimes(run):
        region = regions[live.region]
        if region.offset >= 0 and region.size_B and live.end > live.start:
            events += [(live.end, 0, live.region, live.version), (live.start, 1, live.region, live.version)]
    spans: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for now, starts, ident, version in sorted(events):
        region = regions[ident]
        span = (region.offset, region.offset + region.size_B, ident, version)
        held = spans[region.memory]
        at = bisect_left(held, span)
        if not starts:
            held.pop(at)
            continue
        for other in held[max(0, at - 1) : at + 1]:
            if other[0] < span[1] and span[0] < other[1]:
                names = f"{regions[other[2]].name} v{other[3]} and {region.name} v{version}"
                yield f"{region.memory} at {now} fs: {names} share bytes"
        held.insert(at, span)
    for command in run.program.commands:
        for use in command.writes:
            region = regions[use.region]
            if (
                isinstance(command.work, Transfer)
                and use.role == "whole"
                and not region.streams
                and command.work.nbytes > region.size_B
            ):
                yield f"{command.label} moves {command.work.nbytes} B into {region.size_B} B of {region.name}"


def the_critical_path_covers_the_run(run: Run) -> Iterator[str]:
    """Check the path from 0 to the end, without gap or overlap; that each start follows from its cause is checked on
    the way."""
    at = 0
    for segment in critical_path(run):
        if segment.start != at or segment.end <= segment.start:
            yield f"{segment} after {at} fs"
        at = segment.end
    if at != run.time_fs:
        yield f"it ends at {at} of {run.time_fs} fs"


LAWS: tuple[Law, ...] = (
    every_command_runs_once,
    engine_times_add_up,
    macs_are_those_of_the_graph,
    arrays_stay_below_their_peak,
    ports_stay_below_their_peak,
    traffic_is_in_the_ledger,
    drams_stay_below_their_peak,
    bursts_are_served_once,
    caches_keep_to_the_memory_behind,
)
"""Laws that cost little, asserted on every run; a new one is a function and a line here."""

LAWS_OF_A_REPLAY: tuple[Law, ...] = (engine_times_add_up, macs_are_those_of_the_graph, arrays_stay_below_their_peak)
"""Laws of a run that was replayed which need no look at each command; the others hold for what was simulated."""

THOROUGH: tuple[Law, ...] = (*LAWS, bytes_hold_one_thing_at_a_time, the_critical_path_covers_the_run)
"""All laws: those above, and what takes longer than the simulation of a large program may."""
