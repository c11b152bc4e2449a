"""Lesson 13: pipelines by GPipe and 1F1B, their bubbles and activations; a ring all-reduce by send and receive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, number, same
from accelsim.lessons.course.parallel.machine import Move, Op, peak, pipeline, ranks
from accelsim.seeds import generator

SCHEDULES = ("gpipe", "one_f_one_b")
RULES = {
    "gpipe": "first F of all micro-batches in order, then B of all of them, the last micro-batch first",
    "one_f_one_b": "min(stages - 1 - stage, microbatches) times F, then F and B in turn, then the B that are left",
}


class Numbers(NamedTuple):
    """Stages, micro-batches; ranks of the ring, MiB of gradients; the bubble of the question, in percent."""

    stages: int
    microbatches: int
    ranks: int
    mib: int
    percent: int


def gpipe(stage: int, stages: int, microbatches: int) -> list[Op]:
    """The operations of a stage (Huang et al., "GPipe", 2019, figure 2)."""
    return [("F", i) for i in range(microbatches)] + [("B", i) for i in reversed(range(microbatches))]


def one_f_one_b(stage: int, stages: int, microbatches: int) -> list[Op]:
    """The operations of a stage (Narayanan et al., "PipeDream", 2019, with a flush)."""
    ahead = min(stages - 1 - stage, microbatches)
    ops: list[Op] = [("F", i) for i in range(ahead)]
    for i in range(microbatches - ahead):
        ops += [("F", ahead + i), ("B", i)]
    return ops + [("B", i) for i in range(microbatches - ahead, microbatches)]


ORDERS = {"gpipe": gpipe, "one_f_one_b": one_f_one_b}


def bubble(name: str, stages: int, microbatches: int) -> Fraction:
    """The share of the step in which a stage does nothing, of the schedule as it is played."""
    slots = pipeline([ORDERS[name](stage, stages, microbatches) for stage in range(stages)])
    span = max(slot.end for slot in slots)
    return 1 - Fraction(sum(slot.end - slot.start for slot in slots), span * stages)


def least_microbatches(stages: int, percent: int) -> int:
    """The smallest m with (p - 1) / (m + p - 1) <= percent / 100."""
    share = Fraction(percent, 100)
    return ceil((stages - 1) * (1 - share) / share)


class Parallel(Lesson):
    """Lesson 13: many devices."""

    number, title, file, minutes = 13, "Many devices", "parallel.py", 40
    idea = "A pipeline has bubbles, a ring adds up with few bytes: what training on many devices costs."
    steps = (
        "the order of GPipe",
        "the order of 1F1B",
        "the bubble",
        "activations in memory",
        "the ring adds up",
        "bytes of a link",
        "the question",
    )

    def draw(self, rng: Generator) -> Numbers:
        stages, more, ranks, sixties = (int(rng.integers(*ends)) for ends in ((3, 6), (2, 5), (4, 8), (2, 9)))
        return Numbers(stages, stages + more, ranks, 60 * sixties, int(rng.choice([4, 5, 8])))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        return numbers._asdict() | {
            "table": schedule_table([gpipe(stage, 3, 4) for stage in range(3)]),
            "least": least_microbatches(numbers.stages, numbers.percent),
            "mib_ranks": f"{numbers.mib} / {numbers.ranks}",
        }

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        sizes = [(2, 3), (numbers.stages, numbers.microbatches), (4, 2), (1, 3)]
        for name in SCHEDULES:
            for stages, microbatches in sizes:
                _order(ask, name, stages, microbatches, sheet)
            yield
        for stages, microbatches in (*sizes, (8, 32)):
            share = bubble("gpipe", stages, microbatches)
            rule = "of the step, (stages - 1) of (microbatches + stages - 1) turns of F and B pass a stage without work"
            got = ask("bubble", stages, microbatches)
            number(f"bubble({stages}, {microbatches})", float(share), got, rule, 1e-9)
        yield
        for name in SCHEDULES:
            for stages, microbatches in (*sizes, (8, 32)):
                for stage in range(stages):
                    want = peak(ORDERS[name](stage, stages, microbatches))
                    where = f"activations({name!r}, {stage}, {stages}, {microbatches})"
                    rule = "count up at every F, down at every B of the stage's list; the highest count"
                    same(where, want, ask("activations", name, stage, stages, microbatches), rule)
        yield
        for count in (2, 3, numbers.ranks):
            _ring(ask, count, sheet)
        yield
        for count, nbytes in ((2, 1024), (numbers.ranks, numbers.ranks * 2**20), (1024, 2**30)):
            rule = "2 (ranks - 1) chunks of nbytes / ranks each; whole bytes"
            want, got = 2 * (count - 1) * nbytes // count, ask("link_bytes", count, nbytes)
            same(f"link_bytes({count}, {nbytes})", want, got, rule)
        yield
        least = least_microbatches(numbers.stages, numbers.percent)
        rule = f"the smallest whole number of micro-batches with a bubble of {numbers.percent} percent or less"
        answer(ask, least, rule, 0.0)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """The student's two schedules as they are played, one below the other."""
        from accelsim.report.style import BLUE, FAINT, ORANGE

        axes = figure.subplots(2, 1, sharex=True)
        for place, (name, title) in enumerate(zip(SCHEDULES, ("GPipe", "1F1B"), strict=True)):
            drawn = axes[place]
            slots = pipeline(sheet.get(name, [[]]))
            for slot in slots:
                colour = BLUE if slot.kind == "F" else ORANGE
                drawn.barh(slot.stage, slot.end - slot.start, 0.8, left=slot.start, color=colour, edgecolor="white")
                drawn.text((slot.start + slot.end) / 2, slot.stage, str(slot.microbatch), ha="center", va="center",
                           color="white", fontsize=8)  # fmt: skip
            drawn.set_title(f"{title}: F in blue, B in orange, the number is the micro-batch")
            drawn.set_yticks(range(numbers.stages), [f"stage {stage}" for stage in range(numbers.stages)])
            drawn.set_ylim(numbers.stages - 0.5, -0.5)
            drawn.set_facecolor(FAINT + "55")
        axes[1].set_xlabel("slots of time; grey: a bubble")


