"""Searches that have been made, kept in the process and in the user's cache under everything that they depend on.

A search is deterministic, so a kept result is the one that a new search would find. Compilations of one chip share
searches, and so do runs of chips that differ only in what a search does not read: the host, its link, energies, names
of formats, room that no candidate needs. Tapes of candidates are shared by chips that differ in rates of memories too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import astuple
from hashlib import sha256
from typing import NamedTuple

from accelsim.engines.base import Lowering
from accelsim.engines.systolic.mapping.rehearsal import Tape
from accelsim.engines.systolic.mapping.shape import Step
from accelsim.engines.systolic.mapping.space import Table as Candidates
from accelsim.engines.systolic.pace import sustained_pace
from accelsim.program.mapping import Mapping as Choices
from accelsim.program.roles import Roles
from accelsim.spec.levels import without_capacities
from accelsim.spec.memory import Attachment
from accelsim.usercache import Table
from accelsim.workload.graph import FORMAT_BYTES

MOST = 4000
"""Products in the user's cache."""
MOST_ENTRIES = 16
"""Searches of one product with different rooms that are kept for later processes."""


class Choice(NamedTuple):
    """The best mapping, its estimate (clocks of the array), what binds it, and how many were tried."""

    mapping: Choices
    clocks: float
    binds: str
    scored: int


class Searched(NamedTuple):
    """A search that was made: its result, the rooms it had, and the rooms from which on it is the same, bytes: no
    candidate is refused (``needs``), or none that is among the best (``wants``); whether candidates were
    ``rehearsed``."""

    choice: Choice
    rooms: list[int]
    needs: list[int]
    wants: list[int]
    rehearsed: bool

    def holds_for(self, rooms: list[int]) -> bool:
        """Return whether the search is the same with these ``rooms`` (bytes per residency choice)."""
        return self._is_same(rooms, self.needs)

    def finds_for(self, rooms: list[int]) -> bool:
        """Return whether the search finds the same mapping with these ``rooms``."""
        return self._is_same(rooms, self.wants)

    def _is_same(self, rooms: list[int], from_on: list[int]) -> bool:
        pairs = zip(self.rooms, rooms, from_on, strict=True)
        return all(then == now or min(then, now) >= need for then, now, need in pairs)


Rooms = Mapping[str, int]
"""Buffer -> the largest block that is free in it, bytes."""


class Taped(NamedTuple):
    """A tape, None for a mapping that does not fit, and the rooms (from, below) with which it is the same."""

    tape: Tape | None
    spans: dict[str, tuple[float, float]]

    def holds_for(self, rooms: Rooms) -> bool:
        """Return whether the tape is the same with these ``rooms``."""
        return all(least <= rooms[name] < beyond for name, (least, beyond) in self.spans.items())


class Tapes:
    """Tapes of candidates by product and mapping; of the last products, while they have at most ``most`` commands in
    all."""

    def __init__(self, most: int) -> None:
        self._most, self._commands = most, 0
        self._made: dict[str, dict[Choices, list[Taped]]] = {}

    def get(self, key: str, mapping: Choices, rooms: Rooms, make: Callable[[], Taped]) -> Tape | None:
        """Return the tape of a mapping of the product ``key`` with these ``rooms``, made if it is not there."""
        made = self._made[key] = self._made.pop(key, {})
        tapes = made.setdefault(mapping, [])
        found = next((each for each in tapes if each.holds_for(rooms)), None)
        if found is None:
            found = make()
            tapes.append(found)
            self._commands += _commands(found)
            while self._commands > self._most and len(self._made) > 1:
                oldest = self._made.pop(next(iter(self._made)))
                self._commands -= sum(_commands(each) for tapes in oldest.values() for each in tapes)
        return found.tape


def _commands(taped: Taped) -> int:
    return taped.tape.commands if taped.tape else 0


TAPES = Tapes(200_000)


class Tables:
    """Tables of candidates by product, while they have at most some ``most`` rows in all. Points of a sweep come back
    to all products of a network, so the oldest tables go only where they were not asked for ``AGE`` times."""

    AGE = 200

    def __init__(self, most: int) -> None:
        self._most, self._now = most, 0
        self._made: dict[Hashable, Candidates] = {}
        self._last: dict[Hashable, int] = {}

    def get(self, *key: Hashable) -> Candidates:
        """Return the table of the product and plans ``key``, an empty one if it is not there."""
        self._now += 1
        if key not in self._made:
            while sum(table.rows for table in self._made.values()) >= self._most:
                oldest = next(iter(self._made))
                if self._last[oldest] > self._now - self.AGE:
                    return Candidates()
                del self._made[oldest], self._last[oldest]
        table = self._made[key] = self._made.pop(key, Candidates())
        self._last[key] = self._now
        return table


