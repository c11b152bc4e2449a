"""Row policies of the bank model: when an open row is closed. Plain Python that numba can compile.

These three functions hold the policies 'open', 'closed', 'capped' and 'timeout' (``device.PAGE_POLICIES``). Another
policy is a module with functions of the same names, which take their place.
"""

from __future__ import annotations

from accelsim.dram.records import Memory


def gives_way(m: Memory, k: int) -> bool:
    """Return whether requests for the open row of bank ``k`` wait while the oldest one wants another row."""
    cap = m.rules[0].cap
    return cap > 0 and m.bank[k].uses >= cap


def closes(m: Memory, k: int) -> bool:
    """Return whether the row of bank ``k`` is closed after the access that was just served."""
    return m.rules[0].closed > 0


def idle_clocks(m: Memory) -> int:
    """Return the clocks without an access after which a row is closed, 0 for never."""
    return m.rules[0].timeout
