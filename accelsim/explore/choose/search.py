"""The search: drops candidates by bounds, simulates the others through the store, best bounds first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log
from typing import cast

from accelsim import usercache
from accelsim.explore.choose.bounds import OTHERS, RULES, Bound, bound_of, least_of
from accelsim.explore.choose.candidates import Candidate, enumerate_all, spec_of
from accelsim.explore.choose.checks import checked
from accelsim.explore.choose.figures import Figures, Miss, cost_USD, misses
from accelsim.explore.choose.question import GENERATION, MEASURES, RUN, Question, forget_all
from accelsim.explore.sweep.point import DONE, Outcome, quick_key
from accelsim.explore.sweep.store import Store
from accelsim.explore.sweep.work import Workers
from accelsim.program.roles import multiplier

_BOUNDS = usercache.Table("bounds", 8192)
TIMES = ("latency_s", "ttft_s", "tpot_s")
USUAL = {RUN: 0.35, GENERATION: 0.9}
"""Share of its bounds that a chip usually reaches, by task; it decides what is tried first, not what is dropped."""
Told = Callable[[int, int], None]
AIMS = ("cost", "speed", "energy")
"""Figures that a candidate may be best in."""


@dataclass
class Entry:
    """A candidate, its bound, and what is known of it: figures that were simulated, or why there are none.

    ``least``: least figures, raised by runs of the same chip on other batches. ``dropped``: by what it was dropped;
    ``ruled``: that needed the rules of batches.
    """

    candidate: Candidate
    bound: Bound
    least: dict[str, float]
    facts: Figures | None = None
    error: str = ""
    missed: list[Miss] = field(default_factory=list)
    dropped: str = ""
    ruled: bool = False

    @property
    def settled(self) -> bool:
        """Return whether nothing more needs to be done."""
        return self.facts is not None or bool(self.error) or bool(self.dropped)

    @cached_property
    def family(self) -> tuple[str, str, str, int, str]:
        """Candidates that differ by their batch alone."""
        each = self.candidate
        return each.device, each.dtype, each.plan, each.nodes, each.scheduler

    @cached_property
    def quick(self) -> bool:
        """Return whether it takes little to simulate, as kernels of GPUs do: such candidates come first."""
        return spec_of(self.candidate.chip).kind == "gpu"

    @cached_property
    def array(self) -> int:
        """Elements of an array of the chip, 1 where it has none."""
        unit = multiplier(spec_of(self.candidate.chip))
        return 1 if unit is None else int(getattr(unit.spec, "rows", 1) * getattr(unit.spec, "cols", 1))

    @property
    def able(self) -> bool:
        """Return whether it was simulated and keeps all limits."""
        return self.facts is not None and not self.missed


@dataclass(frozen=True)
class Searched:
    """Candidates of a question with what is known of each, and how many were simulated just now."""

    question: Question
    entries: Sequence[Entry]
    ran: int


def aim_of(question: Question) -> str:
    """Return the figure that the objective makes small: 'cost', 'speed' or 'energy'."""
    return {"latency": "speed", "throughput": "speed"}.get(question.objective, question.objective)


def aims(question: Question, entry: Entry, figures: Mapping[str, object]) -> dict[str, float]:
    """Return cost, speed and energy of figures, small is good; infinite where there is none."""
    speed = MEASURES[question.speed].key
    cost = cost_USD(question, entry.candidate, figures)
    found = {"cost": cost, "speed": figures.get(speed), "energy": figures.get("energy_per_sample_J")}
    if question.objective == "throughput":
        rate = cast("float | None", figures.get("throughput_per_s"))
        found["speed"] = rate and entry.candidate.count / rate
    return {name: inf if value is None else cast(float, value) for name, value in found.items()}


def search(
    question: Question, store: Store, workers: int = 1, told: Told = lambda done, every: None, bounds: bool = True
) -> Searched:
    """Answer a question; ``bounds`` off: simulate everything. Raises UsageError, SpecError and ModelError."""
    forget_all()
    candidates = enumerate_all(question, checked(question))
    entries = [_entry(question, each) for each in candidates]
    _drop_inaccurate(question, entries)
    ran = 0
    with Workers(store, workers) as ready:
        while chosen := _next(question, entries, workers if bounds else len(entries), bounds):
            tasks = [(each.candidate.point, quick_key(each.candidate.point)) for each in chosen]
            ran += ready.run(tasks)
            for entry, (_, quick) in zip(chosen, tasks, strict=True):
                _settle(question, entry, store.outcome(quick))
                _raise_bounds(question, entry, entries)
            told(sum(each.settled for each in entries), len(entries))
    return Searched(question, entries, ran)


def _entry(question: Question, candidate: Candidate) -> Entry:
    bound = _bound(question, candidate)
    return Entry(candidate, bound, dict(bound.least))


def _bound(question: Question, candidate: Candidate) -> Bound:
    """Return the bound of a candidate, from the user's cache if it is there."""
    key = f"{question.task} {question.tokens} {candidate.text} {quick_key(candidate.point)}"
    kept = _BOUNDS.get(key)
    if isinstance(kept, list):
        return Bound(*kept)
    found = bound_of(question, candidate)
    _BOUNDS.put(key, list(found))
    return found


