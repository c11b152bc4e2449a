"""Lowering of attention in one kernel: queries, keys and values stream in, results out, scores exist nowhere.

Pieces are those of any kernel that streams; its clocks are those of :mod:`accelsim.engines.simt.attention`. Multiplied
are whole tiles of keys; a causal mask, which is a constant, is not read, and what it hides from every query is skipped.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from accelsim.engines.base import Lowering
from accelsim.engines.simt.actions import AROUND, near_actions
from accelsim.engines.simt.attention import COLUMNS, Attended, attended, attention_times
from accelsim.engines.simt.served import Shape, attention_shape, causal_mask, timed, work_clocks
from accelsim.engines.simt.spec import Simt
from accelsim.engines.simt.streaming import Streaming
from accelsim.engines.simt.writing import rates_of
from accelsim.program.actions import PADDING, SKIPPED, Action, ActionName, mac
from accelsim.spec.multiplying import operands_B
from accelsim.types import Floats
from accelsim.workload.nodes import ATTENTION_GRAD, node_work

WARPS = 4
"""Warps of a block, each with queries of its own, so that each reads all keys and values (FlashAttention 2)."""


class Attending(Streaming):
    """A streaming kernel of attention: two products and a softmax; the backward pass, which computes scores again."""

    def __init__(self, step: Lowering) -> None:
        super().__init__(step)
        node, tensors = self.node, self.graph.tensors
        self._near, self._timed = rates_of(step), timed(step)
        if node.op == ATTENTION_GRAD:
            q, k = (tensors[name].shape for name in node.inputs[:2])
            row = _one_row(q[0], q[2], k[2], q[1], k[1], q[3], node.attrs["causal"], 1)
            self._causal, self._format = "", self.ins[node.inputs[0]].dtype
        else:
            row = columns(attention_shape(self.graph, node))
            self._causal, self._format = causal_mask(self.graph, node), node.format
        self._found = attended(self.spec, self._near, self._format, row)

    def _begin(self) -> float | None:
        return None if self._timed is None else self._timed.launch

    def _clocks(self) -> int:
        """Computing, and joining what parts of the keys gave."""
        near = self._near
        if self._timed is not None:
            moving = (sum(self.read_B.values()) + sum(out.nbytes for out in self.outs)) / near.dram_Bps
            pieces = self._pieces()
            return work_clocks(self._timed.rest, moving, moving / pieces, pieces, near.clock_Hz)
        cost = attention_times(self.spec, near, self._format, self._found)
        return max(1, ceil(float(cost.computing[0] + cost.joining[0]) * near.clock_Hz))

    def _parameter_names(self) -> list[str]:
        return [name for name in super()._parameter_names() if name != self._causal]

    def actions(self, piece: int, pieces: int) -> list[Action]:
        """Return the ledger entries of a piece, with its share of the products."""
        entries = super().actions(piece, pieces)
        macs = node_work(self.graph, self.node).macs
        for name, total in _products(self.spec, macs, self._format, self._found).items():
            count = total * (piece + 1) // pieces - total * piece // pieces
            if count:
                entries.append(Action(self.units.engine, name, "", count))
        return entries


def columns(shape: Shape) -> dict[str, Floats]:
    """Return an attention as columns, one row: all sequences are heads of one."""
    row = _one_row(1, shape.rows, shape.keys, shape.heads, shape.kv_heads, shape.depth, shape.causal, 0)
    return row | {"window": np.array([float(shape.window)])} if shape.window else row


def _one_row(*sizes: float) -> dict[str, Floats]:
    return {name: np.array([float(size)]) for name, size in zip(COLUMNS, sizes, strict=True)}


def _products(spec: Simt, algorithmic: int, name: str, found: Attended) -> dict[ActionName, int]:
    """Entries of its products: multiplications of queries with keys that they see, the rest of tiles, and of the
    algorithm what nobody does; what their operands take of shared memory and registers."""
    done = min(algorithmic, round(float(found.macs[0])))
    multiplied = max(done, round(float(found.blocks[0] * found.multiplying[0]) * spec.formats[name].rate))
    element_B = max(map(float, operands_B(name)))
    tiles_B = round(float(found.loaded[0]) * element_B)
    registers_B = WARPS * tiles_B
    return {
        mac(name): done,
        SKIPPED: algorithmic - done,
        PADDING: multiplied - done,
        ActionName(AROUND, name): multiplied,
        **near_actions(tiles_B, registers_B, registers_B),
    }
