"""Declarations of pictures as data of a page, which ``assets/chart.js`` draws: JSON with all places on the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil, floor, inf, log10
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from accelsim.report.page.form import PictureData
from accelsim.report.picture import Axis, Mark, Panel, Picture, Values, ends
from accelsim.report.style import INK, tick_text
from accelsim.report.text import si
from accelsim.types import Array

Json: TypeAlias = "dict[str, object]"
PX_PER_IN, PX_PER_PT = 80, 4 / 3
"""Height of a picture on the page; size of its texts."""
LEAST_PX = 130
LEAST = 0.0005
"""Share of a bar from which on a part is in the legend."""
MARGIN = 0.05
"""Share of an axis that stays free beyond its values."""
TICKS = ((6, (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)), (300, (1, 2, 5)), (inf, (1,)))
"""Ratio of the ends of a logarithmic axis -> the ticks of a decade."""
LAYERS = {"line": 2, "rule": 2, "note": 3}
"""Kind of mark -> when it is painted; others before these."""
BOXES = ("spans", "bars", "flat bars", "boxes", "strokes")


class Drawn(NamedTuple):
    """A picture of a page: its ``name`` among the parts of the page, what it shows, how to read it.

    ``note``: what was left out; ``texts``: those that columns refer to by number.
    """

    name: str
    title: str
    caption: str
    picture: Picture
    note: str = ""
    texts: Sequence[str] = ()

    def data(self) -> PictureData:
        """Return all that the page has of the picture."""
        drawn = self.picture
        ratios = drawn.ratios or [1] * -(-len(drawn.panels) // drawn.across)
        heights = [drawn.height_in * PX_PER_IN * ratio / sum(ratios) for ratio in ratios]
        return {
            "name": self.name,
            "title": self.title,
            "caption": f"{self.caption} {self.note}".strip(),
            "across": drawn.across,
            "panels": [
                self._panel(panel, max(LEAST_PX, round(heights[number // drawn.across])))
                for number, panel in enumerate(drawn.panels)
            ],
            "texts": list(self.texts),
        }

    def _panel(self, panel: Panel, height_px: int) -> Json:
        """Return a panel; its title is left out where the picture has the same, and read out in any case."""
        x, y = (_Way.of(axis, panel.marks, which) for which, axis in enumerate((panel.x, panel.y)))
        title = ", ".join(filter(None, panel.title.split("\n")))
        return {
            "title": "" if title == self.title else title,
            "label": ": ".join(dict.fromkeys(filter(None, (self.title, title)))),
            "note": panel.note,
            "height": height_px,
            "bare": panel.bare,
            "equal": panel.equal,
            "x": x._asdict() | {"grid": panel.grid in ("x", "both")},
            "y": y._asdict() | {"grid": panel.grid in ("y", "both")},
            "marks": [_mark(mark, (x, y)) for mark in sorted(panel.marks, key=_layer)],
            **panel.page,
        }


def _layer(mark: Mark) -> float:
    """Return the order in which marks are painted, as matplotlib has it."""
    return float(mark.look.get("zorder", LAYERS.get(mark.kind, 1)))


class _Way(NamedTuple):
    """An axis of a page: both its ends, and its ticks where they are texts (value, text)."""

    label: str
    unit: str
    factor: float
    log: bool
    low: float
    high: float
    names: list[tuple[float, str]] | None

    @classmethod
    def of(cls, axis: Axis, marks: Sequence[Mark], which: int) -> _Way:
        """Return the axis with number ``which`` (0: to the right) of a panel with ``marks``."""
        log, names = axis.scale != "linear", axis.names
        shown = names if isinstance(names, Mapping) or names is None else dict(enumerate(names))
        if which and shown and not isinstance(names, Mapping):
            low, high = len(shown) - 0.4, -0.6
        else:
            low, high = _limits(axis, _values(marks, which, log), log)
        if log and shown is None:
            text = axis.text or (partial(si, unit=axis.unit) if axis.unit else tick_text)
            first, last = sorted((low, high))
            parts = next(parts for most, parts in TICKS if last / first < most)
            decades = range(floor(log10(first)), ceil(log10(last)) + 1)
            places = [part * 10.0**power for power in decades for part in parts]
            shown = {place: text(place) for place in places if first <= place <= last}
        ticks = None if shown is None else [(float(place), str(name)) for place, name in shown.items()]
        return cls(axis.label, axis.unit, axis.factor, log, low, high, ticks)


def _values(marks: Sequence[Mark], which: int, log: bool) -> list[float]:
    """Return all places along an axis, those where its bars and areas begin too."""
    begun = (("flat bars",), ("bars", "area"))[which]
    bases = [float(base) for mark in marks if mark.kind in begun for base in mark.base]
    return [value for value in (*ends(marks, which), *bases) if value > 0 or not log]


def _limits(axis: Axis, values: Sequence[float], log: bool) -> tuple[float, float]:
    first, last = (min(values), max(values)) if values else (1.0, 10.0)
    low, high = axis.low, axis.high
    if log:
        room = (last / first) ** MARGIN if last > first else 2.0
        return (first / room if low is None else low), (last * room if high is None else high)
    spread = (last - first) * MARGIN or abs(first) or 1.0
    return (first - spread * (first != 0) if low is None else low), (last + spread if high is None else high)


def _mark(mark: Mark, axes: Sequence[_Way]) -> Json:
    look = dict(mark.look)
    colour = look.get("color", look.get("facecolor", look.get("facecolors", look.get("c", INK))))
    found: Json = {"kind": mark.kind, "label": mark.label, "colour": colour, "columns": {}, **mark.page}
    if mark.kind in BOXES:
        return found | _boxes(mark, mark.page.get("columns", {}), axes)
    found |= {"dash": look.get("linestyle", "-"), "wide": look.get("linewidth", 1.5), "kind": "line"}
    x, y = np.asarray(mark.x), np.asarray(mark.y)
    match mark.kind:
        case "line":
            found |= {"marker": look.get("marker", ""), "size": look.get("ms", look.get("markersize", 6)) * PX_PER_PT}
            x, y = _stepped(x, y, "drawstyle" in look)
        case "area":
            found |= {"alpha": look.get("alpha", 1), "fill": True}
            (x, y), (back, low) = (_stepped(x, values, "step" in look) for values in (y, np.asarray(mark.base)))
            x, y = np.concatenate([x, back[::-1]]), np.concatenate([y, low[::-1]])
        case "rule":
            ends_of = [[axis.low, axis.high] for axis in axes]
            x, y = (np.repeat(x, 2), np.array(ends_of[1])) if len(x) else (np.array(ends_of[0]), np.repeat(y, 2))
        case "dots":
            found |= {
                "marker": "o",
                "dash": "none",
                "size": [PX_PER_PT * size**0.5 for size in look["s"]],
                "alpha": 0.8,
            }
        case "note":
            box = look.get("bbox") or {}
            found |= {
                "kind": "note", "text": mark.label, "shift": list(look["xytext"]), "side": look["ha"],
                "edge": "xycoords" in look, "box": box.get("facecolor", "").replace("white", "#ffffff"),
                "colour": colour.replace("white", "#ffffff"),
            }  # fmt: skip
    return found | {"x": _numbers(x), "y": _numbers(y)}


def _stepped(x: Array, y: Array, steps: bool) -> tuple[Array, Array]:
    """Return the corners of a line, of one in steps both ends of each step."""
    return (np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]) if steps else (x, y)


def _boxes(mark: Mark, columns: Mapping[str, object], axes: Sequence[_Way]) -> Json:
    """Return bars and spans alike: where each begins, how far it goes, where it stands, how high it is.

    Bars of nothing are left out; whole numbers are kept as differences, which pack well.
    """
    x, y, base = (np.asarray(values) for values in (mark.x, mark.y, mark.base))
    size: Any = mark.look.get("size", mark.look.get("height", mark.look.get("width")))
    columns = {name: _numbers(values) for name, values in columns.items()}
    if mark.kind in ("bars", "flat bars"):
        values, places = (x, y) if mark.kind == "flat bars" else (y, x)
        kept = values != 0
        columns = {name: np.asarray(each)[kept].tolist() for name, each in columns.items()}
        columns["value"] = _numbers(values[kept])
        values, places, base = values[kept], places[kept], base[kept]
        axis = axes[0 if mark.kind == "flat bars" else 1]
        share = float(max(values, default=0)) / (abs(axis.high - axis.low) or 1.0)
        if mark.kind == "flat bars":
            found = {"start": _numbers(base), "span": _numbers(values), "low": _numbers(places - size / 2)}
        else:
            found = {"start": _numbers(places - size / 2), "span": [size] * len(places), "low": _numbers(base)}
            size = _numbers(values)
        return {"kind": "boxes", "columns": columns, "size": size, "share": share, **found}
    if mark.kind == "strokes":
        tall = _numbers(y - base)[0]
        return {
            "kind": "boxes",
            "columns": columns,
            "start": _numbers(x),
            "span": [0] * len(x),
            "low": _numbers(base)[0],
            "size": tall,
        }
    steps = {"steps": np.diff(base, prepend=base.dtype.type(0)).tolist()} if base.dtype.kind in "iu" else {}
    low = (y - size / 2).tolist()[0] if mark.kind == "spans" else _numbers(y)
    found = {"span": _numbers(x - base), "low": low, "size": _numbers(size) if np.ndim(size) else size}
    return {"kind": "boxes", "columns": columns, **found, **(steps or {"start": _numbers(base)})}


def _numbers(values: Values | Array | object) -> Any:
    return np.asarray(values).tolist()
