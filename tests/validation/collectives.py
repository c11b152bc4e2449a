"""Check ``collectives``: the communication library of a cluster against measured collectives.

A system is the rows of one file on one kind of machine. Its constants are those of the cluster that ships; every row is
compared with a fit of these that had not seen it (five parts), started where they are. A row of the check is a set, the
rows of one kind, number of ranks and of nodes, and agrees where the median error is no more than is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.choice import library_of
from accelsim.cluster.fit import Measured, Model, held_out, read_collectives
from accelsim.cluster.shapes.building import build
from accelsim.fit.validation import Residuals, residuals
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.types import Floats
from tests.validation.base import Check, check
from tests.validation.kernel_plot import Compared
from tests.validation.measured import ABSENT, folder

VIDUR = "vidur_collectives.csv"
DEEPBENCH = "deepbench_allreduce.csv"
Groups = tuple[tuple[str, ...], ...]


class System(NamedTuple):
    """A machine: what it is, file, devices of its rows (all where empty), on how many nodes (any where None), kinds.

    The cluster that stands for it, with changes; constants that are fitted, those of one tuple alike; the median that
    is claimed of each of its sets, or of all rows together where ``whole``. ``software``: which library of the cluster's, its own
    for ''.
    """

    title: str
    file: str
    devices: tuple[str, ...]
    cluster: str
    free: Groups
    claimed: float
    nodes: int | None = 1
    kinds: tuple[str, ...] = ("all_reduce", "send_recv")
    changes: tuple[str, ...] = ()
    whole: bool = False
    alone: bool = False
    software: str = ""

    def rows(self, data: Path) -> Measured:
        """Its rows; ``alone``: each device is a node of its own."""
        found = read_collectives(data / self.file)
        chosen = found.only(
            [
                row
                for row, (sort, device) in enumerate(zip(found.sorts, found.devices, strict=True))
                if (not self.devices or device in self.devices)
                and self.nodes in (None, sort.nodes)
                and sort.kind in self.kinds
            ]
        )
        return chosen._replace(sorts=[each._replace(per_node=1) for each in chosen.sorts]) if self.alone else chosen


_RING: Groups = (("ll128.base", "simple.base"), ("ll128.share",), ("ll128.inside",), ("ll128.fill", "simple.fill"),
                 ("simple.share",), ("simple.inside",))  # fmt: skip
_SIMPLE: Groups = (("ll128.base",), ("simple.base",), ("ll128.share",), ("ll128.inside",), ("simple.fill",),
                   ("simple.share",), ("simple.inside",))  # fmt: skip
_MESSAGE: Groups = (("posted.base",), ("posted.share",))
_PCIE: Groups = (("simple.base",), ("simple.share",), ("simple.share_between",),
                 ("simple.inside", "simple.tree_inside"),
                 ("simple.between", "simple.tree_between"))  # fmt: skip
SYSTEMS = (
    System("DGX A100", VIDUR, ("a100_dgx",), "dgx-a100",
           (("launch",), *_RING, *_MESSAGE, ("eager.least", "posted.least")), 0.05, software="nccl-pytorch"),
    System("DGX H100", VIDUR, ("h100_dgx",), "2x-dgx-h100",
           (("launch",), *_RING, *_MESSAGE, ("posted.least",), ("posted.share_between",), ("posted.between",)), 0.05,
           nodes=None, software="nccl-pytorch"),
    System("two nodes of A100", VIDUR, ("a100_dgx",), "2x-a100-200g",
           (("ll128.share_between",), ("simple.share_between",), ("ll128.tree_flow", "simple.tree_flow"),
            ("ll128.flow", "simple.flow"), ("ll128.between",), ("simple.between",), ("posted.flow",),
            ("posted.between",)), 0.15, nodes=2),
    System("four A100, NVLink 3", "llmcompass/allreduce_4xA100_NVLink3.csv", (), "4x-a100-nvlink",
           (("ll.base", "ll128.base", "simple.base"), ("ll.share",), ("ll128.share",), ("ll128.inside",),
            ("simple.share",), ("simple.inside",)), 0.06),
    System("four A100 in pairs", VIDUR, ("a100_pairwise_nvlink",), "4x-a100-pairwise",
           (("launch",), *_SIMPLE), 0.06, kinds=("all_reduce",)),
    System("four H100 in pairs", VIDUR, ("h100_pairwise_nvlink",), "4x-h100-pairwise",
           (("launch",), *_SIMPLE), 0.06, kinds=("all_reduce",)),
    System("boxes of Pascal, PCIe", DEEPBENCH, ("GTX 1080 Ti", "TITAN X (Pascal)"), "4x-pcie-box", _PCIE, 0.2,
           nodes=None, whole=True),
    System("boxes of Maxwell and P100, PCIe", DEEPBENCH, ("M40", "GTX TITAN X (Maxwell)", "P100-PCIe"), "4x-pcie-box",
           _PCIE, 0.2, nodes=None, whole=True,
           changes=("collectives=collectives/nccl2-pcie-host",)),
    System("Xeon Phi, one a node", DEEPBENCH, ("Xeon Phi 7250",), "4x-pcie-box",
           (("simple.base",), ("simple.share_between",), ("simple.between", "simple.tree_between")), 0.2, nodes=None,
           changes=("collectives=collectives/mlsl", "nodes.node.count=32", "nodes.node.devices.gpu.count=1",
                    "nodes.node.fabrics={}"), whole=True, alone=True),
)  # fmt: skip
"""Machines, with the medians that are claimed of their sets."""
SIZES = ((2**20, "below 1 MiB"), (2**24, "1 to 16 MiB"), (float("inf"), "above"))
"""Regimes of sizes."""


class Outcome(NamedTuple):
    """A machine with its rows: times of its cluster as it ships, and of each row by a fit that had not seen it, s."""

    system: System
    rows: Measured
    shipped: Floats
    left_out: Floats

    def sets(self) -> Iterator[tuple[str, list[int]]]:
        """(name, rows) of every set, kinds and ranks in order."""
        if self.system.whole:
            yield f"{self.system.title}, all_reduce", list(range(len(self.rows.nbytes)))
            return
        for sort in sorted(set(self.rows.sorts), key=lambda each: (each.kind, each.nodes, each.ranks)):
            yield (f"{self.system.title}, {sort}", [row for row, each in enumerate(self.rows.sorts) if each == sort])


def outcome(system: System, data: Path) -> Outcome:
    """A machine compared. Raises UsageError for rows that are none."""
    cluster = load_cluster(system.cluster, system.changes)
    model = Model(system.rows(data), build(cluster), library_of(cluster, system.software))
    return Outcome(system, model.rows, model.seconds(), held_out(model, system.free))


@check("collectives")
def collectives() -> Check:
    """All-reduce and messages of communication libraries, system by system."""
    what = "collectives of NCCL and MLSL against measured times, by cross-validation"
    data = folder()
    if data is None:
        return Check("collectives", what, 0, 0, np.zeros(0), [ABSENT])
    found = [outcome(system, data) for system in SYSTEMS]
    told = [(each, name, rows) for each in found for name, rows in each.sets()]
    agree = [_errors(each, rows).median <= each.system.claimed for each, _, rows in told]
    return Check(
        "collectives", what, len(told), sum(agree),
        np.concatenate([each.left_out / each.rows.seconds - 1 for each in found]),
        [_said(*each) for each in told], "median error as claimed", compared=[_compared(each) for each in found],
    )  # fmt: skip


def _errors(each: Outcome, rows: Sequence[int]) -> Residuals:
    return residuals(each.left_out[rows], each.rows.seconds[rows])


def _said(each: Outcome, name: str, rows: Sequence[int]) -> str:
    """A set in a sentence."""
    left, shipped = _errors(each, rows), residuals(each.shipped[rows], each.rows.seconds[rows])
    return (
        f"{name}: {left.rows:,} rows, median {left.median:.1%}, mean {left.mean:.1%}, 90th percentile {left.p90:.1%} "
        f"of rows left out (claimed: median {each.system.claimed:.0%}); {shipped.median:.1%}, {shipped.mean:.1%}, "
        f"{shipped.p90:.1%} by the constants that ship; median by size: {'; '.join(_by_size(each, rows))}"
    )


def _by_size(each: Outcome, rows: Sequence[int]) -> Iterator[str]:
    regimes = regime(each.rows)
    for _, name in SIZES:
        own = [row for row in rows if regimes[row] == name]
        if own:
            yield f"{name} {_errors(each, own).median:.1%} ({len(own)} rows)"


def regime(rows: Measured) -> list[str]:
    """Regime of size of each row."""
    limits = np.array([limit for limit, _ in SIZES])
    return [SIZES[place][1] for place in np.searchsorted(limits, rows.nbytes, side="right").tolist()]


def _compared(each: Outcome) -> Compared:
    factor = float(np.quantile(np.exp(np.abs(np.log(each.left_out / each.rows.seconds))), 0.9))
    return Compared(
        each.system.title, each.rows.seconds, each.left_out, np.array(regime(each.rows), dtype=object), factor
    )
