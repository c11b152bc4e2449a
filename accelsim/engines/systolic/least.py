"""Least time and energy of products on systolic arrays, however they are mapped: closed forms of whole products.

Tiles only add to the folds, accesses and rows of a product: sums of rounded-up parts are at least the rounded-up whole.
"""

from __future__ import annotations

from fractions import Fraction

from accelsim.engines.base import Least, Multiplied, PriceList
from accelsim.engines.systolic.actions import Product, product_actions
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.timing import fold_timing, folds
from accelsim.program.actions import MAC, READ
from accelsim.program.commands import Tile
from accelsim.program.roles import Roles, Unit, function_units, unit_of
from accelsim.program.tiles import DENSE
from accelsim.program.writing.entries import nbytes
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Tensor
from accelsim.workload.ops.base import Gemm


def least(chip: Chip, unit: Unit, name: str, products: Multiplied, prices: PriceList) -> list[Least]:
    """Return what the arrays of a chip take for each product in a format at least."""
    roles, spec = Roles(chip), unit.spec
    clock, found = float(spec.clock or chip.clock) * spec.count, list[Least]()
    for gemm, _ in products:
        if ("weights" if gemm.b else "activations") not in spec.stationary_from:
            found.append(Least(0.0, 0.0))  # another engine does it
            continue
        edges, drained, joules = _least(roles, spec, name, gemm, prices)
        seconds = float(edges) / clock
        found.append(
            Least(seconds, joules, _lasting_s(roles, spec, name, gemm, seconds + drained * spec.count / clock))
        )
    return found


def _lasting_s(roles: Roles, spec: MatrixUnit, name: str, gemm: Gemm, summed_s: float) -> float:
    """Seconds until the whole result is there, ``summed_s`` after the last sum: all sums pass the fastest unit of
    functions, which begins and ends with a token, unless they leave without one."""
    chip, size_B = roles.chip, nbytes(spec.formats[name].accumulate, gemm.groups * gemm.M * gemm.N)
    every, times = [each for _, _, each in function_units(chip)], list[float]()
    if not spec.epilogue or not every:
        return summed_s
    for each in every:
        clock = float(each.clock or chip.clock)
        clocks = each.command_clocks(chip, [], size_B, 0, roles.sums, roles.activations) - each.latency
        times.append(max(summed_s, clocks / clock) + each.latency / clock)
    return min(times) + 2 * chip.token_delay / float(chip.clock)


def _least(roles: Roles, spec: MatrixUnit, name: str, gemm: Gemm, prices: PriceList) -> tuple[Fraction, int, float]:
    """Edges of all arrays together, those after the last row until its sums are there, and joules. Groups may share a
    stationary tile, whose PEs they fill at most. Every fold but the first of an array waits for that before it."""
    form = spec.formats[name]
    along_rows, along_cols = folds(spec.rows, spec.cols, spec.dataflow, gemm.M, gemm.N, gemm.K)
    down, across, streamed = spec.flow.spatial(gemm.M, gemm.N, gemm.K)
    count = along_rows * along_cols
    shared = Fraction(down * across, count * spec.rows * spec.cols) if gemm.groups > 1 else Fraction(1)
    each = max(streamed * Fraction(form.cycles_per_row), Fraction(spec.min_interval))
    fold = fold_timing(
        spec.rows, spec.cols, spec.dataflow, spec.schedule, spec.shadow_load, int(each), spec.load_rows_per_clock
    )
    every, step = gemm.groups * shared * count, max(each, Fraction(fold.step))
    edges = max(every * each, every * step - spec.count * (step - each))
    joules = min(_joules(roles, name, gemm, prices, source, shared) for source in {roles.activations, roles.weights})
    return edges, fold.drain - 1 + spec.accumulator_latency, gemm.groups * joules


def _joules(roles: Roles, name: str, gemm: Gemm, prices: PriceList, source: str, shared: Fraction) -> float:
    """Joules of a group whose stationary operand comes from the buffer ``source``, and whose sums are read once."""
    a, b = Tensor("a", (), name), Tensor("b", (), name)
    product = Product(name, DENSE, a, b, "y", source, roles.arrays[0])
    actions = product_actions(roles, product, Tile(0, 1, 0, gemm.M, 0, gemm.N, 0, gemm.K), True)
    joules = 0.0
    for component, action, _, times in actions:
        part = unit_of(component)
        in_array = part == unit_of(roles.arrays[0]) and action.kind != MAC
        joules += times * prices[part, action] * float(shared if in_array else 1)
    left = nbytes(roles.matrix.formats[name].accumulate, gemm.M * gemm.N)
    return joules + left * prices[roles.sums, READ] if roles.matrix.epilogue else joules
