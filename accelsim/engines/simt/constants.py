"""The multiprocessors of a chip with what closed forms of kernels read of them: rates, bounds, names of constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.engines.simt.products import Around
from accelsim.engines.simt.serving_layers import Peak
from accelsim.engines.simt.spec import Simt
from accelsim.engines.simt.writing import around
from accelsim.program.roles import Roles
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import shared_format
from accelsim.spec.serving import served
from accelsim.types import Floats


class Device:
    """The multiprocessors of a chip, and what is around them, with the constants that the chip has."""

    def __init__(self, chip: Chip, name: str) -> None:
        self.roles, self.name = Roles(chip), name
        self.spec: Simt = chip.engines[name]  # type: ignore[assignment]
        self.around: Around = around(self.roles, self.spec)
        self.memory_Bps = self.roles.memory(self.roles.activations_home).memory.peak_Bps
        self.boost_Hz = self.spec.clock or chip.clock

    def of(self, chip: Chip) -> Device:
        """Return the same multiprocessors with the constants of another chip."""
        return Device(chip, self.name)

    def peak(self, name: str) -> Peak:
        """Return the peaks of a number format, by the stated bandwidth of the memory."""
        spec, macs = self.spec, float(self.spec.formats[name].rate)
        return Peak(
            spec.multiprocessors, macs, self.around.clock_Hz, spec.special, float(self.memory_Bps), self.around.l2_B
        )  # fmt: skip

    def bound(self, name: str, macs: Floats, moved_B: Floats) -> Floats:
        """The least seconds that the stated peaks allow; what the L2 cache holds need not come from DRAM."""
        computed = macs / (float(self.spec.formats[name].rate) * self.spec.multiprocessors * self.boost_Hz)
        found: Floats = np.maximum(computed, np.maximum(0.0, moved_B - self.around.l2_B) / self.memory_Bps)
        return found

    def named(self, name: str, groups: Sequence[Sequence[str]]) -> Sequence[tuple[str, ...]]:
        """Constants by their names in the spec: of the memory, of the format that stands for a format, of the
        multiprocessors. Those of narrower weights (``int4xfp16``) are those of the format that multiplies."""
        narrow = None if name in self.spec.formats else served(name)
        multiplied = name if narrow is None else narrow.arithmetic
        memory, name = f"{self.roles.activations_home}.memory.", shared_format(self.spec.formats, multiplied)
        return [
            tuple(
                memory + text.removeprefix("memory.")
                if text.startswith("memory.")
                else f"{self.name}.{text.replace('format.', f'formats.{name}.')}"
                for text in group
            )
            for group in groups
        ]
