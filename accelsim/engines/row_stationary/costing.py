"""Clocks and ledger entries of the parts of a processing pass, from the closed forms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from accelsim.engines.row_stationary.counts import pass_counts
from accelsim.engines.row_stationary.laws import ceil
from accelsim.engines.row_stationary.passes import Passes
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.engines.row_stationary.timing import image_clocks, load_clocks, skew_clocks, steps
from accelsim.engines.row_stationary.words import HOP, REGISTERS, register
from accelsim.program.actions import READ, WAYS, WRITE, Action, ActionName, mac
from accelsim.program.roles import Roles
from accelsim.program.work import Cycles
from accelsim.program.writing.entries import nbytes
from accelsim.workload.graph import Tensor

FILTERS = ("filter_pad_writes", "noc_filter", "glb_filter_reads")
"""Counts of a pass that are those of its load, however many ifmaps follow."""


def one_pass(f: int, c: int, n: int, e: int, before: int, first: bool, last: bool, fetches: bool) -> Passes:
    """The kind of a single pass, see ``Passes``."""
    flags = (before, int(first), int(last), int(fetches))
    return Passes(*(np.array([value], dtype=np.int64) for value in (1, f, c, n, e, *flags)))


@dataclass
class Costing:
    """Costs of the passes of one step; passes of one kind cost the same and are worked out once."""

    roles: Roles
    dtype: str
    sums: str
    conv: Conv
    array: Geometry
    mapping: Mapping
    _known: dict[tuple[tuple[int, ...], int, bool], list[tuple[Cycles, tuple[Action, ...]]]] = field(
        default_factory=dict
    )

    def name(self, a: Tensor, b: Tensor, out: str) -> None:
        """The tensors that the ledger names: ifmap, filters, ofmap."""
        self.a, self.b, self.out = a, b, out

    def sums_B(self, words: int) -> int:
        """Bytes of so many psums."""
        return nbytes(self.sums, words)

    def parts(self, kind: Passes, parts: int, closes: bool) -> list[tuple[Cycles, tuple[Action, ...]]]:
        """Work and entries of each part of a pass: 1, or one for each of its ifmaps. ``closes``: it is the last pass of
        an output tile, whose sums leave before the next tile begins."""
        key = (tuple(int(each[0]) for each in kind), parts, closes)
        if key not in self._known:
            work = self._work(kind, parts, closes)
            each = kind if parts == 1 else kind._replace(n=np.ones_like(kind.n))
            self._known[key] = [(clocks, self._actions(each, not at)) for at, clocks in enumerate(work)]
        return self._known[key]

    def _work(self, kind: Passes, parts: int, closes: bool) -> list[Cycles]:
        """Filters are read in the load, ifmaps until the last step (or the window of the ifmap behind) begins."""
        maps = self.mapping.many()
        clocks = image_clocks(self.conv, self.array, maps, kind)
        clocks = clocks if parts > 1 else [sum(clocks)]
        load = int(load_clocks(self.conv, self.array, kind)[0])
        each = steps(self.conv, self.array, maps, kind)
        window = int(np.maximum(each.window, each.out)[0])
        tail = int((np.maximum(each.busy, each.out) + skew_clocks(self.conv, maps, kind))[0])
        ends = [*[window] * (len(clocks) - 1), tail]
        drain = int(ceil(kind.f * kind.e, self.array.psum_words)[0]) if closes else 0
        return [
            Cycles(
                total + (drain if at == len(clocks) - 1 else 0),
                w=1 if at else max(1, load),
                a=max(1, 0 if at else load, total - end),
            )
            for at, (total, end) in enumerate(zip(clocks, ends, strict=True))
        ]

    def _actions(self, kind: Passes, loads: bool) -> tuple[Action, ...]:
        """Entries of a part; only the one that ``loads`` has those of the filters."""
        found = {name: int(words[0]) for name, words in pass_counts(self.conv, self.mapping.many(), kind).items()}
        if not loads:
            found |= dict.fromkeys(FILTERS, 0)
        a, b, out = self.a, self.b, self.out
        size_B = {"ifmap": a.size_B, "filter": b.size_B, "psum": self.sums_B}
        array, roles = self.roles.products, self.roles
        entries = [Action(array, mac(self.dtype), "", found["macs"])]
        for kinds in REGISTERS:
            for way in WAYS:
                count = size_B[kinds](found[f"{kinds}_pad_{way}s"])
                entries.append(Action(array, register(kinds, way), "", count))
        psums = found["noc_psum_in"] + found["noc_psum_out"]
        for kinds, words in (("ifmap", found["noc_ifmap"]), ("filter", found["noc_filter"]), ("psum", psums)):
            entries.append(Action(array, ActionName("bus", kinds), "", size_B[kinds](words)))
        glb, sums_B = roles.engine(roles.activations), self.sums_B
        entries += [
            Action(array, HOP, "", sums_B(found["psum_hops"])),
            Action(glb, READ, a.name, a.size_B(found["glb_ifmap_reads"])),
            Action(roles.engine(roles.weights), READ, b.name, b.size_B(found["glb_filter_reads"])),
            Action(glb, READ, out, sums_B(found["glb_psum_reads"])),
            Action(glb, WRITE, out, sums_B(found["glb_psum_writes"])),
        ]
        return tuple(entry for entry in entries if entry.count)
