"""Hazards of a run whose values are off: all reads at once, by the rules that ``contents`` applies one by one.

Each entry of an agenda gets a place in the order in which ``Agenda.play`` would come to it. A read then looks up what
was committed last to its region before its place, and when that began to be overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

import numpy as np

from accelsim.machine.contents import BEGIN, DONE, ROLES, Entry
from accelsim.program.commands import Use
from accelsim.program.program import Program
from accelsim.time import NEVER
from accelsim.types import Bools, Ints

_MOMENTS = {role: moment for moment, role in ROLES.items()}


def sound(program: Program, entries: Sequence[Entry]) -> bool:
    """Return whether no read of a run is a hazard; False also where only ``Agenda.play`` can tell."""
    try:
        played = _Played(entries, len(program.commands))
    except OverflowError:  # beyond every simulated time
        return False
    if not played.once or not entries:
        return not entries
    reads, writes = _Uses(each.reads for each in program.commands), _Uses(each.writes for each in program.commands)
    commits = _Commits(program, played, writes)
    begins = _begins(program, played, writes, commits)
    return all(_valid(reads, *chosen, played, commits, begins) for chosen in _read(reads, played))


class _Uses:
    """Reads, or writes, of all commands in order: number of the command, region, version, role."""

    def __init__(self, uses: Iterable[Sequence[Use]]) -> None:
        listed = list(uses)
        self.command = np.repeat(np.arange(len(listed)), [len(each) for each in listed])
        region, version, role = zip(*chain.from_iterable(listed), strict=True) if len(self.command) else ((), (), ())
        self.region, self.version, self.role = np.array(region, np.int64), np.array(version, np.int64), role

    def at(self, entries: Ints, roles: Collection[str]) -> tuple[Ints, Ints]:
        """Return which of them have one of these roles and an entry (by command, -1 for none), and these entries."""
        entry = entries[self.command]
        chosen = np.nonzero((entry >= 0) & np.array([role in roles for role in self.role], bool))[0]
        return chosen, entry[chosen]


class _Played:
    """Entries in columns. ``at``: moment and command -> its entry, -1 for none; ``once``: no command has two of one
    moment. A place is odd: presets come first (0), and what a command commits comes behind what it reads."""

    def __init__(self, entries: Sequence[Entry], commands: int) -> None:
        count = len(entries)
        t_fs, moments, done_by, from_fs, _ = zip(*entries, strict=True) if count else ((),) * 5
        self.t_fs, self.from_fs = np.array(t_fs, np.int64), np.array(from_fs, np.int64)
        moment, number = np.array(moments, np.int64), np.array([each.id for each in done_by], np.int64)
        self.place = np.empty(count, np.int64)
        self.place[np.argsort(self.t_fs, kind="stable")] = 2 * np.arange(count) + 1
        self.at = np.full((4, commands), -1)
        self.at[moment, number] = np.arange(count)
        self.once = np.count_nonzero(self.at >= 0) == count
        self.scale = 2 * count + 2

    def key(self, region: Ints, entry: Ints) -> Ints:
        """Return numbers that sort by region, then by place."""
        return region * self.scale + self.place[entry]


class _Commits:
    """Commits sorted by key: when, fs, and which version; also what was there from the start."""

    def __init__(self, program: Program, played: _Played, writes: _Uses) -> None:
        of, entry = writes.at(played.at[DONE], ("whole", "end"))
        first = np.array(sorted(program.presets), np.int64)
        region = np.concatenate((first, writes.region[of]))
        key = np.concatenate((first * played.scale, played.key(writes.region[of], entry) + 1))
        order = np.argsort(key)
        self._key, self._region = np.append(key[order], 0), np.append(region[order], -1)
        self._t_fs = np.concatenate((0 * first, played.t_fs[entry]))[order]
        self._t_fs = np.append(self._t_fs, NEVER)
        self._version = np.append(np.concatenate((0 * first, writes.version[of]))[order], 0)

    def before(self, key: Ints, region: Ints) -> tuple[Ints, Ints, Ints]:
        """Return key, time and version of the last commit to each region before a key; NEVER and 0 where none was."""
        at = np.searchsorted(self._key[:-1], key) - 1
        at = np.where(self._region[at] == region, at, -1)
        return self._key[at], self._t_fs[at], self._version[at]


def _begins(program: Program, played: _Played, writes: _Uses, commits: _Commits) -> tuple[Ints, Ints]:
    """Keys at which regions begin to be overwritten, or others that overlap them, sorted, and the times, fs."""
    of, entry = writes.at(played.at[BEGIN], ("whole", "begin"))
    region = writes.region[of]
    own = commits.before(played.key(region, entry), region)[2] != writes.version[of]
    pairs = zip(region.tolist(), entry.tolist(), strict=True)
    beside = [(other, each) for one, each in pairs for other in program.regions[one].overlaps]
    others = np.array(beside, np.int64).reshape(-1, 2)
    region, entry = np.concatenate((region[own], others[:, 0])), np.concatenate((entry[own], others[:, 1]))
    key = played.key(region, entry)
    order = np.argsort(key)
    return np.append(key[order], NEVER), np.append(played.t_fs[entry][order], NEVER)


def _read(reads: _Uses, played: _Played) -> Iterable[tuple[Bools, Ints]]:
    """Yield the reads that are checked at the end of their command, then those before it, with their entries."""
    done = played.at[DONE, reads.command]
    at_end = (done >= 0) & (played.from_fs[done] >= 0)
    yield at_end, done[at_end]
    moment = np.array([_MOMENTS.get(role, DONE) for role in reads.role], np.int64)
    before = played.at[moment, reads.command]
    early = (moment != DONE) & (before >= 0)
    yield early, before[early]


def _valid(
    reads: _Uses, chosen: Bools, entry: Ints, played: _Played, commits: _Commits, begins: tuple[Ints, Ints]
) -> bool:
    """Return whether the versions that these reads ask for were there from the first moment to the last."""
    region = reads.region[chosen]
    key = played.key(region, entry)
    since, valid_fs, version = commits.before(key, region)
    nearest = np.searchsorted(begins[0], since)
    gone = (begins[0][nearest] < key) & (begins[1][nearest] < played.t_fs[entry])
    wrong = (version != reads.version[chosen]) | (valid_fs > played.from_fs[entry]) | gone
    return not np.any(wrong)
