"""Software of collectives: the named constants of a communication library, fitted or as it ships them."""

from __future__ import annotations

from typing import Annotated, Literal

from accelsim.spec.base import Model
from accelsim.spec.constants import IntervalOf
from accelsim.spec.counts import Name, Parts, Share, Words, once
from accelsim.spec.declaring import Field
from accelsim.spec.quantity import Bytes, BytesPerSecond, Seconds

Instant = Annotated[Seconds, Field(ge=0, le=1)]
"""Up to a second."""
Fill = Annotated[float, Field(ge=0, le=16)]
"""Steps that are waited for once more, 0 to 16."""
KindName = Literal[
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send_recv"
]
"""Kinds of collectives."""


AlgorithmName = Literal["ring", "one-shot", "two-shot", "switch"]
"""Algorithms of a protocol; ``ring`` includes the trees that join nodes."""


class Protocol(Model):
    """How a library moves the bytes of one step: NCCL has LL (flags beside each word), LL128 and Simple."""

    algorithm: AlgorithmName = Field(
        "ring",
        description="`ring`: rings, and trees between nodes; all-reduces inside a node alone: `one-shot` (each device "
        "reads the buffers of all others), `two-shot` (each adds up one part, then reads the parts of the others), "
        "`switch` (the switch adds up, where the fabric says `sums`)",
    )
    formats: Annotated[list[Name], once] | None = Field(
        None, description="number formats that it adds up; absent: all"
    )
    kinds: Annotated[list[KindName], once] | None = Field(
        None, description="collectives that it serves; absent: all that no other protocol names"
    )
    share: Share = Field(1.0, description="of the bandwidth of a link that is left for data")
    share_between: Share | None = Field(None, description="the same between nodes; absent: `share`")
    flow: BytesPerSecond | None = Field(
        None,
        description="most that rings and single messages send from node to node; absent: what links allow",
    )
    lane: BytesPerSecond | None = Field(
        None,
        description="most that a device sends to one other where it sends directly (all_to_all, send_recv, "
        "`one-shot`, `two-shot`); absent: what links allow",
    )
    tree_flow: BytesPerSecond | None = Field(
        None,
        description="most that trees send from node to node for each device there; absent: what links allow",
    )
    base: Instant = Field(0.0, description="once per collective by this protocol")
    inside: Instant | None = Field(
        None, description="each step inside a node, the link with it; absent: the latency of the links"
    )
    between: Instant | None = Field(
        None, description="each step between nodes, the network with it; absent: the latency of the links"
    )
    fill: Fill = Field(
        0.0, description="pieces of a step that are waited for once more, while the pipeline of a ring fills"
    )
    chunk: Bytes | None = Field(
        None, description="largest piece of which `fill` is counted, all channels together; absent: any"
    )
    least: Instant = Field(0.0, description="a collective by this protocol takes no less")
    tree_base: Instant | None = Field(None, description="`base` where trees are used; absent: `base`")
    tree_inside: Instant | None = Field(None, description="`inside` where trees are used; absent: `inside`")
    tree_between: Instant | None = Field(
        None, description="`between` where trees are used; absent: `between`"
    )
    largest: Bytes | None = Field(
        None, description="largest collective that it is used for; absent: any size"
    )


class Planned(Model):
    """What a library expects of rings and trees between nodes, by which it takes one: tuning constants of NCCL.

    Ring: its steps + bytes that pass / ``rings``. Tree: its steps + 2 x bytes / (``trees`` x ``correction``).
    """

    rings: BytesPerSecond = Field(description="bandwidth that it expects of rings")
    trees: BytesPerSecond = Field(description="bandwidth that it expects of trees")
    inside: Instant = Field(0.0, description="each step of a ring inside a node")
    between: Instant = Field(0.0, description="each step of a ring between nodes")
    tree_inside: Instant = Field(0.0, description="each step of a tree inside a node")
    tree_between: Instant = Field(0.0, description="each step of a tree between nodes")
    correction: list[Share] = Field(
        [1.0],
        min_length=1,
        max_length=64,
        description="share of `trees` by size: from 64 B, from 128 B and so on; the last is for all beyond",
    )


class Host(Model):
    """What a host adds that calls collectives one by one (eager), without a CUDA graph or other kernels before them."""

    least: Instant = Field(description="a call takes at least this long, whatever the bytes")
    copy_rate: BytesPerSecond | None = Field(
        None, description="bytes of the buffer per second, where each call copies it first; absent: no copy"
    )


class Collectives(Model):
    """Constants of the library that runs collectives on a cluster. Absent, software costs nothing.

    ``fitted_on`` says which measurements they were fitted on; where it is absent they are what the source states.
    """

    title: Words = Field(description="what the library is called")
    launch: Instant = Field(
        0.0, description="start of one collective on all its devices and the wait for its end"
    )
    message: Instant = Field(0.0, description="software overhead of a message, once, whatever hops it takes")
    protocols: dict[Name, Protocol] = Field(
        {"simple": Protocol.model_construct()},
        min_length=1,
        description="protocols that it chooses from, by name",
    )
    channels: Parts = Field(
        1, description="rings or trees side by side, each with its share of a device's links"
    )
    plan: Planned | None = Field(
        None, description="by which it takes rings or trees between nodes; absent: what is faster"
    )
    includes: Words | None = Field(None, description="what of the host is in these times, in words")
    host: Host | None = Field(None, description="what an eager host adds; absent: not known")
    intervals: dict[Name, IntervalOf] = Field(
        {},
        description="90 % intervals of collectives inside a node by size (`small` below 1 MiB, `medium` below 16 MiB, "
        "`large`), of those that a host calls (`eager`), `all` of the rest; from rows that were left out of the fit",
    )
    chips: Annotated[list[Words], once] = Field(
        [], description="chips that were measured; absent: any. On others the interval is `elsewhere`"
    )
    elsewhere: IntervalOf | None = Field(
        None, description="90 % interval on chips that were not measured; absent: none is known"
    )
    fitted_on: str | None = Field(None, description="the measurements that they were fitted on")