TABLES = Tables(1_000_000)


class Known:
    """All searches that this process or, through the ``table``, an earlier one has made."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._made: dict[str, list[Searched]] = {}

    def searches(self, key: str) -> list[Searched]:
        """Return the kept searches of a product, each made with other rooms."""
        if key not in self._made:
            while len(self._made) >= MOST:
                del self._made[next(iter(self._made))]
            self._made[key] = list(_decoded(self._table.get(key)))
        return self._made[key]

    def add(self, key: str, searched: Searched) -> None:
        """Keep a search in the process and in the user's cache."""
        made = self.searches(key)
        made.append(searched)
        self._table.put(key, [_encoded(each) for each in made[-MOST_ENTRIES:]])


KNOWN = Known(Table("mappings", MOST))


def product_key(lowering: Lowering, step: Step, *more: object, rates: bool = True) -> str:
    """Return a hash of everything that the search of a product reads, but for the room that its tiles have.

    ``more``: choices of the search itself. Without ``rates``: of everything that its candidates are written by.
    """
    text = f"{more}\n{step.product}\n{_written(lowering)}\n{_hardware(lowering, step, rates)}"
    return sha256(text.encode(errors="surrogateescape")).hexdigest()


def _written(lowering: Lowering) -> tuple[object, ...]:
    """Return what the node writes commands by."""
    node, tensors, unit = lowering.node, lowering.layout.graph.tensors, lowering.layout.roles.matrix
    mac = unit.formats[node.format or lowering.dtype]
    behind = [(part.op, [_geometry(part.attrs[name]) for name in sorted(part.attrs)]) for part in node.epilogue]
    used = [tensors[name] for name in (*node.reads, *node.writes)]
    sizes = [(tensor.shape, FORMAT_BYTES[tensor.memory_format], tensor.element_B) for tensor in used]
    return sustained_pace(unit, node.format or lowering.dtype), FORMAT_BYTES[mac.accumulate], node.op, behind, sizes


def _geometry(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_geometry(each) for each in value]
    return value if isinstance(value, int | str | None) else type(value).__name__


def _hardware(lowering: Lowering, step: Step, rates: bool) -> list[str]:
    """Return the parts of the chip that the product uses, as texts, each made once in a compilation."""
    roles: Roles = lowering.layout.roles
    chip = roles.chip
    core = without_capacities(chip.core, {roles.activations, roles.weights, roles.sums})  # free bytes are compared
    used = {step.homes.a, step.homes.b, step.homes.y, *(side.memory for side in step.streamed.sides)}

    def text(name: str, make: Callable[[], object]) -> str:
        return lowering.once(("text", name, rates), lambda: repr(make()))

    def memory(attached: Attachment) -> Attachment:
        slow = {} if rates else {"bandwidth": 0.0, "efficiency": 0.0, "latency": 0.0}
        return attached.model_copy(update={"memory": attached.memory.model_copy(update=slow)})

    memories = [
        name + text(name, lambda attached=attached: memory(attached))  # type: ignore[misc]
        for name, attached in chip.memories.items()
        if attached.holds != ["host"] or name in used
    ]
    return [f"{chip.clock} {chip.token_delay} {chip.core_kind}", text("", lambda: core), *memories]


def _encoded(searched: Searched) -> list[object]:
    mapping, *rest = searched.choice
    return [list(astuple(mapping)), rest, searched.rooms, searched.needs, searched.wants, searched.rehearsed]


def _decoded(kept: object) -> Iterator[Searched]:
    """Yield the searches of a value of the user's cache; none of what is no such value."""
    for entry in kept if isinstance(kept, list) else ():
        try:
            mapping, (clocks, binds, scored), *rooms, rehearsed = entry
            had, needs, wants = (list(map(int, each)) for each in rooms)
            choice = Choice(Choices(*mapping), float(clocks), str(binds), int(scored))
            yield Searched(choice, had, needs, wants, bool(rehearsed))
        except (TypeError, ValueError):
            return
