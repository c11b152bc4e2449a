"""Tables for the terminal that fit its width: cells of lists wrap, names of layers are shortened, then columns go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

from accelsim.errors import count_of
from accelsim.report.text import (
    MISSING,
    Facts,
    cut,
    folded,
    percent,
    seconds,
    short_names,
    shorten,
    si,
    unbroken,
    wrapped,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from accelsim.account.latency import Layer

GAP = 2


@dataclass(frozen=True)
class Column:
    """One column: ``rank`` 0 is never dropped, the highest goes first.

    ``least``: characters that it may be shortened to (None: never shortened) by ``shorten``. Titles and cells may
    have several lines.
    """

    title: str
    rank: int = 0
    right: bool = True
    least: int | None = None
    shorten: Callable[[str, int], str] = shorten


LAYER_COLUMNS = (
    Column("#", 0),
    Column("layer", 0, right=False, least=29),
    Column("operator", 7, right=False, least=24, shorten=cut),
    Column("MACs", 6),
    Column("cycles", 8),
    Column("time", 0),
    Column("of run", 2),
    Column("bound by", 1, right=False, least=14, shorten=cut),
    Column("of peak", 4),
    Column("DRAM", 5),
    Column("energy", 0),
)
"""Columns of the per-layer table. 'time' is what the layer adds to the latency: its time on the critical path."""


def fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> tuple[list[int], list[int]]:
    """Return the indices of the columns that stay and their widths, so that a row is at most ``width`` characters.

    Empty columns go; then it shortens (the widest name loses first), drops by rank, and shortens as far as it takes.
    """
    widths = [max(_wide(column.title), *(_wide(row[i]) for row in rows), 1) for i, column in enumerate(columns)]
    kept = [i for i, column in enumerate(columns) if not column.rank or any(row[i] for row in rows)]

    def excess() -> int:
        return sum(widths[i] for i in kept) + GAP * (len(kept) - 1) - width

    droppable = sorted((i for i in kept if columns[i].rank), key=lambda i: -columns[i].rank)
    while excess() > sum(widths[i] - _floor(columns[i], widths[i]) for i in kept) and droppable:
        kept.remove(droppable.pop(0))
    for hard in (False, True):
        while excess() > 0:
            choices = [i for i in kept if widths[i] > (3 if hard else _floor(columns[i], widths[i]))]
            if not choices:
                break
            widest = max(choices, key=lambda i: (widths[i], -i))
            widths[widest] -= 1
    return kept, [widths[i] for i in kept]


def _wide(text: str) -> int:
    return max(map(len, text.split("\n")))


def _floor(column: Column, width: int) -> int:
    return width if column.least is None else min(width, max(column.least, _wide(column.title)))


def _shortened(column: Column, text: str, width: int) -> str:
    return "\n".join(column.shorten(line, width) for line in text.split("\n"))


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int = 80,
    title: str = "",
    footer: Sequence[str] | None = None,
) -> Table:
    """Return a rich table of text cells that is at most ``width`` characters wide; one line per row.

    ``footer`` is a last row, set off by a rule.
    """
    from rich import box
    from rich.table import Table

    body = [*rows, footer] if footer is not None else list(rows)
    kept, widths = fit(columns, body, width)
    result = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="bold",
    )
    for index, space in zip(kept, widths, strict=True):
        column = columns[index]
        result.add_column(
            _shortened(column, column.title, space),
            justify="right" if column.right else "left",
            no_wrap=True,
            width=space,
        )
    for number, row in enumerate(body):
        cells = [_shortened(columns[i], row[i], space) for i, space in zip(kept, widths, strict=True)]
        is_footer = footer is not None and number == len(body) - 1
        result.add_row(*map(_plain, cells), style="bold" if is_footer else None, end_section=number == len(rows) - 1)
    return result


def _plain(cell: str) -> Any:
    from rich.text import Text

    return Text(cell)


def layer_cells(layer: Layer, name: str, total_fs: int) -> list[str]:
    """Return the cells of one layer, in the order of ``LAYER_COLUMNS``."""
    return [
        str(layer.number) if layer.number else "",
        name,
        "" if name == layer.title else layer.title,
        si(layer.macs) if layer.macs else MISSING,
        f"{layer.cycles:,}",
        seconds(layer.added_fs),
        percent(layer.added_fs / total_fs if total_fs else 0.0),
        layer.bound if layer.own_fs or not layer.edge else MISSING,
        percent(layer.utilisation),
        si(layer.dram_B, "B"),
        si(layer.energy_J, "J"),
    ]


def layer_names(layers: Sequence[Layer]) -> list[str]:
    """Return short names of layers for tables and plots: the model's own where telling, else the title of the layer."""
    from accelsim.account.titles import is_own

    names = short_names([layer.name for layer in layers], [layer.label.split("+")[0] for layer in layers])
    return [
        name if is_own(layer.name) and not layer.edge else layer.title or name
        for name, layer in zip(names, layers, strict=True)
    ]


