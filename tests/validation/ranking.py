"""Check ``ranking``: of pairs of chips that are said to be ranked right with some probability, how many are.

A pair is one workload on two chips. Three questions of each source of measurements:

* **said**: the pairs by the probability that the faster one is predicted to be the faster, and the share of each class
  that is.
* **at any price**: a cheaper chip may be slower by some factor. The factor at which the ranking would be said to be 90 %
  sure is computed for each pair, both ways round, and compared with the measured one. So all pairs tell about 90 %.
* **in dollars**: as *said*, by time times the cheapest price on demand (``hwspecs/instances``).

The correlation of two chips' errors (``accelsim.account.odds.SHARED``) is the one under which measured ratios are
likeliest. It comes of MLPerf Offline. What is claimed of that is cross-fitted: pairs of ResNet-50 by the correlation of
BERT's pairs, and the other way round. No other source has a part in it. Rows of MLPerf Offline and DeepLearningExamples
have a part in the widths of the intervals (``hwspecs/intervals/whole.yaml``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import log, sqrt
from pathlib import Path
from statistics import NormalDist, median
from typing import NamedTuple

import numpy as np

from accelsim.account.odds import SHARED, Belief, log_ratio, odds_below, times
from accelsim.kernels.whole import shipped
from accelsim.spec.yaml.instances import cheapest
from tests.validation.base import Check, check
from tests.validation.measured import ABSENT, folder
from tests.validation.ranked_rows import mlperf_ranked
from tests.validation.shipped_whole import known_rows
from tests.validation.whole_rows import Row, frameworks, static

FITTED = "MLPerf Offline"
"""Source that the correlation comes of."""
CLASSES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Ends of the classes of said probabilities."""
SURE = 0.9
LEAST, MOST = 0.85, 0.95
"""Share of pairs that are to be right where 90 % is said."""
CLAIMED: Mapping[str, tuple[float, float]] = {
    "MLPerf SingleStream": (0.75, 0.95), "DeepLearningExamples": (0.85, 0.98),
}  # fmt: skip
"""Source -> that share, where it is another: a query of one image waits for hosts that differ, which no interval of
networks in a graph tells; intervals of frameworks are wide, and two chips share the host's part of them."""
GRID = tuple(at / 100 for at in range(100))
"""Correlations that are tried."""
DESIGNS = ({"a100", "a30"}, {"a2", "a10", "a10g", "a40"}, {"l4", "l40", "l40s", "rtx4090"}, {"h100", "h200", "gh200"})
"""First parts of the names of chips with dies of one design."""


class Pair(NamedTuple):
    """A workload on two chips, the first of which is predicted to be at most as dear; measured seconds or USD."""

    source: str
    workload: str
    chips: tuple[str, str]
    beliefs: tuple[Belief, Belief]
    measured: tuple[float, float]

    @property
    def right(self) -> bool:
        """Return whether the measured order is that which is predicted."""
        return self.measured[0] < self.measured[1]

    @property
    def kin(self) -> bool:
        """Return whether both chips have dies of one design."""
        names = {chip.split("-")[0] for chip in self.chips}
        return len(names) == 1 or any(names <= design for design in DESIGNS)

    def said(self, shared: float) -> float:
        """Return the probability that the order is right."""
        return odds_below(*self.beliefs, shared)

    def off(self, shared: float) -> float:
        """Return how many standard deviations the measured ratio is above the predicted one."""
        mean, sigma = log_ratio(*self.beliefs, shared)
        return (log(self.measured[1] / self.measured[0]) - mean) / sigma

    def likelihood(self, shared: float) -> float:
        """Return the logarithm of the likelihood of the measured ratio, but for a constant."""
        return -(self.off(shared) ** 2) / 2 - log(log_ratio(*self.beliefs, shared)[1])


def belief(found: Row) -> Belief:
    """Return what is believed of a row: the wider of the interval of wholes and that of its kernels."""
    whole = shipped().wholes[found.key]
    kernels = 2 * log(found.kernels) >= log(whole.below * whole.above)
    below, above = (found.kernels, found.kernels) if kernels else (whole.below, whole.above)
    return Belief(found.predicted, found.predicted / below, found.predicted * above)


