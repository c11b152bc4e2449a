"""Work of commands: what each kind of engine is occupied by, and for how long."""

from __future__ import annotations

from typing import NamedTuple


class Transfer(NamedTuple):
    """Work of a Load or Store: bytes through the port of an attached memory.

    ``offset_B``: where a contiguous piece of a tensor begins; for tiles ``effect`` says which one it is. The addresses
    follow from both (``accelsim.program.addresses``). ``times``: how often the bytes of the tile are among ``nbytes``.
    """

    memory: str
    nbytes: int
    write: bool
    offset_B: int = 0
    times: int = 1


class Folds(NamedTuple):
    """Work of a MatMul: ``n`` folds that stream ``rows`` rows each, at ``cycles_per_row``.

    Of the clocks in which a fold streams, rows wait ``held`` for the narrow port of the buffer ``held_by``. Where sums
    leave at the end of a fold, the buffer ``sums`` takes a row of them in ``leave`` clocks.
    """

    n: int
    rows: int
    cycles_per_row: int
    held: int = 0
    held_by: str = ""
    leave: int = 1
    sums: str = ""


class Cycles(NamedTuple):
    """Work of a Vector command, or of a MatMul that takes a known time, in clocks of its unit.

    ``w``, ``a``: clocks after which a MatMul has read its operands for the last time. ``width``: how many parts of an
    engine that several queues share it has work for, 0 for none of them.
    """

    clocks: int
    w: int = 0
    a: int = 0
    width: int = 0


class Stages(NamedTuple):
    """Work of a command that passes stages one after the other: (name, clocks of its unit) of each."""

    stages: tuple[tuple[str, int], ...]

    @property
    def clocks(self) -> int:
        """Clocks of all stages together."""
        return sum(clocks for _, clocks in self.stages)


class Duration(NamedTuple):
    """Work of a Host command."""

    fs: int


class Message(NamedTuple):
    """Work of a Send or Recv: bytes to or from another device. ``tag`` tells messages between two devices apart."""

    peer: str
    tag: str
    nbytes: int


class Meet(NamedTuple):
    """Work of a Barrier: it completes when every one of ``parties`` (names of devices) has come to it."""

    name: str
    parties: tuple[str, ...]


Work = Transfer | Folds | Cycles | Stages | Duration | Message | Meet
"""Work of a command, by kind of engine: the resource that it occupies, and for how long."""
