"""Limits that users write, NAME=VALUE: units, what is expected of each, one text for all that is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from accelsim import units
from accelsim.errors import Problem, UsageError, nearest

EXPECTED = {
    "s": "a time with its unit, such as latency=10ms", "J": "an energy with its unit, such as energy=0.1J",
    "W": "a power with its unit, such as power=75W", "m²": "an area with its unit, such as area=10mm2",
    "USD": "USD above 0, such as cost=0.01", "USD/h": "USD per hour above 0, such as hour=2.5",
    "/s": "a number per second above 0, such as throughput=1000", "d": "days above 0, such as days=30",
    "%": "what may be lost, such as accuracy=-1%",
}  # fmt: skip
"""Unit of a figure -> what its limit looks like."""
STATED = ("s", "J", "W", "m²")
"""Units that a limit must state; others may be left out, since they have no prefixes."""


def read_limits(texts: Sequence[str], known: Mapping[str, str], place: str = "--limit") -> dict[str, float]:
    """Return limits by name: 'latency=10ms,cost=0.01' -> {'latency': 0.01, 'cost': 0.01}.

    A loss, '-1%', is a share of at most 0. ``known``: names that a limit may have -> their units. ``place``: option or
    key that errors name. Raises UsageError with all problems.
    """
    found: dict[str, float] = {}
    problems = []
    for text in (part.strip() for each in texts for part in each.split(",") if part.strip()):
        name, _, value = (part.strip() for part in text.partition("="))
        if name not in known:
            problems.append(Problem(f"no limit {name!r}", place, f"one of {', '.join(known)}", nearest(name, known)))
            continue
        if name in found:
            problems.append(Problem(f"{text!r} is a second limit of {name}", place, "one limit each"))
        try:
            found[name] = _value(value, known[name])
        except ValueError:
            problems.append(
                Problem(f"{text!r}", place, re.sub(r"such as \w+", f"such as {name}", EXPECTED[known[name]]))
            )
    UsageError.raise_for(problems)
    return found


def _value(text: str, unit: str) -> float:
    if unit == "%":
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if not -1 < share <= 0:
            raise ValueError
        return share
    value = units.parse(text, unit) if unit in STATED else float(text.removesuffix(unit))
    if not 0 < value < float("inf"):
        raise ValueError
    return value
