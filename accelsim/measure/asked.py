"""Measurements as they are asked for: rows of kernels, or of whole networks, and their table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from accelsim import files
from accelsim.measure.kernels import COLUMNS, FORMATS, MOST_SETS, OPS, check, measured, pytorch
from accelsim.measure.network import COLUMNS as OF_NETWORKS
from accelsim.measure.network import measured_networks
from accelsim.measure.power import Meter

POWER = ("power_W", "clock_MHz", "energy_mJ")
"""Columns of a meter."""
Row = Mapping[str, object]


def measured_rows(
    told: Callable[[float], None],
    *,
    device: str,
    ops: str | None,
    dtype: str,
    rows: int,
    models: Sequence[str],
    batches: Sequence[int],
    attention: str,
    seed: int,
    called: bool,
    warm: bool,
    power: int,
) -> tuple[list[Row], Sequence[str]]:
    """Return the rows of kernels, or of the networks ``models``, and the columns that they may have.

    ``told`` hears the watts of the idle device where ``power`` is measured; ``ops``: with commas, None for all that the
    format has; the others as for ``measured`` and ``measured_networks``, whose errors it raises.
    """
    torch = pytorch()
    known = FORMATS[dtype].ops if dtype in FORMATS else None
    asked = [op.strip() for op in ops.split(",")] if ops else [op for op in OPS if not known or op in known]
    check(torch, device, [] if models else asked, dtype)
    meter = Meter(torch, device) if power else None
    if meter is not None:
        told(meter.idle_W())
    if models:
        found = measured_networks(torch, device, models, batches, dtype, attention, meter)
        return list(found), (*OF_NETWORKS, *POWER)
    sets = 1 if warm else MOST_SETS
    return list(measured(torch, device, asked, rows, dtype, seed, called, power, meter, sets)), COLUMNS


def table(rows: Sequence[Row], columns: Sequence[str]) -> files.Make:
    """Return what writes rows as a CSV file, with those of the columns that any of them has."""
    used = [name for name in columns if any(name in row for row in rows)]
    return files.table(used, ([row.get(name, "") for name in used] for row in rows))
