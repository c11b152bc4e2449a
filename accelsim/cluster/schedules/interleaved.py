"""Interleaved 1F1B: each device holds v model chunks, so the pipeline fills v times faster."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Kind, Op, Orders, Schedule, Shape, alternate
from accelsim.cluster.schedules.one_f_one_b import one_f_one_b
from accelsim.errors import Problem


def _ops(kind: Kind, shape: Shape) -> list[Op]:
    """Groups of p microbatches pass the chunks in turn, backwards from the last chunk to the first."""
    p, v = shape.stages, shape.chunks
    ops = []
    for k in range(shape.microbatches * v):
        chunk = k // p % v
        microbatch = k // (p * v) * p + k % p
        ops.append(Op(kind, microbatch, chunk if kind == "F" else v - 1 - chunk))
    return ops


def _make(shape: Shape) -> Orders:
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


SCHEDULE = Schedule(
    "interleaved", "interleaved 1F1B: several model chunks per device", True, _make,
    source="Narayanan et al., Megatron-LM, SC 2021, section 2.2.2 and figure 4",
    laws=(_whole_groups,), chunked=True, rank=3,
)  # fmt: skip
