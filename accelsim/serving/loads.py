"""Loads as texts: how requests come ('poisson:8/s', 'closed:64') and how long they are ('lognormal:1024,256')."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim import units
from accelsim.errors import Gather, Problem, UsageError, nearest
from accelsim.seeds import generator
from accelsim.serving.arrivals import BOUNDS, CYCLE, PROCESSES, Profile, profiled
from accelsim.serving.rates import read_rates
from accelsim.serving.requests import Request
from accelsim.types import Array

CLOSED, RATES = "closed", "rates"
CLIENTS = 1_000_000
"""Most clients of a closed loop."""
PER = {"s": 1, "min": 60, "h": 3600}
"""Seconds of a unit of time of a rate."""


class Load(NamedTuple):
    """Arrivals of requests: a process of arrivals at a mean rate (per second) with its parameters, or with the profile
    of its rates; or, in a closed loop, ``clients`` that think for a time (s) before they ask again."""

    process: str
    rate: float = 0.0
    params: Mapping[str, float] = {}
    clients: int = 0
    think_s: float = 0.0
    profile: Profile = ()

    def note(self, count: int) -> str:
        """Return what to know of ``count`` requests of the load; '' if there is nothing."""
        if not self.profile:
            return ""
        whole, passes = (units.show(each, "s") for each in (sum(lasts for lasts, _ in self.profile), count / self.rate))
        return f"The profile of rates is {whole} long and passes in {passes}, with {count:,} requests."


class Lengths(NamedTuple):
    """A distribution of lengths: a function that draws ``count`` numbers with a mean and a coefficient of variation;
    its usual coefficient, 0 where it has none, and the one that it must stay below."""

    draw: Callable[[Generator, int, float, float], Array]
    cv: float = 0.0
    most: float = inf


def _fixed(random: Generator, count: int, mean: float, cv: float) -> Array:
    return np.full(count, mean)


def _uniform(random: Generator, count: int, mean: float, cv: float) -> Array:
    half = np.sqrt(3) * cv * mean
    return random.uniform(mean - half, mean + half, count)


def _lognormal(random: Generator, count: int, mean: float, cv: float) -> Array:
    spread = np.log1p(cv**2)
    return random.lognormal(np.log(mean) - spread / 2, np.sqrt(spread), count)


Spread = tuple[str, float, float, float]
"""A distribution by name, the means of prompts and of outputs, tokens, and their coefficient of variation."""
LENGTHS = {"fixed": Lengths(_fixed), "uniform": Lengths(_uniform, 0.3, 3**-0.5), "lognormal": Lengths(_lognormal, 1.0)}
"""Distributions of lengths by name."""


def read_load(text: str) -> Load:
    """Return a load: 'poisson:8/s', 'gamma:8/s,cv=3', 'closed:64,think=1s', 'rates:day.csv'. Raises UsageError with all
    problems."""
    name, _, rest = text.partition(":")
    first, *others = (part.strip() for part in rest.split(","))
    if name in (*PROCESSES, CLOSED, RATES) and not first:
        lacks = "number of clients, such as closed:64" if name == CLOSED else f"rate, such as {name}:8/s"
        lacks = "file, such as rates:day.csv" if name == RATES else lacks
        raise UsageError(f"{text!r}", "--load", f"a {lacks}")
    if name == CLOSED:
        expected = f"a number of clients of at most {CLIENTS:,}, such as closed:64"
        clients = number(first, "--load", expected, whole=True, most=CLIENTS + 1)
        given = named(others, {"think": None}, "--load")
        think = given.get("think", "")
        try:
            think_s = units.parse(think, "s") if think else 0.0
        except ValueError:
            think_s = -1.0
        if not 0 <= think_s < inf:
            raise UsageError(f"think={think}", "--load", "a time with its unit, 0 or more, such as think=1s")
        return Load(name, clients=int(clients), think_s=think_s)
    if name == RATES:
        profile = read_rates(Path(rest))
        lasts_s = sum(lasts for lasts, _ in profile)
        return Load(name, sum(lasts * rate for lasts, rate in profile) / lasts_s, profile=profile)
    if name not in PROCESSES:
        known = [*PROCESSES, CLOSED, RATES]
        expected = f"{', '.join(known)}; such as poisson:8/s"
        near = f"poisson:{text}" if re.match(r"\d", text) else nearest(name, known)
        raise UsageError(f"no process of arrivals {name!r}", "--load", expected, near)
    params = PROCESSES[name].params
    given = named(others, params, "--load")
    gather, own = Gather(), {key: value for key, value in params.items() if value is not None}
    for key, value in {"rate": first, **given}.items():
        with gather.also():
            own[key] = _bounded(value, key, name)
    for key in params:
        gather.refuse(key not in own and key not in given, f"no {key}", "--load", f"{name}:8/s,{key}=3")
    gather.done()
    found = Load(name, own.pop("rate"), own)
    if "lasts" in own and not CYCLE[0] <= (many := found.rate * own["lasts"] / own["share"]) <= CYCLE[1]:
        what, expected = f"{many:.3g} requests in a calm and a busy spell", "{:g} to {:g}, by lasts= and share="
        raise UsageError(what, "--load", expected.format(*CYCLE))
    return found


def read_lengths(text: str) -> Spread:
    """Return a distribution of lengths: 'lognormal:1024,256,cv=0.5'. Raises UsageError."""
    name, _, rest = text.partition(":")
    parts = [part.strip() for part in rest.split(",")]
    if name not in LENGTHS:
        expected = f"{', '.join(LENGTHS)}; such as lognormal:1024,256"
        near = f"lognormal:{text}" if re.match(r"\d", text) else nearest(name, LENGTHS)
        raise UsageError(f"no distribution of lengths {name!r}", "--lengths", expected, near)
    if len(parts) < 2:
        raise UsageError(f"{text!r}", "--lengths", f"means of prompts and outputs, such as {name}:1024,256")
    prompt, output = (number(each, "--lengths", "tokens, 1 or more, such as 1024", whole=True) for each in parts[:2])
    usual, most = LENGTHS[name].cv, LENGTHS[name].most
    given = named(parts[2:], {"cv": usual} if usual else {}, "--lengths")
    expected = "a number above 0" + (f" and below {most:.2g}" if most < inf else "") + ", such as cv=0.5"
    return name, prompt, output, number(given["cv"], "--lengths", expected, most=most) if given else usual


def _bounded(text: str, key: str, process: str) -> float:
    """Return the rate or a parameter of a process. Raises UsageError."""
    low, high = BOUNDS[key]
    bounds = "above 0 and below 1" if key == "share" else f"from {low:g} to {high:g}"
    what, such = (
        ("requests per second", f"{process}:8/s or {process}:480/min") if key == "rate" else ("a number", SUCH[key])
    )
    expected, (amount, _, per) = f"{what} {bounds}, such as {such}", text.partition("/" if key == "rate" else "\n")
    value = number(amount if per in ("", *PER) else text, "--load", expected) / PER.get(per, 1)
    if not low <= value <= high:
        raise UsageError(f"{text!r}", "--load", expected)
    return value


SUCH = {"share": "share=0.2", "burst": "burst=5", "cv": "cv=3", "lasts": "lasts=10"}
"""Parameters of arrivals by example."""


def named(parts: list[str], known: Mapping[str, object], where: str) -> dict[str, str]:
    """Return NAME=VALUE parts as a dictionary. Raises UsageError with all that are none of the ``known`` names."""
    found, problems = dict[str, str](), list[Problem]()
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            expected = f"{', '.join(known)}, each as NAME=VALUE" if known else "no settings"
            problems.append(Problem(f"{part!r}", where, expected, nearest(key, known)))
        found[key] = value
    UsageError.raise_for(problems)
    return found


def number(text: str, where: str, expected: str, whole: bool = False, most: float = inf) -> float:
    """Return a number above 0 and below ``most``. Raises UsageError with what is ``expected``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < most or (whole and value % 1):
        raise UsageError(f"{text!r}", where, expected)
    return value


