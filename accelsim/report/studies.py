"""Answers of studies: time per sample by batch, number formats across chips, where a chip overtakes another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelsim.explore.batching import PARTS, Batching, BatchPoint
from accelsim.explore.studies import Crossover, Ladder, crossover_sentences, error_text, ladder_sentences
from accelsim.report.answer import Answer, Field, Part, Table, in_unit
from accelsim.report.text import percent, si
from accelsim.time import FS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEGEND = "latency: of the whole batch; energy: of one sample; shares of the critical path, as in the report of a run:"
LINK_BUSY = "share of the time with a transfer on its way, also where it hides behind computing"


def batching(found: Batching) -> Answer:
    """Report latency, time and energy per sample by batch, and where the time goes."""
    rows = [_point(point) for point in found.points]
    facts = {
        "model": found.model, "chip": found.chip.name, "links": found.links,
        "fastest_batch": found.fastest.batch, "points": rows,
    }  # fmt: skip
    fields = [
        Field("batch", "batch"), Field("time_s", "latency", in_unit("s")),
        Field("s_per_sample", "per sample", in_unit("s")),
        Field("samples_per_s", "samples/s", in_unit()), Field("J_per_sample", "energy", in_unit("J")),
        *(Field(f"{part}_s", part, _share(f"{part}_s"), True, PARTS[part]) for part in found.parts),
    ]  # fmt: skip
    if found.links:
        fields += [
            Field("link_busy_s", "link busy", _share("link_busy_s"), True, LINK_BUSY),
            Field("link_B", "over the link", _sample_B, True, "bytes of one sample"),
        ]

    def picture() -> Figure:
        from accelsim.report.study_plot import time_per_sample

        return time_per_sample(found)

    return Answer(facts, [Table(fields, rows, legend=LEGEND)], rows, {"batching": picture})


def _sample_B(row: dict[str, Any]) -> str:
    return si(row["link_B"] / row["samples"], "B")


def _point(point: BatchPoint) -> dict[str, Any]:
    return {
        "batch": point.batch, "samples": point.samples, "time_s": point.time_fs * FS,
        "s_per_sample": point.seconds_per_sample, "samples_per_s": point.samples_per_s, "energy_J": point.energy_J,
        "J_per_sample": point.energy_J / point.samples, "link_B": point.link_B, "link_busy_s": point.link_fs * FS,
        **{f"{part}_s": spent * FS for part, spent in point.parts_fs.items()},
    }  # fmt: skip


def _share(key: str) -> Any:
    return lambda row: percent(row[key] / row["time_s"])


RUNGS = (
    Field("chip", "chip"), Field("dtype", "format"), Field("seconds", "per inference", in_unit("s")),
    Field("low", "90 %", lambda row: f"{si(row['low'], 's')} to {si(row['high'], 's')}" if row["low"] else "-", True),
    Field("joules", "energy", in_unit("J")), Field("error", "error", error_text),
)  # fmt: skip


def precision(found: Ladder) -> Answer:
    """Report time, energy and error of a model in the number formats of each chip."""
    rows, told = [rung._asdict() for rung in found.rungs], ladder_sentences(found)
    facts = {
        "model": found.model,
        "batch": found.batch,
        "rungs": rows,
        "lacking": found.lacking,
        "sentences": told,
    }

    def picture() -> Figure:
        from accelsim.report.study_plot import ladder

        return ladder(found)

    return Answer(facts, [Table(RUNGS, rows), *_apart(told)], rows, {"ladder": picture})


def crossover(found: Crossover) -> Answer:
    """Report time per sample by batch of several chips, and where each overtakes the first."""
    told = crossover_sentences(found)
    rows = [
        {"chip": series.chip.name, "batch": point.batch, "s_per_sample": point.seconds_per_sample,
         "link_s_per_sample": point.parts_fs["link"] * 1e-15 / point.samples,
         "J_per_sample": point.energy_J / point.samples}
        for series in found.series for point in series.points
    ]  # fmt: skip
    names = [series.chip.name for series in found.series]
    lines = zip(*(series.points for series in found.series), strict=True)
    wide = [
        {
            "batch": line[0].batch,
            **dict(zip(names, (point.seconds_per_sample for point in line), strict=True)),
        }
        for line in lines
    ]
    fields = [Field("batch", "batch"), *(Field(name, name, in_unit("s")) for name in names)]

    def picture() -> Figure:
        from accelsim.report.study_plot import crossing

        return crossing(found)

    facts = {"model": found.model, "points": rows, "sentences": told}
    shown = [Table(fields, wide), *_apart(["Times are of one sample.", *told])]
    return Answer(facts, shown, rows, {"crossover": picture})


def _apart(sentences: list[str]) -> list[Part]:
    """Each sentence as a paragraph, an empty line before it."""
    return [part for sentence in sentences for part in ("", sentence)]
