"""Clocks and ledger entries of the parts of a processing pass, from the closed forms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from accelsim.engines.row_stationary.counts import Passes, pass_counts
from accelsim.engines.row_stationary.laws import ceil
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.engines.row_stationary.timing import image_clocks, load_clocks, skew_clocks, steps
from accelsim.program.actions import READ, WAYS, WRITE, Action, ActionName, mac
from accelsim.program.roles import Roles
from accelsim.program.work import Cycles
from accelsim.program.writing.entries import nbytes
from accelsim.workload.graph import Tensor

HOP = ActionName("pe_network", "hop")
REGISTERS = {"ifmap": "ifmap registers", "filter": "filter registers", "psum": "psum registers"}
"""Registers of a PE: prefix of their actions -> what they are called."""
NETWORKS = {
    ActionName("bus", "ifmap"): "the bus of ifmaps",
    ActionName("bus", "filter"): "the bus of filters",
    ActionName("bus", "psum"): "the buses of psums",
    HOP: "psums from PE to PE",
}
Part = tuple[Cycles, tuple[Action, ...]]
"""Work and ledger entries of a part of a pass."""


def register(kind: str, way: str) -> ActionName:
    """Return the action of bytes out of or into one of ``REGISTERS``."""
    return ActionName(f"{kind}_register", way)


def one_pass(f: int, c: int, n: int, e: int, before: int, first: bool, last: bool, fetches: bool) -> Passes:
    """Return the kind of a single pass, see ``Passes``."""
    flags = (before, int(first), int(last), int(fetches))
    return Passes(*(np.array([value], dtype=np.int64) for value in (1, f, c, n, e, *flags)))


@dataclass
class Costing:
    """Costs of the passes of one step with operands ``a`` (ifmap) and ``b`` (filters), result ``out`` and psums in the
    format ``sums``; passes of one kind cost the same and are worked out once."""

    roles: Roles
    dtype: str
    sums: str
    conv: Conv
    array: Geometry
    mapping: Mapping
    a: Tensor
    b: Tensor
    out: str
    _known: dict[tuple[tuple[int, ...], int, bool], list[Part]] = field(default_factory=dict)

    def sums_B(self, words: int) -> int:
        """Return the bytes of so many psums."""
        return nbytes(self.sums, words)

    def parts(self, kind: Passes, parts: int, closes: bool) -> list[Part]:
        """Return each part of a pass: 1, or one for each of its ifmaps. ``closes``: it is the last pass of an output
        tile, whose sums leave before the next tile begins."""
        key = (tuple(int(each[0]) for each in kind), parts, closes)
        if key not in self._known:
            work = self._work(kind, parts, closes)
            each = kind if parts == 1 else kind._replace(n=np.ones_like(kind.n))
            self._known[key] = [(clocks, self._actions(each, not at)) for at, clocks in enumerate(work)]
        return self._known[key]

    def _work(self, kind: Passes, parts: int, closes: bool) -> list[Cycles]:
        """Filters are read in the load, ifmaps until the last step (or the window of the next ifmap) begins."""
        maps = self.mapping.many()
        clocks = image_clocks(self.conv, self.array, maps, kind)
        clocks = clocks if parts > 1 else [sum(clocks)]
        load = int(load_clocks(self.conv, self.array, kind)[0])
        each = steps(self.conv, self.array, maps, kind)
        tail = int((np.maximum(each.busy, each.out) + skew_clocks(self.conv, maps, kind))[0])
        ends = [*[int(np.maximum(each.window, each.out)[0])] * (len(clocks) - 1), tail]
        found = [
            Cycles(total, w=1 if at else max(1, load), a=max(1, 0 if at else load, total - end))
            for at, (total, end) in enumerate(zip(clocks, ends, strict=True))
        ]
        if closes:
            drain = int(ceil(kind.f * kind.e, self.array.psum_words)[0])
            found[-1] = found[-1]._replace(clocks=found[-1].clocks + drain)
        return found

    def _actions(self, kind: Passes, loads: bool) -> tuple[Action, ...]:
        """Entries of a part; only the one that ``loads`` has those of the filters, however many ifmaps follow."""
        counts = pass_counts(self.conv, self.mapping.many(), kind)
        found = {name: int(words[0]) for name, words in vars(counts).items()}
        if not loads:
            found |= dict.fromkeys(("filter_pad_writes", "noc_filter", "glb_filter_reads"), 0)
        a, b, sums_B, roles = self.a, self.b, self.sums_B, self.roles
        found["noc_psum"] = found["noc_psum_in"] + found["noc_psum_out"]
        size_B = {"ifmap": a.size_B, "filter": b.size_B, "psum": sums_B}
        array, glb = roles.products, roles.engine(roles.activations)
        entries = [
            Action(array, mac(self.dtype), "", found["macs"]),
            *(
                Action(array, register(kind, way), "", size_B[kind](found[f"{kind}_pad_{way}s"]))
                for kind in REGISTERS
                for way in WAYS
            ),
            *(Action(array, ActionName("bus", kind), "", size_B[kind](found[f"noc_{kind}"])) for kind in REGISTERS),
            Action(array, HOP, "", sums_B(found["psum_hops"])),
            Action(glb, READ, a.name, a.size_B(found["glb_ifmap_reads"])),
            Action(roles.engine(roles.weights), READ, b.name, b.size_B(found["glb_filter_reads"])),
            Action(glb, READ, self.out, sums_B(found["glb_psum_reads"])),
            Action(glb, WRITE, self.out, sums_B(found["glb_psum_writes"])),
        ]
        return tuple(entry for entry in entries if entry.count)
