"""Write reports/dram.md and its picture: ``python -m tests.validation.dram_report [FOLDER]``.

Every golden run of DRAMsim3 and Ramulator 2 is replayed here and now; the texts only say what the numbers mean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.dram.device import SCHEDULERS
from accelsim.dram.traces import NAMED
from accelsim.files import text, write_folder
from accelsim.report.style import BLUE, FAINT, INK, VERMILLION, figure, styled, subtitle
from accelsim.report.style import picture as as_picture
from tests.validation import dram_ranks
from tests.validation.dram import BARS, Statement, energies, statements
from tests.validation.dram_mixes import table
from tests.validation.dram_replay import (
    COMPARED,
    DRAMSIM3,
    RAMULATOR2,
    TITLES,
    Replay,
    disagreements,
    of_traces,
    replays,
)
from tests.validation.dram_texts import COLUMNS, DISAGREE, HEAD, INTRODUCTION, LESSONS, MIXES, PICTURE, RANKS
from tests.validation.report import markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMMAND = "python -m tests.validation.dram_report"
PLOT = "dram.png"
BAND = 0.03
"""Errors up to this are inside the grey band of the picture."""

NAMED_FROM = 0.095
"""Errors above this have the name of their memory beside the dot."""

SIMULATORS = (RAMULATOR2, DRAMSIM3)


def main(arguments: Sequence[str]) -> int:
    """Write both files into the named folder, else into ``reports``; the exit code is 1 when a claim does not hold."""
    folder = Path(arguments[0] if arguments else "reports")
    claims = {simulator: statements(simulator) for simulator in SIMULATORS}
    with styled():
        drawn = picture({simulator: replays(simulator) for simulator in SIMULATORS})
    write_folder(folder, {PLOT: as_picture(drawn, Path(PLOT).suffix), "dram.md": text(page(claims))})
    return int(any(not each.holds for found in claims.values() for each in found))


def signed(error: float | None) -> str:
    """'+1.2 %' of a relative error, one digit more below 1 %; '' for None."""
    if error is None:
        return ""
    return f"{100 * error:+.{1 if abs(error) >= 0.01 else 2}f} %"


def page(claims: dict[str, list[Statement]]) -> str:
    """The whole page."""
    parts = [
        HEAD.format(COMMAND=COMMAND),
        *(INTRODUCTION, summary_table(), "\n", claims_text(claims)),
        *(PICTURE.format(PLOT=PLOT), by_trace(), "\n", MIXES, mixes_table(), "\n"),
        *(DISAGREE, disagreement_table(), "\n", RANKS, ranks_table(), "\n", LESSONS, COLUMNS),
    ]
    for simulator in SIMULATORS:
        parts += [f"\n### {TITLES[simulator]}\n\n", runs_table(replays(simulator))]
    return "".join(parts)


def _size(errors: Iterable[float], how: Callable[..., float]) -> str:
    values = np.abs(list(errors))
    return f"{100 * how(values):.2f} %" if values.size else ""


def summary_table() -> str:
    """Median, mean and largest error of the clocks per simulator and group."""
    headers = ["simulator", "group", "runs", "median", "mean", "largest", "bound of median, mean"]
    rows = []
    for simulator in SIMULATORS:
        found = of_traces(replays(simulator))
        for group in (*COMPARED, "both"):
            errors = [each.error for each in found if group in (each.golden.group, "both")]
            bars = BARS[simulator]
            bound = f"{100 * bars.median:g} %, {100 * bars.mean:g} %" if group == "both" else ""
            sizes = [_size(errors, how) for how in (np.median, np.mean, np.max)]
            rows.append([TITLES[simulator], group, str(len(errors)), *sizes, bound])
    return markdown(headers, rows, left=2)


def claims_text(claims: dict[str, list[Statement]]) -> str:
    """Return how many claims hold, and those that do not."""
    lines = []
    for simulator, found in claims.items():
        broken = [each for each in found if not each.holds]
        lines.append(f"- {TITLES[simulator]}: {len(found) - len(broken)} of {len(found)} statements hold.\n")
        lines += [f"  - {each}\n" for each in broken]
    parts = energies()
    largest = f"largest error {parts.max:.1e}" if parts.max else "no error beyond the file's digits"
    lines.append(f"- Energy from DRAMsim3's own counts: {parts.equal} of {parts.rows} parts within 1e-6, {largest}.\n")
    return "".join([*lines, "\n"])


def by_trace() -> str:
    """Median (and largest) errors of both models by trace."""
    headers = [
        "trace",
        "what it is",
        *(f"{TITLES[name]}: {what}" for name in SIMULATORS for what in ("bank", "pattern")),
    ]
    rows = []
    for trace, row in NAMED.items():
        cells = []
        for simulator in SIMULATORS:
            found = of_traces(replays(simulator), trace)
            closed = [each.pattern_error for each in found if each.pattern_error is not None]
            for errors in ([each.error for each in found], closed):
                cells.append(f"{_size(errors, np.median)} ({_size(errors, np.max)})" if errors else "")
        rows.append([f"`{trace}`", row.what, *cells])
    return markdown(headers, rows, left=2)


def mixes_table() -> str:
    """|pattern / bank - 1| on random mixes, memory by memory."""
    headers = ["memory", "median", "P90", "largest"]
    rows = [[f"`{row.name}`", *(f"{100 * size:.2f} %" for size in row[1:])] for row in table()]
    return markdown(headers, rows, left=1)


def disagreement_table() -> str:
    """Where both simulators ran one trace with aligned parameters: how far they are from each other and from us."""
    headers = ["configuration", "trace", "Ramulator 2.1 / DRAMsim3", "ours / Ramulator 2.1", "ours / DRAMsim3",
               "activations: Ramulator 2.1", "DRAMsim3", "ours"]  # fmt: skip
    rows = []
    for ramulator, dramsim in disagreements():
        counts = (ramulator.golden.counts["act"], dramsim.golden.counts["act"], ramulator.counts["act"])
        apart = ramulator.golden.clocks / dramsim.golden.clocks - 1
        rows.append([
            ramulator.golden.config, f"`{ramulator.golden.trace}`", signed(apart), signed(ramulator.error),
            signed(dramsim.error), *(f"{count:,}" for count in counts),
        ])  # fmt: skip
    return markdown(headers, rows, left=2)


def ranks_table() -> str:
    """Errors of each scheduler on the random mixes of ``dram-ranks``."""
    names = sorted(SCHEDULERS, key=lambda name: name != "queues")
    headers = ["configuration", "ranks", "writes", "clocks", *(f"`{name}`" for name in names)]
    rows = [
        [each[0].row.config, str(each[0].row.ranks), f"{each[0].row.share} %", f"{each[0].row.clocks:,}",
         *(signed(one.error) for one in each)]
        for each in zip(*map(dram_ranks.replays, names), strict=True)
    ]  # fmt: skip
    return markdown(headers, rows, left=1)


def runs_table(found: Sequence[Replay]) -> str:
    """Every run of a simulator."""
    headers = ["configuration", "trace", "clocks", "ours", "error", "activations", "ours", "hits", "ours",
               "read latency", "ours", "energy of our counts", "pattern model"]  # fmt: skip
    rows = []
    for each in found:
        row = each.golden
        alone = NAMED[row.trace].outstanding == 1
        rows.append([
            row.config, f"`{row.trace}`", f"{row.clocks:,.0f}", f"{each.clocks:,}", signed(each.error),
            f"{row.counts['act']:,}", f"{each.counts['act']:,}", f"{row.hits:,}", f"{each.counts['hits']:,}",
            f"{row.latency:.1f}" if alone else "", f"{each.latency:.1f}" if alone else "",
            signed(each.energy_error), signed(each.pattern_error),
        ])  # fmt: skip
    return markdown(headers, rows, left=2)


LOOKS = {RAMULATOR2: (BLUE, "o", -0.17), DRAMSIM3: (VERMILLION, "^", 0.17)}
"""Simulator -> colour, marker, and how far beside the trace's tick its dots lie."""


