"""The look of all plots: own figures (no pyplot state), a colour-blind-safe palette, deterministic files.

Colours are those of Okabe and Ito ("Color Universal Design", 2008), which differ in lightness too; whatever
is stacked also has a hatch, so that a grey print can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from threading import RLock
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from accelsim.files import Make, write_file
from accelsim.units import DIMENSIONS, parse, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

WIDTH_IN = 9.0
DPI = 120
SVG_DPI = 72
"""Dots per inch of every SVG that matplotlib writes."""
INK = "#222222"
FAINT = "#bbbbbb"

BLUE, SKY, GREEN, VERMILLION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
ORANGE, PURPLE, YELLOW, GREY = "#E69F00", "#CC79A7", "#F0E442", "#999999"


class Look(NamedTuple):
    """Colour and hatch of one kind of thing."""

    color: str
    hatch: str = ""


STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": "#666666",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.5,
    "text.color": INK,
    "text.parse_math": False,
    "svg.hashsalt": "accelsim",
    "svg.fonttype": "path",
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
}


DRAWING = RLock()
"""Held while something is drawn: matplotlib's defaults are one for all threads."""


@contextmanager
def styled() -> Iterator[None]:
    """Set matplotlib's defaults to ours inside, whatever the user's own settings are; one thread at a time."""
    from matplotlib import rc_context, rcdefaults

    with DRAWING, rc_context():
        rcdefaults()
        with rc_context(STYLE):  # type: ignore[arg-type]  # the stubs list every key as a literal
            yield


def figure(height_in: float, rows: int = 1, cols: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure of the common width with ``rows`` x ``cols`` axes (row by row), laid out without overlap."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    result = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    FigureCanvasAgg(result)
    axes = result.subplots(rows, cols, squeeze=False, **shared)
    return result, [axis for line in axes for axis in line]


def lay_out(fig: Figure) -> None:
    """Place the axes of a figure of ours, as drawing it would."""
    engine = fig.get_layout_engine()
    if engine is not None:
        engine.execute(fig)


def renderer(fig: Figure) -> RendererAgg:
    """Return what measures the texts of a figure of ours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    assert isinstance(fig.canvas, FigureCanvasAgg)
    return fig.canvas.get_renderer()  # type: ignore[no-untyped-call,no-any-return]


def save(drawn: Figure, path: Path) -> None:
    """Write the figure as PNG or SVG (by the suffix of ``path``): the same bytes for the same figure."""
    write_file(path, picture(drawn, path.suffix))


def picture(drawn: Figure, suffix: str) -> Make:
    """Makes a PNG, or where ``suffix`` is '.svg' an SVG."""

    def make(file: IO[bytes]) -> None:
        with styled():
            if suffix == ".svg":
                _write_svg(drawn, file)
            else:
                drawn.savefig(file, format="png", metadata={"Software": None})

    return make


def _write_svg(drawn: Figure, file: IO[bytes]) -> None:
    """Write a figure as SVG. ``Figure.savefig`` would walk through it a second time, only to lay it out."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    usual, dpi, engine = drawn.canvas, drawn.dpi, drawn.get_layout_engine()
    try:
        canvas = FigureCanvasSVG(drawn)
        drawn.dpi = SVG_DPI
        lay_out(drawn)
        drawn.set_layout_engine("none")
        canvas.print_svg(file, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    finally:
        drawn.set_canvas(usual)
        drawn.dpi = dpi
        drawn.set_layout_engine(engine)


def prefixed(values: Iterable[float], unit: str) -> tuple[float, str]:
    """Return a factor for values, and their unit with the prefix that suits the largest: (1e6, 'us')."""
    top = max((abs(value) for value in values if isfinite(value)), default=0.0)
    if not top:
        return 1.0, unit
    name = show(top, unit).rsplit(" ", 1)[-1]
    known = unit if unit in DIMENSIONS else "Hz"  # of a unit that specs do not have the prefix counts
    return 1.0 / parse(f"1 {name.removesuffix(unit)}{known}", known), name


def ticks(count: int, most: int) -> list[int]:
    """1 and the multiples of 1, 2, 5, 10, 20, ... up to ``count``, about ``most`` of them."""
    step = next(s * 10**power for power in range(9) for s in (1, 2, 5) if count <= most * s * 10**power)
    return sorted({1, *range(step, count + 1, step)})


def log_axis(axis: Axis, factor: float = 1.0) -> None:
    """Plain numbers (times ``factor``) for powers of ten; 2 and 5 are labelled where decades are few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    few = high / low < 300
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=20))
    axis.set_major_formatter(lambda value, _: tick_text(value * factor))
    axis.set_minor_formatter(NullFormatter())


def tick_text(value: float) -> str:
    """'0.001', '5', '20k': a prefix only where the number is large, since 100m reads like 100 million."""
    return f"{value:.3g}" if value < 1 else show(value, "", 3).replace(" ", "")


def subtitle(axes: Axes, text: str) -> None:
    """A line in small print between the title and the axes; the title needs ``pad=18``."""
    axes.annotate(
        text,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 5),
        textcoords="offset points",
        fontsize=8.5,
        color="#555555",
        va="bottom",
    )


def tint(color: str, share: float) -> str:
    """Mix so much of '#rrggbb' with white."""
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)
