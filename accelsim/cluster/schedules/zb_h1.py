"""ZB-H1: gradients of the weights are ops of their own and fill the bubble."""

from __future__ import annotations

from accelsim.cluster.schedules.base import Op, Orders, Schedule, Shape
from accelsim.cluster.schedules.one_f_one_b import one_f_one_b


def _with_weights(ops: list[Op], stage: int, microbatches: int) -> list[Op]:
    """W(i) right behind B(i + s); what has no such B, at the end."""
    made: list[Op] = []
    for op in ops:
        made.append(op)
        if op.kind == "B" and op.microbatch >= stage:
            made.append(Op("W", op.microbatch - stage))
    return made + [Op("W", left) for left in range(max(0, microbatches - stage), microbatches)]


def _make(shape: Shape) -> Orders:
    return [_with_weights(ops, stage, shape.microbatches) for stage, ops in enumerate(one_f_one_b(shape))]


SCHEDULE = Schedule(
    "zb-h1", "ZB-H1: 1F1B with gradients of the weights in the bubble", True, _make,
    source="Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 3.1", splits=True, rank=4,
)  # fmt: skip