def picture(found: dict[str, Sequence[Replay]]) -> Figure:
    """A dot per run: the error of the clocks by trace, of the bank model above, of the pattern model below."""
    fig, (above, below) = figure(6.4, 2, 1, sharex=True)
    _dots(above, found, lambda each: each.error)
    _dots(below, found, lambda each: each.pattern_error)
    above.set_title("Bank model: clocks against two DRAM simulators", pad=18)
    subtitle(above, "a dot is one memory; above 0 we are slower; the band is 3 %")
    below.set_title("Pattern model (samples of the bank model), the same runs")
    below.set_xticks(range(len(NAMED)), list(NAMED))
    fig.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def _dots(axes: Axes, found: dict[str, Sequence[Replay]], error: Callable[[Replay], float | None]) -> None:
    axes.axhspan(-100 * BAND, 100 * BAND, color=FAINT, alpha=0.35, linewidth=0)
    axes.axhline(0, color=INK, linewidth=0.8)
    for simulator, runs in found.items():
        color, marker, aside = LOOKS[simulator]
        shown = of_traces(runs)
        dots = [
            (list(NAMED).index(each.golden.trace) + aside + _spread(shown, each), 100 * size, each)
            for each in shown
            if (size := error(each)) is not None
        ]
        axes.scatter([x for x, _, _ in dots], [y for _, y, _ in dots], s=26, color=color, marker=marker,
                     alpha=0.75, linewidths=0, label=TITLES[simulator], zorder=3)  # fmt: skip
        _names(axes, [dot for dot in dots if abs(dot[1]) > 100 * NAMED_FROM])
    axes.set_ylabel("error of the clocks (%)")
    axes.grid(True, axis="y")


def _names(axes: Axes, dots: Sequence[tuple[float, float, Replay]]) -> None:
    """The memory beside each dot; those of one trace at one height share a label."""
    labels: dict[tuple[str, int], list[tuple[float, float, Replay]]] = {}
    for dot in dots:
        labels.setdefault((dot[2].golden.trace, round(dot[1] / 2)), []).append(dot)
    for group in labels.values():
        text = ", ".join(each.golden.config.partition("_")[0] for _, _, each in group)
        axes.annotate(text, group[-1][:2], xytext=(5, -3), textcoords="offset points", fontsize=7,
                      color="#444444")  # fmt: skip


def _spread(shown: Sequence[Replay], each: Replay) -> float:
    """Configurations of one trace lie side by side, so that no dot hides another."""
    same = [other for other in shown if other.golden.trace == each.golden.trace]
    return 0.035 * (same.index(each) - (len(same) - 1) / 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
