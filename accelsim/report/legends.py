"""Legends that fit: long entries go on in a further line, columns are as many as the figure has room for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from accelsim.report.style import renderer
from accelsim.report.text import wrapped

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENTRY = (80, 48)
"""Characters of a line of an entry, and where that does not fit."""
BELOW: dict[str, Any] = {"loc": "outside lower center"}
"""Where a figure has its legend."""
LABEL_PT = 19
"""Height of the label of an x axis without ticks."""
MARGIN_PX = 10
"""Left free on both sides of a legend."""


def below(fig: Figure, axes: Axes | Sequence[Artist], most: int = 4) -> None:
    """The legend of ``axes``, or of these artists, under the whole figure, in at most ``most`` columns."""
    if isinstance(axes, Sequence):
        handles, labels = list(axes), [str(handle.get_label()) for handle in axes]
    else:
        handles, labels = axes.get_legend_handles_labels()
    _fitted(fig, fig, handles, labels, most, _width_px(fig) - 2 * MARGIN_PX, BELOW)


def under(fig: Figure, axes: Axes, most: int, share: float) -> None:
    """The legend of one of several axes under the label of its x axis, at most ``share`` of the figure wide."""
    from matplotlib.transforms import ScaledTranslation

    where: dict[str, Any] = {
        "loc": "upper left",
        "bbox_to_anchor": (0, 0),
        "bbox_transform": axes.transAxes + ScaledTranslation(0, -LABEL_PT / 72, fig.dpi_scale_trans),
        "borderaxespad": 0,
        "borderpad": 0,
    }
    _fitted(fig, axes, *axes.get_legend_handles_labels(), most, share * _width_px(fig), where)


def _fitted(
    fig: Figure,
    owner: Figure | Axes,
    handles: Sequence[Any],
    labels: Sequence[str],
    most: int,
    room_px: float,
    where: dict[str, Any],
) -> None:
    if not handles:
        return
    fewest = (1, ENTRY[-1])
    for columns, width in product(range(min(most, len(labels)), 0, -1), ENTRY):
        texts = ["\n".join(wrapped(label, width)) for label in labels]
        drawn = owner.legend(handles, texts, ncols=columns, **where)
        if (columns, width) == fewest or drawn.get_window_extent(renderer(fig)).width <= room_px:
            return
        drawn.remove()


def _width_px(fig: Figure) -> float:
    return float(fig.bbox.width)
