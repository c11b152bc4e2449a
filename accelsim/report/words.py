"""A run in a few plain sentences: where time and energy went, and what would help most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelsim.account.bounds import REASONS, describe
from accelsim.account.energy import STATIC
from accelsim.account.latency import Layer
from accelsim.account.provenance import WARN_ABOVE, doubtful
from accelsim.machine.run import Run
from accelsim.report.table import layer_names
from accelsim.report.text import percent, shorten, si

SPEED_UP = 2
MOVING = ("PE registers", "PE network", "on-chip SRAM", "off-chip memory", "link")
"""Categories of energy that move data and compute nothing."""
NAMED, WORTH_NAMING = 3, 0.01
"""Figures of energy that the warning names at most, and the share from which on it does."""
FOLLOWED = "Moving the {}{} twice as fast, be it by bandwidth, latency or row hits,"
"""What to improve about a memory whose DRAM was followed."""
ARTICLES = {"vector": "the ", "host": "the ", "accumulators": "waiting for "}


def sentences(run: Run, layers: Sequence[Layer], summary: dict[str, Any]) -> list[str]:
    """A few sentences about the run; ``layers`` and ``summary`` are those of ``account.latency``."""
    if not summary["latency_s"]:
        return ["Nothing ran."]
    parts = [_time(run, summary), _layer(layers), _energy(run, summary), _trust(run), _lever(run, summary)]
    return [part for part in parts if part]


def _time(run: Run, summary: dict[str, Any]) -> str:
    spent = summary["latency_by_bound_s"].items()
    shares = [(ARTICLES.get(key, "") + describe(run.chip, key), s / summary["latency_s"]) for key, s in spent]
    first, *rest = shares
    text = f"The run takes {si(summary['latency_s'], 's')}; {percent(first[1])} of it goes to {first[0]}"
    others = [f"{percent(share)} to {name}" for name, share in rest[:2] if share >= 0.05]
    text += "".join(f", {other}" for other in others)
    if summary["utilisation"] is not None:
        text += f". The matrix unit runs at {percent(summary['utilisation'])} of its peak"
    return text + "."


def _layer(layers: Sequence[Layer]) -> str:
    total = sum(layer.added_fs for layer in layers)
    if len(layers) < 2 or not total:
        return ""
    slowest = max(layers, key=lambda layer: layer.added_fs)
    name = shorten(layer_names(layers)[slowest.index], 40)
    share = slowest.added_fs / total
    what = f"{name} ({slowest.label}, {percent(share)})"
    return f"The layer that costs most time is {what}, bound by {slowest.bound}."


def _energy(run: Run, summary: dict[str, Any]) -> str:
    kinds, total = summary["energy_by_category_J"], summary["energy_J"]
    if not total:
        return ""
    ranked = sorted(kinds.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{name} {percent(joules / total)}" for name, joules in ranked[:3])
    text = f"It uses {si(total, 'J')}: {shares}"
    moving = sum(kinds.get(name, 0.0) for name in MOVING)
    if kinds.get("MAC"):
        text += f"; moving data costs {moving / kinds['MAC']:.3g} times as much as the multiplications"
    if ranked[0][0] == STATIC:
        text += ". Static power is drawn whether the chip works or not, so a shorter run saves it"
    return text + "."


def _trust(run: Run) -> str:
    """A warning where the joules hang on figures that are recalled, quoted or guessed."""
    share, weak = doubtful(run)
    if share <= WARN_ABOVE:
        return ""
    dynamic_J = sum(part.energy_J for part in weak) / share
    told = [part for part in weak if part.energy_J >= WORTH_NAMING * dynamic_J][:NAMED] or weak[:1]
    named = ", ".join(f"{part.what} ({part.status}, {percent(part.energy_J / dynamic_J)})" for part in told)
    return (
        f"Of the dynamic energy {percent(share)} rests on figures that are not verified, above all {named}."
    )


def levers(run: Run, summary: dict[str, Any]) -> list[tuple[str, float]]:
    """(what one could do, fraction of the latency that it saves at most), the best first.

    Amdahl's law: what a reason takes shrinks by the factor ``SPEED_UP``, all else stays. 'At most', since the
    next bottleneck may take over part of what is freed.
    """
    saving = 1 - 1 / SPEED_UP
    rows = []
    for key, spent_s in summary["latency_by_bound_s"].items():
        reason = REASONS[key]
        where = describe(run.chip, key).removeprefix(reason.text)
        # under a constant rate only bandwidth helps; a DRAM that is followed may wait for something else
        lever = (
            FOLLOWED.format(reason.operand, where) if run.dram and reason.operand else reason.lever + where
        )
        rows.append((lever, saving * spent_s / summary["latency_s"]))
    return sorted(rows, key=lambda row: -row[1])


def _lever(run: Run, summary: dict[str, Any]) -> str:
    ranked = levers(run, summary)
    text = f"{ranked[0][0]} would shorten the run by at most {percent(ranked[0][1])}"
    if len(ranked) > 1 and ranked[1][1] >= 0.02:
        follow = ranked[1][0][0].lower() + ranked[1][0][1:]
        text += f"; {follow} by at most {percent(ranked[1][1])}"
    return text + "."
