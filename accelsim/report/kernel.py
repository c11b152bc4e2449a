"""Answers about kernels that run alone: one of them, or one while a size grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np

from accelsim import files
from accelsim.errors import count_of
from accelsim.kernels import sweep
from accelsim.kernels.explain import columns, ends, interval_sentences, sentences
from accelsim.kernels.ops import FAMILY_OF, SIZES
from accelsim.kernels.predict import Kernels, usual_format
from accelsim.kernels.table import named_sizes, one, read_table
from accelsim.report.answer import Answer, Field, Lines, Part, Table
from accelsim.report.picture import Axis, Panel, Picture, area, line, points
from accelsim.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY
from accelsim.report.text import Facts
from accelsim.spec.chip import Chip
from accelsim.units import show

TILE_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)


def kernel_answer(op: str, dtype: str | None, sizes: Sequence[str], chip: Chip) -> Answer:
    """Report one kernel: tile, parts of K, waves, the part that binds, time with its interval.

    ``dtype``: None for the usual one of the chip; ``sizes``: as for ``named_sizes``. Raises UsageError.
    """
    kernels = Kernels(one(op, dtype or usual_format(chip), named_sizes(op, sizes)), chip)
    found = kernels.predicted(kernels.chip)
    interval, times = ends(kernels, found), found.times
    seconds, low, high = (float(each[0]) for each in (times.seconds, interval.low, interval.high))
    cells, spread = kernels.table.cells[0], str(interval.spread[0])
    facts: Facts = {
        "chip": kernels.chip.name, **cells, "predicted_us": seconds * 1e6, "low_us": low * 1e6, "high_us": high * 1e6,
        "calibrated": bool(interval.calibrated[0]), "interval": spread, "tile": str(times.tile[0]),
        "split": int(times.splits[0]), "waves": float(times.waves[0]), "binds": str(times.binds[0]),
        "bound_us": float(times.bound[0]) * 1e6,
    }  # fmt: skip
    rows = [
        ("sizes", ", ".join(f"{name} {value}" for name, value in cells.items() if name not in ("op", "dtype"))),
        ("time", f"{show(seconds, 's', 3)}, 90 %: {show(low, 's', 3)} to {show(high, 's', 3)}"),
    ]
    if facts["tile"]:
        parts = "parts of the keys" if kernels.table.groups[0].family == "attention" else "parts of K"
        rows += [("tile", facts["tile"]), (parts, str(facts["split"])), ("waves", f"{facts['waves']:.3g}")]
    fields = (Field("what", cells["op"]), Field("value", f"{cells['dtype']} on {kernels.chip.title}"))
    table = Table(fields, [{"what": what, "value": value} for what, value in [*rows, ("binds", facts["binds"])]])
    told = [*sentences(kernels, found, 0), *interval_sentences(kernels.chip, spread)]
    return Answer(facts, [table, "", " ".join(told)])


def growing(
    op: str,
    dtype: str | None,
    sizes: Sequence[str],
    over: str,
    chip: Chip,
    target: Path | None,
    told: Callable[[str], None],
) -> Answer:
    """Report a kernel while a size grows, and write its times to ``target``.

    ``over``: NAME=FIRST:LAST[:STEP]; ``sizes``: the others; ``told`` hears what is predicted. Raises UsageError.
    """
    named_sizes(op, ())
    wanted = sweep.parsed(over, SIZES[FAMILY_OF[op]])
    cells = named_sizes(op, sizes, wanted.name)
    told(f"predict {count_of(len(wanted.sizes), 'kernel')}")
    found = sweep.swept(op, dtype or usual_format(chip), cells, wanted, chip)
    written: list[Part] = []
    if target is not None:
        files.write_file(target, files.records(columns(found.kernels)))
        written = [f"{count_of(len(found.sizes), 'kernel')}: {target}"]
    shown: list[Part] = [" ".join(sweep.sentences(found)), *written]
    return Answer({}, shown, pictures={"staircase": partial(staircase, found)})


def table_answer(source: Path, chip: Chip, target: Path | None, told: Callable[[str], None]) -> Answer:
    """Predict the kernels of a table, and write them to ``target``, or show them. Raises UsageError."""
    table = read_table(source)
    told(f"predict {count_of(len(table.ops), 'kernel')}")
    made = files.records(columns(Kernels(table, chip)))
    if target is not None:
        files.write_file(target, made)
        return Answer({}, [Lines(f"{count_of(len(table.ops), 'kernel')}: {target}")])
    stream = BytesIO()
    made(stream)
    return Answer({}, [Lines(stream.getvalue().decode().removesuffix("\n"))])


def staircase(found: sweep.Sweep) -> Picture:
    """Draw time with its interval, in the colour of its tile, and the share of it that the stated peaks would need."""
    sizes, seconds, tiles = found.sizes, found.found.seconds, found.found.times.tile.astype(str)
    marks = [
        area(sizes, found.ends.low, found.ends.high, "90 % interval", color=GREY, alpha=0.25, lw=0),
        line(sizes, seconds, linewidth=0.6),
    ]
    names, counts = np.unique(tiles[tiles != ""], return_counts=True)
    frequent = names[np.argsort(-counts, kind="stable")].tolist()
    for name, colour in [*zip(frequent, TILE_COLOURS, strict=False), ("", GREY)]:
        mine = tiles == name if name else ~np.isin(tiles, ["", *frequent[: len(TILE_COLOURS)]])
        label = f"tile {name}" if name else "other tiles"
        marks += [points(sizes[mine], seconds[mine], label, colour, ".", ms=4)] if mine.any() else []
    cells, chip = found.kernels.table.cells[0], found.kernels.chip
    fixed = ", ".join(f"{name} {cells[name]}" for name in cells if name not in ("op", "dtype", found.name))
    state = "calibrated" if bool(found.ends.calibrated.all()) else "uncalibrated"
    title = f"{cells['op']} in {cells['dtype']} on {chip.title}, by {found.name}"
    caption = f"{fixed}; constants {state}; below: what the stated peaks would need of that time"
    time = Axis("time of the kernel", "s", low=0, high=1.05 * float(np.max(found.ends.high)))
    share = Axis("of the peaks, %", low=0, high=100)
    panels = [
        Panel(title, marks, y=time, note=caption),
        Panel("", [line(sizes, 100 * found.share, linewidth=1)], Axis(found.name), share),
    ]
    return Picture(5.4, panels, legend=4, share="x", ratios=(2.2, 1))
