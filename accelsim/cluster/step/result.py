"""Result of a training step: its timeline, the parts of its time, memory of devices, energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, fsum
from typing import NamedTuple

from accelsim.account.interval import WALL, joules_ends
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.played import MemoryTrace
from accelsim.errors import UsageError
from accelsim.kernels.whole import Interval
from accelsim.time import FS

PARTS: Mapping[str, str] = {
    "compute": "forward and backward passes of the busiest stage",
    "recompute": "recomputation of activations in that stage",
    "tensor": "collectives of the tensor-parallel group",
    "host": "waiting for the host to launch kernels",
    "bubble": "idle stages: pipeline fill, drain, imbalance",
    "pipeline": "waiting for transfers between stages",
    "stragglers": "waiting for devices slower than their chip",
    "data": "gradient collectives not hidden by computation",
    "offload": "activations on their way to the host and back",
    "optimiser": "the weight update",
}
"""Parts of a step, in the order of tables -> what they are. They add up to its time."""


class Slice(NamedTuple):
    """Work of a device from ``start_fs`` to ``end_fs``. ``kind``: 'compute', 'recompute', 'communication', 'wait',
    'optimiser'; ``label`` says which pass of which microbatch, or which collective."""

    start_fs: int
    end_fs: int
    kind: str
    label: str


class Synced(NamedTuple):
    """The end of the step on the devices of a stage: when gradients are added up, weights updated, all done.

    ``busy``: (start, end, what) of its collectives, in order, of buckets with their copies; ``update_J``, ``energy_J``:
    of the update on all its devices, of its collectives; ``by_link_B``: bytes of these; ``factor``: the widest of their
    intervals. With local SGD each step has its share of what is sent once in a period.
    """

    reduced_fs: int
    updated_fs: int
    done_fs: int
    busy: tuple[tuple[int, int, str], ...]
    update_J: float
    energy_J: float
    by_link_B: tuple[tuple[str, int], ...]
    factor: float = 1.0


NOT_CALIBRATED = "not calibrated"
"""Text in ``StepResult.calibrated`` for a chip without fitted constants."""


@dataclass(frozen=True)
class Device:
    """One device for all that do the same: ``ranks``. ``memory``: by kind over time, ``capacity_B``: its room. ``made``
    gives the timeline; ``host_B``: most activations in the memory of its host at one time."""

    ranks: tuple[int, ...]
    stage: int
    chip: str
    made: Callable[[], tuple[Slice, ...]] = field(repr=False, compare=False)
    memory: MemoryTrace = field(repr=False)
    capacity_B: int
    host_B: int = 0

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Everything that the device did, in order, without gaps."""
        return self.made()

    @property
    def spent_fs(self) -> dict[str, int]:
        """Kind of slice -> time, fs; the times add up to the step."""
        found: dict[str, int] = {}
        for piece in self.slices:
            found[piece.kind] = found.get(piece.kind, 0) + piece.end_fs - piece.start_fs
        return found

    @property
    def fits(self) -> bool:
        """Return whether the device has room for everything that it holds at one time."""
        return self.memory.peak_B <= self.capacity_B


class Refused(NamedTuple):
    """Bytes that a device would hold without recomputation, and its room."""

    rank: int
    needed_B: int
    capacity_B: int


