"""Value policies: what the commands do to the contents of the simulated memories.

``exact`` moves and computes tile by tile, as the hardware does; ``fast`` computes each node at once when its last
command completes; ``off`` computes nothing. All three see the same commands at the same times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.errors import UsageError, nearest
from accelsim.program.commands import Command, Use
from accelsim.program.program import Program
from accelsim.types import Array

if TYPE_CHECKING:
    from accelsim.machine.values.exact import Exact
    from accelsim.machine.values.fast import Fast


class Off:
    """No values."""

    def __init__(self) -> None:
        self.nonzero_macs: dict[int, int] = {}
        self.mail: dict[str, Array] = {}

    def read(self, command: Command, use: Use) -> None:
        """Ignore the read: no values are kept."""

    def complete(self, command: Command) -> None:
        """Ignore the completion: no values are kept."""

    def forget(self, region: int) -> None:
        """Ignore the overwriting: no values are kept."""

    def outputs(self) -> dict[str, Array]:
        """No outputs."""
        return {}

    def kept(self) -> dict[str, Array]:
        """No tensors."""
        return {}


def policy(name: str, program: Program, feeds: dict[str, Array], keep: bool) -> Exact | Fast | Off:
    """Return the value policy of that name. Raises UsageError when there is none."""
    if name not in POLICIES:
        raise UsageError(f"no value policy {name!r}", "values", ", ".join(POLICIES), nearest(name, POLICIES))
    if name == "off":
        return Off()
    from accelsim.machine.values.exact import Exact
    from accelsim.machine.values.fast import Fast

    return (Exact if name == "exact" else Fast)(program, feeds, keep)


POLICIES = ("exact", "fast", "off")
"""Value policies by name; the modules of the first two are loaded when they are asked for."""