def _drop_inaccurate(question: Question, entries: Sequence[Entry]) -> None:
    """Drop formats that lose more accuracy than a limit allows, measured on a chip that has them. Raises UsageError for
    a model without labelled samples."""
    if "accuracy" not in question.limits:
        return
    from accelsim.explore.accuracy import accuracy

    chips = {each.candidate.dtype: each.candidate.chip for each in reversed(entries)}
    losses: dict[str, float] = {}
    for chip in dict.fromkeys(chips.values()):
        dtypes = [dtype for dtype, first in chips.items() if first == chip]
        found = accuracy(question.model, [chip], question.data, dtypes=dtypes)
        losses |= {row.dtype: row.accuracy - found.baseline for row in found.rows}
    for entry in entries:
        lost = losses[entry.candidate.dtype]
        if not lost >= question.limits["accuracy"]:
            entry.dropped = "accuracy"
            entry.missed = [Miss("accuracy", lost, lost / (question.limits["accuracy"] or -1e-9))]


def _settle(question: Question, entry: Entry, found: Outcome | None) -> None:
    assert found is not None  # it was kept just now
    if found.status != DONE:
        entry.error = found.error or found.status
        return
    entry.facts = {**found.facts, "cost_USD": cost_USD(question, entry.candidate, found.facts)}
    entry.missed = misses(question, entry.facts)


def _raise_bounds(question: Question, found: Entry, entries: Sequence[Entry]) -> None:
    """Raise the least figures of other batches on the same chip, by those that were simulated."""
    if found.facts is None or question.task not in RULES:
        return
    alike = [each for each in entries if each.family == found.family]
    for key, rule in (RULES if found.quick else OTHERS)[question.task].items():
        runs = sorted((_batch(each), own) for each in alike if isinstance(own := (each.facts or {}).get(key), float))
        for entry in alike:
            if not entry.settled and runs:
                entry.least[key] = max(entry.least.get(key, 0.0), least_of(rule, runs, _batch(entry)))
    for entry in alike:
        entry.least["throughput_per_s"] = _batch(entry) / entry.least["latency_s"]
        least_J = entry.least.get("energy_J", 0.0) / _batch(entry)
        entry.least["energy_per_sample_J"] = max(entry.least["energy_per_sample_J"], least_J)


def _next(question: Question, entries: Sequence[Entry], many: int, bounds: bool) -> list[Entry]:
    """Return the next candidates to simulate, by turns those with the least cost, time and energy."""
    if bounds:
        _drop(question, entries)
    open_ = _first(question, entries)
    known = {each.family for each in entries if each.facts is not None}
    likely = {id(entry): _likely(question, entry, entries) for entry in open_}
    chosen: list[Entry] = []
    winnable = _winnable(question, entries, likely)
    for turn in range(min(many, len(open_))):
        aim = winnable[(turn + sum(each.facts is not None for each in entries)) % len(winnable)]
        left = [entry for entry in open_ if not any(entry is each for each in chosen)]
        first = min(left, key=lambda each: (likely[id(each)][aim], -_batch(each)))
        chosen.append(_hopeful_one(question, first, left, first.quick and first.family in known))
    return chosen


def _winnable(question: Question, entries: Sequence[Entry], likely: Mapping[int, dict[str, float]]) -> Sequence[str]:
    """Return the figures in which a candidate that is left may be best, or by the objective the best of second chips;
    speed, which the front needs, without any."""
    able = [(each, aims(question, each, each.facts)) for each in entries if each.able and each.facts]
    best = {aim: sorted(_best_by_chip(aim, able).values()) for aim in AIMS}
    needed = {aim: (*best[aim], inf, inf)[aim == aim_of(question)] for aim in AIMS}
    return [aim for aim in AIMS if any(own[aim] < needed[aim] for own in likely.values())] or ("speed",)


def _likely(question: Question, entry: Entry, entries: Sequence[Entry]) -> dict[str, float]:
    """Return the least cost, time and energy, as far above their bounds as those of the next batch that was simulated:
    they decide what is tried first."""
    found = aims(question, entry, entry.least)
    runs = [each for each in entries if each.family == entry.family and each.facts is not None]
    if not runs:
        return found
    near = min(runs, key=lambda each: abs(log(_batch(each) / _batch(entry))))
    bound, truth = aims(question, near, near.bound.least), aims(question, near, near.facts or {})
    own = aims(question, entry, entry.bound.least)
    return {
        aim: max(value, own[aim] * truth[aim] / bound[aim]) if 0 < bound[aim] < inf else value
        for aim, value in found.items()
    }


