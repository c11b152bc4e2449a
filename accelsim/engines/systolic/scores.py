"""Commands of products that compilations of one frozen graph have written: a step that is alike but for names and
regions writes them again with its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accelsim.program.commands import Action, Command, Effect
from accelsim.program.tiles import sparsity
from accelsim.program.writing.builder import Builder
from accelsim.spec.memory import Attachment

if TYPE_CHECKING:
    from accelsim.engines.systolic.placing import PlacedStep
    from accelsim.program.roles import Roles

MOST = 60_000
"""Commands that are kept for all steps of a graph."""
MOVES = frozenset({"Load", "Store"})
"""Kinds of commands whose labels name a tensor; those of others name the node."""
_tuple = tuple.__new__


class Parts(NamedTuple):
    """Whatever differs between steps that are alike: the name of the node, its tensors, and its regions, in order."""

    node: str
    tensors: Sequence[str]
    regions: Sequence[int]

    @property
    def pattern(self) -> tuple[Hashable, ...]:
        """Return which of the tensors, and of the regions, are the same."""
        first = dict[object, int]()
        return tuple([first.setdefault(each, place) for place, each in enumerate((*self.tensors, *self.regions))])


class Score(NamedTuple):
    """Commands of a step, its parts, and how many slots it took of each ring."""

    commands: Sequence[Command]
    parts: Parts
    taken: Sequence[int]

    def write(self, builder: Builder, op: int, parts: Parts) -> None:
        """Write the commands as those of step ``op``, with its ``parts`` in place of those of the score."""
        before, emit = self.parts, builder.emit
        regions = dict(zip(before.regions, parts.regions, strict=True))
        names = {"": "", **dict(zip(before.tensors, parts.tensors, strict=True))}
        labels = {f"{way} {name}": f"{way} {now}" for name, now in names.items() for way in ("load", "store")}
        renamed = dict[int, tuple[Action, ...]]()
        for each in self.commands:
            what, tile, operands, tensor, last = each.effect
            moved = tuple([(names[name], regions[region]) for name, region in operands])
            if (actions := renamed.get(id(each.actions))) is None:
                actions = tuple([_tuple(Action, (unit, way, names[of], n)) for unit, way, of, n in each.actions])
                renamed[id(each.actions)] = actions
            emit(
                each.kind, each.engine, op, labels[each.label] if each.kind in MOVES else parts.node, each.work,
                _tuple(Effect, (what, tile, moved, names[tensor], last)),
                [(regions[region], role) for region, _, role in each.reads],
                [(regions[region], role) for region, _, role in each.writes],
                actions,
            )  # fmt: skip

    @property
    def whole(self) -> bool:
        """Return whether the commands use nothing but its parts."""
        regions, names = set(self.parts.regions), {"", *self.parts.tensors}
        return all(
            regions.issuperset([use.region for use in (*each.reads, *each.writes)])
            and regions.issuperset([region for _, region in each.effect.operands])
            and names.issuperset([each.effect.tensor, *(name for name, _ in each.effect.operands)])
            and names.issuperset([action.tensor for action in each.actions])
            for each in self.commands
        )


class Scores:
    """Scores by all that the commands of a step depend on, but for the numbers of regions."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Score] = {}
        self._commands = 0

    def get(self, key: Hashable) -> Score | None:
        """Return a score, None where none is kept."""
        return self._made.get(key)

    def keep(self, key: Hashable, score: Score) -> None:
        """Keep a score; the oldest ones go where there are too many commands."""
        if not score.whole:
            return
        self._made[key] = score
        self._commands += len(score.commands)
        while self._commands > MOST and len(self._made) > 1:
            self._commands -= len(self._made.pop(next(iter(self._made))).commands)


def write_once(step: PlacedStep, write: Callable[[], None]) -> None:
    """Write the commands of a step that has its room: by a score if there is one, else by ``write``."""
    builder, graph = step.layout.builder, step.layout.graph
    if not graph.frozen or step.part is not None or not isinstance(commands := builder.commands, list):
        write()
        return
    scores: Scores = graph.once("scores", Scores)
    rings = list({id(ring): ring for ring in step.rings.values()}.values())
    parts, begin, turns = _parts(step), len(commands), [ring.next for ring in rings]
    key = _likeness(step, parts)
    if (score := scores.get(key)) is not None:
        score.write(builder, step.op, parts)
        for ring, count in zip(rings, score.taken, strict=True):
            ring.next += count
        return
    write()
    if not step.layout.trial:
        taken = [ring.next - turn for ring, turn in zip(rings, turns, strict=True)]
        scores.keep(key, Score(commands[begin:], parts, taken))


def _fixed(step: PlacedStep) -> list[int | None]:
    """Regions that commands use beside slots; None or -1 for those that there are not."""
    a, out = step.layout.places[step.gemm.a], step.layout.places[step.out.name]
    operands = step.a_region, step.b_region, a.home, a.chip, *step.chosen.values(), *step.sides.values()
    return [*operands, step.parameter_region, out.home, out.chip]


def _parts(step: PlacedStep) -> Parts:
    """Parts of a step; slots come in the order of their turns."""
    tensors = step.gemm.a, step.gemm.b, step.out.name, *step.chosen, *step.sides
    regions = [region for region in _fixed(step) if region is not None and region >= 0]
    for ring in step.rings.values():
        turn = ring.next % len(ring.slots)
        regions += ring.slots[turn:] + ring.slots[:turn]
    return Parts(step.node.name, tensors, regions)


def _likeness(step: PlacedStep, parts: Parts) -> Hashable:
    """Return all but the ``parts`` that the commands depend on in compilations of one frozen graph."""
    layout, node = step.layout, step.node
    chip = layout.tile_costs[hardware] = layout.tile_costs.get(hardware) or hardware(layout.roles)
    used = [layout.graph.tensors[name] for name in parts.tensors]
    tensors = tuple([(each.shape, each.memory_format, each.sparse, each.is_constant) for each in used])
    there = tuple([region is None or region < 0 for region in _fixed(step)])
    memories = tuple([layout.builder.regions[region].memory for region in parts.regions])
    rings = tuple([(name.partition(" ")[0], len(ring.slots)) for name, ring in step.rings.items()])
    asked = replace(step.gemm, a="", b=""), step.mapping, step.runs, step.dtype, step.a_to_fetch
    done = sparsity(node), tuple([part.op for part in node.epilogue]), len(step.chosen)
    return chip, asked, done, tensors, there, memories, rings, parts.pattern


def hardware(roles: Roles) -> str:
    """Return what the commands of products depend on of a chip that runs a given graph: all but rates of memories and
    capacities."""
    slow = {"bandwidth": 0.0, "efficiency": 0.0, "latency": 0.0}

    def memory(attached: Attachment) -> Attachment:
        return attached.model_copy(update={"memory": attached.memory.model_copy(update=slow)})

    memories = {name: memory(each) for name, each in roles.chip.memories.items()}
    return f"{roles.core} {roles.stream} {memories!r}"
