"""The functions of ``bank_kernel``, compiled by numba (extra ``fast``): without command buses, in ``on_buses`` with."""

from __future__ import annotations

from types import SimpleNamespace

from accelsim.dram import bank_kernel
from accelsim.dram.compiled import compiled

globals().update(compiled((bank_kernel,), {"__name__": __name__, "BUSES": False}))
on_buses = SimpleNamespace(**compiled((bank_kernel,), {"__name__": __name__, "BUSES": True}))
