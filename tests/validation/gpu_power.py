"""Check ``gpu-power``: joules of an inference at the wall, as simulated, against the wall power of MLPerf's servers.

A server draws more than its GPUs: what the spec of a cluster states as ``power`` of a node. And servers limit the power
of their GPUs in these submissions to where an inference takes the least energy (MaxQ), by how much they do not say. So
each GPU is simulated at several clocks (``sm.sustained_clock``), and that is taken at which the joules at the wall are
least. What a host draws comes of half of the submissions, by a hash; the others are compared. No constant of a GPU
comes of any. ``python -m tests.validation.gpu_power`` tells the error of the first half by what a host draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.account.interval import WALL
from accelsim.cluster.step.fleet import Wall, wall_of
from accelsim.kernels.whole import ends
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.spec.yaml.load import load_chip
from tests.validation.base import Check, check
from tests.validation.gpu_models import CHIPS, SUBMITTED, format_of
from tests.validation.gpu_own import on_the_board_J
from tests.validation.gpu_rows import PUBLISHED, rows_of, simulated, without_link_s
from tests.validation.measured import ABSENT, folder

NEAR, SHARE = 0.3, 0.9
"""Error that a submission may have, and the share of them that is so near."""
CLAIMED = 0.11
"""Mean error that is claimed."""
SERVER, DEVICES = "dgx-a100", 8
"""The cluster whose node all servers are taken to be, and its devices: a host is as large in a server of fewer."""
POWERED: Mapping[str, str] = {**CHIPS, "nvidia-a100-40-sxm": "a100-40-sxm", "nvidia-a100-40-pcie": "a100-40-pcie"}
CLOCKS = (0.85, 0.7, 0.6)
"""Clocks that are tried besides the one that a GPU keeps without a limit, as shares of its highest. At these it has
power to spare, so that its clock does not fall further."""


class Board(NamedTuple):
    """An item on a GPU at one clock: seconds, joules."""

    seconds: float
    joules: float


class Powered(NamedTuple):
    """A submission with power: whether a host's power is fitted to it, its chip and number of GPUs, joules of an item at
    the wall, and what its GPU takes at each clock."""

    name: str
    fitted: bool
    chip: str
    devices: int
    wall_J: float
    boards: Sequence[Board]

    def simulated_J(self, server: Wall) -> float:
        """Joules of an item at the wall, at the clock at which they are least."""
        own = server._replace(each_W=server.each_W * DEVICES / self.devices)
        return min(own.joules(board.joules, 1, board.seconds) for board in self.boards)

    def error(self, server: Wall) -> float:
        """Relative error of these."""
        return self.simulated_J(server) / self.wall_J - 1


def powered(data: Path) -> Iterator[Powered]:
    """Offline submissions that measured power."""
    known: dict[tuple[str, str], list[Board]] = {}
    for line in rows_of(data / PUBLISHED):
        workload, chip = line["workload"], POWERED.get(line["chip_id"])
        offline = line["shape_or_batch"] == "Offline" and line["source"].startswith("MLPerf Inference")
        if not (offline and line["power_w"] and line["energy_per_item_j"] and chip and workload in SUBMITTED):
            continue
        if (workload, chip) not in known:
            known[workload, chip] = list(boards(workload, chip))
        devices = int(line["n_chips"])
        yield Powered(
            f"{workload}, {devices} x {chip}", is_fitted(line), chip, devices,
            float(line["energy_per_item_j"]), known[workload, chip],
        )  # fmt: skip


def is_fitted(line: Mapping[str, str]) -> bool:
    """Return whether what a host draws is fitted to a submission: half of them, by a hash."""
    text = "|".join(line[name] for name in ("workload", "chip_id", "n_chips", "source"))
    return sha256(text.encode()).digest()[0] % 2 == 0


def boards(workload: str, chip: str) -> Iterator[Board]:
    """Simulate a workload of MLPerf on a chip, without a limit and at each of ``CLOCKS``."""
    network, dtype, batch = SUBMITTED[workload]
    form = format_of(workload, dtype, chip)
    for changes in ([], *([f"sm.sustained_clock={clock}", "sm.droop=0"] for clock in CLOCKS)):
        run = simulated(network, load_chip(chip, changes), form, batch=batch)
        yield Board(without_link_s(run) / batch, on_the_board_J(run) / batch)


def server() -> Wall:
    """Power of a server beside its GPUs, as shipped."""
    found = wall_of(load_cluster(SERVER))
    assert found is not None
    return found


@check("gpu-power")
def gpu_power() -> Check:
    """Joules of an item at the wall, submission by submission."""
    what, data = "joules at the wall of servers of GPUs (MLPerf)", folder()
    if data is None:
        return Check("gpu-power", what, 0, 0, np.zeros(0), [ABSENT])
    every, wall = list(powered(data)), server()
    unseen = [row for row in every if not row.fitted]
    told = [
        _summed(unseen, wall, "submissions without part in a fit"),
        _summed([row for row in every if row.fitted], wall, "submissions that what a host draws is fitted to"),
        *(f"{row.name}: {row.wall_J:.3g} J at the wall, {row.error(wall):+.0%}" for row in unseen),
    ]
    errors = np.array([row.error(wall) for row in unseen])
    near = np.abs(errors)
    kept = int(near.mean() <= CLAIMED) + int(np.mean(near <= NEAR) >= SHARE)
    within = f"mean {CLAIMED:.0%}, {SHARE:.0%} within {NEAR:.0%} of the wall"
    return Check("gpu-power", what, 2, kept, errors, told, within)


def _summed(rows: Sequence[Powered], wall: Wall, what: str) -> str:
    errors = np.array([row.error(wall) for row in rows])
    size, times = np.abs(errors), ends(WALL, 1.0)
    assert times is not None
    inside = np.mean((errors + 1 <= 1 / times[0]) & (errors + 1 >= 1 / times[1]))
    return (
        f"{len(rows)} {what}: mean {size.mean():.1%}, median {np.median(size):.1%}, 90th percentile "
        f"{np.quantile(size, 0.9):.1%}, {np.mean(size <= NEAR):.0%} within {NEAR:.0%}, {inside:.0%} within the interval "
        f"({times[0]:.2f} to {times[1]:.2f} times them)"
    )


if __name__ == "__main__":
    measured = folder()
    assert measured is not None, "no measured rows: name their folder by ACCELSIM_MEASURED"
    shipped, seen = server(), [row for row in powered(measured) if row.fitted]
    for watts in range(0, 801, 50):
        node = shipped._replace(each_W=watts / DEVICES)
        found = [row.error(node) for row in seen]
        print(f"{watts} W: mean error {np.mean(np.abs(found)):.1%}, in the middle {np.median(found):+.1%}")