def _order(ask: Ask, name: str, stages: int, microbatches: int, sheet: Sheet) -> None:
    """The student's list of every stage; the first operation that differs is reported, and what it would lead to."""
    found = []
    for stage in range(stages):
        got, want = ask(name, stage, stages, microbatches), ORDERS[name](stage, stages, microbatches)
        where = f"{name}({stage}, {stages}, {microbatches})"
        found.append(_ops(where, got, RULES[name]))
        sheet[name] = list(found)
        for place, (right, mine) in enumerate(zip(want, found[-1], strict=False)):
            same(f"{where}, operation {place}", right, mine, RULES[name])
        same(f"{where}, number of operations", len(want), len(found[-1]), RULES[name])


def _ops(where: str, got: object, rule: str) -> list[Op]:
    """A list of ('F', i) and ('B', i)."""
    if not isinstance(got, list | tuple):
        raise Wrong(where, "a list like [('F', 0), ('B', 0)]", got, rule)
    for op in got:
        good = isinstance(op, list | tuple) and len(op) == 2 and op[0] in ("F", "B") and type(op[1]) is int
        if not good:
            raise Wrong(where, "('F', number) or ('B', number)", op, rule)
    return [(op[0], op[1]) for op in got]


def _ring(ask: Ask, count: int, sheet: Sheet) -> None:
    """The student's moves of all ranks, played with whole numbers."""
    rule = "send the chunk that you just added to the right, add what comes from the left; then the same with 'copy'"
    moves = [_moves(ask("ring", rank, count), rank, count, rule) for rank in range(count)]
    values = generator(count).integers(-50, 50, (count, count)).astype(np.float64)
    found = ranks(moves, values, 1)
    where = f"ring of {count} ranks"
    if found.stuck:
        rank, move = min(found.stuck.items())
        raise Wrong(f"{where}, rank {rank}", "an end", f"waits for ever at {move}", rule)
    total = values.sum(0)
    for rank, chunk in np.argwhere(found.values != total)[:1]:
        place = f"{where}, rank {rank}, chunk {chunk}"
        raise Wrong(place, float(total[chunk]), float(found.values[rank, chunk]), rule)
    for rank in range(count):
        right = (rank + 1) % count
        rule = "ranks - 1 sends while adding up, ranks - 1 while handing round"
        same(
            f"{where}, chunks from rank {rank} to rank {right}",
            2 * (count - 1),
            found.link_B.get((rank, right), 0),
            rule,
        )


def _moves(got: object, rank: int, count: int, rule: str) -> list[Move]:
    """A list of sends to the right and receives from the left."""
    where, right, left = f"ring({rank}, {count})", (rank + 1) % count, (rank - 1) % count
    if not isinstance(got, list | tuple):
        raise Wrong(where, "a list of moves", got, rule)
    for move in got:
        if not isinstance(move, list | tuple) or len(move) < 3 or move[0] not in ("send", "recv"):
            raise Wrong(where, "('send', rank, chunk) or ('recv', rank, chunk, 'add' or 'copy')", move, rule)
        if move[0] == "recv" and (len(move) != 4 or move[3] not in ("add", "copy")):
            raise Wrong(where, "('recv', rank, chunk, 'add' or 'copy')", move, rule)
        partner = right if move[0] == "send" else left
        neighbours = "a rank sends to rank + 1 and receives from rank - 1, round the ring"
        same(f"{where}, partner of {move!r}", partner, move[1], neighbours)
        if type(move[2]) is not int or not 0 <= move[2] < count:
            raise Wrong(f"{where}, chunk of {move!r}", f"0 to {count - 1}", move[2], rule)
    return [tuple(move) for move in got]


def schedule_table(orders: list[list[Op]]) -> str:
    """A schedule as it is played, a row per stage and two characters per slot."""
    slots = pipeline(orders)
    span = max(slot.end for slot in slots)
    rows = []
    for stage in range(len(orders)):
        cells = [" ."] * span
        for slot in slots:
            if slot.stage == stage:
                cells[slot.start : slot.end] = [f"{slot.kind}{slot.microbatch}"] * (slot.end - slot.start)
        rows.append(f"stage {stage}  " + " ".join(cells))
    return "\n".join(rows)


LESSON = Parallel()
