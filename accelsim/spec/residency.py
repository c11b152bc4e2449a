"""Number of blocks of threads that a multiprocessor has room for."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Limits of a multiprocessor for its resident blocks: threads, blocks, bytes of registers and shared
    memory."""

    threads: int
    blocks: int
    registers_B: int
    shared_B: int


class Needs(NamedTuple):
    """Resources of a multiprocessor that one block takes."""

    threads: int
    registers_B: int
    shared_B: int


def residents(limits: Limits, needs: Needs) -> int:
    """Blocks that a multiprocessor has room for, 0 where not even one fits."""
    shares = (
        (limits.threads, needs.threads),
        (limits.registers_B, needs.registers_B),
        (limits.shared_B, needs.shared_B),
    )
    room = [limits.blocks, *(have // need for have, need in shares if need)]
    return min(room)