def ordered(first: Pair) -> Pair:
    """Return a pair with the chip in front that is predicted to be less."""
    turned = first.beliefs[0].middle > first.beliefs[1].middle
    return (
        first._replace(**{key: getattr(first, key)[::-1] for key in ("chips", "beliefs", "measured")})
        if turned
        else first
    )


def pairs(rows: Sequence[Row]) -> list[Pair]:
    """Return all pairs of chips with a workload in common, by median where a chip has several rows of it."""
    found: dict[tuple[str, str, str], dict[str, list[Row]]] = {}
    for each in rows:
        name = re.sub(r", [rs]\d+$", "", each.name).replace(each.device, "")
        found.setdefault((each.lab, each.key.split(":")[0], f"{each.family}: {name}"), {}).setdefault(
            each.device, []
        ).append(each)
    return [
        ordered(Pair(
            _source(lab), workload, (one, other), (belief(chips[one][0]), belief(chips[other][0])),
            (median(each.measured for each in chips[one]), median(each.measured for each in chips[other])),
        ))
        for (lab, _, workload), chips in found.items()
        for one, other in combinations(chips, 2)
    ]  # fmt: skip


def _source(lab: str) -> str:
    return lab.split(",")[0]


def in_dollars(found: Sequence[Pair], hour_USD: Mapping[str, float]) -> list[Pair]:
    """Return the pairs with prices, in USD."""
    made = []
    for each in found:
        if all(chip in hour_USD for chip in each.chips):
            one, other = (hour_USD[chip] for chip in each.chips)
            beliefs = times(each.beliefs[0], one), times(each.beliefs[1], other)
            made.append(
                ordered(each._replace(beliefs=beliefs, measured=(each.measured[0] * one, each.measured[1] * other)))
            )
    return made


def fitted(found: Sequence[Pair]) -> float:
    """Return the correlation under which the measured ratios of some pairs are likeliest."""
    return max(GRID, key=lambda shared: sum(each.likelihood(shared) for each in found))


def right_at(found: Sequence[Pair], sure: float, shared: float) -> float:
    """Return the share of pairs, both ways round, that are right at the price at which ``sure`` would be said."""
    bound = NormalDist().inv_cdf(sure)
    off = np.array([each.off(shared) for each in found])
    return float(((off < bound).mean() + (off > -bound).mean()) / 2)


def crossed(found: Sequence[Pair]) -> list[tuple[list[Pair], float]]:
    """Return two parts, ResNet-50 and BERT, each with the correlation of the other."""
    parts = [[each for each in found if ("ResNet" in each.workload) is resnet] for resnet in (True, False)]
    return [(part, fitted(other)) for part, other in zip(parts, parts[::-1], strict=True)]


class Class(NamedTuple):
    """Pairs of about one said probability: how many, the mean said, the share that is right."""

    low: float
    high: float
    pairs: int
    said: float
    right: float

    @property
    def ends(self) -> tuple[float, float]:
        """Return the 90 % interval of the share by the number of pairs (Wilson)."""
        z, many = NormalDist().inv_cdf(0.95), self.pairs
        middle, half = (
            self.right + z * z / (2 * many),
            z * sqrt(self.right * (1 - self.right) / many + (z / (2 * many)) ** 2),
        )
        return (middle - half) / (1 + z * z / many), (middle + half) / (1 + z * z / many)


def classes(parts: Sequence[tuple[Sequence[Pair], float]]) -> list[Class]:
    """Return the reliability table of pairs, each part with its correlation."""
    said = np.array([each.said(shared) for found, shared in parts for each in found])
    right = np.array([each.right for found, _ in parts for each in found])
    made = []
    for low, high in pairwise(CLASSES):
        inside = (said >= low) & ((said < high) | (high == CLASSES[-1]))
        if inside.any():
            made.append(Class(low, high, int(inside.sum()), float(said[inside].mean()), float(right[inside].mean())))
    return made