@dataclass(frozen=True)
class StepResult:
    """Result of one training step of a plan on a cluster.

    ``parts_fs``: see ``PARTS``. ``devices``: those that differ. ``flops``: of the model, nothing twice;
    ``flops_done``: what is computed again too; ``peak_flops``: of all devices together in the format of the products.
    ``energy_J``: of devices and links, by what draws it; ``wall_J``: of their servers at the wall, None where the
    cluster does not state what these draw. ``by_link_B``: bytes over all wires, by the name of their link.
    ``calibrated``: chip -> what its constants come of. ``refused``: where the plan left open what is computed again and
    nothing did not fit. ``tried``: samples of the microbatches that were tried, where the plan left them open.
    ``dtype``: number formats of the passes, one for all chips but in mixed clusters.
    ``interval``: nine of ten steps take no less and no more, by the kernels of the busiest stage or by measured steps;
    None on chips without kernels. ``parts_ends_s``: part of collectives -> ends of its interval by those of the
    library, where it was measured.
    """

    model: str
    cluster: str
    plan: Plan
    batch: int
    microbatch: int
    unit: str
    sample_tokens: int
    time_fs: int
    parts_fs: Mapping[str, int]
    devices: tuple[Device, ...]
    flops: int
    flops_done: int
    peak_flops: float
    energy_J: Mapping[str, float]
    by_link_B: Mapping[str, int]
    calibrated: Mapping[str, str] = field(default_factory=dict)
    refused: Refused | None = None
    tried: tuple[int, ...] = ()
    interval: Interval | None = None
    dtype: str = ""
    parts_ends_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    wall_J: float | None = None

    @property
    def time_s(self) -> float:
        """Time of the step."""
        return self.time_fs * FS

    @property
    def mfu(self) -> float:
        """Share of the peak of all devices that the model's operations use; recomputation does not count."""
        return self.flops / (self.time_s * self.peak_flops)

    @property
    def hfu(self) -> float:
        """Share of the peak of all devices that is used, with recomputation."""
        return self.flops_done / (self.time_s * self.peak_flops)

    @property
    def samples_per_s(self) -> float:
        """Return the samples of all replicas per second."""
        return self.batch / self.time_s

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second, 0 for what has none."""
        return self.samples_per_s * self.sample_tokens

    @property
    def samples_ends_per_s(self) -> tuple[float, float] | None:
        """Interval of ``samples_per_s``, the inverse of that of the time."""
        return self.interval and self.interval.rates(self.batch)

    @property
    def tokens_ends_per_s(self) -> tuple[float, float] | None:
        """Interval of ``tokens_per_s``."""
        return self.interval and self.interval.rates(self.batch * self.sample_tokens)

    @property
    def total_J(self) -> float:
        """Energy of the step, J: devices and links."""
        return fsum(self.energy_J.values())

    @property
    def ends_J(self) -> tuple[float, float] | None:
        """Interval of ``total_J``; None where the time has none."""
        return None if self.interval is None else joules_ends(self.total_J)

    @property
    def wall_ends_J(self) -> tuple[float, float] | None:
        """Interval of the energy at the wall; None where that or the time has none."""
        return None if self.interval is None or self.wall_J is None else joules_ends(self.wall_J, WALL)

    @property
    def sample_J(self) -> float:
        """Energy of a sample, J."""
        return self.total_J / self.batch

    @property
    def fullest(self) -> Device:
        """Device with the least room left."""
        return max(self.devices, key=lambda each: each.memory.peak_B / each.capacity_B)

    def check(self) -> list[str]:
        """Return contradictions in words; [] where everything holds."""
        wrong = []
        if sum(self.parts_fs.values()) != self.time_fs:
            wrong.append(f"parts add up to {sum(self.parts_fs.values())} fs of {self.time_fs}")
        wrong += [f"{name} takes {fs} fs" for name, fs in self.parts_fs.items() if fs < 0]
        for stage, spent in ((device.stage, device.spent_fs) for device in self.devices):
            if sum(spent.values()) != self.time_fs:
                wrong.append(f"stage {stage} spends {sum(spent.values())} fs of {self.time_fs}")
            if spent.get("compute", 0) > self.time_fs:
                wrong.append(f"stage {stage} computes longer than the step takes")
        ranks = sorted(rank for device in self.devices for rank in device.ranks)
        if ranks != list(range(self.plan.devices)):
            wrong.append("not every device is there once")
        return wrong

    def as_dict(self) -> dict[str, object]:
        """Return the facts for JSON; the unit is the end of each key."""
        return {
            "model": self.model, "dtype": self.dtype, "cluster": self.cluster, "plan": str(self.plan),
            "devices": self.plan.devices, "batch": self.batch, "microbatch": self.microbatch,
            "microbatches": self.plan.microbatches,
            "time_s": self.time_s, "interval_s": self.interval and [self.interval.low_s, self.interval.high_s],
            "interval_basis": self.interval and self.interval.basis,
            "parts_s": {name: fs * FS for name, fs in self.parts_fs.items()},
            "parts_interval_s": {name: list(ends) for name, ends in self.parts_ends_s.items()},
            "mfu": self.mfu, "hfu": self.hfu, "samples_per_s": self.samples_per_s, "tokens_per_s": self.tokens_per_s,
            "samples_interval_per_s": self.samples_ends_per_s and list(self.samples_ends_per_s),
            "tokens_interval_per_s": self.tokens_ends_per_s and list(self.tokens_ends_per_s),
            "energy_J": {**self.energy_J, "total": self.total_J}, "sample_J": self.sample_J,
            "energy_interval_J": self.ends_J and list(self.ends_J),
            "wall_J": self.wall_J, "wall_interval_J": self.wall_ends_J and list(self.wall_ends_J),
            "by_link_B": dict(self.by_link_B), "calibrated": dict(self.calibrated),
            "microbatches_tried": list(self.tried),
            "without_recompute": None if self.refused is None else self.refused._asdict(),
            "memory": [device_facts(device) for device in self.devices],
        }  # fmt: skip


def device_facts(device: Device) -> dict[str, object]:
    """Return what a kind of device did and held, for JSON."""
    return {
        "stage": device.stage,
        "ranks": list(device.ranks),
        "chip": device.chip,
        "memory_B": device.memory.parts_B(),
        "peak_B": device.memory.peak_B,
        "capacity_B": device.capacity_B,
        **({"host_B": device.host_B} if device.host_B else {}),
        "spent_s": {kind: fs * FS for kind, fs in device.spent_fs.items()},
    }


HOUR, DAY = 3600.0, 86400.0
KWH = 3.6e6
"""J."""


class Lasting(NamedTuple):
    """A whole training: tokens, steps, seconds (with the ends of their 90 % interval, where known), joules of devices
    and links, and joules at the wall where known. It has steps only: no evaluation, checkpoints or failures."""

    tokens: int
    steps: int
    seconds: float
    low_s: float | None
    high_s: float | None
    joules: float
    wall_J: float | None = None

    @property
    def days(self) -> float:
        """Days of 24 hours."""
        return self.seconds / DAY

    @property
    def kWh(self) -> float:
        """Energy of all devices and links."""
        return self.joules / KWH

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the facts for JSON."""
        return {**self._asdict(), "days": self.days, "kWh": self.kWh}


def lasting(step: StepResult, tokens: int) -> Lasting:
    """Return a training on ``tokens`` by steps like this one, the last of them whole. Raises UsageError for a model
    whose samples have no tokens."""
    each = step.batch * step.sample_tokens
    if not each:
        raise UsageError(f"samples of {step.model} have no tokens", "tokens", "a language model")
    steps, interval = ceil(tokens / each), step.interval
    return Lasting(
        tokens,
        steps,
        steps * step.time_s,
        None if interval is None else steps * interval.low_s,
        None if interval is None else steps * interval.high_s,
        steps * step.total_J,
        None if step.wall_J is None else steps * step.wall_J,
    )
