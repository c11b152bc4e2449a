"""Lesson 17: a scheduler of steps; what vLLM's scheduler plans, as the simulator has it, is the check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.random import Generator

from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, number, same
from accelsim.seeds import generator
from accelsim.serving.blocks import Pool
from accelsim.serving.requests import Request
from accelsim.serving.requests import Sequence as Served
from accelsim.serving.schedulers.base import Scheduler
from accelsim.serving.schedulers.static import Static
from accelsim.serving.schedulers.vllm import Vllm

Lengths = Sequence[tuple[int, int]]
"""Tokens of the prompt and of the answer of each request."""
Plan = list[dict[int, int]]
"""Steps: number of a request -> tokens of it that are computed."""
AMPLE = 10_000
"""Blocks that are always enough."""
PLACES = 8
"""Requests of a batch in the question."""
Case = tuple[Lengths, int, int, int]
"""Lengths, budget, blocks, and tokens of a block."""
PIECES: Case = ([(10, 3), (6, 2)], 8, 100, 4)
SHORT: tuple[Case, ...] = (([(4, 9), (4, 9)], 16, 4, 4), ([(8, 6), (12, 1)], 10, 4, 4))
"""Golden schedules A, B and D (``tests/golden/serving/schedules.json``): pieces of prompts, and too little memory."""


class Numbers(NamedTuple):
    """Tokens of the answers of the question, and the seed of further requests."""

    outputs: tuple[int, ...]
    seed: int


def planned(scheduler: Scheduler, lengths: Lengths) -> Plan:
    """Return the steps of a scheduler whose requests all come first."""
    found = Plan()
    for at, (prompt, output) in enumerate(lengths):
        scheduler.add(Served(at, Request(0.0, prompt, output)))
    while batch := scheduler.plan():
        step = {each.number: tokens for each, tokens in batch.chunks}
        step |= {each.number: 1 for each in scheduler.running if each.since >= 0 and batch.decoding}
        found.append(dict(sorted(step.items())))
        scheduler.complete(batch, float(len(found)))
    return found


def steps(outputs: Sequence[int], places: int, static: bool) -> int:
    """Return the steps in which requests with prompts of one token get their answers, ``places`` at a time."""
    made = Static(Pool(AMPLE), most=places) if static else Vllm(Pool(AMPLE), most=places)
    return len(planned(made, [(1, each) for each in outputs]))


class Continuous(Lesson):
    """Lesson 17: continuous batching."""

    number, title, file, minutes = 17, "Continuous batching", "scheduler.py", 60
    idea = "A server plans every step anew: who has a place, whose prompt gets how many tokens, who gives way."
    steps = ("batches that wait for the last", "a free place is taken at once", "prompts in pieces", "who gives way",
             "the question")  # fmt: skip

    def draw(self, rng: Generator) -> Numbers:
        outputs = [1 + int(each) for each in rng.lognormal(3.0, 1.0, 64)]
        return Numbers(tuple(outputs), int(rng.integers(1 << 30)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        rows = [numbers.outputs[at : at + 16] for at in range(0, len(numbers.outputs), 16)]
        listed = ",\n    ".join(", ".join(map(str, row)) for row in rows)
        return {"outputs": f"[\n    {listed},\n]", "places": PLACES, "longest": max(numbers.outputs)}

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        few = [*numbers.outputs[:10]]
        for name, rule in (
            ("static", "requests in their order, so many at a time; a batch takes as many steps as its longest answer"),
            ("continuous", "a place is free in the step after its last token, and the next request takes it"),
        ):
            for outputs, places in (([3, 1, 2], 2), ([5], 3), (few, 4), ([*numbers.outputs], PLACES)):
                where, expected = f"{name}({outputs}, {places})", steps(outputs, places, name == "static")
                sheet[name] = number(where, expected, ask(name, outputs, places), rule, 0)
            yield
        rule = (
            "each step: who runs comes first, in order, then who waits, in order, as far as the budget goes; a token "
            "comes out when all tokens so far are computed"
        )
        for case in [PIECES, *_drawn(numbers, AMPLE)]:
            _compared(ask, case, rule)
        yield
        rule = (
            "who runs and needs a block that is not there takes those of the last that runs; that one waits first and "
            "computes all again; nobody is admitted without blocks for all its tokens so far"
        )
        for case in [*SHORT, *_drawn(numbers, 12)]:
            _compared(ask, case, rule)
        yield
        rule = "steps of batches that wait for the last, divided by those with places that are taken at once"
        waiting, at_once = (steps(numbers.outputs, PLACES, static) for static in (True, False))
        answer(ask, waiting / at_once, rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Requests in their places over steps: a batch that waits for its last, and places that are taken at once."""
        from accelsim.report.style import BLUE, GREY

        for axes, static in zip(figure.subplots(2, 1, sharex=True), (True, False), strict=True):
            name = "static" if static else "continuous"
            made = Static(Pool(AMPLE), most=PLACES) if static else Vllm(Pool(AMPLE), most=PLACES)
            plan = planned(made, [(1, each) for each in numbers.outputs])
            free, place = [*range(PLACES)], dict[int, int]()
            for at, step in enumerate(plan):
                for gone in [each for each in place if each not in step]:
                    free.append(place.pop(gone))
                for each in step:
                    place[each] = place[each] if each in place else free.pop()
                rows = [place[each] for each in step]
                axes.barh(rows, [1] * len(rows), left=at, color=[BLUE if each % 2 else GREY for each in step])
            told = f", yours {sheet[name]:,.0f}" if name in sheet else ""
            axes.set_title(f"{name}: {len(plan):,} steps{told}", fontsize=10)
            axes.set_ylabel("place")
        axes.set_xlabel("step")


def _drawn(numbers: Numbers, blocks: int) -> Iterator[Case]:
    """Yield requests that a student has not seen; none needs more than 12 blocks of 4."""
    rng = generator(numbers.seed)
    for _ in range(4):
        lengths = [(int(a), int(b)) for a, b in zip(rng.integers(1, 24, 5), rng.integers(1, 20, 5), strict=True)]
        yield lengths, int(rng.integers(6, 20)), blocks, 4


def _compared(ask: Ask, case: Case, rule: str) -> None:
    """The student's schedule, step by step."""
    lengths, budget, blocks, size = case
    prompts, outputs = ([*each] for each in zip(*lengths, strict=True))
    got: Any = ask("schedule", prompts, outputs, budget, blocks, size)
    where = f"schedule({prompts}, {outputs}, {budget}, {blocks}, {size})"
    if not isinstance(got, list) or not all(isinstance(each, dict) for each in got):
        raise Wrong(where, "a list with a dictionary for each step", got, rule)
    expected = planned(Vllm(Pool(blocks, size), budget=budget), lengths)
    for at, step in enumerate(expected):
        found = {key: got[at][key] for key in sorted(got[at], key=str)} if at < len(got) else "no such step"
        same(f"{where}, step {at + 1}", step, found, rule)
    same(f"{where}: number of steps", len(expected), len(got), rule)


LESSON = Continuous()
