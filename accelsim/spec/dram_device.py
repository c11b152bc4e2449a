"""Spec of a DRAM -> device: timing in clocks, the standard's rows as tables, energy of each command."""

from __future__ import annotations

from dataclasses import asdict, fields

from accelsim.dram.device import Command, CommandEnergy, Controller, Device, Geometry, Level
from accelsim.dram.standards import DEFAULTS, STANDARDS, Standard, clocks
from accelsim.errors import Problem, UsageError, nearest
from accelsim.spec.base import Model
from accelsim.spec.declaring import wanted
from accelsim.spec.dram import Currents, Dram, MemoryController, StatedEnergy
from accelsim.spec.dram_quantity import Span
from accelsim.spec.laws.dram import broken
from accelsim.time import FS_PER_S

Table = tuple[tuple[tuple[int, ...], ...], ...]


def device(spec: Dram, name: str = "", **controller: object) -> Device:
    """The device of a spec; ``controller`` changes fields of its ``Controller``.

    Raises UsageError for an unknown field of the controller, or a mapping that does not fit.
    """
    geometry = geometry_of(spec)
    chosen = _controller(spec, controller, geometry)
    timing = timing_of(spec)
    standard = STANDARDS[spec.standard]
    return Device(
        name=name or spec.title,
        standard=spec.standard,
        geometry=geometry,
        controller=chosen,
        clock_fs=clock_fs(spec),
        burst=timing["BL"],
        timing=timing,
        latency=_latency(standard, timing),
        windows=_windows(standard, timing),
        energy=energy_of(spec),
        note=spec.note or "",
    )


def _controller(spec: Dram, changes: dict[str, object], geometry: Geometry) -> Controller:
    stated = {name: value for name, value in vars(spec.controller).items() if name not in Model.declared}
    if not changes:
        return Controller(**stated)
    known = [each.name for each in fields(Controller)]
    wrong = [
        Problem(f"controller: unknown field {key!r}", "", ", ".join(known), nearest(key, known))
        for key in changes
        if key not in known
    ]
    UsageError.raise_for(wrong)
    from pydantic import ValidationError

    try:
        changed = spec.model_copy(update={"controller": MemoryController.model_validate(stated | changes)})
    except ValidationError as error:
        raise UsageError(
            Problem(f"controller: {each['loc'][0]} {each['input']!r}", "", wanted(each))
            for each in error.errors(include_url=False)
        ) from None
    found = [Problem(f"controller: {each.what}", "", each.expected, each.near) for each in broken(changed)]
    UsageError.raise_for(found)
    return Controller(**(stated | changes))


def clock_fs(spec: Dram) -> int:
    """tCK in femtoseconds."""
    return round(spec.timing.tCK * FS_PER_S)


def access_B(spec: Dram) -> int:
    """Bytes of one burst."""
    return spec.organisation.bus_width * spec.organisation.burst_length // 8


def burst_clocks(spec: Dram) -> int:
    """Clocks of one burst on the data bus."""
    per_clock = spec.organisation.transfers_per_clock or STANDARDS[spec.standard].transfers_per_clock
    return spec.organisation.burst_length // per_clock


def devices_per_rank(spec: Dram) -> int:
    """Devices side by side on the bus of a channel."""
    return spec.organisation.bus_width // spec.organisation.device_width


def geometry_of(spec: Dram) -> Geometry:
    """The geometry of a spec; a pseudo-channel counts as a channel, a stack ID as a rank."""
    org = spec.organisation
    return Geometry(
        channels=org.channels * org.pseudo_channels,
        ranks=org.ranks,
        groups=org.bank_groups,
        banks=org.banks_per_group,
        rows=org.rows,
        columns=org.columns // org.burst_length,
        access_B=access_B(spec),
    )


def timing_of(spec: Dram) -> dict[str, int]:
    """Every parameter in clocks, with ``DEFAULTS`` for what is not stated.

    The additive latency AL is already inside: a RD may follow its ACT so much earlier, and its data
    comes so much later.
    """
    period = clock_fs(spec)
    stated = {name: getattr(spec.timing, name) for name in type(spec.timing).model_fields}
    values = {name: span.clocks(period) for name, span in stated.items() if isinstance(span, Span)}
    values["BL"] = burst_clocks(spec)
    for name, expression in DEFAULTS.items():
        if name not in values:
            values[name] = clocks(expression, values)
    values["CL"] += values["AL"]
    values["CWL"] += values["AL"]
    values["tRCDRD"] -= values["AL"]
    values["tRCDWR"] -= values["AL"]
    return values


def _latency(standard: Standard, timing: dict[str, int]) -> Table:
    """``latency[level][preceding][following]`` of the rows without a window, the largest where several hold."""
    table = [[[0] * len(Command) for _ in Command] for _ in Level]
    for level, preceding, following, expression, window in standard.constraints:
        if window:
            continue
        wait = max(0, clocks(expression, timing))
        for before in preceding.split():
            for after in following.split():
                row = table[Level[level.upper()]][Command[before]]
                row[Command[after]] = max(row[Command[after]], wait)
    return tuple(tuple(tuple(row) for row in rows) for rows in table)


def _windows(standard: Standard, timing: dict[str, int]) -> tuple[tuple[int, int], ...]:
    """(n, clocks): no more than n activations of a rank in so many clocks."""
    found = ((row.window, clocks(row.latency, timing)) for row in standard.constraints if row.window)
    return tuple((n, wait) for n, wait in found if wait)


def energy_of(spec: Dram) -> CommandEnergy | None:
    """Joules per command and standby watts of a rank, None when the spec has neither currents nor energies."""
    if spec.currents is not None:
        made = _from_currents(spec, spec.currents)
    elif spec.energy is not None:
        made = _stated(spec, spec.energy)
    else:
        return None
    burst_B = access_B(spec)
    io = (spec.io.read * burst_B, spec.io.write * burst_B) if spec.io else (0.0, 0.0)
    return CommandEnergy(**{**asdict(made), "io_read_J": io[0], "io_write_J": io[1]})


def _from_currents(spec: Dram, currents: Currents) -> CommandEnergy:
    """Return what each command draws above standby (Micron TN-46-03, as in DRAMsim3's src/configuration.cc)."""
    t, tCK = timing_of(spec), clock_fs(spec) / FS_PER_S
    supply = currents.VDD * devices_per_rank(spec)
    activate = currents.IDD0 * (t["tRAS"] + t["tRP"]) - currents.IDD3N * t["tRAS"] - currents.IDD2N * t["tRP"]
    refresh = supply * (currents.IDD5B - currents.IDD3N) * t["tRFC"] * tCK
    return CommandEnergy(
        act_J=supply * activate * tCK,
        read_J=supply * (currents.IDD4R - currents.IDD3N) * t["BL"] * tCK,
        write_J=supply * (currents.IDD4W - currents.IDD3N) * t["BL"] * tCK,
        refresh_J=refresh,
        refresh_bank_J=refresh / geometry_of(spec).banks_per_rank,
        open_W=supply * currents.IDD3N,
        closed_W=supply * currents.IDD2N,
    )


def _stated(spec: Dram, energy: StatedEnergy) -> CommandEnergy:
    burst_B = access_B(spec)
    return CommandEnergy(
        act_J=energy.activate,
        read_J=energy.read * burst_B,
        write_J=energy.write * burst_B,
        refresh_J=energy.refresh,
        refresh_bank_J=energy.refresh / geometry_of(spec).banks_per_rank,
        open_W=energy.standby_open,
        closed_W=energy.standby_closed,
    )
