"""Limits of latencies as texts."""

from __future__ import annotations

from collections.abc import Iterable

from accelsim import units
from accelsim.errors import Problem, UsageError, nearest

LIMITED = ("ttft", "tpot", "e2e")
"""Latencies of a request."""


def read_limits(texts: Iterable[str]) -> dict[str, float]:
    """Return limits in s by name: 'ttft=500ms,tpot=40ms'. Raises UsageError with all problems."""
    found, problems = dict[str, float](), list[Problem]()
    for part in (each.strip() for text in texts for each in text.split(",") if each.strip()):
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in LIMITED:
            problems.append(Problem(f"no limit {name!r}", "--limit", ", ".join(LIMITED), nearest(name, LIMITED)))
            continue
        try:
            found[name] = float(units.parse(value, "s"))
        except ValueError:
            problems.append(Problem(f"{part!r}", "--limit", f"a time with its unit, such as {name}=500ms"))
    UsageError.raise_for(problems)
    return found
