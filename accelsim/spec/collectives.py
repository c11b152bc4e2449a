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
KindName = Literal["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send_recv"]
"""Kinds of collectives."""


AlgorithmName = Literal["ring", "one-shot", "two-shot", "switch"]
"""Algorithms of a protocol; ``ring`` includes the trees that join nodes."""


class Protocol(Model):
    """A protocol by which a library moves bytes: NCCL has LL, LL128 and Simple."""

    algorithm: AlgorithmName = Field(
        "ring",
        description="`ring`: rings, and trees between nodes. All-reduces in a node: `one-shot` (each reads "
        "all buffers), `two-shot` (each sums one part, then reads the others'), `switch` (needs "
        "the fabric's `sums`)",
    )
    formats: Annotated[list[Name], once] | None = Field(None, description="formats that it sums; absent: all")
    kinds: Annotated[list[KindName], once] | None = Field(
        None, description="its collectives; absent: all that no other protocol names"
    )
    share: Share = Field(1.0, description="of a link's bandwidth, for data")
    share_between: Share | None = Field(None, description="the same between nodes; absent: `share`")
    flow: BytesPerSecond | None = Field(
        None, description="limit of rings and messages between nodes; absent: the links"
    )
    lane: BytesPerSecond | None = Field(
        None,
        description="limit from a device to one other, sent directly (all_to_all, send_recv, `one-shot`, "
        "`two-shot`); absent: the links",
    )
    tree_flow: BytesPerSecond | None = Field(
        None, description="limit of trees between nodes, per device; absent: the links"
    )
    base: Instant = Field(0.0, description="once per collective")
    inside: Instant | None = Field(
        None, description="per step inside a node, link included; absent: the links' latency"
    )
    between: Instant | None = Field(
        None, description="per step between nodes, network included; absent: the links' latency"
    )
    fill: Fill = Field(0.0, description="pieces of a step waited for again while a ring's pipeline fills")
    chunk: Bytes | None = Field(None, description="largest piece in `fill`, all channels together; absent: any")
    least: Instant = Field(0.0, description="least time of a collective")
    tree_base: Instant | None = Field(None, description="`base` where trees are used; absent: `base`")
    tree_inside: Instant | None = Field(None, description="`inside` where trees are used; absent: `inside`")
    tree_between: Instant | None = Field(None, description="`between` where trees are used; absent: `between`")
    largest: Bytes | None = Field(None, description="largest collective; absent: any")


class Planned(Model):
    """NCCL's tuning constants, by which it takes rings or trees between nodes. Ring: steps + bytes /
    ``rings``. Tree: steps + 2 x bytes / (``trees`` x ``correction``)."""

    rings: BytesPerSecond = Field(description="expected bandwidth of rings")
    trees: BytesPerSecond = Field(description="expected bandwidth of trees")
    inside: Instant = Field(0.0, description="ring step inside a node")
    between: Instant = Field(0.0, description="ring step between nodes")
    tree_inside: Instant = Field(0.0, description="tree step inside a node")
    tree_between: Instant = Field(0.0, description="tree step between nodes")
    correction: list[Share] = Field(
        [1.0],
        min_length=1,
        max_length=64,
        description="share of `trees` by size: from 64 B, 128 B, ...; the last for all beyond",
    )


class Host(Model):
    """An eager host that calls collectives one by one."""

    least: Instant = Field(description="least time of a call")
    copy_rate: BytesPerSecond | None = Field(
        None, description="rate at which each call first copies the buffer; absent: no copy"
    )


class Collectives(Model):
    """Constants of a collective library. Absent: software costs nothing. Without ``fitted_on`` they are the
    source's."""

    title: Words = Field(description="library name")
    launch: Instant = Field(0.0, description="start of a collective on all devices, and the wait for its end")
    message: Instant = Field(0.0, description="software overhead per message, whatever its hops")
    protocols: dict[Name, Protocol] = Field(
        {"simple": Protocol.model_construct()}, min_length=1, description="protocols by name"
    )
    channels: Parts = Field(1, description="rings or trees side by side")
    plan: Planned | None = Field(None, description="tuning rule for rings or trees between nodes; absent: the faster")
    includes: Words | None = Field(None, description="the host's part in these times, in words")
    host: Host | None = Field(None, description="what an eager host adds; absent: unknown")
    intervals: dict[Name, IntervalOf] = Field(
        {},
        description="90 % intervals inside a node by size (`small` below 1 MiB, `medium` below 16 MiB, "
        "`large`), called by a host (`eager`), else `all`; from left-out rows",
    )
    chips: Annotated[list[Words], once] = Field([], description="measured chips; absent: any. Others have `elsewhere`")
    elsewhere: IntervalOf | None = Field(None, description="90 % interval on other chips; absent: unknown")
    fitted_on: str | None = Field(None, description="fitted measurements")
