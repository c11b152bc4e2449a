"""Joules: each ledger row times the energy of its action, plus static power times time.

Choices: the chip's idle power (``power.idle``) and the static power of each attached memory are drawn during
the whole run; the host's idle power only while it works for this run, since it serves others in between. The
static share of an operator is what it adds to the latency (``critical_path.added_fs``). A memory whose commands
were followed is charged by command, and its standby belongs to no operator (``account.dram``). A GPU draws no more than
its design power.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from math import fsum, inf
from typing import NamedTuple, TypeVar

from accelsim.account import dram
from accelsim.account.critical_path import added_fs
from accelsim.account.spans import OUTSIDE, host_busy_fs
from accelsim.engines.base import Price
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import LedgerRow, Run
from accelsim.program.actions import ACTIVE, HOST_OP, MAC, READ, SKIPPED, TRANSFER, WAYS, WRITE, ActionName, idle
from accelsim.program.roles import HOST, HOST_OWN_MEMORY, part_of, units
from accelsim.spec.chip import Chip
from accelsim.spec.energy import sram_J_per_B
from accelsim.spec.levels import byte_J
from accelsim.time import FS

STATIC, HOST_IDLE = "static", idle("host")
Key = TypeVar("Key", bound=Hashable)


class EnergyRow(NamedTuple):
    """A ledger row with its energy. Static rows count fs; ``op`` -1 is no operator."""

    component: str
    action: ActionName
    op: int
    tensor: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody wants
    energy_J: float


class UnpricedAction(LookupError):
    """The ledger holds an action that the chip's spec has no energy for: the tool contradicts itself."""


def price_list(chip: Chip) -> dict[tuple[str, str], float]:
    """(component, action) -> joules per count, for everything that can happen on this chip.

    A link is called '<memory>.link', the memory of the host processor 'host.own_memory'. The names of several
    cores of a kind (see ``roles.part_of``) share one entry.
    """
    prices = {key: price.energy_J for key, price in engine_prices(chip).items()}
    for view in chip.views():
        for name, buffer in view.buffers.items():
            for way in WAYS:
                J_per_B = sram_J_per_B(chip.energy.sram, float(buffer.part_B), way == WRITE)
                prices[view.called(name), way] = J_per_B
    return prices | _host_prices(chip) | _memory_prices(chip)


def engine_prices(chip: Chip) -> dict[tuple[str, str], Price]:
    """(engine, action) -> its price, as the types of the engines of the chip say."""
    return {
        (view.called(name), action): price
        for view in chip.views()
        for name, unit in units(view).items()
        for action, price in ENGINES[unit.type].prices(view, unit).items()
    }


def _host_prices(chip: Chip) -> dict[tuple[str, str], float]:
    if chip.host is None:
        return {}
    return {
        ("host", HOST_OP): float(chip.host.energy_per_op),
        ("host", "busy"): 0.0,  # charged as static power
        (HOST_OWN_MEMORY, READ): byte_J(chip, chip.host.memory, False),
        (HOST_OWN_MEMORY, WRITE): byte_J(chip, chip.host.memory, True),
    }


def _memory_prices(chip: Chip) -> dict[tuple[str, str], float]:
    prices: dict[tuple[str, str], float] = {}
    for name, attached in chip.memories.items():
        prices |= {(name, way): byte_J(chip, attached.memory, way == WRITE) for way in WAYS}
        if attached.link:
            prices[f"{name}.link", TRANSFER] = float(attached.link.energy)
    return prices


def static_power_W(chip: Chip) -> dict[ActionName, float]:
    """Return what is drawn all the time: action name -> W. Zero entries are left out."""
    powers = {idle("chip"): float(chip.power.idle or 0.0) if chip.power else 0.0}
    powers |= {idle(name): float(attached.memory.static_power) for name, attached in chip.memories.items()}
    return {name: power for name, power in powers.items() if power > 0}


def prices_of(run: Run) -> dict[tuple[str, str], float]:
    """The price list of the chip as this run is charged by it: memories by the byte, or by command; and the links over
    which it sends to other devices, called '<device>.link'.
    """
    peers = run.program.peers.items()
    sent = {(f"{peer}.link", TRANSFER): fsum(float(link.energy) for link in links) for peer, links in peers}
    return price_list(run.chip) | dram.command_prices(run) | sent


def energy_table(run: Run) -> list[EnergyRow]:
    """Every row of work with its energy, then the static rows; ``energy_J`` adds up to the energy of the run. Raises as
    ``work_rows`` does.
    """
    return [*work_rows(run), *_static_rows(run), *_host_rows(run)]


def work_rows(run: Run, limited: bool = True) -> list[EnergyRow]:
    """Every ledger row with its energy, then engines that draw power as long as they work: all but static power.

    ``limited``: no board draws more than its design power on the average of the run, see ``within_design_power``.

    Raises UnpricedAction for a component or action that the spec of the chip has no energy for.
    """
    prices = prices_of(run)
    rows = []
    for row in run.ledger:
        price = prices.get((part_of(run.chip, row.component), row.action))
        if price is None:
            raise UnpricedAction(_unpriced(run.chip, row.component, row.action, prices))
        rows.append(EnergyRow(*row, row.count * price * done_share(run, row)))
    active = list(_active_rows(run, prices))
    every = [*rows, *active]
    return within_design_power(run.chip, run.seconds, every) if active and limited else every


