"""How far the fitted curves are from the CACTI points that they were fitted to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.sram.model import FIGURES, figure
from accelsim.sram.terms import Point
from accelsim.types import Floats


class Residual(NamedTuple):
    """Relative errors (model / CACTI - 1) of one quantity over the points of one node and cell."""

    node_nm: int
    cell: str
    quantity: str
    errors: Floats

    def quantile(self, share: float) -> float:
        """Quantile of their magnitudes."""
        return float(np.quantile(np.abs(self.errors), share))


def residuals(points: Sequence[Point]) -> list[Residual]:
    """One entry per node, cell and quantity, in the order of nodes and cells."""
    kinds = sorted({(point.node_nm, point.cell) for point in points})
    return [
        Residual(node, cell, name, _errors(name, (p for p in points if (p.node_nm, p.cell) == (node, cell))))
        for node, cell in kinds
        for name in FIGURES
    ]


def _errors(name: str, points: Iterable[Point]) -> Floats:
    return np.array(
        [figure(name, p.node_nm, p.cell, p.capacity_B, p.word_bits) / p.values[name] - 1 for p in points]
    )
