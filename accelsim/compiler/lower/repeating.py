"""Blocks of the model that are alike are lowered until the compiler is in the same state behind two of them; then all
others but the last are copies (``accelsim.program.repeated``), and lowering goes on behind them.

The state decides, not the look of the commands: what follows depends on nothing else (``recurring``). Where the unit
before the one that is copied does something else, one more is written, so that the machine can see its own state recur.
The last block is always lowered: there what all blocks share is used for the last time, and its room is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from accelsim.compiler.lower.blocks import Blocks
from accelsim.compiler.lower.recurring import Fixed, Recorder, Snapshot
from accelsim.compiler.lower.streams import Uses
from accelsim.program.commands import Command, Step
from accelsim.program.repeated import Chains, Commands, Repeat, Span
from accelsim.program.writing.builder import Builder, History
from accelsim.program.writing.layout import Layout, Place
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import gemm_view

UNITS = 2
"""Alike units that are written before the copies: the machine compares as many."""
LONGEST = 4
"""Blocks in a unit at the most: so many may pass until the state is the same again."""

PATIENCE = 16
"""Blocks that are looked at; a state that has not recurred by then grows, or turns round in too large a buffer. Of one
that has, the rest of the units is written."""


class Repeating:
    """Follows the lowering of a graph from node to node; ``uses``: of each layout."""

    def __init__(
        self, graph: Graph, blocks: Blocks, layouts: Sequence[Layout], uses: Sequence[Uses], steps: list[Step]
    ) -> None:
        self._graph, self._blocks, self._builder = graph, blocks, layouts[0].builder
        self._layouts, self._uses, self._steps = layouts, uses, steps
        self._seen: dict[int, Snapshot] = {}
        self._recorder = Recorder(self._builder, blocks.names)
        self._found = 0  # blocks of a unit, once they are known
        self._begun = 0  # first block of the first unit
        self._last_read = self._last_reads()
        self.repeat: Repeat | None = None

    def _last_reads(self) -> dict[str, int]:
        """Tensor -> the last node before the end of the blocks that reads it; views count as what they show."""
        found: dict[str, int] = {}
        for index, node in enumerate(self._graph.nodes[: self._blocks.end]):
            if node.engine != "alias":
                found |= {self._uses[0].root(name): index for name in node.reads}
        return found

    def behind(self, index: int) -> int:
        """Return the node to lower next: ``index``, or the first node after the copies that begin there."""
        copies = self._copies(index)
        for node in self._graph.nodes[index : index + copies]:
            for uses in self._uses:
                uses.finished(node)
        return index + copies

    def _copies(self, index: int) -> int:
        """Return how many nodes from node ``index`` on need not be lowered, for they are copies by now."""
        block, rest = divmod(index - self._blocks.first, self._blocks.size)
        looked_at = min(self._blocks.number, PATIENCE + self._found)
        if rest or not 0 <= block < looked_at or self.repeat is not None:
            return 0
        needed = [self._needed(*pair, index) for pair in zip(self._layouts, self._uses, strict=True)]
        self._seen[block] = self._recorder.take(self._layouts, len(self._steps), block, needed)
        self._seen.pop(block - LONGEST - 1, None)
        self._look(block)
        if not self._found or (block - self._begun) % self._found:
            return 0
        if block < self._begun + UNITS * self._found and not self._likens(block):
            return 0
        times = (self._blocks.number - block - 1) // self._found
        fixed = self._since(block, self._found)
        if (
            times < 1
            or fixed is None
            or not self._near(block, fixed)
            or not self._reaches(index, times)
            or not self._ordered(block, times, fixed.names)
        ):
            return 0
        self._skip(block, times, fixed)
        return times * self._found * self._blocks.size

    def _needed(self, layout: Layout, uses: Uses, index: int) -> Callable[[str], bool]:
        """Return whether a tensor plays a part in what follows; one that only waits in a memory for the end does
        not."""

        def needed(name: str) -> bool:
            if not uses.needed(name):
                return False
            waits = self._last_read.get(uses.root(name), -1) < index and layout.places[name].chip is None
            return not (waits and self._blocks.names.moves(name))

        return needed

    def _since(self, block: int, size: int) -> Fixed | None:
        return self._seen[block].since(self._seen[block - size], self._blocks.names)

    def _look(self, block: int) -> None:
        """Return whether the state is one that was there a few blocks ago."""
        if self._found:
            return
        for size in range(1, min(block, LONGEST) + 1):
            if self._since(block, size) is not None:
                self._found, self._begun = size, block - size
                return

    def _likens(self, block: int) -> bool:
        """Return whether the unit before the last does the same in the same order, if from another state.

        The machine may then compare the times of the two: if they are alike so are those of copies, which refer to the
        unit before them as the last one does.
        """
        builder, unit = self._builder, self._found
        if block < UNITS * unit or block - UNITS * unit not in self._seen:
            return False
        now, before, older = (self._seen[block - units * unit].counts for units in range(UNITS + 1))
        regions, commands, steps = moved = [late - early for late, early in zip(now, before, strict=True)]
        if [late - early for late, early in zip(before, older, strict=True)] != moved:
            return False
        rooms = builder.regions[older.regions : now.regions]
        queued = builder.commands[older.commands : now.commands]
        return all(
            one[1] == other[1] and one.size_B == other.size_B and one.streams == other.streams
            for one, other in zip(rooms, rooms[regions:], strict=False)
        ) and all(
            one.op + steps == other.op and _works_alike(one, other, older.regions, regions)
            for one, other in zip(queued, queued[commands:], strict=False)
        )

    def _near(self, block: int, fixed: Fixed) -> bool:
        """Return whether the last unit uses nothing that is older than the unit before it and moves on."""
        now, before = self._seen[block].counts, self._seen[block - self._found].counts
        oldest = before.regions - (now.regions - before.regions)
        return all(
            use.region >= oldest or use.region in fixed.regions
            for command in self._builder.commands[before.commands : now.commands]
            for use in (*command.reads, *command.writes)
        )

    def _reaches(self, index: int, times: int) -> bool:
        """Return whether everything in memory belongs to the blocks so far, and has a name of its own in each copy.

        Blocks may read what was made before all of them (slices of one tensor): their names are there already.
        """
        chains, nodes = self._blocks.names, self._graph.nodes[self._blocks.first : index]
        met = {name for node in nodes for name in (*node.reads, *node.writes)}
        newest = {name for layout in self._layouts for name in _newest(layout, chains, self._found)}
        return all(name in met and chains.reaches(name, times * self._found) for name in newest)

    def _ordered(self, block: int, times: int, fixed: frozenset[str]) -> bool:
        """Return whether names that decide which of two equal tensors leaves the chip are in the same order in all
        copies."""
        now, before = self._seen[block], self._seen[block - self._found]
        if now.spills == before.spills:
            return True
        names, size, end = (self._blocks.names, self._blocks.size, self._blocks.first + block * self._blocks.size)
        nodes, tensors = self._graph.nodes[end - self._found * size : end], self._graph.tensors
        held = {*now.names, *(name for node in nodes for name in (*node.reads, *node.writes))}
        order = sorted((tensors[name].nbytes, name) for name in held)
        for copy in range(1, times + 1):
            images = [
                (size_B, name if name in fixed else names.image(name, copy * self._found)) for size_B, name in order
            ]
            if any(one > other for one, other in pairwise(images)):
                return False
        return True

    def _skip(self, block: int, times: int, fixed: Fixed) -> None:
        """Leave out ``times`` units: the state becomes that behind them."""
        now, before = self._seen[block], self._seen[block - self._found]
        spans = [Span(end, end - start, times) for start, end in zip(before.counts, now.counts, strict=True)]
        builder = self._builder
        assert isinstance(builder.commands, list)
        repeat = Repeat(
            UNITS, times, self._found, spans[1], spans[0], spans[2], self._blocks.names, fixed.commands, fixed.regions
        )
        self.repeat, builder.commands = repeat, Commands(builder.commands, [], repeat)
        self._add_steps(block, repeat)
        _add_regions(builder, repeat)
        for layout in self._layouts:
            _move(layout, repeat, fixed.names)

    def _add_steps(self, block: int, repeat: Repeat) -> None:
        """Steps of the copies: mapped as their templates, on their own nodes."""
        span, at = repeat.steps, self._blocks.first + block * self._blocks.size
        unit = self._steps[span.end - span.size : span.end]
        working = [
            node
            for node in self._graph.nodes[at : at + repeat.times * self._found * self._blocks.size]
            if node.engine != "alias"
        ]
        for index, node in enumerate(working):
            like = unit[index % span.size]
            gemm = gemm_view(self._graph, node) if like.gemm is not None else None
            self._steps.append(replace(like, name=node.name, label=node.label(), node=node, gemm=gemm, note=node.note))


def _works_alike(one: Command, other: Command, first: int, later: int) -> bool:
    """Return whether two commands do the same on an engine, and the regions of ``other`` are those of ``one``, from
    ``first`` on, or so many later."""
    uses = ((*one.reads, *one.writes), (*other.reads, *other.writes))
    return (
        (one.kind, one.engine, one.core, one.work) == (other.kind, other.engine, other.core, other.work)
        and len(one.reads) == len(other.reads)
        and len(one.writes) == len(other.writes)
        and all(
            a.role == b.role and (a.region < first or b.region - a.region in (0, later))
            for a, b in zip(*uses, strict=True)
        )
    )


def _add_regions(builder: Builder, repeat: Repeat) -> None:
    """Regions of the copies, and what all regions have been through behind them."""
    span, histories = repeat.regions, builder.histories
    template = builder.regions[span.end - span.size : span.end]
    was = list(histories)
    for copy in range(1, repeat.times + 1):
        for region in template:
            builder.regions.append(repeat.region(region, copy))
            oldest = max(0, region.id - min(repeat.times - copy, repeat.units - 1) * span.size)
            histories.append(_later(was[oldest], repeat, copy + (region.id - oldest) // span.size))
    for region_id in repeat.fixed_regions:
        more = repeat.times * repeat.fixed_regions[region_id]
        histories[region_id] = replace(
            _later(was[region_id], repeat, repeat.times), version=was[region_id].version + more
        )


def _later(history: History, repeat: Repeat, copy: int) -> History:
    """Return what a region has been through, in a copy."""
    writer = history.writer if history.writer is None else repeat.command_id(history.writer, copy)
    readers = {key: (repeat.command_id(reader, copy), phase) for key, (reader, phase) in history.readers.items()}
    return History(history.version, writer, readers)


def _move(layout: Layout, repeat: Repeat, fixed: frozenset[str]) -> None:
    """Places, rings and rooms of one core behind the copies."""
    names, span, times = repeat.names, repeat.regions, repeat.times
    unit = {region: entry for region, entry in layout.presets.items() if span.end - span.size <= region < span.end}
    for copy in range(1, times + 1):
        for region, (tensor, core) in unit.items():
            image = names.image(tensor, copy * repeat.blocks)
            layout.presets[repeat.region_id(region, copy)] = (image, core)
    _move_places(layout, repeat, fixed)
    layout.relabel(
        lambda region: repeat.region_id(region, times),
        lambda name: name if name in fixed else names.image(name, times * repeat.blocks),
        layout.builder.regions,
    )


def _move_places(layout: Layout, repeat: Repeat, fixed: frozenset[str]) -> None:
    """Tensors of a copy lie where those of the units before lie now: of the last copies as of the last units."""
    chains, times, unit = repeat.names, repeat.times, repeat.blocks
    staying = {id(place) for name, place in layout.places.items() if name in fixed or not chains.moves(name)}
    made: dict[tuple[int, int], Place] = {}

    def later(place: Place, copies: int) -> Place:
        if id(place) in staying:
            return place
        if (id(place), copies) not in made:
            home, chip = (at if at is None else repeat.region_id(at, copies) for at in (place.home, place.chip))
            made[id(place), copies] = Place(home, chip)
        return made[id(place), copies]

    before = dict(layout.places)
    for name in _newest(layout, chains, unit):
        for copy in range(1, times + 1):
            age = min(times - copy, repeat.units - 1)
            old = chains.image(name, -age * unit) if chains.key(name)[1] >= age * unit else name
            copies, image = copy + (age if old != name else 0), chains.image(name, copy * unit)
            layout.places[image] = later(before.get(old, before[name]), copies)
            if name in layout.makers:
                layout.makers[image] = layout.makers[name] + copy * repeat.steps.size


def _newest(layout: Layout, chains: Chains, unit: int) -> list[str]:
    """Return those names of each chain, of the last ``unit`` blocks, that have a place."""
    last: dict[str, int] = {}
    for name in layout.places:
        first, depth = chains.key(name)
        last[first] = max(depth, last.get(first, 0))
    return [
        name
        for name in layout.places
        for first, depth in [chains.key(name)]
        if chains.moves(name) and depth > last[first] - unit
    ]
