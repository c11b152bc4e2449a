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
from accelsim.spec.models import Chip
from accelsim.validate.base import Check
from accelsim.validate.golden import golden
from accelsim.workload.graph import Graph

FS_PER_S = 10**15


class Anchor(NamedTuple):
    """One figure. ``error`` is relative, or a difference of shares (1 point = 0.01); ``bound`` is its limit."""

    what: str
    published: float
    simulated: float
    error: float
    bound: float
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Whether the two agree within the bound (which is part of the claim)."""
        return abs(self.error) <= self.bound

    def __str__(self) -> str:
        values = f"published {self.published:g}{self.unit}, simulated {self.simulated:.5g}{self.unit}"
        bound = "exactly" if self.bound == 0 else f"within {_size(self.bound, self.unit)}"
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{self.what}: {values}, error {_size(self.error, self.unit, sign=True)} ({verdict} {bound})"


def _size(error: float, unit: str, sign: bool = False) -> str:
    return f"{100 * error:{'+' if sign else ''}.3g} {'points' if unit == '%' else '%'}"


def relative(what: str, published: float, simulated: float, bound: float, unit: str = "") -> Anchor:
    """A figure whose error is simulated / published - 1."""
    return Anchor(what, published, simulated, simulated / published - 1, bound, unit)


def points(what: str, published: float, simulated: float, bound: float) -> Anchor:
    """A percentage whose error is the difference in points; ``bound`` in points too."""
    return Anchor(what, published, simulated, (simulated - published) / 100, bound / 100, "%")


def outcome(name: str, what: str, anchors: Sequence[Anchor], remarks: Sequence[str]) -> Check:
    """The check: a row per anchor, ``equal`` those that hold; the details are the anchors, then ``remarks``."""
    errors = np.array([anchor.error for anchor in anchors])
    held = sum(anchor.holds for anchor in anchors)
    return Check(name, what, len(anchors), held, errors, [*map(str, anchors), *remarks])


def published(name: str) -> dict[str, Any]:
    """The published figures of one source, with where they were read."""
    figures: dict[str, Any] = json.loads(golden(f"published/{name}.json").read_text(encoding="utf-8"))
    return figures


def run_shapes(
    graph: Graph, chip: Chip, dtype: str = "", pinned: Mapping[str, Mapping[str, Any]] | None = None
) -> Run:
    """Compile for ``chip`` and simulate without values (cycles and energy do not depend on them)."""
    return simulate(compile(graph, chip, Options(dtype=dtype, values="off", pinned=pinned or {})))


def slices_of(run: Run, kind: str, step: int | None = None) -> list[Slice]:
    """Slices of all commands of one kind (of one step), in program order."""
    commands = run.program.commands
    return [
        piece for piece in run.slices if commands[piece.command].kind == kind and step in (None, piece.op)
    ]


def matrix_steps(run: Run) -> list[int]:
    """Indices of the steps that the matrix unit does."""
    return [index for index, step in enumerate(run.program.steps) if step.gemm is not None]
