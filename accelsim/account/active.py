"""For how long steps keep an engine at work that draws power as long as it works (``ACTIVE``).

Where steps follow each other on the engine: while the run waits for a step to be computed, or for a memory of the chip
on its behalf. Where those of several streams run side by side: from the first of their pieces to the last, and no more
of the engine than there is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from accelsim.account.critical_path import KINDS, by_step
from accelsim.engines.registry import ENGINES
from accelsim.machine.accounting import spans
from accelsim.machine.run import Run
from accelsim.program.roles import Unit, part_of, streams_of, units
from accelsim.spec.chip import Chip


def active(run: Run, draws: Iterable[str]) -> Iterator[tuple[int, int]]:
    """(step, fs of the whole engine) of every step whose engine is one of ``draws``, a name as ``part_of`` gives it."""
    drawing = _units(run.chip, frozenset(draws))
    beside: dict[str, dict[int, float]] = defaultdict(dict)
    for number, step in enumerate(run.program.steps):
        part = part_of(run.chip, step.engine)
        unit = drawing.get(part)
        if unit is not None:
            beside[part][number] = ENGINES[unit.type].busy(unit, step)
    found: dict[int, float] = {}
    for part, shares in beside.items():
        alone = streams_of(drawing[part].spec) == 1
        found |= _one_by_one(run, shares) if alone else _side_by_side(run, shares)
    yield from ((number, round(fs)) for number, fs in sorted(found.items()) if round(fs))


def _units(chip: Chip, draws: frozenset[str]) -> dict[str, Unit]:
    return {
        view.called(name): unit
        for view in chip.views()
        for name, unit in units(view).items()
        if view.called(name) in draws
    }


def _one_by_one(run: Run, shares: Mapping[int, float]) -> dict[int, float]:
    """Step -> fs: what of the time of the run goes to its computing and its waiting for memories of the chip."""
    near = {name for name, attached in run.chip.memories.items() if attached.link is None}
    found = {}
    for number, share in shares.items():
        times = by_step(run)[number].items()
        working = sum(fs for blame, fs in times if KINDS[blame.kind].computing or blame.resource in near)
        found[number] = working * share
    return found


def _side_by_side(run: Run, shares: Mapping[int, float]) -> dict[int, float]:
    """Step -> fs: from the first of its pieces to the last, a smaller share where others want more than there is."""
    commands, kinds = run.program.commands, run.program.engines
    computing = [
        piece
        for piece in run.slices
        if piece.op in shares and not ENGINES[kinds[piece.engine]].moves and commands[piece.command].actions
    ]
    times = spans(computing)
    changes = sorted((time, number) for number, span in times.items() for time in span)
    found: dict[int, float] = defaultdict(float)
    there: set[int] = set()
    for (time, number), (then, _) in pairwise([*changes, (run.time_fs, -1)]):
        there ^= {number}
        wanted = sum(shares[other] for other in there)
        for other in there:
            found[other] += (then - time) * shares[other] / max(1.0, wanted)
    return found
