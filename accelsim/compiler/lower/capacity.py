"""Needs of each off-chip memory at one time: weights, states, and activations while somebody needs them.

Checked twice. Before anything is lowered, what stays for the whole run (weights and states) is compared with each
memory, so that a model that can never fit is refused at once; its activations are then counted from the graph, as if
all of them left the chip. The program says what really is there: every region of a memory, from the step that first
writes it to the one that last reads it. Weights of several cores are there once, everything else once
for each core that has a batch of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from accelsim.errors import MemoryNeed, OverCapacity
from accelsim.program.commands import OUTSIDE, Command, Step
from accelsim.program.packed import tiles_B
from accelsim.program.program import Program
from accelsim.program.repeated import Commands, Repeat
from accelsim.program.roles import HOST, Roles
from accelsim.program.writing.layout import Layout
from accelsim.spec.chip import Chip
from accelsim.spec.levels import managed
from accelsim.workload.graph import Graph, Node
from accelsim.workload.limits import limits

STATES, ACTIVATIONS = "states", "activations"

Change = tuple[int, int, str]
"""From a moment on so many bytes more (or fewer), of states or activations."""


def capacities(chip: Chip) -> dict[str, int]:
    """Memory -> bytes: the attached ones, with the levels that the compiler manages, and that of the host where a plain
    processor works on its own."""
    found = {name: entry.memory.capacity for name, entry in chip.memories.items() if entry.cache is None}
    if chip.host is not None and HOST in {Roles(chip).weights_home, Roles(chip).host_home}:
        found[HOST] = chip.host.memory.capacity
    return found


def check_permanent(graph: Graph, chip: Chip, layout: Layout, copies: int) -> None:
    """OverCapacity when weights and states alone do not fit; for before the program is written. ``copies``: how often
    the graph is there, with one set of weights."""
    if limits().ignore_capacity:
        return
    weights: Counter[str] = Counter()
    for (memory, _), size_B in _constants(graph, chip).items():
        weights[memory] += size_B
    states = _states(graph, layout, copies)
    live_B, layer = _most_live(graph)
    none = (0, "")
    outs = {layout.roles.activations_home: (copies * live_B, layer)}
    needs = [
        MemoryNeed(name, weights[name], states[name], *outs.get(name, none), room)
        for name, room in capacities(chip).items()
    ]
    if any(need.weights_B + need.states_B > need.available_B for need in needs):
        raise OverCapacity(graph.name, [need for need in needs if not need.fits])


def check_capacity(program: Program) -> None:
    """Record what the program needs of each memory. Raises OverCapacity where that is more than there is; when that is
    to be ignored, the notes of the program say it instead.
    """
    program.needs = needs(program)
    short = [need for need in program.needs.values() if not need.fits]
    if short and not limits().ignore_capacity:
        raise OverCapacity(program.graph.name, short)
    program.notes += [f"capacity ignored: {need}" for need in short]


def needs(program: Program) -> dict[str, MemoryNeed]:
    """Off-chip memory -> what must be in it at one time."""
    rooms = capacities(program.chip)
    changes: dict[str, list[Change]] = {name: [] for name in rooms}
    weights = {key: size_B for key, size_B in _constants(program.graph, program.chip).items() if key[0] in rooms}
    tiles, staying = tiles_B(program), program.graph.staying
    for region, (born, gone) in _lives(program, rooms).items():
        entry = program.regions[region]
        preset = program.presets.get(region)
        if preset is not None and program.graph.tensors[preset[0]].is_constant:
            key = (entry.memory, preset[0])
            weights[key] = max(weights.get(key, 0), entry.size_B, tiles.get(region, 0))
            continue
        what = STATES if entry.name in staying else ACTIVATIONS
        changes[entry.memory] += [(born, entry.size_B, what), (gone + 1, -entry.size_B, what)]
    constant: Counter[str] = Counter()
    for (memory, _), size_B in weights.items():
        constant[memory] += size_B
    found = {name: _at_peak(name, constant[name], changes[name], program.steps, room) for name, room in rooms.items()}
    # what leaves a level during a step makes room for what comes in the same one: never more than there is
    levels = {name: min(found[name].activations_B, rooms[name]) for name in managed(program.chip)}
    return found | {name: replace(found[name], activations_B=held) for name, held in levels.items()}


def _at_peak(memory: str, weights_B: int, changes: Iterable[Change], steps: list[Step], available_B: int) -> MemoryNeed:
    when, held = _peak(changes)
    layer = steps[when].name if 0 <= when < len(steps) else ""
    return MemoryNeed(memory, weights_B, held[STATES], held[ACTIVATIONS], layer, available_B)


def _peak(changes: Iterable[Change]) -> tuple[int, dict[str, int]]:
    """Moment when most is held (-1: never anything), and how much of what then."""
    held = {STATES: 0, ACTIVATIONS: 0}
    most, when, there = 0, -1, dict(held)
    moments: dict[int, list[tuple[int, str]]] = {}
    for moment, more_B, what in changes:
        moments.setdefault(moment, []).append((more_B, what))
    for moment in sorted(moments):
        for more_B, what in moments[moment]:
            held[what] += more_B
        if sum(held.values()) > most:
            most, when, there = sum(held.values()), moment, dict(held)
    return when, there


def _lives(program: Program, rooms: Iterable[str]) -> dict[int, tuple[int, int]]:
    """Region of one of the memories -> first and last step at which it must be there.

    What nobody but a conversion before or after the run touches is not there during the run.
    """
    end, memories = max(0, len(program.steps) - 1), set(rooms)
    lives, inside = dict.fromkeys(program.presets, (0, 0)), set[int]()
    commands, now = program.commands, 0
    if isinstance(commands, Commands):
        now = _touch(program, commands.before, memories, now, lives, inside)
        _repeat(commands.repeat, lives, inside, set(program.presets))
        commands = commands.behind
    _touch(program, commands, memories, now, lives, inside)
    for results in program.results.values():
        lives |= {region: (lives[region][0], end) for region in results if region in lives}
    return {region: life for region, life in lives.items() if region in inside}


def _touch(
    program: Program,
    commands: Iterable[Command],
    memories: set[str],
    now: int,
    lives: dict[int, tuple[int, int]],
    inside: set[int],
) -> int:
    """Let regions live as long as ``commands`` need them; returns the last step, from ``now`` on."""
    regions = program.regions
    for command in commands:
        now = max(now, command.op)  # results are stored last, by the step that made them
        apart = 0 <= command.op < len(program.steps) and program.steps[command.op].outside
        for use in (*command.reads, *command.writes):
            if regions[use.region].memory in memories:
                lives[use.region] = (lives.get(use.region, (now, now))[0], now)
                if not apart:
                    inside.add(use.region)
    return now


def _repeat(repeat: Repeat, lives: dict[int, tuple[int, int]], inside: set[int], presets: set[int]) -> None:
    """Let regions of alike units live alike: those of a unit as those of the written one as far from the end."""
    span, steps, units = repeat.regions, repeat.steps.size, repeat.units + repeat.times
    first = span.end - repeat.units * span.size
    known = {region: life for region, life in lives.items() if first <= region < span.end}
    for unit in range(units):
        like = max(repeat.units - (units - unit), 0)
        for region in range(first + like * span.size, first + (like + 1) * span.size):
            if region in inside and region in known:
                (born, gone), later = known[region], region + (unit - like) * span.size
                moved = (unit - like) * steps
                lives[later] = (0 if later in presets else born + moved, gone + moved)
                inside.add(later)


def _constants(graph: Graph, chip: Chip) -> dict[tuple[str, str], int]:
    """(memory, constant) -> bytes: weights of the chip in their memory, what the host reads in that of the host."""
    roles, found = Roles(chip), dict[tuple[str, str], int]()
    for node in graph.nodes:
        if node.engine == "alias" or node.attrs.get(OUTSIDE):
            continue
        home = roles.host_home if node.engine == HOST else roles.weights_home
        found |= {(home, tensor.name): tensor.nbytes for tensor in graph.ins(node) if tensor.is_constant}
    return found


def _states(graph: Graph, layout: Layout, copies: int) -> Counter[str]:
    """Memory -> bytes of the states of all copies, before the run or behind it, whichever is more."""
    before: Counter[str] = Counter()
    behind: Counter[str] = Counter()
    for past, late in graph.states.items():
        before[layout.facts.state_home(late)] += copies * layout.facts.room_B(graph.tensors[past])
    for late in dict.fromkeys((*graph.states.values(), *graph.kept)):
        behind[layout.facts.state_home(late)] += copies * layout.facts.room_B(graph.tensors[late])
    return before | behind


def _most_live(graph: Graph) -> tuple[int, str]:
    """Most bytes of activations of one core that somebody still needs at one time, and at which layer."""
    roots: dict[str, str] = {}
    nodes = list(_working(graph, roots))
    lives = dict.fromkeys(graph.inputs, (0, 0))
    for index, node in enumerate(nodes):
        for name in (roots.get(name, name) for name in (*node.reads, *node.writes)):
            lives[name] = (lives.get(name, (index, index))[0], index)
    for name in (roots.get(name, name) for name in graph.outputs):
        lives[name] = (lives.get(name, (0, 0))[0], len(nodes))
    changes, staying = list[Change](), graph.staying
    for name, (born, gone) in lives.items():
        tensor = graph.tensors[name]
        if not tensor.is_constant and name not in staying:
            changes += [(born, tensor.nbytes, ACTIVATIONS), (gone + 1, -tensor.nbytes, ACTIVATIONS)]
    when, held = _peak(changes)
    return held[ACTIVATIONS], nodes[when].name if 0 <= when < len(nodes) else ""


def _working(graph: Graph, roots: dict[str, str]) -> Iterator[Node]:
    """Nodes that do something during the run; ``roots`` is told which tensors are views of which."""
    for node in graph.nodes:
        if node.engine == "alias":
            roots[node.writes[0]] = roots.get(node.reads[0], node.reads[0])
        elif not node.attrs.get(OUTSIDE):
            yield node
