"""Answers of studies: time per sample by batch, number formats across chips, where a chip overtakes another."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from accelsim.account.host_link import PARTS
from accelsim.explore.batching import Batching
from accelsim.explore.studies import Crossover, Ladder, crossover_sentences, error_text, ladder_sentences
from accelsim.report.answer import Answer, Field, Part, Table, in_unit, records
from accelsim.report.picture import Axis, Panel, Picture, bars, line, stacked
from accelsim.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW, Look
from accelsim.report.text import Facts, percent, si
from accelsim.time import FS

LEGEND = "latency: of the whole batch; energy: of one sample; shares of the critical path, as in the report of a run:"
LINK_BUSY = "share of the time with a transfer on its way, also where it hides behind computing"


def batching(found: Batching) -> Answer:
    """Report latency, time and energy per sample by batch, and where the time goes."""
    rows = [
        row | {f"{part}_s": spent * FS for part, spent in point.parts_fs.items()}
        for row, point in zip(records(POINT, found.points), found.points, strict=True)
    ]
    facts = {
        "model": found.model,
        "chip": found.chip.name,
        "links": found.links,
        "fastest_batch": found.fastest.batch,
        "points": rows,
    }
    fields = [*POINT, *(Field(f"{part}_s", part, _share(f"{part}_s"), True, PARTS[part]) for part in found.parts)]
    if found.links:
        fields += [
            Field("link_busy_s", "link busy", _share("link_busy_s"), True, LINK_BUSY),
            Field("link_B", "over the link", _sample_B, True, "bytes of one sample"),
        ]

    pictures = {"batching": partial(time_per_sample, found)}
    return Answer(facts, [Table(fields, rows, legend=LEGEND)], rows, pictures)


def _sample_B(row: Facts) -> str:
    return si(row["link_B"] / row["samples"], "B")


POINT: tuple[Field, ...] = (
    Field("batch", "batch"),
    Field("samples"),
    Field("time_s", "latency", in_unit("s"), read=lambda point: point.time_fs * FS),
    Field("s_per_sample", "per sample", in_unit("s"), read=lambda point: point.seconds_per_sample),
    Field("samples_per_s", "samples/s", in_unit()),
    Field("energy_J"),
    Field("J_per_sample", "energy", in_unit("J"), read=lambda point: point.energy_J / point.samples),
    Field("link_B"),
    Field("link_busy_s", read=lambda point: point.link_fs * FS),
)
"""Columns about a batch, which are read of ``BatchPoint``."""


def _share(key: str) -> Any:
    return lambda row: percent(row[key] / row["time_s"])


RUNGS = (
    Field("chip", "chip"),
    Field("dtype", "format"),
    Field("seconds", "per inference", in_unit("s")),
    Field("low", "90 %", lambda row: f"{si(row['low'], 's')} to {si(row['high'], 's')}" if row["low"] else "-", True),
    Field("joules", "energy", in_unit("J")),
    Field("error", "error", error_text),
)


def precision(found: Ladder) -> Answer:
    """Report time, energy and error of a model in the number formats of each chip."""
    rows, told = [rung._asdict() for rung in found.rungs], ladder_sentences(found)
    facts = {"model": found.model, "batch": found.batch, "rungs": rows, "lacking": found.lacking, "sentences": told}
    return Answer(facts, [Table(RUNGS, rows), *_apart(told)], rows, {"ladder": partial(ladder, found)})


def crossover(found: Crossover) -> Answer:
    """Report time per sample by batch of several chips, and where each overtakes the first."""
    told = crossover_sentences(found)
    rows = [
        {
            "chip": series.chip.name,
            "batch": point.batch,
            "s_per_sample": point.seconds_per_sample,
            "link_s_per_sample": point.parts_fs["link"] * 1e-15 / point.samples,
            "J_per_sample": point.energy_J / point.samples,
        }
        for series in found.series
        for point in series.points
    ]
    names = [series.chip.name for series in found.series]
    lines = zip(*(series.points for series in found.series), strict=True)
    wide = [
        {"batch": line[0].batch, **dict(zip(names, (point.seconds_per_sample for point in line), strict=True))}
        for line in lines
    ]
    fields = [Field("batch", "batch"), *(Field(name, name, in_unit("s")) for name in names)]
    facts = {"model": found.model, "points": rows, "sentences": told}
    shown = [Table(fields, wide), *_apart(["Times are of one sample.", *told])]
    return Answer(facts, shown, rows, {"crossover": partial(crossing, found)})


def _apart(sentences: list[str]) -> list[Part]:
    return [part for sentence in sentences for part in ("", sentence)]


COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW)
LOOKS = {
    "compute": Look(BLUE),
    "host": Look(YELLOW, "xxxx"),
    "link": Look(ORANGE, "||||"),
    "memory": Look(VERMILLION, "\\\\\\\\"),
    "other": Look("#cfcfcf"),
}
"""Part of the time of a batch -> colour and hatch."""


def ladder(found: Ladder) -> Picture:
    """Draw per chip a bar for each format: time of an inference with its interval, energy, error of a product."""
    formats = sorted({rung.dtype for rung in found.rungs}, key=found.formats.index)
    wide, rungs = 0.8 / len(formats), []
    for place, chip in enumerate(found.chips):
        mine = found.rungs_of(chip)
        rungs += [(place + (index - (len(mine) - 1) / 2) * wide, rung) for index, rung in enumerate(mine)]
    panels = []
    names = Axis(names=[found.rungs_of(chip)[0].title for chip in found.chips])
    for label, unit, field in (("time", "s", "seconds"), ("energy", "J", "joules"), ("error", "", "error")):
        marks = []
        for dtype, color in zip(formats, COLOURS * len(formats), strict=False):
            own = [(x, getattr(rung, field)) for x, rung in rungs if rung.dtype == dtype]
            x, values = zip(*own, strict=True)
            marks.append(bars(x, values, dtype, color, wide=wide * 0.92))
        text = in_unit(unit) if unit else "{:g}".format
        panels.append(Panel("", marks, names, Axis(label, scale="log", text=text), grid="y"))
    whiskers = [line([x, x], [rung.low, rung.high], linewidth=1) for x, rung in rungs if rung.low]
    title = f"{found.model}, batch {found.batch}: an inference by number format"
    caption = "whiskers: 90 % interval; error: root mean square of a product of K = 1024 by the chip's own rule"
    first = replace(panels[0], title=title, note=caption, marks=[*panels[0].marks, *whiskers])
    return Picture(6.6, [first, *panels[1:]], legend=7, share="x")


def crossing(found: Crossover) -> Picture:
    """Draw time per sample by batch: a line for each chip, and what would be left without waiting for transfers."""
    marks = []
    for series, colour in zip(found.series, COLOURS * len(found.series), strict=False):
        batches = [point.batch for point in series.points]
        times = [point.seconds_per_sample for point in series.points]
        marks.append(line(batches, times, series.chip.title, colour, marker="o"))
        if series.links:
            rest = [point.seconds_per_sample - point.per_sample_s("link") for point in series.points]
            marks.append(line(batches, rest, "", colour, ":"))
    x = Axis("batch size", scale="log", names={batch: str(batch) for batch in batches})
    y = Axis("time per sample", scale="log", text=in_unit("s"))
    caption = "dotted: without waiting for transfers to and from the host"
    title = f"{found.model}: time per sample by batch size"
    return Picture(4.6, [Panel(title, marks, x, y, caption, "both")], legend=4)


def time_per_sample(found: Batching) -> Picture:
    """Draw stacked bars of the time per sample, and below them samples per second."""
    series = {part: [point.per_sample_s(part) for point in found.points] for part in found.parts}
    places, rates = range(len(found.points)), [point.samples_per_s for point in found.points]
    longest, best = max(map(sum, zip(*series.values(), strict=True))), found.fastest
    kinds = " and ".join(dict.fromkeys(found.links.values())) or "no link"
    each = f"{si(best.samples_per_s)}/s, {si(best.seconds_per_sample, 's')} each"
    caption = f"host over {kinds}; most samples per second at batch {best.batch}: {each}"
    title = f"{found.model} on {found.chip.name}: time per sample against batch size"
    x = Axis("batch size", names=[str(point.batch) for point in found.points])
    time = Axis("time per sample", "s", low=0, high=1.06 * longest)
    rate = Axis("samples per s", low=0, high=1.15 * max(rates), text=in_unit())
    panels = [
        Panel(title, stacked(places, series, LOOKS, PARTS), x, time, caption, "y"),
        Panel("", [line(places, rates, marker="o")], x, rate, grid="y"),
    ]
    return Picture(5.6, panels, legend=2, share="x", ratios=(2.4, 1))