def layer_table(layers: Sequence[Layer], width: int = 80, most: int | None = None) -> Table:
    """Return the per-layer table with a total; ``time`` adds up to the latency, ``of run`` to 100 %.

    ``most``: only that many layers, those that add most to the latency, the largest first; the total is that of all.
    """
    from accelsim.account.latency import lines

    total_fs = sum(layer.added_fs for layer in layers)
    shown = lines(layers)
    named = list(zip(shown, layer_names(shown), strict=True))
    if most is not None:
        named = _costliest(named, most)
    rows = [layer_cells(layer, name, total_fs) for layer, name in named]
    footer = [
        "", "total", "", si(sum(layer.macs for layer in layers)), "", seconds(total_fs), percent(1.0),
        "", "",
        si(sum(layer.dram_B for layer in layers), "B"), si(sum(layer.energy_J for layer in layers), "J"),
    ]  # fmt: skip
    return table(LAYER_COLUMNS, rows, width, footer=footer)


def _costliest(named: list[tuple[Layer, str]], most: int) -> list[tuple[Layer, str]]:
    """Return the costliest layers first, between the conversions; all layers in their order if they fit."""
    found = [row for row in named if row[0].number]
    if most >= len(found):
        return named
    top = sorted(found, key=lambda row: (-row[0].added_fs, row[0].index))[:most]
    ends = {end: [row for row in named if row[0].edge == end] for end in ("input", "output")}
    return [*ends["input"], *top, *ends["output"]]


def summary_rows(summary: Facts) -> list[tuple[str, str]]:
    """Return names and values of the summary, with units."""
    from accelsim.account.latency import COUNTED
    from accelsim.machine.memory_models import DEFAULT, MODELS

    peak = f" of {si(summary['peak_TOPS'] * 1e12, 'OPS', 4)}" if summary["peak_TOPS"] else ""
    peak += f" ({percent(summary['utilisation'])})" if summary["utilisation"] is not None else ""
    rate = si(None if summary["achieved_TOPS"] is None else summary["achieved_TOPS"] * 1e12, "OPS")
    split, rate_ends = summary["array_percent"], summary.get("throughput_interval_per_s")
    rows = [
        ("chip", f"{summary['chip_title']} ({summary['chip']})"),
        ("model", f"{summary['model']}, {summary['dtype']}, batch {summary['batch']}, values {summary['values']}"),
        ("latency", latency_text(summary)),
        ("throughput", f"{si(summary['throughput_per_s'])} {summary['counts']}/s{_ends(rate_ends)}"),
        ("energy", energy_text(summary)),
        (f"energy per {COUNTED[summary['counts']]}", si(summary["energy_per_inference_J"], "J", 4)),
        ("average power", si(summary["power_average_W"], "W") + _ends(summary.get("power_interval_W"), "W")),
        ("achieved", f"{rate}{peak}"),
    ]
    if summary["counts"] == "passes":
        layers = count_of(summary["layers"], "layer")
        rows.insert(2, ("a pass", f"each of its {layers} once; nothing says that they are a network"))
    if split:
        parts = ", ".join(f"{name} {share:.1f}%" for name, share in split.items())
        rows.append(("array cycles", parts))
    rows += [
        (f"{name} traffic", f"{si(flow['read_B'], 'B')} read, {si(flow['write_B'], 'B')} written")
        for name, flow in (summary["traffic"] | summary["levels"]).items()
    ]
    rows += [(f"{name} hits", cache_text(level)) for name, level in summary["levels"].items() if "hits" in level]
    if summary["memory_model"] != DEFAULT:
        rows.append(("memory model", f"{summary['memory_model']}: {MODELS[summary['memory_model']].text}"))
    if summary["layers_on_host"]:
        rows.append(("on the host", f"{summary['layers_on_host']} of {count_of(summary['layers'], 'layer')}"))
    return rows