def _active_rows(run: Run, prices: Mapping[tuple[str, str], float]) -> Iterator[EnergyRow]:
    """Engines that draw power as long as they work."""
    draws = {part for (part, action), price in prices.items() if action == ACTIVE and price}
    if not draws:
        return
    from accelsim.account.active import active

    for number, fs in active(run, draws):
        engine = run.program.steps[number].engine
        joules = fs * prices[part_of(run.chip, engine), ACTIVE]
        yield EnergyRow(engine, ACTIVE, number, "", fs, joules)


def within_design_power(chip: Chip, seconds: float, rows: Sequence[EnergyRow]) -> list[EnergyRow]:
    """Return rows of work that draw no more than the design power of the board leaves, on the average of ``seconds``.

    A GPU that would draw more lowers its clock and its voltage until it does not. How long kernels take then is
    measured and part of the constants of the chip (``droop``); here their energy follows. Its control is slower than
    kernels: networks whose products alone would draw too much keep the highest clock where the rest draws little.
    """
    power = chip.power
    on_board = [_is_on_board(chip, row) for row in rows]
    drawn_J = fsum(row.energy_J for row, near in zip(rows, on_board, strict=True) if near)
    if power is None or power.tdp is None or not drawn_J:
        return list(rows)
    share = min(1.0, left_W(chip) * seconds / drawn_J)
    return [
        row._replace(energy_J=row.energy_J * share) if near else row for row, near in zip(rows, on_board, strict=True)
    ]


def left_W(chip: Chip) -> float:
    """Return what the design power of a board leaves beside its static power, W; infinity where none is stated."""
    if chip.power is None or chip.power.tdp is None:
        return inf
    return max(0.0, float(chip.power.tdp) - sum(static_power_W(chip).values()))


def _is_on_board(chip: Chip, row: EnergyRow) -> bool:
    """Return whether the board draws what a row counts: the chip and memories that no link leads to."""
    attached = chip.memories.get(row.component)
    far = row.component in (HOST, HOST_OWN_MEMORY) or row.action == TRANSFER
    return not far and (attached is None or attached.link is None)


def done_share(run: Run, row: LedgerRow) -> float:
    """Return the share of the multiplications of a row that cost energy: by zero they do not where the unit gates them.

    1 where the values are not known, so that the energy is an upper bound then.
    """
    if row.op not in run.nonzero_macs or row.action.kind != MAC:
        return 1.0
    every = run.program.steps[row.op].macs * run.program.cores
    left = sum(other.count for other in run.ledger if other.op == row.op and other.action == SKIPPED)
    return min(1.0, run.nonzero_macs[row.op] / max(every - left, 1))


def _unpriced(chip: Chip, component: str, action: str, prices: dict[tuple[str, str], float]) -> str:
    known = [name for owner, name in prices if owner == component]
    has = f"it has {', '.join(known)}" if known else f"components: {', '.join(sorted({c for c, _ in prices}))}"
    return f"{chip.name} has no energy for action {action!r} of component {component!r}; {has}"


def _static_rows(run: Run) -> list[EnergyRow]:
    shares = {step: added for step, added in enumerate(added_fs(run)) if added}
    shares[OUTSIDE] = run.time_fs - sum(shares.values())
    by_command = {idle(name) for name in dram.followed(run)}
    rows = [
        EnergyRow(STATIC, action, step, "", fs, power * fs * FS)
        for action, power in static_power_W(run.chip).items()
        for step, fs in shares.items()
        if fs and action not in by_command
    ]
    return rows + [EnergyRow(STATIC, action, OUTSIDE, "", fs, joules) for action, fs, joules in dram.standby(run)]


def host_W(chip: Chip) -> float:
    """Return the idle power of the host, W; 0 where the host is the chip, whose idle power counts already."""
    own = chip.host is None or (chip.kind == "cpu" and chip.power)
    return 0.0 if own or chip.host is None else float(chip.host.idle_power)


def _host_rows(run: Run) -> list[EnergyRow]:
    """The host's idle power while it works."""
    power = host_W(run.chip)
    if not power:
        return []
    return [EnergyRow(STATIC, HOST_IDLE, step, "", fs, power * fs * FS) for step, fs in host_busy_fs(run).items() if fs]


def total_J(rows: Iterable[EnergyRow]) -> float:
    """Return the energy of all rows, J."""
    return fsum(row.energy_J for row in rows)


def group_J(rows: Iterable[EnergyRow], key: Callable[[EnergyRow], Key]) -> dict[Key, float]:
    """Return the joules of rows by key, in the order of the rows."""
    parts: dict[Key, list[float]] = {}
    for row in rows:
        parts.setdefault(key(row), []).append(row.energy_J)
    return {name: fsum(values) for name, values in parts.items()}


def by_component(rows: Iterable[EnergyRow]) -> dict[str, float]:
    """Return component -> J, in the order of the ledger."""
    return group_J(rows, lambda row: row.component)


def by_op(rows: Iterable[EnergyRow]) -> dict[int, float]:
    """Return index of the step (-1: none) -> J."""
    return group_J(rows, lambda row: row.op)
