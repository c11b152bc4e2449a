"""The choice: what is best, how sure that is, why the others lose, what is cheapest at which load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from typing import NamedTuple, cast

from accelsim.account.odds import Belief, odds_below, odds_within, times
from accelsim.explore.choose.candidates import Rented
from accelsim.explore.choose.figures import belief, cost_belief
from accelsim.explore.choose.question import MEASURES, SERVICE, TRAINING, Question
from accelsim.explore.choose.search import Entry, Searched, aim_of, aims, front

APART = 0.7
"""Probability below which two candidates cannot be told apart."""
LOADS = tuple(step * 10.0**power for power in range(-1, 6) for step in (1, 3))
"""Loads of the table, requests per second."""


class Load(NamedTuple):
    """The cheapest simulated candidate at a load: requests per second, instances of an offer, USD per hour of all.

    ``perhaps``: chips that were dropped although their bounds do not exclude that they are cheaper at this load.
    """

    per_s: float
    entry: Entry
    rented: Rented
    instances: int
    perhaps: tuple[str, ...] = ()

    @property
    def hour_USD(self) -> float:
        """Price of an hour of all instances."""
        return self.instances * self.rented.offer.price.hour_USD


@dataclass(frozen=True)
class Choice:
    """Conclusions from the candidates of a question and their figures."""

    searched: Searched

    @property
    def question(self) -> Question:
        """The question."""
        return self.searched.question

    @cached_property
    def able(self) -> list[tuple[Entry, dict[str, float]]]:
        """Candidates that were simulated and keep all limits, with what they may be best in."""
        every = self.searched.entries
        return [(each, aims(self.question, each, each.facts)) for each in every if each.able and each.facts is not None]

    @property
    def aim(self) -> str:
        """Figure that the objective makes small: 'cost', 'speed' or 'energy'."""
        return aim_of(self.question)

    def best(self, aim: str, but: str = "") -> Entry | None:
        """Return the candidate that is best in something, ``but`` of another chip than that; of equally cheap ones the
        fastest, of others the cheapest."""
        second = "speed" if aim == "cost" else "cost"
        ranked = [(figures[aim], figures[second], number, each) for number, (each, figures) in enumerate(self.able)]
        left = [row for row in ranked if row[0] < inf and row[3].candidate.chip != but]
        return min(left, key=lambda row: row[:3])[3] if left else None

    @cached_property
    def winner(self) -> Entry | None:
        """The best by the objective."""
        return self.best(self.aim)

    @cached_property
    def runner_up(self) -> Entry | None:
        """The best of another chip than the winner's."""
        return None if self.winner is None else self.best(self.aim, self.winner.candidate.chip)

    @cached_property
    def front(self) -> list[Entry]:
        """Candidates that no other beats in cost and speed, the cheapest first."""
        return list(front(self.question, self.searched.entries))

    def believed(self, entry: Entry, spread: bool = True) -> Belief | None:
        """Return what the objective makes small with its interval; with ``spread`` that of prices over providers."""
        assert entry.facts is not None
        if self.aim == "cost":
            return cost_belief(self.question, entry.candidate, entry.facts, spread)
        if self.aim == "energy":
            return _energy(entry)
        found = belief(entry.facts, MEASURES[self.question.speed].key)
        if found is None or self.question.objective != "throughput":
            return found
        return times(found, entry.candidate.count / entry.candidate.batch)

    def sure(self, spread: bool = True) -> float | None:
        """Return the probability that the winner is really better than the runner-up; None where nothing says."""
        if self.winner is None or self.runner_up is None:
            return None
        ours, others = self.believed(self.winner, spread), self.believed(self.runner_up, spread)
        return None if ours is None or others is None else odds_below(ours, others)

    @cached_property
    def kept(self) -> dict[str, float | None]:
        """Limit of a time or of cost -> probability that the winner keeps it; None where it has no interval."""
        found: dict[str, float | None] = {}
        if self.winner is None or self.winner.facts is None:
            return found
        for name, limit in self.question.limits.items():
            if name == "cost":
                own = cost_belief(self.question, self.winner.candidate, self.winner.facts, False)
            elif MEASURES[name].unit in ("s", "d"):
                own = belief(self.winner.facts, MEASURES[name].key)
            else:
                continue
            found[name] = None if own is None else odds_within(own, limit)
        return found

    @cached_property
    def nearest(self) -> Entry | None:
        """Return the candidate that breaks the limits least, where none keeps them."""
        missed = [(max(miss.factor for miss in each.missed), n, each) for n, each in enumerate(self.searched.entries)
                  if each.missed]  # fmt: skip
        if self.able or not missed:
            return None
        simulated = [row for row in missed if row[2].facts is not None and row[0] < inf]
        return min(simulated or missed, key=lambda row: row[:2])[2]

    def why(self) -> Iterator[tuple[str, str]]:
        """Yield each chip that is not chosen, with the reason, in the order of the candidates."""
        chips = dict.fromkeys(each.candidate.chip for each in self.searched.entries)
        for chip in chips:
            if self.winner is None or chip != self.winner.candidate.chip:
                yield chip, self._reason([each for each in self.searched.entries if each.candidate.chip == chip])

    def _reason(self, own: list[Entry]) -> str:
        able = [figures[self.aim] for each, figures in self.able if each in own]
        beaten = [aims(self.question, each, each.least)[self.aim] for each in own if each.dropped == "beaten"]
        if able or beaten:
            return self._worse(min(able, default=inf), min(beaten, default=inf))
        limited = [each for each in own if each.missed]
        if limited:
            return _missed(min(limited, key=lambda each: each.missed[0].factor))
        if small := [each for each in own if each.dropped == "room"]:
            least = min(small, key=lambda each: each.bound.needed_B / each.bound.room_B).bound
            return f"does not fit: needs {least.needed_B / 1e9:.3g} GB of {least.room_B / 1e9:.3g} GB"
        return own[0].error.splitlines()[0] if own else ""

    def _worse(self, simulated: float, bound: float) -> str:
        """Say by how much a chip is worse than the winner; 'at least' where a bound says more than a run."""
        if min(simulated, bound) == inf:
            return "no price" if self.aim == "cost" else f"no figure of {self.aim}"
        if self.winner is None:
            return "nothing to compare it with"
        best = next(figures[self.aim] for each, figures in self.able if each is self.winner)
        ratio, least = min(simulated, bound) / best, "at least " if bound < simulated else ""
        verb = {"cost": "costs {} as much", "speed": "takes {} as long", "energy": "takes {} the energy"}[self.aim]
        return verb.format(f"{least}{ratio:.3g} times")

    def loads(self) -> list[Load]:
        """Return the cheapest candidate at each load, with as many whole instances as serve it, idle or not."""
        able = [each for each, _ in self.able]
        if self.question.task in (TRAINING, SERVICE) or not able:
            return []
        open_ = [each for each in self.searched.entries if each.dropped == "beaten"]
        found = []
        for load in LOADS:
            best = min(_instances(load, able), key=lambda each: each.hour_USD, default=None)
            if best is not None:
                cheaper = (each for each in _instances(load, open_) if each.hour_USD < best.hour_USD)
                found.append(best._replace(perhaps=tuple(dict.fromkeys(each.entry.candidate.text for each in cheaper))))
        return found


