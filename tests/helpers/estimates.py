"""What the closed form of a mapping says of a case, and what the machine took."""

from __future__ import annotations

from fractions import Fraction

from accelsim.engines.base import Lowering
from accelsim.engines.registry import sequential
from accelsim.engines.systolic.mapping.known import Choice
from accelsim.engines.systolic.mapping.search import choose
from accelsim.program.roles import Roles, units
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.layout import Layout
from accelsim.time import FS_PER_S
from tests.helpers.law_cases import Case

ROUNDING = 1e-3
"""Clocks: each transfer may end a femtosecond early."""


def choice_of(case: Case) -> Choice:
    """The estimate of the only step of a program, its mapping pinned to what it was."""
    program = case.program
    (step,) = program.steps
    assert step.gemm is not None and step.mapping is not None
    pinned = vars(step.mapping)
    roles = Roles(program.chip)
    layout = Layout(program.graph, roles, Builder(roles.engines(), sequential(roles.engines().values())))
    unit = units(program.chip)[step.engine]
    return choose(Lowering(layout, 0, step.node, unit, program.dtype, pinned, {}, []), step.gemm)


def clocks(case: Case) -> float:
    """Clocks of the array from time 0 to the end of the only step."""
    run = case.run()
    unit = run.chip.matrix
    assert unit is not None
    return float(Fraction(run.step_spans[0][1], FS_PER_S) * Fraction(unit.clock or run.chip.clock))
