"""The inner loop of the bank model, compiled by numba (extra ``fast``): without command buses, in ``on_buses`` with."""

from __future__ import annotations

from types import SimpleNamespace

from accelsim.dram import bank_bus, bank_kernel, bank_rows
from accelsim.dram.compiled import compiled

PARTS = (bank_bus, bank_rows, bank_kernel)
globals().update(compiled(PARTS, {"__name__": __name__, "BUSES": False}))
on_buses = SimpleNamespace(**compiled(PARTS, {"__name__": __name__, "BUSES": True}))