def _first(question: Question, entries: Sequence[Entry]) -> list[Entry]:
    """Return what to simulate before the rest. The smallest batch of each chip that is no GPU, since bounds seldom drop
    it and it drops many; then batches of GPUs on the front; then GPUs, which take little. Trainings have
    one order: what takes least energy, which drops many, may be no GPU."""
    open_ = [entry for entry in entries if not entry.settled]
    if question.train:
        return open_
    if question.task == GENERATION:  # pieces of a plan take less to simulate than a whole model
        return [each for each in open_ if each.candidate.plan] or open_
    best = {each.family for each in front(question, entries)}
    runs = Counter(each.family for each in entries if each.facts is not None)
    small = {each.family: each for each in reversed(entries)}
    largest = max((each.array for each in open_), default=0)
    slow = [each for each in open_ if not each.quick and question.task == RUN and each is small[each.family]]
    groups = (
        [each for each in slow if not runs[each.family]],
        [each for each in open_ if each.quick and each.family in best],
        [each for each in open_ if each.quick],
        [each for each in open_ if question.task == RUN and each.array == largest],
    )
    return next(filter(None, groups), open_)


def _hopeful_one(question: Question, first: Entry, left: Sequence[Entry], known: bool) -> Entry:
    """Return a candidate; if that has little hope, or a run of its chip is ``known``, the largest batch that has."""
    if not known and _hopeful(question, first):
        return first
    alike = [each for each in left if each.family == first.family and _hopeful(question, each)]
    return max(alike, key=_batch, default=first)


def _batch(entry: Entry) -> int:
    return entry.candidate.batch


def _hopeful(question: Question, entry: Entry) -> bool:
    """Return whether a candidate may keep the limits at the usual share of its bounds: it is tried first."""
    usual = USUAL.get(question.task, USUAL[RUN])
    likely = {
        key: max(value, entry.bound.least.get(key, 0.0) / usual) for key, value in entry.least.items() if key in TIMES
    }
    return not misses(question, {**entry.least, **likely})


def _drop(question: Question, entries: Sequence[Entry]) -> None:
    """Drop what cannot be held, breaks a limit whatever happens, or is beaten whatever happens."""
    able = [(entry, aims(question, entry, entry.facts)) for entry in entries if entry.able and entry.facts is not None]
    best = {aim: _best_by_chip(aim, able) for aim in AIMS}
    for entry in entries:
        if entry.settled:
            continue
        if not entry.bound.fits:
            entry.dropped = "room"
            continue

        def why(least: Mapping[str, float], entry: Entry = entry) -> tuple[str, list[Miss]]:
            if missed := misses(question, {**least, "cost_USD": cost_USD(question, entry.candidate, least)}):
                return "limit", missed
            return ("beaten" if _beaten(question, aims(question, entry, least), able, best, entry) else ""), []

        entry.dropped, entry.missed = why(entry.least)
        entry.ruled = bool(entry.dropped) and not why(entry.bound.least)[0]


def _best_by_chip(aim: str, able: Sequence[tuple[Entry, dict[str, float]]]) -> dict[str, float]:
    """Best figure of each chip."""
    found: dict[str, float] = {}
    for entry, figures in able:
        chip = entry.candidate.chip
        found[chip] = min(found.get(chip, inf), figures[aim])
    return found


def _beaten(
    question: Question,
    least: dict[str, float],
    able: Sequence[tuple[Entry, dict[str, float]]],
    best: dict[str, dict[str, float]],
    entry: Entry,
) -> bool:
    """Return whether a candidate can be neither first in anything nor, by the objective, second with another chip than
    the first, nor on the front of cost and speed."""
    for aim in AIMS:
        others = sorted(value for chip, value in best[aim].items() if chip != entry.candidate.chip)
        own = best[aim].get(entry.candidate.chip, inf)
        kept = 1 if aim == aim_of(question) else 0
        second = others[kept] if len(others) > kept else inf
        if least[aim] < min(own, second) and least[aim] < inf:
            return False
    return any(
        figures["cost"] <= least["cost"] and figures["speed"] <= least["speed"] and figures["speed"] < inf
        for _, figures in able
    )


def front(question: Question, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield what no other beats in cost and speed, the cheapest first; only candidates with a price."""
    able = [(aims(question, each, each.facts), each) for each in entries if each.able and each.facts is not None]
    priced = sorted(
        ((figures["cost"], figures["speed"], number, each) for number, (figures, each) in enumerate(able)),
        key=lambda row: row[:3],
    )
    fastest = inf
    for cost, speed, _, each in priced:
        if cost < inf and speed < fastest:
            fastest = speed
            yield each
