"""Loads and stores between off-chip memories and the buffers of one core."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.program.actions import READ, WRITE, Action
from accelsim.program.commands import CommandKind, Effect, record
from accelsim.program.roles import Roles
from accelsim.program.work import Transfer
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.entries import transfer_actions

STAGING = "dma"
"""Buffer of the DMA engines, through which a tensor passes on its way from one memory to another."""


class Transfers:
    """Writes the transfers of one core."""

    def __init__(self, roles: Roles, builder: Builder) -> None:
        self.roles, self.builder = roles, builder
        self._entries: dict[tuple[str, str, str, int, bool], tuple[Action, ...]] = {}

    def load(
        self, op: int, source: int, target: int, tensor: str, size_B: int, effect: Effect, offset_B: int = 0,
        needs: Sequence[int] = (), times: int = 1,
    ) -> int:  # fmt: skip
        """A Load of ``size_B`` bytes of a home region (from ``offset_B`` on, if it is no tile) into one on the chip.

        ``needs``: regions that say what to load. ``times``: how often ``size_B`` has the bytes of the tile.
        """
        memory, buffer = self.builder.regions[source].memory, self.builder.regions[target].memory
        work = record(Transfer, (memory, size_B, False, offset_B, times))
        return self._move("Load", op, tensor, work, effect, [source, *needs], (target, "whole"), buffer)

    def _moved(self, memory: str, buffer: str, tensor: str, size_B: int, write: bool) -> tuple[Action, ...]:
        """Ledger entries of a transfer between an off-chip memory and a buffer; equal transfers share them."""
        key = (memory, buffer, tensor, size_B, write)
        if key not in self._entries:
            entries = transfer_actions(self.roles, memory, tensor, size_B, write)
            if buffer != STAGING:
                entries.append(Action(buffer, READ if write else WRITE, tensor, size_B))
            self._entries[key] = tuple(entries)
        return self._entries[key]

    def load_parameters(self, op: int, sources: list[int], target: int, memory: str, size_B: int) -> int:
        """One Load of the constants that a vector unit keeps in registers of its own."""
        work = Transfer(memory, size_B, False)
        return self._move("Load", op, "parameters", work, Effect("none"), sources, (target, "whole"), STAGING)

    def store(
        self, op: int, source: int, target: int, tensor: str, size_B: int, effect: Effect, role: str = "whole",
        offset_B: int = 0,
    ) -> int:  # fmt: skip
        """A Store of ``size_B`` bytes from the chip into (a part of) a home region."""
        memory, buffer = self.builder.regions[target].memory, self.builder.regions[source].memory
        work = Transfer(memory, size_B, True, offset_B)
        return self._move("Store", op, tensor, work, effect, [source], (target, role), buffer)

    def _move(
        self,
        kind: CommandKind,
        op: int,
        tensor: str,
        work: Transfer,
        effect: Effect,
        sources: Sequence[int],
        target: tuple[int, str],
        buffer: str,
    ) -> int:
        engine = (self.roles.store_engine if work.write else self.roles.load_engine)(work.memory)
        role = "acc" if effect.what == "epilogue" else "src"
        reads = [(source, role) for source in sources]
        actions = self._moved(work.memory, buffer, tensor, work.nbytes, work.write)
        label = f"{kind.lower()} {tensor}"
        return self.builder.emit(kind, engine, op, label, work, effect, reads, [target], actions)
