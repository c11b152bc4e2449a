"""Report on a search for threshold and cycle time of fused gradients: a table, sentences, a picture, JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from accelsim.cluster.step.fusing import THRESHOLDS_B, Trial, Tuned, TunedStep
from accelsim.errors import count_of
from accelsim.report.picture import Axis, Panel, Picture, line, points
from accelsim.report.style import BLUE, VERMILLION, tint
from accelsim.report.text import percent, si
from accelsim.time import FS
from accelsim.units import show, spell

EVERY = 2
"""One row for so many thresholds that were tried."""
BEST = "*"
"""Stands behind the best."""


def headers(found: TunedStep) -> tuple[str, ...]:
    """Return the headers of ``rows``."""
    first = ("threshold", "step waits", "buckets")
    return (*first, "cycle", "step waits", "buckets") if found.cycles else first


def rows(found: TunedStep) -> list[tuple[str, ...]]:
    """Return what the step waits, at the best cycle time by threshold, beside it at the best threshold by cycle
    time."""
    best_B, best_fs = found.best.fusion.threshold_B, found.best.fusion.cycle_fs
    thresholds = [
        (f"{size(trial)} {BEST * (trial.fusion.threshold_B == best_B)}".rstrip(), *_waits(trial))
        for trial in found.thresholds
        if trial.fusion.threshold_B in {*THRESHOLDS_B[::EVERY], best_B}
    ]
    cycles = [
        (f"{cycle(trial)} {BEST * (trial.fusion.cycle_fs == best_fs)}".rstrip(), *_waits(trial))
        for trial in found.cycles
    ]
    if not cycles:
        return [*thresholds]
    blank = ("", "", "")
    return [(*left, *right) for left, right in zip_longest(thresholds, cycles, fillvalue=blank)]


def _waits(trial: Trial) -> tuple[str, str]:
    return si(trial.exposed_fs * FS, "s"), f"{trial.buckets:,}"


def size(trial: Trial) -> str:
    """Return the threshold of a trial, with all digits."""
    return spell(trial.fusion.threshold_B or 0, "B")


def cycle(trial: Trial) -> str:
    """Return the cycle time of a trial, with all digits."""
    return spell(trial.fusion.cycle_fs * FS, "s")


def options(found: TunedStep) -> str:
    """Return what of the command line makes the best."""
    fusion = found.best.fusion
    told = f"--gradients {fusion.policy} --threshold {size(found.best).replace(' ', '')}"
    return f"{told} --cycle {cycle(found.best).replace(' ', '')}" if found.cycles else told


def sentences(found: TunedStep) -> list[str]:
    """Return the best choice, the step with it and without, and the waits to both sides of it."""
    with_s, without_s = (found.time_fs(trial) * FS for trial in (found.best, found.asked))
    best = f"a threshold of {size(found.best)}"
    if found.cycles:
        best += f" and a cycle time of {cycle(found.best)}"
    gain = percent(1 - with_s / without_s) if with_s < without_s else "nothing"
    told = [
        f"Of {count_of(found.tried, 'choice')} tried by {found.by} {best} is the best ({options(found)}): the step "
        f"takes {si(with_s, 's')}, as it was asked for {si(without_s, 's')}; it saves {gain}."
    ]
    told.append(_sides("threshold", found.thresholds, found.best, size))
    if found.cycles:
        told.append(_sides("cycle time", found.cycles, found.best, cycle))
    return told


WHY = ("more buckets pay their latency", "less is hidden by the backward pass")
"""Why the step waits longer on the left and on the right of the best."""


def _sides(name: str, trials: Sequence[Trial], best: Trial, label: Callable[[Trial], str]) -> str:
    """Return how much longer the step waits at both ends of what was tried."""
    ends = []
    for trial, why in zip((trials[0], trials[-1]), WHY, strict=True):
        more_s = (trial.exposed_fs - best.exposed_fs) * FS
        told = (
            f"{si(more_s, 's')} longer at {label(trial)}, where {why}" if more_s > 0 else f"no longer at {label(trial)}"
        )
        ends.append(told)
    return f"By {name} the step waits {ends[0]}, and {ends[1]}."


def plot(found: TunedStep) -> Picture:
    """Draw the wait of a step against the cycle time by threshold; without a cycle, against the threshold."""

    title = f"What the step waits for gradients, {found.best.fusion.policy}"
    return tuning_plot(found.grid, title, "cycle_fs" if found.cycles else "threshold_B")


def facts(found: TunedStep) -> dict[str, object]:
    """Return the facts for JSON; the unit is the end of each key."""
    around = {"thresholds": found.thresholds, "cycles": found.cycles}
    return {
        "by": found.by,
        "tried": found.tried,
        "policy": found.best.fusion.policy,
        "asked": _facts(found, found.asked),
        "best": _facts(found, found.best),
        "options": options(found),
        **{name: [_facts(found, trial) for trial in trials] for name, trials in around.items()},
    }


def _facts(found: TunedStep, trial: Trial) -> dict[str, object]:
    return {
        "threshold_B": trial.fusion.threshold_B,
        "cycle_s": trial.fusion.cycle_fs * FS,
        "waits_s": trial.exposed_fs * FS,
        "buckets": trial.buckets,
        "step_s": found.time_fs(trial) * FS,
    }


MOST_LINES = 6
"""Lines of a picture of a grid; of more thresholds so many are drawn."""
CHOICES = {
    "cycle_fs": ("cycle time (ms)", 1e-12, "threshold_B"),
    "threshold_B": ("threshold (MiB)", 2**-20, "cycle_fs"),
}
"""Quantity of the horizontal axis -> its name, the factor to its unit, the quantity that tells the lines apart."""


def tuning_plot(tuned: Tuned, title: str, along: str = "cycle_fs") -> Picture:
    """Draw time that the step waits against the cycle time (or ``along="threshold_B"``), a line per choice of the
    other."""
    words, factor, other = CHOICES[along]
    lines: dict[int, list[Trial]] = {}
    for trial in tuned.trials:
        lines.setdefault(getattr(trial.fusion, other), []).append(trial)
    keys, marks = sorted(lines), []
    shown = keys[:: -(-len(keys) // MOST_LINES)]

    def place(trial: Trial) -> tuple[float, float]:
        return factor * getattr(trial.fusion, along), trial.exposed_fs * FS

    for number, key in enumerate(shown, 1):
        x, y = zip(*sorted(map(place, lines[key])), strict=True)
        marks.append(line(x, y, _label(other, key), tint(BLUE, number / len(shown)), marker="o", ms=3))
    best = tuned.best
    fusion, (cost, waits_s) = best.fusion, place(best)
    marks.append(points([cost], [waits_s], "best", VERMILLION, "*", ms=13))
    choice = f"{_label('cycle_fs', fusion.cycle_fs)}, {_label('threshold_B', fusion.threshold_B)}"
    caption, waits = f"best: {choice}, {best.buckets} buckets", Axis("the step waits", "s", low=0)
    return Picture(3.8, [Panel(title, marks, Axis(words, scale="log"), waits, caption, "both")], legend=4)


def _label(field: str, value: int | None) -> str:
    if field == "cycle_fs":
        return f"cycle {show((value or 0) * FS, 's', 3)}"
    return f"threshold {show(value or 0, 'B', 3, binary=True)}"
