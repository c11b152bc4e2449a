"""Every mapping of one product on a chip with a systolic array: which of them the machine would do in less time.

A closed form is never above the machine (a law, ``tests/laws/test_estimate_laws.py``), so of all mappings only those
need be simulated whose estimate is below the time that is to be beaten.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from accelsim.compiler.passes import transform
from accelsim.compiler.state import Options
from accelsim.engines.base import Lowering
from accelsim.engines.registry import sequential
from accelsim.engines.systolic.mapping.decide import product_program
from accelsim.engines.systolic.mapping.search import ProductSearch
from accelsim.engines.systolic.mapping.space import Tilings
from accelsim.engines.systolic.mapping.tilings import Candidates
from accelsim.errors import Infeasible
from accelsim.machine.simulate import simulate
from accelsim.mapping.search import solve
from accelsim.program.mapping import Mapping
from accelsim.program.roles import Roles, units
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.layout import Layout
from accelsim.spec.chip import Chip
from accelsim.time import FS_PER_S
from accelsim.types import Floats
from accelsim.workload.graph import Graph
from accelsim.workload.nodes import gemm_view


class Estimates(Tilings):
    """Tilings that are compared by their estimate alone."""

    def _keys(self, c: Candidates) -> Floats:
        return self._bounds(c).total()[:, None]


class Product:
    """The only product of a graph, by itself on a chip; ``options``: fields of ``Lowering``."""

    def __init__(self, graph: Graph, chip: Chip, dtype: str, **options: Any) -> None:
        graph = transform(graph, chip, Options(dtype=dtype, values="off"))
        (node,) = [node for node in graph.nodes if node.engine in units(chip) and gemm_view(graph, node)]
        gemm, roles = gemm_view(graph, node), Roles(chip)
        assert gemm is not None and chip.matrix is not None
        self.gemm, self._clock = gemm, Fraction(chip.matrix.clock or chip.clock)
        layout = Layout(graph, roles, Builder(roles.engines(), sequential(roles.engines().values())))
        self.step = Lowering(layout, 0, node, units(chip)[node.engine], dtype, {}, {}, [], **options)

    def clocks(self, mapping: Mapping) -> float:
        """Return what the machine takes for a mapping, clocks of the array; infinite where it does not fit."""
        try:
            program = product_program(self.step, self.gemm, mapping)
        except Infeasible:
            return float("inf")
        return float(Fraction(simulate(program, None, "off").time_fs, FS_PER_S) * self._clock)

    def below(self, clocks: float) -> Iterator[Mapping]:
        """All mappings that are estimated below ``clocks``, the smallest estimates first."""
        search = ProductSearch(self.step, self.gemm)
        tilings = search.tilings(Estimates, thorough=True)
        found = solve(tilings, "best", leaders=int(np.prod(tilings.sizes)))
        assert found.exhaustive
        for leader in found.leaders:
            if leader.costs[0] < clocks:
                yield tilings.mappings([leader.choices], search.kept)(0)
