"""Pictures of fused gradients."""

from __future__ import annotations

from accelsim.cluster.buckets import MIB, MILLISECOND_FS, Fusion, Gradient
from accelsim.cluster.step.fusing import grid
from accelsim.report.fusing import tuning_plot
from tests.helpers.bucket_attempts import attempts
from tests.helpers.ring_cost import ring_cost

GRADIENTS = [Gradient(str(i), (i + 1) * MILLISECOND_FS, MIB) for i in range(8)]
END_FS = 8 * MILLISECOND_FS
COST = ring_cost(4, 10**11, 10**9)


def test_what_the_step_waits_for_each_choice() -> None:
    tuned = grid(attempts(GRADIENTS, END_FS, COST))
    (axes,) = tuning_plot(tuned, "by cycle").figure().axes
    assert axes.get_xlabel() == "cycle time (ms)"
    assert len(axes.lines) == 6
    assert axes.lines[0].get_label() == "threshold 64 KiB"
    single = grid(attempts(GRADIENTS, END_FS, COST, Fusion("ddp")), cycles_fs=[MILLISECOND_FS])
    (axes,) = tuning_plot(single, "by threshold", "threshold_B").figure().axes
    assert axes.get_xlabel() == "threshold (MiB)"
    assert axes.get_ylabel() == "the step waits (ms)"
    assert [line.get_label() for line in axes.lines] == ["cycle 1 ms", "best"]
