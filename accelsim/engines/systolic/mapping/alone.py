"""A product by one mapping: its commands among those of other steps, or as a program of its own."""

from __future__ import annotations

from accelsim.engines.alone import alone as step_alone
from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.systolic.lower import MatrixStep
from accelsim.program.commands import Program
from accelsim.program.mapping import Mapping
from accelsim.program.tiles import in_strips
from accelsim.workload.ops.base import Gemm


def written(step: Lowering, gemm: Gemm, mapping: Mapping, binds: str = "", scored: int = 1) -> Mapped:
    """Writes the commands of a product. Raises Infeasible where the mapping does not fit."""
    gemm, dtype = in_strips(gemm, mapping.tq), step.node.format or step.dtype
    MatrixStep(step.layout, step.index, step.node, gemm, mapping, dtype, binds=binds).lower()
    return Mapped(gemm, mapping, binds, scored)


def alone(step: Lowering, gemm: Gemm, mapping: Mapping) -> Program:
    """The commands of a product by itself. Raises Infeasible where the mapping does not fit."""
    return step_alone(step, mapping, lambda lowering, mapping: written(lowering, gemm, mapping))