class Source(NamedTuple):
    """All pairs of a source, in parts with the correlation that none of their rows told."""

    name: str
    parts: Sequence[tuple[Sequence[Pair], float]]

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return sum(len(found) for found, _ in self.parts)

    def right_at(self, sure: float) -> float:
        """Return the share of pairs that is right at the price at which ``sure`` would be said."""
        return sum(right_at(found, sure, shared) * len(found) for found, shared in self.parts) / self.pairs

    @property
    def agrees(self) -> bool:
        """Return whether as many are right as is claimed."""
        least, most = CLAIMED.get(self.name, (LEAST, MOST))
        return least <= self.right_at(SURE) <= most


def sources(data: Path) -> list[Source]:
    """Return the pairs of all sources; those of ``FITTED`` crossed."""
    found = pairs([row for rows_of in SETS for row in known_rows(rows_of, data)])
    named: dict[str, list[Pair]] = {}
    for each in found:
        named.setdefault(each.source, []).append(each)
    return [Source(name, crossed(own) if name == FITTED else [(own, SHARED)]) for name, own in named.items()]


SETS = (mlperf_ranked, frameworks, static)
"""Measurements of one workload on several chips. NeuSight and closed loops of InferenceX are left out: an hour each."""


@check("ranking")
def ranking() -> Check:
    """Every source by the share of pairs that is right where 90 % is said, and the correlation that ships."""
    what, data = "pairs of chips that are said to be ranked right with 90 %, at the price at which they are", folder()
    if data is None:
        return Check("ranking", what, 0, 0, np.zeros(0), [ABSENT])
    found = sources(data)
    everything = [each for source in found if source.name == FITTED for part, _ in source.parts for each in part]
    ships = fitted(everything) == SHARED
    details = [*_reliability(found), *_shares(found), *_correlations(everything)]
    return Check(
        "ranking", what, len(found) + 1, sum(each.agrees for each in found) + ships, np.zeros(0), details, BOUND
    )


BOUND = "85 to 95 % right, or as claimed"
EVERY = "all sources: faster"


def _reliability(found: Sequence[Source]) -> Iterator[str]:
    """The table of what is said and what is right."""
    hour_USD = cheapest()
    own = next(each.parts for each in found if each.name == FITTED)
    priced = [(in_dollars(part, hour_USD), shared) for part, shared in own]
    every = [part for each in found for part in each.parts]
    yield "| question | said | pairs | mean said | right | 90 % interval by the number of pairs |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for question, parts in ((f"{FITTED}: faster", own), (f"{FITTED}: cheaper", priced), (EVERY, every)):
        for each in classes(parts):
            low, high = each.ends
            yield (
                f"| {question} | {each.low:.0%} to {each.high:.0%} | {each.pairs} | {each.said:.1%} | {each.right:.1%} "
                f"| {low:.1%} to {high:.1%} |"
            )


def _shares(found: Sequence[Source]) -> Iterator[str]:
    """Each source at the prices at which something is said."""
    for each in found:
        named = sum(pair.right for part, _ in each.parts for pair in part) / each.pairs
        least, most = CLAIMED.get(each.name, (LEAST, MOST))
        shares = ", ".join(f"{each.right_at(sure):.0%} where {sure:.0%} is said" for sure in (0.6, 0.8, SURE, 0.95))
        yield (
            f"{each.name}: {each.pairs} pairs, the faster one named in {named:.0%}; at the price at which so much is "
            f"said, right are {shares} (claimed: {least:.0%} to {most:.0%} where {SURE:.0%} is)"
        )


def _correlations(found: Sequence[Pair]) -> Iterator[str]:
    parts = crossed(found)
    yield (
        f"Correlation of two chips' errors: {fitted(found):.2f} from all {len(found)} pairs of {FITTED} (it ships); "
        f"{parts[1][1]:.2f} from ResNet-50 alone ({len(parts[0][0])} pairs), by which BERT is claimed; "
        f"{parts[0][1]:.2f} from BERT alone ({len(parts[1][0])}), by which ResNet-50 is claimed"
    )
    kin = [each for each in found if each.kin]
    others = [each for each in found if not each.kin]
    yield (
        f"Of dies of one design {fitted(kin):.2f} ({len(kin)} pairs), of different designs {fitted(others):.2f} "
        f"({len(others)}): within a design a ranking is {'surer' if fitted(kin) > SHARED else 'less sure'} than is said"
    )
