"""Memories, streams and calls for the laws of the DRAM bank model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from accelsim.dram.device import SCHEDULERS, Controller, Device
from accelsim.dram.standards import STANDARDS
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import list_drams, load_dram
from accelsim.types import Array

MEMORIES = list_drams()
ROWS, SHORT = 64, 3
"""Rows of a bank: few, so that rows meet again. Refresh every so many tRFC where it is to come often."""


@lru_cache
def memory(name: str) -> Device:
    return device(load_dram(name), name)


def changed(base: Device, **controller: Any) -> Device:
    return replace(base, controller=replace(base.controller, **controller))


def small(base: Device, **sizes: int) -> Device:
    """Other sizes; a mapping of all fields goes with them."""
    return changed(replace(base, geometry=replace(base.geometry, **sizes)), mapping="rorabachcobg")


def often_refreshed(base: Device) -> Device:
    """Still with time between the refreshes of single banks for what they need."""
    t = dict(base.timing)
    t["tREFI"] = max(SHORT * t["tRFC"], 2 * t["tRFCpb"] * base.geometry.banks_per_rank)
    if t["tREFIpb"]:
        t["tREFIpb"] = max(t["tREFIpb"], 2 * t["tRFCpb"])
    return replace(base, timing=t)


def refreshes(base: Device) -> list[str]:
    """Return what its standard knows."""
    banks = ["per_bank"] if STANDARDS[base.standard].bank_refresh else []
    return ["all_bank", "staggered", "none", *banks]


@st.composite
def devices(draw: st.DrawFn, policies: tuple[str, ...] = ("open", "closed", "capped", "timeout")) -> Device:
    base = memory(draw(st.sampled_from(MEMORIES)))
    channels = draw(st.sampled_from([1, 2]))
    high, low = draw(st.sampled_from([(0.8, 0.2), (0.8, 0.2), (1.0, 0.25), (0.3, 0.0)]))
    base = small(base, channels=channels, ranks=draw(st.sampled_from([1, 2])), rows=ROWS)
    controller = Controller(
        mapping=draw(st.sampled_from(["rorabachcobg", "rochrababgco", "mop4"])),
        page_policy=draw(st.sampled_from(policies)),
        cap=draw(st.sampled_from([1, 4, 40])),
        timeout=draw(st.sampled_from([5, 20, 100, 400])),
        window=draw(st.sampled_from([1, 2, 4, 32])),
        high=high,
        low=low,
        refresh=draw(st.sampled_from(refreshes(base))),
        refresh_waits=draw(st.booleans()),
        shared=draw(st.sampled_from([1, channels])),
        act_clocks=draw(st.sampled_from([0, 0, 1, 2, 8])),
        handover=draw(st.sampled_from([0, 1])),
        scheduler=draw(st.sampled_from(sorted(SCHEDULERS))),
        depth=draw(st.sampled_from([1, 2, 8])),
    )
    made = replace(base, controller=controller)
    return often_refreshed(made) if draw(st.booleans()) else made


@dataclass
class Call:
    """One call: bursts, and idle clocks before it."""

    addresses: Array
    writes: Array
    gap: int


@st.composite
def calls(draw: st.DrawFn, base: Device, parts: int = 6, longest: int = 300) -> Call:
    """Stretches of bursts from anywhere: one burst again and again, sequential, strided or random."""
    g, found = base.geometry, []
    bursts = g.capacity_B // g.access_B
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(1, parts))):
        count = draw(st.sampled_from([1, 2, 5, 33, longest]))
        span = min(bursts, draw(st.sampled_from([16, 1 << 8, 1 << 12, 1 << 40])))
        stride = draw(st.sampled_from([0, 1, 1, 2, 16, None]))
        first = rng.integers(0, span)
        random = rng.integers(0, span, count)
        at = random if stride is None else (first + stride * np.arange(count)) % bursts
        share = draw(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]))
        found.append((at * g.access_B, rng.random(count) < share))
    addresses, writes = (np.concatenate(each) for each in zip(*found, strict=True))
    return Call(addresses, writes, draw(st.sampled_from([0, 0, 50, 5_000, 100_000])))


@dataclass
class Case:
    """A memory, how requests come, and calls one after the other."""

    device: Device
    how: dict[str, int | None]
    calls: list[Call]


@st.composite
def cases(draw: st.DrawFn, **sizes: Any) -> Case:
    base = draw(devices())
    outstanding = draw(st.sampled_from([None, None, None, 1, 4]))
    how = {"outstanding": outstanding, "injection": draw(st.sampled_from([None, 1, 2]))}
    return Case(base, how, draw(st.lists(calls(base, **sizes), min_size=1, max_size=3)))
