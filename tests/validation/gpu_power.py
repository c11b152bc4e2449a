"""Check ``gpu-power``: joules of GPUs against the wall power of MLPerf's servers.

A server draws more than its GPUs: host, fans, conversion of its supply. But servers limit the power of their GPUs in
these submissions (MaxQ), by how much they do not say, and the simulation does not: a GPU at full load draws about its
design power there. So the energy that is simulated of a GPU, with its memory, may be more than what the server draws
for it. What can be seen is whether the shares of different chips and networks are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.account.interval import JOULES
from accelsim.account.latency import summary
from accelsim.fit.validation import quantile
from accelsim.kernels.whole import ends
from tests.validation.base import Check, check
from tests.validation.gpu_models import CHIPS, SUBMITTED, format_of
from tests.validation.gpu_rows import PUBLISHED, rows_of, simulated
from tests.validation.measured import ABSENT, folder

SHARE = (0.5, 1.5)
"""Of what a server draws for each of its GPUs, what the simulated GPU may have, which is not limited."""
POWERED: Mapping[str, str] = {
    **CHIPS,
    "nvidia-a100-40-sxm": "a100-40-sxm",
    "nvidia-a100-40-pcie": "a100-40-pcie",
}


class Powered(NamedTuple):
    """A submission with power: its chip, joules of an item at the wall, and of its GPU as simulated."""

    name: str
    chip: str
    wall_J: float
    simulated_J: float

    @property
    def share(self) -> float:
        """Of the GPU in what is drawn at the wall."""
        return self.simulated_J / self.wall_J


def powered(data: Path) -> Iterator[Powered]:
    """Offline submissions that measured power."""
    known: dict[tuple[str, str], float] = {}
    for line in rows_of(data / PUBLISHED):
        workload, chip = line["workload"], POWERED.get(line["chip_id"])
        offline = line["shape_or_batch"] == "Offline" and line["source"].startswith("MLPerf Inference")
        if not (offline and line["power_w"] and line["energy_per_item_j"] and chip and workload in SUBMITTED):
            continue
        network, dtype, batch = SUBMITTED[workload]
        if (workload, chip) not in known:
            run = simulated(network, chip, format_of(workload, dtype, chip), batch=batch)
            known[workload, chip] = summary(run)["energy_J"] / batch
        name = f"{workload}, {line['n_chips']} x {chip}"
        yield Powered(name, chip, float(line["energy_per_item_j"]), known[workload, chip])


def spread(rows: Sequence[Powered]) -> float:
    """By which factor nine of ten shares differ at the most from the median share of the other chips."""
    shares, chips = np.log([row.share for row in rows]), np.array([row.chip for row in rows])
    usual = np.array([np.median(shares[chips != chip]) for chip in chips])
    return exp(quantile(np.abs(shares - usual)))


@check("gpu-power")
def gpu_power() -> Check:
    """Share of the wall power that the simulated GPU has, submission by submission."""
    what, data = "joules of GPUs against wall power of their servers (MLPerf)", folder()
    if data is None:
        return Check("gpu-power", what, 0, 0, np.zeros(0), [ABSENT])
    rows = list(powered(data))
    shares = np.array([row.share for row in rows])
    least, most = rows[int(np.argmin(shares))], rows[int(np.argmax(shares))]
    told = [
        f"a GPU as simulated has {np.quantile(shares, 0.1):.0%} to {np.quantile(shares, 0.9):.0%} of what its server "
        f"draws for it (the middle 80 % of {len(rows)} submissions; median {np.median(shares):.0%})",
        f"nine of ten are within a factor of {spread(rows):.2f} of the median of the other chips: the interval of the "
        f"joules of a run is {' to '.join(f'{each:.2f}' for each in ends(JOULES, 1.0) or ())} times them",
        f"least {least.share:.0%}: {least.name}; most {most.share:.0%}: {most.name}",
    ]
    kept = int(np.sum((shares >= SHARE[0]) & (shares <= SHARE[1])))
    within = f"{SHARE[0]:.0%} to {SHARE[1]:.0%} of the wall"
    return Check("gpu-power", what, len(rows), kept, shares - 1, told, within)
