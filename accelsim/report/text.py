"""Numbers and names as a person reads them: engineering units, percent, names shortened in the middle."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Any

from accelsim.time import FS
from accelsim.units import show

if TYPE_CHECKING:
    from accelsim.kernels.whole import Interval

DIGITS = 3
MISSING = "–"
ELLIPSIS = "…"
SIGNED = re.compile(r"[^.=,/_-]*[.=,/_-]+|[^.=,/_-]+")
"""Parts of a long word: each up to and with a sign behind which a line may end."""


def si(value: float | None, unit: str = "", digits: int = DIGITS) -> str:
    """Write a value in SI units of ``unit`` with an engineering prefix: '1.23 ms'; a dash for None.

    Below 1 a number without a unit has no prefix: '0.867', since 867m reads like 867 million.
    """
    if value is None:
        return MISSING
    if not isfinite(value):
        return "∞"
    if not unit and 0 < abs(value) < 1:
        return plain(value, digits)
    return show(float(value), unit, digits)


def plain(value: float, digits: int = DIGITS) -> str:
    """Write a number below 1 without a prefix: '0.0024', '2.4e-07' where that would have too many zeros."""
    return f"{value:.{digits}g}"


def seconds(t_fs: float) -> str:
    """Write a simulated time (fs) in engineering units of s."""
    return si(t_fs * FS, "s")


def percent(fraction: float | None) -> str:
    """Write a fraction as '12.3%', as whole percents from 99.95 on; a dash for None."""
    if fraction is None:
        return MISSING
    value = 100 * fraction
    if value and value < 0.05:
        return "<0.1%"
    return f"{value:.1f}%" if value < 99.95 else f"{value:.0f}%"


def at_most(fraction: float) -> str:
    """Write an upper bound of a fraction as 'at most 12.3%', below 0.1 % as 'less than 0.1%'."""
    text = percent(fraction)
    return f"at most {text}" if fraction and not text.startswith("<") else "less than 0.1%"


def signed(fraction: float) -> str:
    """Write a change in percent with its sign: '-37.9%', '+4.5%'; '0.0%' where nothing changes."""
    text = f"{100 * fraction:+.1f}%"
    return "0.0%" if text in ("-0.0%", "+0.0%") else text


def shorten(name: str, width: int) -> str:
    """Shorten a name to ``width`` characters; a mark in the middle stands for the rest."""
    if len(name) <= width:
        return name
    if width <= 1:
        return name[:width]
    tail = (width - 1) * 3 // 5
    return name[: width - 1 - tail] + ELLIPSIS + name[len(name) - tail :]


def cut(name: str, width: int) -> str:
    """Cut a name to ``width`` characters; a mark at the end stands for the rest."""
    return name if len(name) <= width else name[: max(0, width - 1)].rstrip(" (") + ELLIPSIS


def ratio(value: float) -> str:
    """Write a ratio as '0.608×' or '10.8k×'."""
    return f"{value:.{DIGITS}g}×" if 1e-3 <= abs(value) < 999.5 or not value else f"{si(value)}×"


def wrapped(name: str, width: int) -> list[str]:
    """Split a name into lines of at most ``width`` characters, at blanks, and long words after signs."""
    lines = [""]
    for word in name.split():
        for at, part in enumerate([word] if len(word) <= width else SIGNED.findall(word)):
            joined = f"{lines[-1]}{' ' if lines[-1] and not at else ''}{part}"
            lines[-1:] = [joined] if len(joined) <= width or not lines[-1] else [lines[-1], part]
            while len(lines[-1]) > width:
                lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return lines


def folded(name: str, width: int) -> str:
    """Fold a name into lines of at most ``width`` characters; further lines are indented as the first."""
    indent = name[: len(name) - len(name.lstrip())]
    if len(name) <= width or len(indent) >= width:
        return name[:width]
    return "\n".join(indent + line for line in wrapped(name, width - len(indent)))


def unbroken(name: str) -> int:
    """Return the length of the longest part of ``name`` that ``wrapped`` does not break."""
    return max((len(part) for word in name.split() for part in SIGNED.findall(word)), default=0)


def short_names(names: list[str], ops: list[str]) -> list[str]:
    """Return names without the path components that all share at the front, and without the op type at the end.

    '/encoder/layer.0/query/MatMul' becomes 'layer.0/query' where every name starts with '/encoder/'; the end
    stays when two names would become equal.
    """
    parts = [name.split("/") for name in names]
    shared = 0
    shortest = min(map(len, parts), default=0)
    while len(parts) > 1 and shared + 1 < shortest and len({part[shared] for part in parts}) == 1:
        shared += 1
    long = ["/".join(part[shared:]) for part in parts]
    short = [name.removesuffix(f"/{op}") for name, op in zip(long, ops, strict=True)]
    return short if len(set(short)) == len(short) else long


Facts = dict[str, Any]
"""Figures and words by name, as JSON has them; the unit is the end of each name."""
LONG = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))
"""Units of time that one does not tell in seconds, s."""


def long_time(seconds: float) -> str:
    """Write a time as '20.7 days', '1 hour' or '3.5 minutes'; below a minute in engineering units of s."""
    for size, noun in LONG:
        if seconds >= size:
            number = plain(seconds / size)
            return f"{number} {noun}{'' if number == '1' else 's'}"
    return si(seconds, "s")


def interval_text(found: Interval | None) -> str:
    """Write an interval of a time as ' (90 %: 1 ms to 2 ms)'; '' for None."""
    return ends_text(None if found is None else (found.low_s, found.high_s))


def ends_text(ends: tuple[float, float] | None, unit: str = "s") -> str:
    """Write the ends of an interval as ' (90 %: 1 ms to 2 ms)'; '' for None."""
    return "" if ends is None else f" (90 %: {si(ends[0], unit)} to {si(ends[1], unit)})"


def decoding_text(tokens_per_s: float | None, ends: tuple[float, float] | None) -> str:
    """Write the rate of decoding with its interval: '1k tokens/s (90 %: 800 to 1.2k)'."""
    if tokens_per_s is None:
        return "none: a single token"
    return f"{si(tokens_per_s)} tokens/s{ends_text(ends, '')}"


def times_as(ratio: float) -> str:
    """Return '7.93 times as', the words before 'fast'; 'as' where both are equal."""
    return "as" if si(ratio) == "1" else f"{si(ratio)} times as"
