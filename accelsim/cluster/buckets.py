"""Gradients fused into buckets and sent while the backward pass goes on: policies, and how long a step waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Literal, NamedTuple

from accelsim.errors import Gather, Problem, UsageError, known

MIB = 2**20
MILLISECOND_FS = 10**12

Compression = Literal["none", "fp16"]
COMPRESSED: dict[Compression, dict[str, tuple[int, int]]] = {
    "none": {},
    "fp16": {"fp64": (1, 4), "fp32": (1, 2), "tf32": (1, 2)},
}
"""Compression -> format of a gradient -> its share of the bytes that are sent; others are sent as they are."""


class Gradient(NamedTuple):
    """A tensor's gradient: when the backward has made it, its bytes, its number format."""

    name: str
    ready_fs: int
    nbytes: int
    dtype: str = "fp32"


@dataclass(frozen=True)
class Fusion:
    """Options that form buckets of gradients.

    ``policy``: a key of ``POLICIES``; ``threshold_B``: most bytes of a bucket (``None``: as the policy has it);
    ``cycle_fs``: time between two looks at what is ready; ``compression``: "fp16" halves what is sent of fp32.
    ``memory_Bps``: bandwidth of the device's memory, which copies into and out of the buffer take (2 S / bandwidth, of
    buckets of several tensors, where the policy copies) and casts (3/2 S, both ways); ``None``: they cost nothing.
    """

    policy: str = "horovod"
    threshold_B: int | None = None
    cycle_fs: int = MILLISECOND_FS
    compression: Compression = "none"
    memory_Bps: int | None = None

    def __post_init__(self) -> None:
        gather, memory_Bps, compressions = Gather(), self.memory_Bps, f"one of {', '.join(COMPRESSED)}"
        gather.refuse((self.threshold_B or 0) < 0, f"{self.threshold_B} B", "threshold", "bytes from 0")
        gather.refuse(self.cycle_fs < 0, f"{self.cycle_fs} fs", "cycle", "a time from 0")
        gather.refuse(self.compression not in COMPRESSED, repr(self.compression), "compression", compressions)
        slow = memory_Bps is not None and memory_Bps < 1
        gather.refuse(slow, f"{memory_Bps} B/s", "memory bandwidth", "bytes per second from 1")
        gather.done()

    def sent_B(self, nbytes: int, dtype: str) -> int:
        """Return what of gradients of a format goes over the network, rounded up."""
        above, below = COMPRESSED[self.compression].get(dtype, (1, 1))
        return -(-nbytes * above // below)


class Formed(NamedTuple):
    """A bucket before it is sent: indices of its gradients, and the time from which it may be sent."""

    members: tuple[int, ...]
    ready_fs: int


Form = Callable[[Sequence[Gradient], Fusion], list[Formed]]
"""Buckets of gradients, which stand in the order in which they are ready, in the order in which they are sent."""


@dataclass(frozen=True)
class Policy:
    """A policy of fusion. ``name``: its key; ``threshold_B``: its default; ``source``: who does so.

    ``reads``: fields of ``Fusion`` that change its buckets. ``copies``: gradients go into a buffer and out of it again;
    else they are made where they are sent from.
    """

    name: str
    title: str
    form: Form
    source: str
    threshold_B: int = 0
    reads: tuple[Literal["threshold_B", "cycle_fs"], ...] = ()
    copies: bool = True

    def limit_B(self, fusion: Fusion) -> int:
        """Return the threshold in effect."""
        return self.threshold_B if fusion.threshold_B is None else fusion.threshold_B


def filled(
    gradients: Sequence[Gradient], members: Sequence[int], limit_B: int, *, closes: bool = False
) -> Iterator[tuple[int, ...]]:
    """Yield gradients in order, cut where the format changes or the next does not fit into ``limit_B``.

    ``closes``: a bucket may go beyond the limit with its last member and is closed then.
    """
    for _, alike in groupby(members, key=lambda index: gradients[index].dtype):
        bucket: list[int] = []
        held_B = 0
        for index in alike:
            size_B = gradients[index].nbytes
            full = held_B >= limit_B if closes else held_B + size_B > limit_B
            if bucket and full:
                yield tuple(bucket)
                bucket, held_B = [], 0
            bucket.append(index)
            held_B += size_B
        yield tuple(bucket)


def last_ready(gradients: Sequence[Gradient], members: Sequence[int]) -> int:
    """Return when the last member is ready."""
    return max(gradients[index].ready_fs for index in members)


def _horovod(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """At the end of each cycle all that is ready, in order, as few buckets as the threshold and formats allow.

    Without a cycle time each moment is a cycle of its own.
    """
    limit_B, cycle_fs, formed = HOROVOD.limit_B(fusion), fusion.cycle_fs, []

    def cycle_end_fs(index: int) -> int:
        ready_fs = gradients[index].ready_fs
        return -(-ready_fs // cycle_fs) * cycle_fs if cycle_fs else ready_fs

    for end_fs, members in groupby(range(len(gradients)), key=cycle_end_fs):
        formed += [Formed(bucket, end_fs) for bucket in filled(gradients, list(members), limit_B)]
    return formed


HOROVOD = Policy(
    "horovod",
    "Horovod: what is ready at the end of a cycle, up to a threshold",
    _horovod,
    source="Sergeev and Del Balso, Horovod, 1802.05799, section 4; horovod/horovod docs/tensor-fusion.rst",
    threshold_B=128 * MIB,
    reads=("threshold_B", "cycle_fs"),
)


def _horovod_ahead(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """Fill as few buckets as the threshold and formats allow, each sent when its last member is ready.

    Where kernels take longer than the host takes to ask for them, Horovod is handed all gradients before the device
    has made the first; it agrees on them in order, fills its buffer to the threshold, and waits for the device then.
    So the cycle time says nothing, and what the last bucket holds is sent after the backward pass.
    """
    buckets = filled(gradients, range(len(gradients)), HOROVOD_AHEAD.limit_B(fusion))
    return [Formed(bucket, last_ready(gradients, bucket)) for bucket in buckets]


HOROVOD_AHEAD = Policy(
    "horovod-ahead",
    "Horovod, its host ahead of the device: up to a threshold, sent when the last is ready",
    _horovod_ahead,
    source="horovod/horovod v0.13 horovod/common/operations.cc: tensors are fused when asked for, their ready events "
    "waited for afterwards",
    threshold_B=128 * MIB,
    reads=("threshold_B",),
)

FIRST_B = MIB
"""Bytes of DDP's first bucket, which is small so that something is sent early."""


def _ddp(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """Filled in the order in which gradients are ready; the cycle time says nothing here.

    A bucket is closed when it has reached the threshold, the first one at 1 MiB. Gradients are views of their bucket
    (gradient_as_bucket_view; Megatron-LM has one buffer for all), so that nothing is copied.
    """
    limit_B = DDP.limit_B(fusion)
    everything = range(len(gradients))
    first = next(filled(gradients, everything, min(FIRST_B, limit_B), closes=True), ())
    rest = filled(gradients, everything[len(first) :], limit_B, closes=True)
    buckets = [bucket for bucket in (first, *rest) if bucket]
    return [Formed(bucket, last_ready(gradients, bucket)) for bucket in buckets]


DDP = Policy(
    "ddp",
    "PyTorch DDP: fixed buckets, sent when the last member is ready",
    _ddp,
    source="Li et al., PyTorch Distributed, VLDB 2020, section 3.2",
    threshold_B=25 * MIB,
    reads=("threshold_B",),
    copies=False,
)


EACH = Policy(
    "each",
    "no fusion: each gradient alone",
    source="the limit of small buckets",
    form=lambda gradients, fusion: [Formed((at,), each.ready_fs) for at, each in enumerate(gradients)],
)


def _whole(gradients: Sequence[Gradient], fusion: Fusion) -> list[Formed]:
    """Put all gradients of a format into one bucket, after the backward pass."""
    by_format: dict[str, list[int]] = {}
    for index, gradient in enumerate(gradients):
        by_format.setdefault(gradient.dtype, []).append(index)
    end_fs = last_ready(gradients, range(len(gradients)))
    return [Formed(tuple(members), end_fs) for members in by_format.values()]


WHOLE = Policy("whole", "full fusion: one bucket behind the backward", _whole, "the limit of large buckets")

POLICIES: dict[str, Policy] = {each.name: each for each in (HOROVOD, HOROVOD_AHEAD, DDP, EACH, WHOLE)}
"""Name -> policy."""


def policy(name: str) -> Policy:
    """Return the policy of a name; UsageError with the nearest one."""
    return POLICIES[known("fusion policy", name, POLICIES)]


FEMTOSECONDS = 10**15
Cost = Callable[[int], int]
"""Time of the all-reduce of some bytes, fs."""


class Bucket(NamedTuple):
    """A bucket that was sent: numbers of its gradients; their bytes, and those on the network.

    ``ready_fs``: when it could go; ``start_fs``, ``end_fs``: on the stream; ``copy_fs``: what copies and casts take of
    this.
    """

    members: tuple[int, ...]
    nbytes: int
    sent_B: int
    ready_fs: int
    start_fs: int
    end_fs: int
    copy_fs: int


@dataclass(frozen=True)
class Overlapped:
    """Buckets in the order in which they were sent, beside a backward that takes ``backward_fs``."""

    buckets: tuple[Bucket, ...]
    backward_fs: int

    @cached_property
    def finish_fs(self) -> int:
        """Return when the last bucket has arrived, or the backward is done."""
        return max((bucket.end_fs for bucket in self.buckets), default=0)

    @property
    def exposed_fs(self) -> int:
        """Return how long the step waits for the buckets after its backward."""
        return max(0, self.finish_fs - self.backward_fs)

    @property
    def busy_fs(self) -> int:
        """Time that the stream is at work."""
        return sum(bucket.end_fs - bucket.start_fs for bucket in self.buckets)


def overlap(gradients: Sequence[Gradient], backward_fs: int, cost: Cost, fusion: Fusion | None = None) -> Overlapped:
    """Send buckets of gradients on one stream, one after the other, none before its last member is ready (R8).

    ``cost``: bytes -> fs of an all-reduce on the whole group, asked once per size. ``gradients`` may stand in any
    order; those that are ready at one time keep theirs. UsageError: a gradient of less than a byte, or ready after
    the backward.
    """
    chosen = fusion or Fusion()
    _check(gradients, backward_fs)
    order = sorted(range(len(gradients)), key=lambda index: gradients[index].ready_fs)
    known_fs: dict[int, int] = {}
    buckets, free_fs = [], 0
    for formed in policy(chosen.policy).form([gradients[index] for index in order], chosen):
        members = tuple(order[index] for index in formed.members)
        nbytes = sum(gradients[index].nbytes for index in members)
        sent_B, copy_fs = _packed(gradients, members, chosen)
        if sent_B not in known_fs:
            known_fs[sent_B] = cost(sent_B)
        start_fs = max(free_fs, formed.ready_fs)
        free_fs = start_fs + copy_fs + known_fs[sent_B]
        buckets.append(Bucket(members, nbytes, sent_B, formed.ready_fs, start_fs, free_fs, copy_fs))
    return Overlapped(tuple(buckets), backward_fs)


def _check(gradients: Sequence[Gradient], backward_fs: int) -> None:
    problems = [
        Problem(f"{gradient.nbytes} B", gradient.name, "a gradient of at least a byte")
        for gradient in gradients
        if gradient.nbytes < 1
    ] + [
        Problem(f"ready at {gradient.ready_fs} fs", gradient.name, f"a time within the backward, 0 to {backward_fs} fs")
        for gradient in gradients
        if not 0 <= gradient.ready_fs <= backward_fs
    ]
    if problems or not gradients:
        raise UsageError(problems or Problem("no gradients", "gradients", "at least one"))


def _packed(gradients: Sequence[Gradient], members: tuple[int, ...], fusion: Fusion) -> tuple[int, int]:
    """Bytes on the network, and time of copies and casts, of a bucket of one format."""
    nbytes = sum(gradients[index].nbytes for index in members)
    sent_B = fusion.sent_B(nbytes, gradients[members[0]].dtype)
    moved_B = 2 * sent_B if len(members) > 1 and policy(fusion.policy).copies else 0
    if sent_B < nbytes:
        moved_B += 2 * (nbytes + sent_B)
    if fusion.memory_Bps is None:
        return sent_B, 0
    return sent_B, moved_B * FEMTOSECONDS // fusion.memory_Bps