def _instances(load: float, entries: Iterable[Entry]) -> Iterator[Load]:
    """Yield what serves a load, for each offer of each candidate; of one that was not simulated at its highest rate."""
    for each in entries:
        figures = cast("Mapping[str, float]", each.least if each.facts is None else each.facts)
        for rented in each.candidate.rents:
            yield Load(load, each, rented, ceil(load / (rented.holds * figures["throughput_per_s"])))


def _energy(entry: Entry) -> Belief | None:
    facts: Mapping[str, object] = entry.facts or {}
    low, high = facts.get("energy_low_J"), facts.get("energy_high_J")
    if not isinstance(low, float) or not isinstance(high, float):
        return None
    share = 1 / entry.candidate.batch
    return Belief(cast(float, facts["energy_J"]) * share, low * share, high * share)


def _missed(entry: Entry) -> str:
    """Say which limit is broken most, and by how much."""
    miss = entry.missed[0]
    if miss.factor == inf:
        return f"has no {miss.name}"
    rough = entry.facts is None
    if MEASURES[miss.name].most:
        return f"too slow: reaches {'at most ' * rough}{1 / miss.factor:.0%} of {miss.name}"
    what = "over the limit" if miss.name in ("cost", "energy", "power") else "too slow"
    return f"{what}: {miss.name} is {'at least ' * rough}{miss.factor:.3g} times the limit"
