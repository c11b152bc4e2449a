"""Adapters of a service as texts: how many there are, of what sizes, and which request has which."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.adapters import TARGETS, LowRank, lacking
from accelsim.cluster.step.transformer import Transformer
from accelsim.errors import Gather, UsageError, nearest
from accelsim.seeds import generator
from accelsim.serving.loads import named, number
from accelsim.serving.requests import Request
from accelsim.types import Array

WHERE, SUCH = "--adapters", "32:rank=16,targets=qkvo,popularity=zipf:1,resident=8"
ALL = "all"
RESIDENT = 8
"""Slots unless stated, if there are so many adapters."""
MOST = 1_000_000
"""Most adapters."""


class Adapters(NamedTuple):
    """``many`` adapters at ``low.targets``, of which ``resident`` have slots. ``popularity``: share of the requests of
    each, as text."""

    many: int
    low: LowRank
    popularity: str
    resident: int


def _uniform(count: int, numbers: Array) -> Array:
    return np.ones(count)


def _zipf(count: int, numbers: Array) -> Array:
    found: Array = np.arange(1, count + 1) ** -numbers[0]
    return found


def _shares(count: int, numbers: Array) -> Array:
    return np.repeat(numbers, count // len(numbers))


POPULARITIES: dict[str, tuple[str, Callable[[int, Array], Array]]] = {
    "uniform": ("uniform", _uniform),
    "zipf": ("zipf:1.0", _zipf),
    "shares": ("shares:4/2/1/1", _shares),
}
"""Popularities of adapters by name, with an example: all alike; the n-th n^-s times as much as the first (Zipf's law);
shares of equally many adapters in their order."""
EXPECTED = {"uniform": "no number", "zipf": "an exponent of 0 or more", "shares": "shares of 0 or more, not all 0"}
"""Numbers that follow each of these names."""


def read_adapters(text: str) -> Adapters:
    """Return adapters: '32:rank=16,targets=qkvo,popularity=zipf:1,resident=8'. Raises UsageError with all problems."""
    first, _, rest = text.partition(":")
    expected = f"a number of adapters of at most {MOST:,}, such as {SUCH}"
    gather, found = Gather(), {"rank": 16, "resident": 0}
    given, count = dict[str, str](), 1
    with gather.also():
        count = int(number(first, WHERE, expected, whole=True, most=MOST + 1))
    with gather.also():
        known = {"rank": 0, "targets": 0, "popularity": 0, "resident": 0}
        given = named([part.strip() for part in rest.split(",") if part.strip()], known, WHERE)
    for key in given.keys() & found.keys():
        with gather.also():
            expected = f"a whole number from 1 to {MOST:,}, such as {key}=8"
            found[key] = int(number(given[key], WHERE, expected, whole=True, most=MOST + 1))
    targets = given.get("targets", "qkvo")
    wrong = [each for each in targets if each not in TARGETS] if targets != ALL else []
    expected = f"letters of {''.join(TARGETS)} (query, key, value, output; gate, up, down), or {ALL}"
    gather.refuse(wrong or not targets, f"targets={targets}", WHERE, expected)
    popularity = given.get("popularity", "uniform")
    with gather.also():
        shares_of(popularity, count)
    gather.done()
    resident = min(found["resident"] or RESIDENT, count)
    return Adapters(count, LowRank(found["rank"], targets), popularity, resident)


def shares_of(popularity: str, count: int) -> Array:
    """Return the share of the requests that each of so many adapters has. Raises UsageError."""
    name, _, rest = popularity.partition(":")
    such = ", ".join(example for example, _ in POPULARITIES.values())
    if name not in POPULARITIES:
        raise UsageError(f"popularity={popularity}", WHERE, such, nearest(name, POPULARITIES))
    try:
        numbers = np.array([float(each) for each in rest.split("/")] if rest else [])
    except ValueError:
        numbers = np.array([-1.0])
    many = {"uniform": len(numbers) == 0, "zipf": len(numbers) == 1, "shares": len(numbers) > 0}[name]
    if not many or not all(0 <= each < inf for each in numbers) or (name == "shares" and not sum(numbers)):
        raise UsageError(f"popularity={popularity}", WHERE, f"{EXPECTED[name]}, such as {POPULARITIES[name][0]}")
    if name == "shares" and count % len(numbers):
        raise UsageError(f"{len(numbers)} shares of {count} adapters", WHERE, "a number of shares that divides it")
    weights = POPULARITIES[name][1](count, numbers)
    found: Array = weights / weights.sum()
    return found


def checked(
    adapters: Adapters | None, model: Transformer, plans: Iterable[Plan], recorded: Iterable[Request]
) -> Adapters | None:
    """Return adapters with the targets that ``ALL`` means for a model. Raises UsageError with all that a model, plans
    or the requests of a trace do not allow."""
    names, gather = len({each.adapter for each in recorded if each.adapter}), Gather()
    if adapters is None:
        gather.refuse(names, f"{names} adapters in a trace", WHERE, f"their sizes, such as {names}:rank=16")
        gather.done()
        return None
    missing, there = lacking(model, adapters.low.targets if adapters.low.targets != ALL else "")
    expected = f"some of {there}; experts and latent keys and values have no adapters here"
    gather.refuse(missing, f"no target {', '.join(missing)} in {model.name}", WHERE, expected)
    gather.refuse(
        names > adapters.many, f"{names} adapters in a trace", WHERE, f"{names} or more, such as {names}:rank=16"
    )
    for plan in plans:
        gather.refuse(plan.ep * plan.pp > 1, f"adapters with {plan}", WHERE, "a plan of tensors alone, tp=N")
    gather.done()
    return adapters._replace(low=adapters.low._replace(targets=there)) if adapters.low.targets == ALL else adapters


def drawn_adapters(requests: Iterable[Request], adapters: Adapters, seed: int) -> Iterator[Request]:
    """Yield requests with an adapter each, drawn by popularity."""
    edges, random = np.cumsum(shares_of(adapters.popularity, adapters.many)).tolist()[:-1], generator(seed, 5)
    return (each._replace(adapter=1 + bisect(edges, random.random())) for each in requests)


def apart(requests: Iterable[Request]) -> Iterator[Request]:
    """Yield requests whose prefixes are shared with those of the same adapter alone: vLLM hashes it into blocks."""
    for each in requests:
        prefix = tuple((f"{each.adapter}/{name}", tokens) for name, tokens in each.prefix)
        yield each._replace(prefix=prefix) if each.adapter else each
