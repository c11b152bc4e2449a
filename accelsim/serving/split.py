"""Separate replicas for prompts and tokens, and what the keys and values of a prompt take from one to the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.fleet import Fleet
from accelsim.errors import Gather, UsageError
from accelsim.serving.loads import named
from accelsim.spec.link import Link
from accelsim.spec.yaml.parts import load_link
from accelsim.time import FS

WHERE = "--disaggregate"
POOL = re.compile(r"([1-9]\d{0,4})x(?:tp([1-9]\d{0,3}))?(?:ep([1-9]\d{0,3}))?")
Move = Callable[[int, int, int], tuple[float, float]]
"""Time (s) and energy (J) in which keys and values of some tokens go from a replica for prompts to one for tokens, by
their numbers."""


class Split(NamedTuple):
    """Replicas for prompts and for tokens, how many and of what plan; the link between them, None: the cluster's."""

    prefill: tuple[int, Plan]
    decode: tuple[int, Plan]
    over: Link | None

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return sum(count * plan.devices for count, plan in (self.prefill, self.decode))


def read_split(text: str) -> Split:
    """Return separate replicas: 'prefill=2xtp4,decode=4xtp2ep4,over=infiniband-ndr'. Raises UsageError and
    SpecError."""
    given = named([part.strip() for part in text.split(",")], {"prefill": 0, "decode": 0, "over": 0}, WHERE)
    gather, pools = Gather(), dict[str, tuple[int, Plan]]()
    for name in ("prefill", "decode"):
        found = POOL.fullmatch(given.get(name, ""))
        what = f"{name}={given[name]}" if name in given else f"no {name}"
        gather.refuse(not found, what, WHERE, f"replicas and their devices, such as {name}=2xtp4 or {name}=2xtp2ep4")
        if found:
            pools[name] = int(found[1]), Plan(tp=int(found[2] or 1), ep=int(found[3] or 1))
    with gather.also():
        over = load_link(given["over"]) if "over" in given else None
    gather.done()
    return Split(pools["prefill"], pools["decode"], over)


def move_of(split: Split, fleet: Fleet, token_B: int) -> Move:
    """Return what moves the keys and values of prompts. As many devices as share tensors in the smaller replica send at
    once, over ``split.over`` or the network of the cluster, on which replicas for prompts come first; where devices
    share experts, the first of each replica that share tensors. Raises UsageError where these devices are not there."""
    if split.over is not None:
        return partial(_over, split.over, min(split.prefill[1].tp, split.decode[1].tp), token_B)
    if fleet.size < split.devices:
        expected = f"a cluster of at least {split.devices:,}, or over=LINK, such as over=infiniband-ndr"
        raise UsageError(f"{split.devices:,} devices, and {fleet.name} has {fleet.size:,}", WHERE, expected)
    return partial(_through, split, fleet, token_B)


def _over(link: Link, lanes: int, token_B: int, source: int, target: int, tokens: int) -> tuple[float, float]:
    nbytes = token_B * tokens
    return float(link.latency) + nbytes / lanes / float(link.bandwidth), nbytes * float(link.energy)


def _through(split: Split, fleet: Fleet, token_B: int, source: int, target: int, tokens: int) -> tuple[float, float]:
    (count, first), (_, second) = split.prefill, split.decode
    lanes, origin = min(first.tp, second.tp), source * first.devices
    start = count * first.devices + target * second.devices
    pairs = [(origin + lane * (first.tp // lanes), start + lane * (second.tp // lanes)) for lane in range(lanes)]
    sent = fleet.collective("send_recv", -(-token_B * tokens // lanes), pairs)
    return sent.time_fs * FS, sent.energy_J
