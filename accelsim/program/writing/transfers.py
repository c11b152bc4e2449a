"""Loads and stores between off-chip memories and the buffers of one core."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.program.actions import READ, WRITE, Action
from accelsim.program.commands import Effect
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
        return self.builder.emit(
            "Load",
            self.roles.load_engine(memory),
            op,
            f"load {tensor}",
            Transfer(memory, size_B, False, offset_B, times),
            effect,
            [(region, "src") for region in (source, *needs)],
            [(target, "whole")],
            self._moved(memory, buffer, tensor, size_B, False),
        )

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
        actions = transfer_actions(self.roles, memory, "parameters", size_B, False)
        return self.builder.emit(
            "Load", self.roles.load_engine(memory), op, "load parameters", Transfer(memory, size_B, False),
            Effect("none"), [(source, "src") for source in sources], [(target, "whole")], actions,
        )  # fmt: skip

    def store(
        self, op: int, source: int, target: int, tensor: str, size_B: int, effect: Effect, role: str = "whole",
        offset_B: int = 0,
    ) -> int:  # fmt: skip
        """A Store of ``size_B`` bytes from the chip into (a part of) a home region."""
        memory, buffer = self.builder.regions[target].memory, self.builder.regions[source].memory
        return self.builder.emit(
            "Store",
            self.roles.store_engine(memory),
            op,
            f"store {tensor}",
            Transfer(memory, size_B, True, offset_B),
            effect,
            [(source, "acc" if effect.what == "epilogue" else "src")],
            [(target, role)],
            self._moved(memory, buffer, tensor, size_B, True),
        )
