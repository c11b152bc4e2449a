"""Schedules that flush the pipeline before each update: GPipe, 1F1B, interleaved 1F1B and ZB-H1."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Kind, Op, Orders, Schedule, Shape, alternate, ops_of
from accelsim.errors import Problem


def _gpipe(shape: Shape) -> Orders:
    m = shape.microbatches
    return [ops_of("F", range(m)) + ops_of("B", range(m - 1, -1, -1)) for _ in range(shape.stages)]


GPIPE = Schedule(
    "gpipe", "GPipe: all forwards, then all backwards", True, _gpipe,
    source="Huang et al., GPipe, NeurIPS 2019, section 2.3 and figure 2c",
)  # fmt: skip


def one_f_one_b(shape: Shape) -> Orders:
    """A stage begins backwards as soon as it can, so it holds few activations.

    Stage s: p - 1 - s forwards, then a forward and a backward in turn, then the backwards that are left.
    """
    forwards, backwards = (ops_of(kind, range(shape.microbatches)) for kind in ("F", "B"))
    return [alternate(forwards, backwards, shape.stages - 1 - stage) for stage in range(shape.stages)]


ONE_F_ONE_B = Schedule(
    "1f1b", "1F1B: one forward, one backward in turn, with a flush", True, one_f_one_b,
    source="Narayanan et al., PipeDream-Flush, ICML 2021, section 3; Megatron-LM, SC 2021, section 2.2.1",
)  # fmt: skip


def _ops(kind: Kind, shape: Shape) -> list[Op]:
    """Groups of p microbatches pass the chunks in turn, backwards from the last chunk to the first."""
    p, v = shape.stages, shape.chunks
    ops = []
    for k in range(shape.microbatches * v):
        chunk = k // p % v
        microbatch = k // (p * v) * p + k % p
        ops.append(Op(kind, microbatch, chunk if kind == "F" else v - 1 - chunk))
    return ops


def _interleaved(shape: Shape) -> Orders:
    p, m, v = shape.stages, shape.microbatches, shape.chunks
    if v == 1:
        return one_f_one_b(shape)
    forwards, backwards = _ops("F", shape), _ops("B", shape)
    warm_up = [m * v if m == p else 2 * (p - stage - 1) + (v - 1) * p for stage in range(p)]
    return [alternate(forwards, backwards, count) for count in warm_up]


def _whole_groups(shape: Shape) -> Problem | None:
    if shape.microbatches % shape.stages == 0:
        return None
    p = shape.stages
    below = shape.microbatches // p * p
    near = f"{below} or {below + p}" if below else str(p)
    what = f"{shape.microbatches} microbatches on {p} stages"
    return Problem(what, "microbatches", f"a multiple of the stages for interleaved 1F1B, such as {near}")


INTERLEAVED = Schedule(
    "interleaved", "interleaved 1F1B: several model chunks per device", True, _interleaved,
    source="Narayanan et al., Megatron-LM, SC 2021, section 2.2.2 and figure 4",
    laws=(_whole_groups,), chunked=True,
)  # fmt: skip


def _with_weights(ops: list[Op], stage: int, microbatches: int) -> list[Op]:
    """W(i) right behind B(i + s); what has no such B, at the end."""
    made: list[Op] = []
    for op in ops:
        made.append(op)
        if op.kind == "B" and op.microbatch >= stage:
            made.append(Op("W", op.microbatch - stage))
    return made + [Op("W", left) for left in range(max(0, microbatches - stage), microbatches)]


def _zb_h1(shape: Shape) -> Orders:
    return [_with_weights(ops, stage, shape.microbatches) for stage, ops in enumerate(one_f_one_b(shape))]


ZB_H1 = Schedule(
    "zb-h1", "ZB-H1: 1F1B with gradients of the weights in the bubble", True, _zb_h1,
    source="Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 3.1", splits=True,
)  # fmt: skip
