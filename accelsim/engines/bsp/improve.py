"""What one could change about a machine of tiles."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.engines.base import REMAPPED, Improvement
from accelsim.engines.bsp.spec import BspUnit
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.units import spell


def improvements(chip: Chip, unit: Unit) -> Iterator[Improvement]:
    """Weights that stay, a wider exchange, a shorter sync, less to do around each pass, more tiles."""
    spec: BspUnit = unit.spec
    if spec.weights == "loaded":
        resident = f"{unit.name}.weights=resident"
        yield Improvement("weights on the tiles before the run begins", (resident,), ("weights",), 1.0)
    widths = tuple(
        f"{unit.name}.{way}_width={spell(2 * getattr(spec, f'{way}_width'), 'B')}"
        for way in ("send", "receive")
    )
    yield Improvement("twice the width of the exchange", widths, ("exchange",), 0.5)
    yield Improvement("half the sync of the tiles", (f"{unit.name}.sync={spec.sync // 2}",), ("sync",), 0.5)
    overheads = tuple(
        f"{unit.name}.{name}={getattr(spec, name) // 2}" for name in ("pass_overhead", "thread_overhead")
    )
    yield Improvement("half the overhead of passes and threads", overheads, ("tiles",), REMAPPED)
    for name, buffer in chip.buffers.items():
        twice = (
            f"{unit.name}.tiles={2 * spec.tiles}",
            f"{chip.called(name)}.parts={2 * spec.tiles}",
            f"{chip.called(name)}.capacity={spell(2 * buffer.capacity, 'B')}",
        )
        yield Improvement("twice as many tiles", twice, ("tiles", "exchange"), REMAPPED)
