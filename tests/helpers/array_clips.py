"""Small runs on a systolic array, the register-level model beside them, and clips of an animation read back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import accelsim
from accelsim.engines.systolic.accumulating import AccumulatingArray
from accelsim.engines.systolic.fabric import VALID, Setup
from accelsim.engines.systolic.registers import build
from accelsim.engines.systolic.stationary import StationaryArray
from accelsim.types import Array, Bools

MATRIX = "cores.core.engines.matrix."
Word = tuple[Array, Bools]
"""Words [rows, columns] and where there is one."""


@cache
def small_run(model: str = "gemm?M=6,N=6,K=5", sets: tuple[str, ...] = (), **asked: Any) -> accelsim.Result:
    """A product on the teaching array of 4 x 4 PEs; ``sets``: fields of the array that differ."""
    chip = accelsim.load_chip("edu-4x4", [MATRIX + each for each in sets])
    return accelsim.run(model, chip, seed=3, **asked)


def registers(a: Array, b: Array, setup: Setup) -> Iterator[tuple[dict[str, Word], Array, Array]]:
    """Behind every edge of ``a`` [M,K] x ``b`` [K,N]: registers and ports by the names of the animation, and how often
    each PE has multiplied so far, for the product and in all [R, C]. Read off the model itself."""
    machine = build([a], [b], setup)
    while machine.running():
        machine.step()
        on = (machine.token[0] & VALID).astype(bool)
        found: dict[str, Word] = {"moving": (machine.moving[0], on)}
        if isinstance(machine, AccumulatingArray):
            found |= {"down": (machine.down[0], on), "sum": (machine.psum[0], on | machine.busy[0])}
        elif isinstance(machine, StationaryArray):
            way = (machine.path.value[0], machine.path.occupied[0])
            held = (machine.held[0], machine.n_swap[0] > 0)
            found |= {"held": held, "waiting": way} if machine.overlapped else {"held": way}
            found["sum"] = (machine.psum[0], on)
        found["left"] = (machine.row_in[:1], (machine.row_tok[:1] & VALID).astype(bool))
        found["top"] = (machine.col_in[0], machine.col_on[0])
        found["out"] = (machine.out[:1], machine.out_on[:1])
        yield found, machine.n_real[0].copy(), machine.n_mac[0].copy()


def words(indices: Array, matrix: str, a: Array, b: Array) -> Word:
    """Return what registers with these indices hold: [2, ...] of A or B, [4, ...] of sums."""
    on, real = indices[0] > 0, indices[0] > 1
    values = np.zeros(on.shape, np.result_type(a, b))
    for place in np.argwhere(real):
        at = tuple(int(each) for each in place)
        row, column, *rest = (int(each) - 2 for each in indices[(slice(None), *at)])
        if matrix == "y":
            terms = slice(rest[0], rest[0] + rest[1])
            values[at] = a[row, terms] @ b[terms, column]
        else:
            values[at] = {"a": a, "b": b}[matrix][row, column]
    return values, on


def unpacked(clip: dict[str, Any], edge: int) -> tuple[dict[str, Array], Array]:
    """Indices of every register behind an edge, from 1, and the work of the PEs."""
    planes = [np.array([clip["rows"][row] for row in clip["planes"][number]]) for number in clip["frames"][edge - 1]]
    found, first = {}, 0
    for name, matrix in clip["registers"].items():
        last = first + (4 if matrix == "y" else 2)
        found[name], first = np.stack(planes[first:last]), last
    assert first == len(planes) - 1
    return found, planes[-1]


def setup_of(clip: dict[str, Any]) -> Setup:
    """The array of a clip of ``small_run``."""
    return Setup(*clip["array"], clip["dataflow"], clip["schedule"])
