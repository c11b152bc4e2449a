"""Ledger entries that every engine type writes alike: bytes through a memory and its link."""

from __future__ import annotations

from math import ceil

from accelsim.program.actions import Action, transferred
from accelsim.program.roles import Roles
from accelsim.spec.levels import cache_of
from accelsim.workload.graph import FORMAT_BYTES


def nbytes(dtype: str, count: int) -> int:
    """Bytes of ``count`` words of a format, whole."""
    return ceil(FORMAT_BYTES[dtype] * count)


def transfer_actions(roles: Roles, memory: str, tensor: str, count_B: int, write: bool) -> list[Action]:
    """Entries of the off-chip side of a transfer: the memory, and the link before it. Where a cache is before both, it
    alone; what passes it on is known when the program runs. Stores that pass it are never there alone."""
    before = cache_of(roles.chip, memory)
    cache = roles.memory(before).cache if before else None
    if cache is not None and not (write and cache.policy == "write_through"):
        return transferred(before, False, tensor, count_B, write)
    return transferred(memory, roles.memory(memory).link is not None, tensor, count_B, write)
