"""Select the tilings that fit: tiles in flight fill each buffer, and all roles that share a buffer count together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Fields
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.mapping.shape import Buffers, Shape
from accelsim.engines.systolic.mapping.tilings import Candidates, a_words, lanes, open_sums
from accelsim.engines.systolic.pace import b_elements
from accelsim.errors import Infeasible
from accelsim.program.mapping import Pin
from accelsim.program.roles import Roles
from accelsim.spec.chip import Chip
from accelsim.types import Bools, Ints


class Share(NamedTuple):
    """Bytes that one kind of tile takes in a buffer, per candidate."""

    buffer: str
    what: str
    size_B: Ints


class Room(NamedTuple):
    """The largest block that tiles can have in the buffer of the activations, and what whole operands take beside it,
    bytes."""

    tiles_B: int
    whole_B: int = 0


class Need(NamedTuple):
    """A buffer that the best of some tilings asks too much of. ``missing_B``: in all buffers together; ``tile``: what
    it is made of, in words; ``field``: the line of the chip that sets what is available."""

    missing_B: int
    buffer: str
    needed_B: int
    available_B: int
    tile: str
    field: str

    def error(self, op: str, pinned: Iterable[str], chip: Chip) -> Infeasible:
        """The error for a node of which no tiling fits; ``pinned``: fields that the user gave."""
        freed = "".join(f", or do not pin {name}" for name in pinned)
        field, more_B = f"{chip.called(self.buffer)}.{self.field}", self.needed_B - self.available_B
        change = f"raise {field} by {more_B:,} B or more{freed}"
        tile = f"{self.tile}; no tiling lacks less: {change}"
        return Infeasible(op, self.buffer, self.needed_B, self.available_B, tile)


def whole_operands(buffer: str, size_B: int, free_B: int) -> Need:
    """Return the room that operands of ``size_B`` bytes lack in a buffer that must hold them whole."""
    return Need(size_B - free_B, buffer, size_B, free_B, "whole operands", "capacity")


class Fitted(NamedTuple):
    """Candidates that fit, with their accumulator slots, and which of all these are; ``most_B``: room in each buffer
    with which each would not have been refused there; ``need``: what the best lacks where none fits."""

    kept: Candidates
    fits: Bools
    most_B: dict[str, Ints]
    need: Need | None


class Asked(NamedTuple):
    """Bytes that candidates ask of buffers, whatever room there is. ``shares``: all but the ``partial`` sums in one
    accumulator slot, in all ``totals_B``; ``limits``: tiles in fixed slots. ``needed``, ``wanted``: accumulator slots;
    ``legal``: whether any room would do; ``most_B``: room of a buffer from which on more changes nothing."""

    shares: list[Share]
    limits: list[Share]
    partial: Share
    totals_B: dict[str, Ints]
    needed: Ints
    wanted: Ints
    legal: Bools
    most_B: dict[str, Ints]


class Fitting:
    """The buffers of one step. ``b_streamed``: the stationary operand comes tile by tile; ``pinned``: fields of the
    mapping that the user gave."""

    def __init__(self, roles: Roles, buffers: Buffers, shape: Shape, pinned: Fields[str, Pin]) -> None:
        self._roles, self._gemm, self._b_streamed, self._pinned = roles, shape.gemm, shape.b_streamed, pinned
        self._free_B, self._shapes = dict(buffers.free_B), dict(buffers.slots)
        self.activations = roles.activations

    def fitted(self, c: Candidates, shape: Shape, sides_B: float, room: Room) -> Fitted:
        """Select the candidates whose tiles fit all buffers. ``sides_B``: bytes per sum of streamed side operands."""
        asked = self.asked(c, shape, sides_B)
        fits, y_slots = self.fits(asked, room)
        need = None if fits.any() else self.need(c, asked, room)
        return Fitted(replace(c, y_slots=y_slots).keep(fits), fits, asked.most_B, need)

    def asked(self, c: Candidates, shape: Shape, sides_B: float) -> Asked:
        """Return what candidates ask of the buffers, whatever room there is."""
        roles, sums = self._roles, c.tg * c.tm * c.tn
        partial = Share(roles.sums, "partial sums", (sums * shape.sum_B).astype(np.int64))
        operands, fixed = list(self._operands(c, shape)), self._slots(roles.sums)
        shares = [tile._replace(size_B=many * tile.size_B) for tile, many in operands if not self._slots(tile.buffer)]
        shares += self._results(c, shape, sums, sides_B)
        limits = [tile for tile in (*(tile for tile, _ in operands), partial) if self._slots(tile.buffer)]
        needed = open_sums(self._gemm, c)
        wanted = np.maximum(needed, 2 * lanes(self._gemm, c))
        if fixed is not None or "y_slots" in self._pinned:
            wanted = np.full_like(needed, self._pinned["y_slots"] if fixed is None else fixed)
        legal = self._side_by_side(c) & (needed <= wanted)
        for share in limits:
            legal &= share.size_B <= self._shapes[share.buffer][0]
        most = shares if fixed else [*shares, partial._replace(size_B=wanted * partial.size_B)]
        return Asked(shares, limits, partial, _totals(shares), needed, wanted, legal, _totals(most))

    def fits(self, asked: Asked, room: Room) -> tuple[Bools, Ints]:
        """Return which candidates fit, and their accumulator slots: two, more where a loop order needs them. Where the
        second does not fit beside the rest, only those that the order needs are used."""
        buffer, slots, totals = self._roles.sums, asked.wanted, asked.totals_B
        if not self._slots(buffer):
            one_B, before = asked.partial.size_B, totals.get(buffer, 0)
            if "y_slots" not in self._pinned:
                slots = np.where(slots * one_B <= self._available(buffer, room) - before, slots, asked.needed)
            totals = totals | {buffer: before + slots * one_B}
        fits = asked.legal.copy()
        for name, needed_B in totals.items():
            fits &= needed_B <= self._available(name, room)
        return fits, slots

    def _slots(self, buffer: str) -> int | None:
        return self._roles.fixed_slots(buffer)

    def _each(self, c: Candidates) -> tuple[Ints, Ints]:
        working, own = lanes(self._gemm, c), c.own
        return working if own[0] else 0 * working + 1, working if own[1] else 0 * working + 1

    def _side_by_side(self, c: Candidates) -> Bools:
        """Return whether fixed slots are enough for a tile of each array."""
        enough: Bools = np.ones(len(c), np.bool_)
        a, b = self._each(c)
        for buffer, needed, streamed in (
            (self._roles.activations, a, not c.a_resident),
            (self._roles.weights, b, self._b_streamed),
        ):
            if streamed and self._slots(buffer):
                enough &= needed <= self._shapes[buffer][1]
        return enough

    def _available(self, buffer: str, room: Room) -> int:
        return room.tiles_B if buffer == self._roles.activations else self._free_B[buffer]

    def _operands(self, c: Candidates, shape: Shape) -> Iterator[tuple[Share, Ints]]:
        """Yield the tiles of both operands that are streamed, with how many are in flight."""
        roles, (each_a, each_b) = self._roles, self._each(c)
        if not c.a_resident:
            size_B = np.ceil(a_words(self._gemm, c)[1] * shape.a_B).astype(np.int64)
            yield Share(roles.activations, "activations", size_B), each_a * c.a_slots
        if self._b_streamed:
            size_B = np.ceil(b_elements(roles.matrix, c.tg, c.tn, c.tk) * shape.b_B).astype(np.int64)
            yield Share(roles.weights, "weights", size_B), each_b * int(self._pinned.get("w_slots", 2))

    def _results(self, c: Candidates, shape: Shape, sums: Ints, sides_B: float) -> list[Share]:
        """Double buffers behind the sums: side operands on their way in, result tiles on their way out."""
        buffer, found = self._roles.activations, []
        if sides_B:
            found.append(Share(buffer, "side operands", (2 * sums * sides_B).astype(np.int64)))
        if not c.y_resident and self._roles.matrix.epilogue:
            found.append(Share(buffer, "results", (2 * np.ceil(sums * shape.y_B)).astype(np.int64)))
        return found

    def need(self, c: Candidates, asked: Asked, room: Room) -> Need | None:
        """The candidate that lacks least, and where it lacks most; None where loop orders alone exclude all."""
        _, y_slots = self.fits(asked, room)
        in_order = (asked.needed <= y_slots) & self._side_by_side(c)
        if not in_order.any():
            return None
        sums = [] if self._slots(self._roles.sums) else [asked.partial]
        shares = [*asked.shares, *(share._replace(size_B=y_slots * share.size_B) for share in sums)]
        missing: Ints = np.zeros_like(y_slots)
        for buffer, needed_B in _totals(shares).items():
            missing += np.maximum(0, needed_B - self._available(buffer, room))
        for share in asked.limits:
            missing += np.maximum(0, share.size_B - self._shapes[share.buffer][0])
        at = int(np.flatnonzero(in_order)[np.argmin(missing[in_order])])
        tile = f"{c.tg[at]}x{c.tm[at]}x{c.tn[at]}x{c.tk[at]} (groups x M x N x K)"
        needs = [self._shared(buffer, at, shares, room) for buffer in _totals(shares)]
        needs += [self._in_slot(share, at) for share in asked.limits]
        worst = max(needs, key=lambda need: need.needed_B - need.available_B)
        return worst._replace(missing_B=int(missing[at]), tile=f"{tile}: {worst.tile}")

    def _shared(self, buffer: str, at: int, shares: Sequence[Share], room: Room) -> Need:
        """Return what candidate ``at`` needs of a buffer, and for what."""
        parts = [(share.what, int(share.size_B[at])) for share in shares if share.buffer == buffer]
        available_B = self._available(buffer, room)
        if buffer == self._roles.activations and room.whole_B:
            parts.append(("whole operands", room.whole_B))
            available_B += room.whole_B
        told = " + ".join(f"{what} {size_B:,} B" for what, size_B in parts)
        return Need(0, buffer, sum(size_B for _, size_B in parts), available_B, told, "capacity")

    def _in_slot(self, share: Share, at: int) -> Need:
        """Return what candidate ``at`` needs of a fixed slot."""
        size_B, spec = int(share.size_B[at]), self._roles.buffer(share.buffer)
        slot_B, slots = self._shapes[share.buffer]
        field = "slot_capacity" if spec.slot_capacity else f"capacity / {slots} slots"
        return Need(0, share.buffer, size_B, slot_B, f"{share.what} in one slot", field)


def _totals(shares: Sequence[Share]) -> dict[str, Ints]:
    """Bytes per buffer."""
    totals: dict[str, Ints] = {}
    for share in shares:
        totals[share.buffer] = totals.get(share.buffer, 0) + share.size_B
    return totals
