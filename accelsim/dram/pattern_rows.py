"""Which bursts of a stream find their row open: the counting half of the ``pattern`` model.

A stream becomes *row groups*: bursts of one row and one direction that follow each other. Writes wait and are drained
together; and a controller serves all requests of an open row as far as its window reaches (FR-FCFS: Rixner et al.,
Memory Access Scheduling, ISCA 2000).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from accelsim.dram.device import Geometry
from accelsim.dram.mapping import Decoder

Array = np.ndarray[Any, Any]
CLOSED = -1
"""Stands for the place of a bank that has no row open."""

_SORTS = (256, 1024)
"""Groups that are sorted together, the first of four windows: NumPy sorts short rows of a matrix ten times faster."""
_BANK_BITS = 16
"""Bits of a flat bank."""
_TABLE_BITS = 10
"""Address bits that one table of the locator translates."""


@dataclass
class Groups:
    """Row groups in the order of service, arrays of one length.

    ``place``: the row of a flat bank (see ``Locator``). ``bursts``. ``write``: bool. ``at``: bursts served before
    the first of the group. ``phase``: the filling of the window that it belongs to; groups of one phase are
    reordered freely.
    ``block``: the step of the timing that it belongs to. Integers but ``write``.
    """

    place: Array
    bursts: Array
    write: Array
    at: Array
    phase: Array
    block: Array


class Turns(NamedTuple):
    """Blocks that begin with a change of direction, and whether to writes; ``blocks``: how many there are in all.
    ``since``: bursts of the last direction at the end, modulo the window."""

    block: Array
    write: Array
    blocks: int
    since: int


@dataclass
class Banks:
    """What each flat bank has open (``place``, CLOSED for none), and the refreshes before and clock of its last use."""

    place: Array
    epoch: Array
    clock: Array

    @classmethod
    def closed(cls, count: int) -> Banks:
        """``count`` banks without an open row."""
        return cls(np.full(count, CLOSED, np.int64), np.zeros(count, np.int64), np.zeros(count))


class Found(NamedTuple):
    """What the first burst of each group met: its row open, or its bank closed (bool arrays)."""

    hit: Array
    miss: Array


class Locator:
    """Address -> place: flat bank << ``row_bits`` | row, and the address bits that decide it.

    The flat bank is ((channel * ranks + rank) * groups + group) * banks + bank. Mappings only move and XOR bits, so the
    place of an address is the XOR of the places of its bits, looked up ten bits at a time. The lowest ``span`` bits
    change only the column: bursts that share the rest share the row.
    """

    def __init__(self, decoder: Decoder, geometry: Geometry) -> None:
        self.row_bits = geometry.rows.bit_length() - 1
        banks = geometry.channels * geometry.ranks * geometry.banks_per_rank
        self._kind = np.int32 if banks * geometry.rows < 1 << 31 else np.int64
        bits = np.arange(decoder.address_bits, dtype=np.int64)
        each = self._places(decoder, geometry, np.int64(1) << bits)
        self.span = int(np.argmax(np.r_[each, 1] != 0))
        self._tables = [
            self._places(decoder, geometry, np.arange(1 << _TABLE_BITS, dtype=np.int64) << low)
            for low in range(self.span, decoder.address_bits, _TABLE_BITS)
        ]

    def _places(self, decoder: Decoder, geometry: Geometry, addresses: Array) -> Array:
        place = decoder.decode(addresses)
        bank = (place.channel.astype(np.int64) * geometry.ranks + place.rank) * geometry.groups + place.group
        return (((bank * geometry.banks + place.bank) << self.row_bits) | place.row).astype(self._kind)

    def places(self, lines: Array) -> Array:
        """Places of addresses, given as ``address >> span``."""
        mask = (1 << _TABLE_BITS) - 1
        place = self._tables[0][lines & mask]
        for number, table in enumerate(self._tables[1:], 1):
            place ^= table[(lines >> (number * _TABLE_BITS)) & mask]
        return np.asarray(place)


def runs(locator: Locator, block: int, since: int, addresses: Array, writes: Array | bool) -> Groups:
    """The stream as runs of one row and one direction that do not cross a multiple of ``block`` bursts, counted from
    ``since`` bursts before it.

    Only the first burst of each run is looked up.
    """
    head = np.empty(addresses.size, bool)
    lines = addresses >> locator.span
    np.not_equal(lines[1:], lines[:-1], out=head[1:])
    if not isinstance(writes, bool):
        head[1:] |= writes[1:] != writes[:-1]
    head[0] = True
    head[-since % block :: block] = True
    at = np.flatnonzero(head)
    place = locator.places(lines[at])
    write = np.full(at.size, writes) if isinstance(writes, bool) else writes[at]
    return Groups(place, np.diff(at, append=addresses.size), write, at, at, at)


def drained(groups: Groups, window: int, high: int, low: int) -> Groups:
    """Put writes where they are drained.

    A drain begins when ``high`` writes wait, before the ``window`` reads that wait then. It takes all writes that the
    stream brings before its next read, but ``low``: the window of reads is full, so no read can come in between.
    Writes that are left go last. Runs are not split, so a drain may begin a run early or late.
    """
    write, bursts = groups.write, groups.bursts
    total, written = np.cumsum(bursts), np.cumsum(bursts * write)
    last = np.flatnonzero(write & np.r_[~write[1:], True])
    drains = _drains(written[last], high, low)
    through = written[last[drains]] - low
    before = np.maximum(total[last[drains]] - written[last[drains]] - window, 0)
    reads, writes = np.flatnonzero(~write), np.flatnonzero(write)
    place = np.r_[np.searchsorted((total - written - bursts)[reads], before), reads.size]
    taken = np.searchsorted((written - bursts)[writes], through)
    slot = np.repeat(place, np.diff(taken, prepend=0, append=writes.size)) + np.arange(writes.size)
    order, free = np.empty(write.size, np.int64), np.ones(write.size, bool)
    order[slot], free[slot] = writes, False
    order[free] = reads
    bursts = bursts[order]
    at = np.cumsum(bursts) - bursts
    return Groups(groups.place[order], bursts, write[order], at, at, at)


def _drains(arrived: Array, high: int, low: int) -> Array:
    """Numbers of the runs of writes in which a drain begins; ``arrived``: writes up to the end of each run.

    One step of the loop is one drain, never one burst.
    """
    writes = arrived.tolist()
    drains, run = [], bisect_left(writes, high)
    while run < len(writes):
        drains.append(run)
        run = bisect_left(writes, writes[run] - low + high, run + 1, min(run + 1 + high, len(writes)))
    return np.array(drains, np.int64)


def split(groups: Groups, window: int, block: int, direction: bool | None, since: int) -> Turns:
    """Number the phases (of ``window`` bursts) and blocks (of ``block`` bursts); both end where the direction changes.

    ``direction``: of the burst before the first, None when there was none; ``since``: bursts of this direction then.
    """
    write = groups.write
    turn = write != np.r_[write[0] if direction is None else direction, write[:-1]]
    along = groups.at + since
    if turn.any():
        begin = np.flatnonzero(np.r_[True, turn[1:]])
        origin = groups.at[begin]
        origin[0] -= 0 if turn[0] else since
        along = groups.at - np.repeat(origin, np.diff(begin, append=write.size))
    groups.phase, groups.block = (_numbers(along // size, turn) for size in (window, block))
    left = int(along[-1] + groups.bursts[-1]) % window
    return Turns(groups.block[turn], write[turn], int(groups.block[-1]) + 1, left)


def _numbers(part: Array, turn: Array) -> Array:
    """Consecutive numbers of stretches with one ``part``, which rises by no more than 1 unless the direction turns."""
    if not turn.any():
        return np.asarray(part - part[0])
    return np.cumsum(np.r_[False, (part[1:] != part[:-1]) | turn[1:]])


def younger(groups: Groups, row_bits: int, window: int, cap: int | None) -> tuple[Array, Array]:
    """Which groups have an older one of their row in their phase: (those that are served right after it, with the row
    still open; those that open it again), bool.

    The latter exist only with a ``cap``: a row that has served so many bursts gives way to another row of its bank
    that waits. A phase that lies across two batches of the sort is taken as two.
    """
    size = groups.place.size
    batch = next(batch for batch in _SORTS if batch >= 4 * window or batch == _SORTS[-1])
    shift = batch.bit_length() - 1
    key = np.full(-(-size // batch) * batch, np.iinfo(np.int64).max >> shift)
    key[:size] = groups.phase - np.repeat(groups.phase[::batch], batch)[:size]
    key[:size] <<= row_bits + _BANK_BITS
    key[:size] |= groups.place
    key <<= shift
    key.reshape(-1, batch)[:] |= np.arange(batch)
    ordered = np.sort(key.reshape(-1, batch), axis=1).ravel()[:size]
    key = ordered >> shift
    same = np.zeros(size, bool)
    np.equal(key[1:], key[:-1], out=same[1:])
    same[::batch] = False
    index = (ordered & (batch - 1)) + (np.arange(size) & -batch)
    after, again = np.zeros(size, bool), np.zeros(size, bool)
    passes = same if cap is None else _within_cap(groups.bursts[index], index, key >> row_bits, same, cap)
    after[index[same & passes]] = True
    again[index[same & ~passes]] = True
    return after, again


def _within_cap(bursts: Array, index: Array, bank: Array, same: Array, cap: int) -> Array:
    """Which groups the cap lets pass (bool), all arrays in sorted order: those that follow the group before in the
    stream anyway, those whose bank has no other row in the phase, and those at which the row has not filled a cap."""
    heads = np.flatnonzero(~same)
    served = np.cumsum(bursts) - bursts
    served -= np.repeat(served[heads], np.diff(heads, append=same.size))
    shared = np.r_[False, bank[heads[1:]] == bank[heads[:-1]]]
    alone = np.repeat(~(shared | np.r_[shared[1:], False]), np.diff(heads, append=same.size))
    rounds = served // cap
    return np.asarray(alone | np.r_[False, (index[1:] == index[:-1] + 1) | (rounds[1:] == rounds[:-1])])


def found(
    groups: Groups, follow: tuple[Array, Array] | None, row_bits: int, times: Times, banks: Banks
) -> Found:
    """What each group finds in its bank; ``banks`` is updated.

    A phase begins with the row that the one before left open. A group hits when it has that row. ``follow``:
    groups that hit, and that do not, because of an older one (see ``younger``).
    """
    order = np.argsort((groups.place >> row_bits).astype(np.uint16), kind="stable")
    place, phase = groups.place[order], groups.phase[order]
    bank = place >> row_bits
    enters = np.r_[True, bank[1:] != bank[:-1]]
    start = np.flatnonzero(enters | np.r_[True, phase[1:] != phase[:-1]])
    first = bank[start[enters[start]]]
    left = place[start - 1].astype(np.int64)
    left[enters[start]] = banks.place[first]
    last = np.r_[np.flatnonzero(enters)[1:] - 1, place.size - 1]
    left[times.closed(order, start, enters[start], first, last, banks)] = CLOSED
    hit, miss = np.empty(place.size, bool), np.zeros(place.size, bool)
    hit[order] = place == np.repeat(left, np.diff(start, append=place.size))
    miss[order[start]] = left == CLOSED
    if follow is not None:
        after, again = follow
        hit = (hit & ~again) | after
        miss &= ~(after | again)
    banks.place[first] = place[last]
    return Found(hit, miss)


@dataclass
class Times:
    """About when each group is served (``clock``, float64), and what closes rows: refreshes every ``interval`` clocks,
    ``timeout`` clocks without access; inf for never."""

    clock: Array
    interval: float
    timeout: float

    def closed(
        self, order: Array, start: Array, enters: Array, first: Array, last: Array, banks: Banks
    ) -> Array:
        """Whether the row that was open before each of the groups ``order[start]`` is closed by then (bool).

        ``enters``: which of them are the first of their bank, ``first``: these banks. ``last``: the last group of each,
        whose time is kept in ``banks``.
        """
        shut = np.zeros(start.size, bool)
        if self.interval < np.inf:
            epoch = (self.clock * (1 / self.interval)).astype(np.int32)[order]
            shut |= self._before(epoch, start, enters, banks.epoch[first]) != epoch[start]
            banks.epoch[first] = epoch[last]
        if self.timeout < np.inf:
            clock = self.clock[order]
            shut |= clock[start] - self._before(clock, start, enters, banks.clock[first]) > self.timeout
            banks.clock[first] = clock[last]
        return shut

    @staticmethod
    def _before(values: Array, start: Array, enters: Array, kept: Array) -> Array:
        before = np.asarray(values[start - 1])
        before[enters] = kept
        return before