def _ends(ends: Sequence[float] | None, unit: str = "") -> str:
    """', 90 %: 80 to 120', '' for none."""
    return f", 90 %: {si(ends[0], unit)} to {si(ends[1], unit)}" if ends else ""


def latency_text(summary: Facts) -> str:
    """'3.21 ms, 90 %: 2.9 ms to 3.6 ms', with 'uncalibrated' where that comes of other chips, else 'in any lab' or 'in
    this lab'."""
    text, interval = si(summary["latency_s"], "s", 4), summary.get("latency_interval")
    if interval is None:
        return text
    text += _ends((interval["low_s"], interval["high_s"]), "s")
    share = interval["calibrated"]
    if not share:
        return f"{text}, uncalibrated"
    lab = " in any lab" if interval["any_lab"] else " in this lab"
    return f"{text}{lab}{'' if share == 1 else f', {percent(share)} of it calibrated'}"


def energy_text(summary: Facts) -> str:
    """'2.46 J, 90 %: 1.8 J to 3.4 J' where measured power tells how far off such energies are."""
    interval = summary.get("energy_interval")
    return si(summary["energy_J"], "J", 4) + _ends(interval and (interval["low_J"], interval["high_J"]), "J")


def cache_text(level: Facts) -> str:
    """Return what a cache did, by its entry in ``summary['levels']``."""
    asked = level["hits"] + level["misses"]
    moved = {"fetched": "fetched_B", "written back": "written_back_B", "through": "through_B", "left": "dirty_B"}
    parts = [f"{si(level[key], 'B')} {what}" for what, key in moved.items() if level[key]]
    return f"{percent(level['hit_rate'])} of {asked:,}; {', '.join(parts) or 'nothing moved'}"


def summary_table(summary: Facts, width: int = 80) -> Table:
    """Return the summary as a table of two columns."""
    columns = (Column("run", right=False), Column("", right=False, least=20, shorten=cut))
    return table(columns, summary_rows(summary), width)


def energy_rows(summary: Facts) -> list[tuple[str, str, str]]:
    """Return category, energy and share, from the arithmetic outwards."""
    total = summary["energy_J"]
    return [
        (name, si(energy, "J"), percent(energy / total if total else 0.0))
        for name, energy in summary["energy_by_category_J"].items()
    ]


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]], width: int = 80, title: str = "") -> Table:
    """Lay out any list (chips, models, checks): titles and texts wrap; where that is not enough, later columns go, and
    a line below says which.

    Columns whose cells all are numbers are set flush right.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max((_wide(row[index]) for row in cells), default=0) for index in range(len(headers))]
    fits = sum(map(max, widths, map(len, headers))) + GAP * (len(headers) - 1) <= width
    columns = []
    for index, header in enumerate(headers):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        shown = header if fits else "\n".join(wrapped(header, max(widths[index], *map(len, header.split()), 1)))
        least = None if numeric else max(8, *(unbroken(row[index]) for row in cells), 0)
        columns.append(Column(shown, index, right=numeric, least=least, shorten=folded))
    result = table(columns, cells, width, title)
    kept, _ = fit(columns, cells, width)
    filled = [index for index in range(len(headers)) if any(row[index] for row in cells)]
    if missing := [headers[index] for index in filled if index not in kept]:
        needed = sum(max(widths[i], _wide(headers[i])) + GAP for i in filled) - GAP
        result.caption = f"No room for {', '.join(missing)}; COLUMNS={needed} shows all."
        result.caption_justify, result.caption_style = "left", ""
    return result


def render(renderable: RenderableType, width: int = 80, color: bool = False) -> str:
    """Return a table or text as lines of at most ``width`` characters; ``color``: with colour codes."""
    from rich.console import Console

    stream = StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        legacy_windows=False,
        emoji=False,
    )
    console.print(renderable)
    return stream.getvalue()
