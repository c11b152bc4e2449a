"""Pictures of fused gradients."""

from __future__ import annotations

from accelsim.cluster.buckets.base import MIB, MILLISECOND_FS, Fusion, Gradient
from accelsim.cluster.buckets.overlap import overlap, ring_cost
from accelsim.cluster.buckets.tune import Tuning, grid
from accelsim.report.cluster.fusion import overlap_plot, sentence, tuning_plot

GRADIENTS = [Gradient(str(i), (i + 1) * MILLISECOND_FS, MIB) for i in range(8)]
END_FS = 8 * MILLISECOND_FS
COST = ring_cost(4, 10**11, 10**9)


def test_backward_and_buckets_below_it() -> None:
    found = [
        overlap(GRADIENTS, END_FS, COST, Fusion(name, memory_Bps=rate))
        for name, rate in (("each", None), ("whole", 10**10))
    ]
    figure = overlap_plot([(str(i), GRADIENTS, each) for i, each in enumerate(found)])
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim()
    assert second.get_xlabel() == "time from the start of the backward (ms)"
    backward, copies, sent = first.collections
    assert [len(each.get_paths()) for each in (backward, copies, sent)] == [8, 8, 8]
    assert sentence(found[0]) == "8 buckets, 17.4 ms on the stream; the step waits 10.4 ms (grey)"
    assert sentence(found[1]) == (
        "1 bucket, 14.9 ms on the stream, of it 1.68 ms of copies and casts (purple); the step waits 14.9 ms (grey)"
    )


def test_what_the_step_waits_for_each_choice() -> None:
    tuned = grid(Tuning(GRADIENTS, END_FS, COST))
    (axes,) = tuning_plot(tuned, "by cycle").axes
    assert axes.get_xlabel() == "cycle time (ms)"
    assert len(axes.lines) == 6
    assert axes.lines[0].get_label() == "threshold 64 KiB"
    single = grid(Tuning(GRADIENTS, END_FS, COST, Fusion("ddp")), cycles_fs=[MILLISECOND_FS])
    (axes,) = tuning_plot(single, "by threshold", "threshold_B").axes
    assert axes.get_xlabel() == "threshold (MiB)"
    assert axes.get_ylabel() == "the step waits (ms)"
    assert [line.get_label() for line in axes.lines] == ["cycle 1 ms", "best"]
