"""One run, priced by three energy tables and two memories: nothing is simulated again, so the time stays."""

from __future__ import annotations

import accelsim
from accelsim.account.latency import summary

run = accelsim.run("gemm?M=256,N=1024,K=1024", on="tpu-v1", values="off")
others = {
    "as it is": run,
    "arithmetic of 45 nm": run.with_energy("horowitz-45nm"),
    "arithmetic of 7 nm": run.with_energy("jouppi-7nm"),
    "energies of HBM2": run.with_energy(memories={"ddr3": "hbm2"}),
}
for name, other in others.items():
    facts = summary(other)
    parts = facts["energy_by_category_J"]
    moved_uJ = 1e6 * (parts["off-chip memory"] + parts["on-chip SRAM"])
    statuses = ", ".join(f"{status} {share:.0%}" for status, share in facts["energy_status"].items())
    print(f"{name:20} MAC {1e6 * parts['MAC']:6.1f} uJ  memories {moved_uJ:6.1f} uJ  known from: {statuses}")
