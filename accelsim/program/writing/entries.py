"""Ledger entries that every engine type writes alike: bytes through a memory and its link."""

from __future__ import annotations

from math import ceil

from accelsim.program.actions import Action, transferred
from accelsim.program.roles import Roles
from accelsim.workload.graph import FORMAT_BYTES


def nbytes(dtype: str, count: int) -> int:
    """Bytes of ``count`` words of a format, whole."""
    return ceil(FORMAT_BYTES[dtype] * count)


def transfer_actions(roles: Roles, memory: str, tensor: str, count_B: int, write: bool) -> list[Action]:
    """Entries of the off-chip side of a transfer."""
    return transferred(memory, roles.memory(memory).link is not None, tensor, count_B, write)
