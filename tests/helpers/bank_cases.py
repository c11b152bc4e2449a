"""A small DRAM and bursts in a few letters, for cases of the bank model that are counted by hand.

One rank of DDR4-2400 with two groups of two banks: tRCD = CL = tRP = 17, CWL 12, tRAS 39 and so tRC 56, tRTP 9, tWR 18,
tCCD_S 4, tCCD_L 6, tRRD_S 4, tRRD_L 6, BL 4 clocks. A request can have its first command one clock after it was accepted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from accelsim.dram.bank import Bank
from accelsim.dram.device import Command, Device
from accelsim.dram.mapping import Place, decoder
from accelsim.dram.served import Served
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram
from tests.helpers import protocol

FRONT = 1
RCD = CL = RP = 17
CWL, RAS, RC, RTP, WR = 12, 39, 56, 9, 18
CCD_S, CCD_L, RRD_S, RRD_L, BL = 4, 6, 4, 6, 4
READ = FRONT + RCD + CL + BL
"""An unloaded read, from its acceptance to its last data."""
REFI, RFC = 9360, 420


def made(ranks: int = 1, channels: int = 1, groups: int = 2, **controller: Any) -> Device:
    base = device(load_dram("ddr4-2400"))
    sizes = {"channels": channels, "ranks": ranks, "groups": groups, "banks": 2, "rows": 16}
    settings = {"mapping": "rorabachcobg", "refresh": "none", **controller}
    return replace(base, geometry=replace(base.geometry, **sizes), controller=replace(base.controller, **settings))


def go(dram: Device, *bursts: str, at: int = 0, model: Bank | None = None, **how: Any) -> Served:
    """Bursts as 'R row 3, bank 1 of group 1': 'r3 b1 g1', writes with w; k is the rank, c the channel."""
    keep = {name: how.pop(name, True) for name in ("record", "commands")}
    words = [{each[0]: int(each[1:]) for each in burst.split()} for burst in bursts]
    fields = [[word.get(key, 0) for word in words] for key in "ckgb"]
    rows = [word.get("r", word.get("w", 0)) for word in words]
    place = Place(*(np.array(each, np.int32) for each in (*fields, rows, [0] * len(rows))))
    addresses = decoder(dram.controller.mapping, dram.geometry).encode(place)
    writes = np.array(["w" in word for word in words])
    found = (model or Bank(dram, **how)).serve(addresses, writes, at, **keep)
    if found.commands is not None and model is None:
        assert protocol.violations(dram, protocol.rows(found.commands)) == []
    return found


def issued(found: Served, command: Command) -> list[int]:
    assert found.commands is not None
    return [row.clock for row in protocol.rows(found.commands) if row.command is command]


def done(found: Served) -> list[int]:
    assert found.done is not None
    return found.done.tolist()  # type: ignore[no-any-return]


def arrived(found: Served) -> list[int]:
    assert found.arrived is not None
    return found.arrived.tolist()  # type: ignore[no-any-return]
