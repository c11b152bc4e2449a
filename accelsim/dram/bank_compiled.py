"""The inner loops of the bank model, compiled by numba (extra ``fast``)."""

from __future__ import annotations

from functools import cache
from types import ModuleType, SimpleNamespace

from accelsim.dram import bank_bus, bank_commands, bank_kernel, bank_queues, bank_rows
from accelsim.dram.compiled import compiled


@cache
def variant(loop: ModuleType, buses: bool) -> SimpleNamespace:
    """The functions of ``loop`` and of what it needs, compiled without command buses or with them."""
    parts = (bank_bus, bank_rows, bank_kernel, *([loop] if loop in (bank_commands, bank_queues) else []))
    return SimpleNamespace(**compiled(parts, {"__name__": __name__, "BUSES": buses}))
