"""Bus bandwidth of a collective against its size, one line per algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accelsim.cluster.collectives.choice import LIBRARY
from accelsim.errors import count_of
from accelsim.report.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    figure,
    log_axis,
    styled,
    subtitle,
)
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, GREY)
MARKS = ("o", "s", "^", "D", "v", "P", "X")
GIGA = 1e-9


def bus_bandwidths(
    kind: str, cluster: str, ranks: int, rows: Sequence[dict[str, Any]], said: str = ""
) -> Figure:
    """``rows``: those of ``accelsim.report.collectives.sweep``; ``said``: a sentence below the title."""
    with styled():
        fig, (axes,) = figure(4.6)
        names = sorted(
            dict.fromkeys(row["algorithm"] for row in rows), key=lambda name: (name == LIBRARY, name)
        )
        for index, name in enumerate(names):
            mine = [row for row in rows if row["algorithm"] == name]
            own = name == LIBRARY
            color, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
            axes.plot(
                [row["size_B"] for row in mine], [row["bus_Bps"] * GIGA for row in mine], marker=mark, markersize=4,
                color=INK if own else color, linewidth=2.2 if own else 1.3,
                linestyle="-" if own or index < len(COLOURS) else "--", label=name,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: show(value, "B", 4, binary=True))
        log_axis(axes.yaxis)
        axes.set_xlabel("size of the buffer")
        axes.set_ylabel("bus bandwidth (GB/s)")
        axes.grid(True)
        axes.set_title(f"{kind} among {count_of(ranks, 'device')} of {cluster}", pad=20)
        subtitle(axes, said)
        fig.legend(loc="outside lower center", ncols=5)
        return fig
