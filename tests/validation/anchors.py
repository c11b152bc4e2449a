"""Published figures against simulated ones: one row each, with the bound within which they must agree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.run import Run, Slice
from accelsim.machine.simulate import simulate
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph
from tests.validation.base import Check, within
from tests.validation.golden import golden


class Anchor(NamedTuple):
    """One figure. ``error`` is relative, or a difference of shares (1 point = 0.01); ``bound`` is its limit.

    A ``bound`` of None says that the figures are compared and nothing is claimed.
    """

    what: str
    published: float
    simulated: float
    error: float
    bound: float | None
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Return whether the two agree within the bound (which is part of the claim); True where nothing is claimed."""
        return self.bound is None or abs(self.error) <= self.bound

    def __str__(self) -> str:
        values = f"published {self.published:g}{self.unit}, simulated {self.simulated:.5g}{self.unit}"
        return f"{self.what}: {values}, error {_size(self.error, self.unit, sign=True)} ({self._verdict()})"

    def _verdict(self) -> str:
        if self.bound is None:
            return "compared, nothing is claimed"
        bound = "exactly" if self.bound == 0 else f"within {_size(self.bound, self.unit)}"
        return f"{'holds' if self.holds else 'DOES NOT HOLD'} {bound}"


def _size(error: float, unit: str, sign: bool = False) -> str:
    return f"{100 * error:{'+' if sign else ''}.3g} {'points' if unit == '%' else '%'}"


def relative(what: str, published: float, simulated: float, bound: float | None, unit: str = "") -> Anchor:
    """A figure whose error is simulated / published - 1."""
    return Anchor(what, published, simulated, simulated / published - 1, bound, unit)


def points(what: str, published: float, simulated: float, bound: float | None) -> Anchor:
    """A percentage whose error is the difference in points; ``bound`` in points too."""
    limit = None if bound is None else bound / 100
    return Anchor(what, published, simulated, (simulated - published) / 100, limit, "%")


def outcome(name: str, what: str, anchors: Sequence[Anchor], remarks: Sequence[str]) -> Check:
    """The check: a row per anchor that claims something, ``equal`` those that hold; errors of claimed rows alone.

    The details are all anchors, then ``remarks``.
    """
    claimed = [anchor for anchor in anchors if anchor.bound is not None]
    errors = np.array([anchor.error for anchor in claimed])
    held = sum(anchor.holds for anchor in claimed)
    details, bounds = [*map(str, anchors), *remarks], [_limit(anchor) for anchor in claimed]
    return Check(name, what, len(claimed), held, errors, details, within(bounds), len(anchors) - len(claimed))


def _limit(anchor: Anchor) -> float:
    assert anchor.bound is not None
    return anchor.bound


def published(name: str) -> dict[str, Any]:
    """The published figures of one source, with where they were read."""
    figures: dict[str, Any] = json.loads(golden(f"published/{name}.json").read_text(encoding="utf-8"))
    return figures


def run_shapes(
    graph: Graph, chip: Chip, dtype: str = "", pinned: Mapping[str, Mapping[str, Any]] | None = None,
    edges: str = "host",
) -> Run:  # fmt: skip
    """Compile for ``chip`` and simulate without values (cycles and energy do not depend on them)."""
    options = Options(dtype=dtype, values="off", pinned=pinned or {}, edges=edges)
    return simulate(compile(graph, chip, options))


def slices_of(run: Run, kind: str, step: int | None = None) -> list[Slice]:
    """Slices of all commands of one kind (of one step), in program order."""
    commands = run.program.commands
    return [piece for piece in run.slices if commands[piece.command].kind == kind and step in (None, piece.op)]


def matrix_steps(run: Run) -> list[int]:
    """Indices of the steps that the matrix unit does."""
    return [index for index, step in enumerate(run.program.steps) if step.gemm is not None]