class Prefix(NamedTuple):
    """Shared prefixes: a ``share`` of all requests begins with the ``tokens`` of one of ``groups`` texts."""

    share: float = 0.5
    tokens: int = 512
    groups: int = 1


def read_prefix(text: str) -> Prefix:
    """Return shared prefixes: 'share=0.5,tokens=512,groups=10'. Raises UsageError."""
    where, expected = "--prefix", {"share": "0 to 1", "tokens": "tokens", "groups": "a number of texts"}
    given = named([part.strip() for part in text.split(",")], Prefix._field_defaults, where)
    found = {
        key: number(value, where, f"{expected[key]}, such as {key}={Prefix._field_defaults[key]}", key != "share",
                    1 + 1e-9 if key == "share" else inf)
        for key, value in given.items()
    }  # fmt: skip
    return Prefix(**{key: value if key == "share" else int(value) for key, value in found.items()})  # type: ignore[arg-type]


def with_prefixes(requests: Iterable[Request], prefix: Prefix, seed: int) -> Iterator[Request]:
    """Yield requests, some of them with a shared prefix before their own prompt."""
    random = generator(seed, 3)
    for each in requests:
        shared, group = random.random() < prefix.share, int(random.integers(prefix.groups))
        more = prefix.tokens if shared else 0
        yield each._replace(prompt=each.prompt + more, prefix=((group, more),) if shared else ())


def drawn(load: Load, lengths: Spread, count: int, seed: int) -> Iterator[Request]:
    """Yield requests of a load; arrivals, prompts and outputs are drawn by themselves, so that one can change and the
    others stay."""
    name, prompt, output, cv = lengths
    sizes = (LENGTHS[name].draw(generator(seed, 1 + at), count, mean, cv) for at, mean in enumerate((prompt, output)))
    whole = (np.maximum(1, np.rint(each)).astype(int) for each in sizes)
    yield from map(Request, arrivals(load, count, seed).tolist(), *(each.tolist() for each in whole))


def arrivals(load: Load, count: int, seed: int) -> Array:
    """Return when requests of a load arrive, s; those of a closed loop at 0."""
    if load.clients:
        return np.zeros(count)
    if load.profile:
        return profiled(generator(seed, 0), count, load.rate, load.profile)
    return PROCESSES[load.process].draw(generator(seed, 0), count, load.rate, load.params)
