"""Effect of the address mapping on one DDR4-3200: bandwidth, what the data bus waited for, energy per bit."""

from __future__ import annotations

from accelsim.explore.dram_replay import replay

ACCESSES = 16_384

for trace in ("seq_read", "tile3", "rand_read"):
    for mapping in ("rochrababgco", "rorabachcobg", "mop4"):
        found = replay("ddr4-3200", trace, limit=ACCESSES, mapping=mapping)
        assert found.waits is not None and found.energy is not None
        print(
            f"{trace:9} {mapping:12} {found.bandwidth_Bps / 1e9:5.1f} GB/s, {found.energy.pJ_per_bit:4.1f} pJ/bit, "
            f"worst wait: {found.waits.worst} ({found.waits.share(found.waits.worst):.0%})"
        )
