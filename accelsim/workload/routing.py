"""Loads of experts: how many tokens choose each, and what the fullest of the devices that share them gets.

Each token chooses ``topk`` experts. All are as popular (``skew`` 0), or their popularity is drawn from a power law of
that exponent over a range of 1 to ``RANGE``, or it is given; each has its share of the choices, if that is a token at
least. A negative ``skew`` spreads tokens as evenly as can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np

from accelsim.errors import UsageError, nearest
from accelsim.seeds import generator
from accelsim.types import Floats, Ints

RANGE, DRAWS, SEED = 100.0, 5, 1
"""Ratio of the most to the least popular expert that may be drawn; loads of which the mean is taken; their seed."""
SHARED, FEW = 60, 64
"""Draws of the loads of several devices; tokens up to which every one draws its experts."""
KEPT = 4096
"""Loads that are kept."""


@dataclass(frozen=True)
class Routing:
    """Popularity of experts: ``skew``, or given ``shares``, each of equally many experts in their order."""

    skew: float = 0.0
    shares: tuple[float, ...] = ()

    def __str__(self) -> str:
        """Return the text that ``read_routing`` reads."""
        if self.shares:
            return "shares:" + "/".join(f"{share:g}" for share in self.shares)
        return f"power:{self.skew:g}" if self.skew > 0 else "uniform" if self.skew == 0 else "even"


UNIFORM = Routing()
PLAIN = {"uniform": UNIFORM, "even": Routing(-1.0)}
"""Routings without numbers."""
FORMS = "uniform, even, power:EXPONENT or shares:A/B/..."


class Loads(NamedTuple):
    """Experts with a token, and rows (tokens times experts that they chose there), of a device."""

    active: float
    rows: float


def read_routing(text: str) -> Routing:
    """Read a text such as 'power:1.2' or 'shares:4/2/1/1'. Raises UsageError."""
    name, _, rest = text.partition(":")
    if not rest and (not text or name in PLAIN):
        return PLAIN[name or "uniform"]
    try:
        numbers = tuple(map(float, rest.split("/")))
    except ValueError:
        numbers = ()
    fits = all(0 <= each < float("inf") for each in numbers) and sum(numbers) > 0
    if name == "power" and len(numbers) == 1 and fits:
        return Routing(numbers[0])
    if name == "shares" and fits:
        return Routing(shares=numbers)
    raise UsageError(f"routing {text!r}", "--routing", FORMS, nearest(name, [*PLAIN, "power", "shares"]))


@lru_cache(KEPT)
def fullest(tokens: float, topk: float, experts: float, ep: float, routing: Routing = UNIFORM) -> Loads:
    """Return the loads of the fullest of ``ep`` devices."""
    own, mean = experts / ep, tokens * topk / ep
    if routing.skew < 0:
        rows = max(1.0, mean)
        return Loads(min(own, rows), rows)
    chosen = chances(int(experts), topk, routing).reshape(-1, int(ep), int(own))
    largest = chosen[np.arange(len(chosen)), chosen.sum(axis=2).argmax(axis=1)]
    each = 1 - (1 - largest) ** tokens if routing == UNIFORM else np.minimum(1, largest * tokens)
    active = float(each.sum(axis=1).mean())
    rows = float(largest.sum(axis=1).mean()) * tokens
    if ep == 1:
        return Loads(active, rows)
    fuller = max(rows, min(tokens * topk, mean + float(np.sqrt(2 * mean * np.log(ep)))))
    return Loads(min(own, fuller, active + (1 - active / own) * (fuller - rows)), fuller)


@lru_cache(KEPT)
def shared(tokens: int, topk: int, experts: int, ep: int, routing: Routing = UNIFORM) -> tuple[Loads, Loads]:
    """Return the loads of the fullest of ``ep`` devices, and the mean of the others (of the same one, if it is alone):
    experts and rows each of the device that has most of them, means over ``SHARED`` draws of all choices."""
    own, mean = experts // ep, tokens * topk / ep
    if routing.skew < 0:
        even = Loads(min(own, max(1.0, mean)), max(1.0, mean))
        return even, even
    counts = _drawn(tokens, topk, chances(experts, topk, routing)).reshape(SHARED, ep, own)
    parts = (counts > 0).sum(axis=2), counts.sum(axis=2)
    most = [float(part.max(axis=1).mean()) for part in parts]
    rest = [(float(part.sum(axis=1).mean()) - top) / max(1, ep - 1) for part, top in zip(parts, most, strict=True)]
    return Loads(*most), Loads(*rest) if ep > 1 else Loads(*most)


def _drawn(tokens: int, topk: int, chance: Floats) -> Ints:
    """Tokens of each expert, one draw a row: every token draws different experts (Efraimidis and Spirakis, 2006), or
    all choices are drawn one by one if they are many."""
    source, found = generator(SEED), np.zeros((SHARED, chance.shape[1]), np.int64)
    for draw, row in enumerate(found):
        share = chance[draw % len(chance)] / topk
        if tokens > FEW:
            row[:] = source.multinomial(tokens * topk, share / share.sum())
            continue
        keys = np.log(np.maximum(share, 1e-300)) + source.gumbel(size=(tokens, len(row)))
        chosen = np.argpartition(-keys, topk - 1, axis=1)[:, :topk]
        row[:] = np.bincount(chosen.reshape(-1), minlength=len(row))
    return found


@lru_cache(KEPT)
def chances(experts: int, topk: float, routing: Routing = UNIFORM) -> Floats:
    """Return the share of the tokens that choose each expert, one draw a row: ``topk`` together, each 1 at the most."""
    skew = routing.skew
    if routing.shares:
        weight = np.repeat(np.array([routing.shares], float), experts // len(routing.shares), axis=1)
    elif skew == 0:
        return np.full((1, experts), topk / experts)
    else:
        drawn = generator(SEED).random((DRAWS, experts))
        weight = RANGE**drawn if skew == 1 else ((RANGE ** (1 - skew) - 1) * drawn + 1) ** (1 / (1 - skew))
    share = np.minimum(1.0, topk * weight / weight.sum(axis=1, keepdims=True))
    room = 1 - share
    left = topk - share.sum(axis=1, keepdims=True)
    found: Floats = share + left * room / np.maximum(room.sum(axis=1, keepdims=True), 1e-12)
    return found


def reached(parts: int, experts: int, topk: int, groups: int = 1, top_groups: int = 1) -> float:
    """Return how many of ``parts`` equal sets of experts a token needs on average: experts are chosen uniformly, those
    in ``top_groups`` of ``groups`` that are chosen first. Groups that parts cut unevenly count as none."""
    own, group = experts // parts, experts // groups
    if own % group and group % own:
        groups = top_groups = 1
        group = experts
    pool, whole = top_groups * group, max(1, own // group)

    def missed(there: int) -> float:
        """Chance that no expert is among so many of the pool."""
        return comb(pool - there, topk) / comb(pool, topk)

    if own >= group:
        ways = [comb(whole, n) * comb(groups - whole, top_groups - n) for n in range(min(whole, top_groups) + 1)]
        hit = 1 - sum(n_ways * missed(n * group) for n, n_ways in enumerate(ways)) / comb(groups, top_groups)
    else:
        hit = top_groups / groups * (1 - missed(own))
    return parts * hit
