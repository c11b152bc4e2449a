"""Names of what the ledger counts: one type, which is text only where it is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ActionName(str):
    """An action: its ``kind``, and its object ``of`` (a number format, a direction), '' if the kind says all.

    Equal to its text ``kind.of``, which files and tables have; nobody needs to take that apart. Frozen.
    """

    __slots__ = ("kind", "of")
    kind: str
    of: str

    def __new__(cls, kind: str, of: str = "") -> ActionName:
        """The name of this kind of action."""
        made = super().__new__(cls, f"{kind}.{of}" if of else kind)
        object.__setattr__(made, "kind", kind)
        object.__setattr__(made, "of", of)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        """Raises AttributeError."""
        raise AttributeError(f"{self} is frozen")

    def __reduce__(self) -> tuple[type[ActionName], tuple[str, str]]:
        """For copies and pickles."""
        return ActionName, (self.kind, self.of)


READ, WRITE, TRANSFER = ActionName("read"), ActionName("write"), ActionName("transfer")
WAYS = (READ, WRITE)
"""Bytes out of and into a buffer or a memory."""
COMMANDS = ACT, RD, WR, REF, REFPB = tuple(map(ActionName, ("act", "rd", "wr", "ref", "refpb")))
"""Commands of a DRAM that was followed command by command; a precharge belongs to its activation."""
IO = (ActionName("io", READ), ActionName("io", WRITE))
"""Bursts on its pins."""
MAC, OP = "mac", "op"
"""Kinds: multiply-accumulates, and operations that are no products, each of a number format."""
PADDING, SKIPPED = ActionName(MAC, "padding"), ActionName(MAC, "skipped")
NOT_DONE = frozenset({PADDING, SKIPPED})
"""Multiplications that nothing carried out: a PE had none to do, or its operand was pruned away."""
HOST_OP = ActionName(OP)
"""Operations of the host, whatever their format."""


def mac(number_format: str) -> ActionName:
    """Name the multiply-accumulates in a format, or in a pair of formats."""
    return ActionName(MAC, number_format)


def op(number_format: str) -> ActionName:
    """Name the operations, other than multiply-accumulates, in a format."""
    return ActionName(OP, number_format)


ACTIVE = ActionName("active")
"""Time in which an engine works, of those that draw power as long as they do, fs of all of it."""


def idle(name: str) -> ActionName:
    """Time in which the chip, a memory or the host draws power whether it works or not, fs."""
    return ActionName("idle", name)


def is_done(action: ActionName) -> bool:
    """Return whether it is multiplications that were carried out; they are ``of`` their format."""
    return action.kind == MAC and action not in NOT_DONE


class Action(NamedTuple):
    """One ledger entry: ``count`` times ``action`` of ``component``, caused by ``tensor``."""

    component: str
    action: ActionName
    tensor: str
    count: int  # type: ignore[assignment]  # a column of the ledger; nobody counts tuple members


def transferred(memory: str, linked: bool, tensor: str, size_B: int, write: bool) -> list[Action]:
    """Return the ledger entries of a transfer's off-chip side: the memory, and its link if it is
    ``linked``."""
    entries = [Action(memory, WRITE if write else READ, tensor, size_B)]
    return [*entries, Action(f"{memory}.link", TRANSFER, tensor, size_B)] if linked else entries


def multiplications(entries: Iterable[Action]) -> tuple[int, int]:
    """Multiplications that were carried out, and those for which there was nothing to multiply."""
    counts = [(action, count) for _, action, _, count in entries if action.kind == MAC]
    done = sum(count for action, count in counts if is_done(action))
    return done, sum(count for action, count in counts if action == PADDING)
