"""The cost of a ring, where no network is at hand."""

from __future__ import annotations

from accelsim.cluster.buckets import FEMTOSECONDS, Cost


def ring_cost(ranks: int, latency_fs: int, bandwidth_Bps: int) -> Cost:
    """2(N - 1)(alpha + S/(N beta)) of a ring of ``ranks``, in whole fs: for examples, where no network is at hand."""

    def cost(nbytes: int) -> int:
        return 2 * (ranks - 1) * (latency_fs + nbytes * FEMTOSECONDS // (ranks * bandwidth_Bps))

    return cost
