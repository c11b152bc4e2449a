"""The report of the energy hierarchy of Eyeriss: stacked bars per layer, a table, and what the model cannot show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.files import table, text, write_folder
from accelsim.report.looks import CATEGORY_LOOKS
from accelsim.report.style import INK, figure, picture, styled, subtitle
from accelsim.report.text import percent
from tests.validation.anchors import published
from tests.validation.eyeriss import (
    ACCESSES,
    BATCH,
    CLAIM,
    DRAM_COST,
    LEVELS,
    Split,
    alexnet_run,
    bound_in_words,
    fc_shares,
    most_dram_share,
    remarks,
    splits,
    statements,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE, TABLE, PAGE = "hierarchy.png", "layers.csv", "README.md"
NAMES = {"MAC": "multiply-accumulate", "register": "registers of the PEs", "network": "way from PE to PE",
         "buffer": "global buffer", "DRAM": "DRAM"}  # fmt: skip
"""Level -> words of the legend."""
LABELLED = 0.06
"""Share of the longest bar from which a part has its percentage in it."""


def draw(found: Sequence[Split], shares: dict[int, float]) -> Figure:
    """Energy per multiply-accumulate of each layer by level; ``shares``: batch -> DRAM's share of the FC layers."""
    with styled():
        drawn, (left, right) = figure(4.6, 1, 2, width_ratios=(5, 3))
        _bars(left, found)
        _shares(right, shares)
        handles, labels = left.get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return drawn


def _bars(axes: Axes, found: Sequence[Split]) -> None:
    longest = max(split.total / split.macs for split in found)
    start = [0.0] * len(found)
    for level, category in LEVELS.items():
        look = CATEGORY_LOOKS[category]
        parts = [split.energy[level] / split.macs for split in found]
        axes.bar(range(len(found)), parts, 0.78, bottom=start, label=NAMES[level], color=look.color, hatch=look.hatch,
                 edgecolor="white", linewidth=0.3)  # fmt: skip
        for place, (part, split) in enumerate(zip(parts, found, strict=True)):
            if part >= LABELLED * longest:
                axes.text(place, start[place] + part / 2, f"{100 * split.share(level):.0f}%", ha="center", va="center",
                          fontsize=7.5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip
        start = [below + part for below, part in zip(start, parts, strict=True)]
    axes.set_xticks(range(len(found)), [split.name for split in found])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("energy per multiply-accumulate (in multiplications)")
    axes.grid(True, axis="y")
    axes.set_title(f"AlexNet, batch {BATCH}: energy by level", pad=20)
    subtitle(axes, "costs of Eyeriss (ISCA 2016, Table IV) on a systolic array of 12 x 14")


def _shares(axes: Axes, shares: dict[int, float]) -> None:
    places = range(len(shares))
    color = CATEGORY_LOOKS["off-chip memory"].color
    axes.bar(places, [100 * share for share in shares.values()], 0.6, color=color)
    for place, (batch, share) in enumerate(shares.items()):
        axes.text(place, 100 * share - 4, percent(share), ha="center", va="top", fontsize=8, color="white")
        axes.hlines(100 * most_dram_share(batch), place - 0.4, place + 0.4, color=INK, linewidth=2)
    axes.axhline(100 * CLAIM, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    batch = max(shares)
    axes.annotate(f"bound {percent(most_dram_share(batch))}", (len(shares) - 1, 100 * most_dram_share(batch)),
                  xytext=(0, 4), textcoords="offset points", ha="center", fontsize=7.5)  # fmt: skip
    axes.set_xticks(places, [str(batch) for batch in shares])
    axes.set_xlabel("batch")
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(0, 100)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("DRAM, % of the FC layers")
    axes.set_title("FC: a batch shares weights", pad=20)
    subtitle(axes, f"bound: MAC and registers alone cost {1 + ACCESSES}")


def write(folder: Path, command: str) -> list[str]:
    """Write the report into ``folder``; returns the names of its files. ``command`` is what made it."""
    found = splits(alexnet_run(BATCH))
    header = ["layer", "macs", *(f"{level}_energy" for level in LEVELS), "dram_words"]
    rows = [[split.name, split.macs, *(split.energy[level] for level in LEVELS), split.dram_words] for split in found]
    drawn = draw(found, fc_shares())
    files = {
        PAGE: text(page(found, command)),
        TABLE: table(header, rows),
        PICTURE: picture(drawn, Path(PICTURE).suffix),
    }
    write_folder(folder, files)
    return list(files)


def page(found: Sequence[Split], command: str) -> str:
    """The page in Markdown."""
    said = "\n".join(f"- {text}: {'holds' if holds else '**does not hold**'}" for text, holds, _ in statements(found))
    notes = "\n".join(f"- {remark}" for remark in remarks(published("eyeriss")))
    return (
        f"# AlexNet under the energy hierarchy of Eyeriss\n\nMade by `{command}`. Do not edit.\n\n"
        f"Batch {BATCH}, 16 bits, energies in multiplications; counts are those of the simulated chip "
        "`eyeriss-hierarchy`, costs those of Table IV of the ISCA 2016 paper: multiply-accumulate 1, register 1, "
        "another PE 2 (the way 1, the register at its end 1), buffer 6, DRAM 200 per word.\n\n"
        f"![energy by level]({PICTURE})\n\n{_table(found)}\n\n"
        f"## What the paper says, as recalled\n\n{said}\n\n"
        f"## DRAM in the fully connected layers, by batch\n\n{_bounds(fc_shares())}\n\n{bound_in_words()}\n\n"
        f"## What to know\n\n{notes}\n"
    )


def _bounds(shares: dict[int, float]) -> str:
    """Return what a weight from DRAM costs each multiply-accumulate, DRAM's share and its bound, as a Markdown
    table."""
    rows = [
        [str(batch), f"{DRAM_COST / batch:g}", percent(share), percent(most_dram_share(batch))]
        for batch, share in shares.items()
    ]
    return _markdown(["batch", "a weight, per MAC", "DRAM's share", "most that it can be"], rows)


def _table(found: Sequence[Split]) -> str:
    """Energy per multiply-accumulate and the shares of the levels, as a Markdown table."""
    rows = [[split.name, f"{split.total / split.macs:.1f}", *(percent(split.share(level)) for level in LEVELS)]
            for split in found]  # fmt: skip
    return _markdown(["layer", "energy per MAC", *LEVELS], rows)


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    line = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, line, *rows))
