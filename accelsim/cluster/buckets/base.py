"""Gradients, buckets of them, and what a policy of fusion is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from accelsim.errors import Problem, UsageError

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
    """How gradients become buckets.

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
        problems = []
        if self.threshold_B is not None and self.threshold_B < 0:
            problems.append(Problem(f"{self.threshold_B} B", "threshold", "bytes from 0"))
        if self.cycle_fs < 0:
            problems.append(Problem(f"{self.cycle_fs} fs", "cycle", "a time from 0"))
        if self.compression not in COMPRESSED:
            problems.append(Problem(repr(self.compression), "compression", f"one of {', '.join(COMPRESSED)}"))
        if self.memory_Bps is not None and self.memory_Bps < 1:
            problems.append(Problem(f"{self.memory_Bps} B/s", "memory bandwidth", "bytes per second from 1"))
        if problems:
            raise UsageError(problems)

    def sent_B(self, nbytes: int, dtype: str) -> int:
        """Return what of gradients of a format goes over the network, rounded up."""
        above, below = COMPRESSED[self.compression].get(dtype, (1, 1))
        return -(-nbytes * above // below)


class Formed(NamedTuple):
    """A bucket before it is sent: numbers of its gradients, and when it may go."""

    members: tuple[int, ...]
    ready_fs: int


Form = Callable[[Sequence[Gradient], Fusion], list[Formed]]
"""Buckets of gradients, which stand in the order in which they are ready, in the order in which they are sent."""


@dataclass(frozen=True)
class Policy:
    """A way to fuse: ``name`` is its key, ``threshold_B`` what it has where none is given; ``source``: who does so.

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
        """The threshold that holds."""
        return self.threshold_B if fusion.threshold_B is None else fusion.threshold_B


def filled(
    gradients: Sequence[Gradient], members: Sequence[int], limit_B: int, *, closes: bool = False
) -> Iterator[tuple[int, ...]]:
    """Gradients in order, cut where the format changes or the next does not fit into ``limit_B``.

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
