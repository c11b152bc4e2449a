"""The multiprocessors of a chip with what closed forms of kernels read of them: rates, bounds, names of constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.engines.kernel_times import Names
from accelsim.engines.simt.products import ChipRates
from accelsim.engines.simt.serving_layers import Peak
from accelsim.engines.simt.spec import Simt
from accelsim.engines.simt.writing import chip_rates
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
        self.rates: ChipRates = chip_rates(self.roles, self.spec)
        self.memory_Bps = self.roles.memory(self.roles.activations_home).memory.peak_Bps
        self.boost_Hz = self.spec.clock or chip.clock

    def peak(self, name: str) -> Peak:
        """Return the peaks of a number format, by the stated bandwidth of the memory."""
        spec, macs = self.spec, float(self.spec.formats[name].rate)
        clock_Hz, dram_Bps = self.rates.clock_Hz, float(self.memory_Bps)
        return Peak(spec.multiprocessors, macs, clock_Hz, spec.special, dram_Bps, self.rates.l2_B)

    def bound(self, name: str, macs: Floats | float, moved_B: Floats) -> Floats:
        """Return the least seconds that the stated peaks allow; the L2 cache may hold its size of what is moved."""
        computed = macs / (float(self.spec.formats[name].rate) * self.spec.multiprocessors * self.boost_Hz)
        found: Floats = np.maximum(computed, np.maximum(0.0, moved_B - self.rates.l2_B) / self.memory_Bps)
        return found

    def named(self, name: str, groups: Sequence[Sequence[str]]) -> Names:
        """Return constants by their names in the spec: of the memory, of the format that stands for a format, of the
        multiprocessors. Those of narrower weights (``int4xfp16``) are those of the format that multiplies."""
        narrow = None if name in self.spec.formats else served(name)
        shared = shared_format(self.spec.formats, name if narrow is None else narrow.arithmetic)
        heads = {"memory": f"{self.roles.activations_home}.memory", "format": f"{self.name}.formats.{shared}"}

        def spelled(text: str) -> str:
            head, dot, rest = text.partition(".")
            return f"{heads[head]}.{rest}" if head in heads and dot else f"{self.name}.{text}"

        return [tuple(map(spelled, group)) for group in groups]
