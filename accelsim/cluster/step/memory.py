"""Memory of the devices of a step over time, and the refusal of what does not fit, all devices at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.shapes.building import Share
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.tensor import LONG_B, SHORT_B
from accelsim.cluster.step.work import UNITS, Piece, units_of
from accelsim.errors import AccelsimError, Infeasible, Problem, count_of, memory_text
from accelsim.spec.chip import Chip
from accelsim.spec.link import Link
from accelsim.spec.memory import Buffer, Memory
from accelsim.time import FS_PER_S

OPTIMISER_B = 3 * LONG_B
"""Bytes of a parameter that Adam keeps: the weight in 32 bits, its two moments."""


def static_B(pieces: Sequence[Sequence[Piece]], plan: Plan, gradient_B: int) -> dict[str, list[int]]:
    """Return kind -> bytes of each stage that stay, in the order of ``pieces`` [stage][chunk]. With ZeRO the replicas
    share out first the states of the optimiser, then gradients, then weights (Rajbhandari et al., SC20, section 5), and
    hold ``UNITS`` units of layers whole: one at work, one on its way."""
    counts = [sum(sum(piece.parameters) for piece in stage) for stage in pieces]
    shares = [plan.dp if plan.zero > level else 1 for level in range(3)]
    units = [max((max(units_of(piece.parameters), default=0) for piece in stage), default=0) for stage in pieces]
    flying = gradient_B * plan.shares_gradients + SHORT_B * (plan.zero == 3 and plan.dp > 1)
    return {
        "weights": [-(-SHORT_B * count // shares[2]) for count in counts],
        "gradients": [-(-gradient_B * count // shares[1]) for count in counts],
        "optimiser": [-(-OPTIMISER_B * count // shares[0]) for count in counts],
        "gathered": [UNITS * flying * unit for unit in units],
        "buffers": [max(piece.working_B + 2 * piece.result_B for piece in stage) for stage in pieces],
    }


HELD = frozenset({"weights", "activations"})
"""Contents of memories that a training uses."""


def capacity_B(chip: Chip) -> int:
    """Return the capacity of a chip's memories for weights and activations; of tiles that reach no other memory,
    without what they keep for code."""
    attached = _attached(chip)
    return sum(int(each.capacity) for each in attached) if attached else sum(map(_on_chip_B, chip.views()))


def bandwidth_Bps(chip: Chip) -> int:
    """Return the rate of the slowest of these memories, one way."""
    rates = [float(each.bandwidth) for each in _attached(chip)]
    if not rates:
        widths = ((view, min(each.read_width, each.write_width)) for view in chip.views() for each in _buffers(view))
        rates = [view.core.count * width * float(chip.clock) for view, width in widths]
    return max(1, int(min(rates, default=0)))


def _attached(chip: Chip) -> list[Memory]:
    own = (attached for attached in chip.memories.values() if attached.link is None)
    return [attached.memory for attached in own if HELD & set(attached.holds)]


def _buffers(view: Chip) -> list[Buffer]:
    return [buffer for buffer in view.buffers.values() if HELD & set(buffer.holds)]


def _on_chip_B(view: Chip) -> int:
    """Return the bytes in the memories of tiles of all cores of that kind."""
    pairs = ((spec, buffer) for spec in view.engines.values() for buffer in _buffers(view))
    return view.core.count * sum(spec.kept_B(buffer) for spec, buffer in pairs)


ADVICE = (
    "more stages or tensor parallelism, smaller microbatches, recompute=full, zero=1 to 3, --offload-activations; or, "
    "for a study, --ignore-capacity"
)
"""Advice for a training that does not fit."""


class OutOfMemory(Infeasible):
    """A plan whose devices hold more than they have room for. ``needs``: (ranks, bytes by kind, capacity) of each kind
    of device that does. The fields of ``Infeasible`` are those of the device that lacks most."""

    def __init__(
        self, model: str, needs: Iterable[tuple[Sequence[int], Mapping[str, int], int]], advice: str = ADVICE
    ) -> None:
        self.model, self.needs = model, tuple(needs)
        worst = max(self.needs, key=lambda need: sum(need[1].values()) - need[2])
        ranks, parts, room = worst
        more = f", and {count_of(len(self.needs) - 1, 'more stage')}" if len(self.needs) > 1 else ""
        self.rank = ranks[0]
        self.op, self.buffer, self.tile, self.why = model, f"memory of device {self.rank}", "", ""
        self.needed_B, self.available_B = sum(parts.values()), room
        AccelsimError.__init__(self, need_text(*worst) + more, model, advice)
        self.args = (model, self.needs, advice)


def need_text(ranks: Sequence[int], parts: Mapping[str, int], room_B: int) -> str:
    """Return a text such as 'device 0 and 15 more: 20 GiB of weights, ... are 90 GiB of 80 GiB'."""
    more = f" and {len(ranks) - 1:,} more" if len(ranks) > 1 else ""
    terms = ", ".join(f"{memory_text(size)} of {kind}" for kind, size in parts.items() if size)
    return f"device {ranks[0]}{more}: {terms} are {memory_text(sum(parts.values()))} of {memory_text(room_B)}"


HOST = "host"
"""Name of the contents of a memory that a chip reaches over a link to its host."""


class ToHost(NamedTuple):
    """Route of a device to the memory of its host: the link, bytes per second in one direction, bytes of its memory."""

    link: Link
    rate_Bps: float
    capacity_B: int

    def sent_fs(self, nbytes: int) -> int:
        """Return the time of so many bytes in one direction."""
        return round(nbytes / self.rate_Bps * FS_PER_S)

    @property
    def name(self) -> str:
        """Name of the link in tables of bytes, other than those of the network."""
        return f"{HOST} {self.link.kind}"


def to_host(fleet: Fleet, rank: int) -> ToHost | None:
    """Return the route of a device to its host, None where its chip has no link to one. The host's memory is that of
    the cluster's node, shared by its devices, else that of the chip."""
    for attached in fleet.chips[rank].memories.values():
        if attached.link is not None and HOST in attached.holds:
            own = Share(float(attached.memory.rate_Bps), attached.memory.capacity)
            share = (fleet.hosts[rank] if fleet.hosts else None) or own
            return ToHost(attached.link, min(float(attached.link.bandwidth), share.rate_Bps), share.capacity_B)
    return None


def offload_problems(fleet: Fleet, tokens: int, name: str) -> Iterator[Problem]:
    """Yield the problems of offloading for a model with ``tokens`` per sample, and for a cluster."""
    option = "--offload-activations"
    if not tokens:
        yield Problem(f"activations of {name} in the memory of a host", option, "a decoder")
    ranks = {chip.name: rank for rank, chip in enumerate(fleet.chips)}
    for chip, rank in ranks.items():
        if to_host(fleet, rank) is None:
            yield Problem(f"{chip} has no link to the memory of a host", option, "a chip with one")
