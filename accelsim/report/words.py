"""A run in a few plain sentences: where time and energy went, and what would help most."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from accelsim.account.critical_path import by_blame
from accelsim.account.energy import HOST_IDLE, STATIC, energy_table
from accelsim.account.latency import Layer
from accelsim.account.provenance import WARN_ABOVE, doubtful
from accelsim.account.spans import multiplier_title
from accelsim.engines.registry import ENGINES
from accelsim.errors import count_of
from accelsim.explore.what_ifs import NAMED as NAMED_CHANGES
from accelsim.explore.what_ifs import WORTH
from accelsim.machine.run import Run
from accelsim.program.roles import multiplier
from accelsim.report.table import layer_names
from accelsim.report.text import Facts, percent, shorten, si, signed, times_as
from accelsim.spec.constants import outdated
from accelsim.spec.status import ESTIMATE
from accelsim.time import FS

MOST_PARTS, WORTH_A_PART = 3, 0.05
"""Parts of the time that are named at most, and the share from which on all but the first are."""
MOVING = ("PE registers", "PE network", "on-chip SRAM", "off-chip memory", "link")
"""Categories of energy that move data and compute nothing."""
HALF = 0.5
MUCH_CONVERSION = 0.2
"""Share of the time from which on the text says how to leave host conversion out."""
NAMED, WORTH_NAMING = 3, 0.01
"""Figures of energy that the warning names at most, and the share from which on it does."""


def sentences(run: Run, layers: Sequence[Layer], summary: Facts) -> list[str]:
    """Return a few sentences about a run; ``layers`` and ``summary``: those of ``account.latency``.

    ``summary["what_ifs"]``, if it is there: the records of ``explore.what_ifs``.
    """
    if not summary["latency_s"]:
        return ["Nothing ran."]
    found = summary["latency_interval"]
    parts = [
        _time(run, summary),
        _conversion(run, layers),
        _cores(run),
        _layer(run, layers),
        _caches(summary),
        _interval(found["basis"], found["family"]) if found else "",
        _energy(run, summary),
        _power_said(run),
        _trust(run),
        _calibration(run, summary["uncalibrated"]),
        _what_ifs(summary),
    ]
    return [part for part in parts if part]


def _time(run: Run, summary: Facts) -> str:
    spent = by_blame(run)
    shares = [(blame.phrase, fs / run.time_fs) for blame, fs in spent.items()]
    first, *rest = shares
    text = f"The run takes {si(summary['latency_s'], 's')}; {percent(first[1])} of it goes to {first[0]}"
    others = [f"{percent(share)} to {name}" for name, share in rest[: MOST_PARTS - 1] if share >= WORTH_A_PART]
    text += "".join(f", {other}" for other in others)
    if summary["utilisation"] is not None:
        text += f". {_at_its_peak(run, percent(summary['utilisation']))}"
    return text + "."


def _conversion(run: Run, layers: Sequence[Layer]) -> str:
    """Return how to leave host conversion out, where it takes much of the run; else ''."""
    share = sum(layer.added_fs for layer in layers if layer.edge in ("input", "output")) / run.time_fs
    if share < MUCH_CONVERSION:
        return ""
    return (
        f"Host conversion of inputs and results takes {percent(share)} of the run; to see the chip without it, "
        "run with --edges outside."
    )


def _cores(run: Run) -> str:
    """Return which core ended last, where they are of several kinds; '' where they are alike."""
    chip = run.chip
    if len(chip.cores) == 1:
        return ""
    ends: dict[int, int] = {}
    for piece in run.slices:
        core = run.program.commands[piece.command].core
        ends[core] = max(ends.get(core, 0), piece.end)
    (last, late), *others = sorted(ends.items(), key=lambda item: -item[1])
    told = [f"core {core} ({chip.kind_of(core)}) after {si(fs * FS, 's')}" for core, fs in others[:MOST_PARTS]]
    return f"Core {last} ({chip.kind_of(last)}) ends last, after {si(late * FS, 's')}; {', '.join(told)}."


def _at_its_peak(run: Run, share: str) -> str:
    title, unit = multiplier_title(run.chip), multiplier(run.chip)
    many = unit is not None and ENGINES[unit.type].title.endswith("s")
    return f"{title[0].upper()}{title[1:]} {'run' if many else 'runs'} at {share} of {'their' if many else 'its'} peak"


def _interval(basis: str, family: str) -> str:
    from accelsim.report.intervals import of_what

    return of_what("the latency", basis, family)


def _layer(run: Run, layers: Sequence[Layer]) -> str:
    if len(layers) < 2 or not run.time_fs:
        return ""
    named = [(layer, name) for layer, name in zip(layers, layer_names(layers), strict=True) if layer.number]
    if not named:
        return ""
    slowest, name = max(named, key=lambda row: row[0].added_fs)
    if not slowest.path:
        return ""
    name = shorten(name, 40)
    blame, fs = next(iter(slowest.path.items()))
    what = f"{name} ({slowest.label}, {percent(slowest.added_fs / run.time_fs)} of the run)"
    share = "all" if fs == slowest.added_fs else percent(fs / slowest.added_fs)
    return f"The slowest layer is {what}; {share} of its time goes to {blame.phrase}."


def _caches(summary: Facts) -> str:
    """Return what each cache of the chip kept from the memory behind it."""
    return " ".join(
        f"The cache {name} hits {percent(level['hit_rate'])} of the lines asked for; {level['memory']} gives "
        f"{si(level['fetched_B'], 'B')} and takes {si(level['written_back_B'] + level['through_B'], 'B')}."
        for name, level in summary["levels"].items()
        if "hits" in level
    )


def _energy(run: Run, summary: Facts) -> str:
    kinds, total = summary["energy_by_category_J"], summary["energy_J"]
    if not total:
        return ""
    ranked = sorted(kinds.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{name} {percent(joules / total)}" for name, joules in ranked[:3])
    text = f"It uses {si(total, 'J')}: {shares}"
    moving = sum(kinds.get(name, 0.0) for name in MOVING)
    if kinds.get("MAC"):
        text += f"; moving data costs {times_as(moving / kinds['MAC'])} much as the multiplications"
    if ranked[0][0] == STATIC:
        share = _host_J(run) / kinds[STATIC]
        text += (
            f". {percent(share)} of the static energy is the idle power of the host, charged while it works"
            if share > HALF
            else ". Static power is drawn whether the chip works or not, so a shorter run saves it"
        )
    return text + "."


def _host_J(run: Run) -> float:
    """The static energy of the host, J: its idle power, which is charged while it works."""
    return sum(row.energy_J for row in energy_table(run) if row.action == HOST_IDLE)


def _power_said(run: Run) -> str:
    """Return a sentence if the static power of a chip is an estimate or left out; '' if it is stated."""
    chip = run.chip
    if chip.power is not None:
        return f"Its idle power is {chip.power.note}." if (chip.power.note or "").startswith(ESTIMATE) else ""
    if chip.matrix is None:
        return ""
    from accelsim.spec.silicon import silicon

    guess = si(silicon(chip).idle_W, "W")
    whose = "of its memories, and of the host while that works" if _host_J(run) else "of its memories alone"
    return (
        f"The spec states no power of the chip, so its static power is that {whose}; an estimate for its array and "
        f"buffers, not counted, is {guess} (a guess by area)."
    )


def _trust(run: Run) -> str:
    """A warning where the joules hang on figures that are recalled, quoted or guessed."""
    share, weak = doubtful(run)
    if share <= WARN_ABOVE:
        return ""
    dynamic_J = sum(part.energy_J for part in weak) / share
    told = [part for part in weak if part.energy_J >= WORTH_NAMING * dynamic_J][:NAMED] or weak[:1]
    named = ", ".join(f"{part.what} ({part.status}, {percent(part.energy_J / dynamic_J)})" for part in told)
    return f"Of the dynamic energy {percent(share)} rests on figures that are not verified, above all {named}."


def _calibration(run: Run, names: Sequence[str]) -> str:
    """Return a warning that the time rests on uncalibrated constants; '' if it does not."""
    if before := outdated(run.chip):
        return before
    if not names:
        return ""
    told, rest = names[:NAMED], len(names) - NAMED
    listed = ", ".join(told) + (f" and {count_of(rest, 'other')}" if rest > 0 else "")
    return (
        f"{count_of(len(names), 'constant')} of {run.chip.name} {'is' if len(names) == 1 else 'are'} not calibrated: "
        f"{listed}."
    )


def helps(what_ifs: Sequence[Facts]) -> list[Facts]:
    """Return the changes to name: the best that help."""
    return [what for what in what_ifs if what["saved"] >= WORTH][:NAMED_CHANGES]


def option_texts(what: Facts) -> list[str]:
    """Return what to add to the command line to get the run of a change."""
    return [*(f"--set {shlex.quote(text)}" for text in what["set"]), *what["options"]]


def nothing_helps(what_ifs: Sequence[Facts]) -> str:
    """Return what to say where no change that was tried is worth it."""
    if not what_ifs:
        return f"No possible change is expected to save {percent(WORTH)} or more of the run, so none was simulated."
    return f"None of the {count_of(len(what_ifs), 'change')} tried shortens the run by {percent(WORTH)} or more."


def _what_ifs(summary: Facts) -> str:
    found = summary.get("what_ifs")
    if found is None:
        return ""
    named = helps(found)
    if not named:
        return nothing_helps(found)
    before = si(summary["latency_s"], "s")
    told = [
        f"{what['change']}: {si(what['latency_s'], 's')}{f' instead of {before}' * (not number)} "
        f"({signed(-what['saved'])})"
        for number, what in enumerate(named)
    ]
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}. Each of {count_of(len(found), 'change')} was simulated on its own."
