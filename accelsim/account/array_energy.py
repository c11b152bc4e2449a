"""Energy of the array alone, from its access counts: multiplications, registers, steps from PE to PE."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from accelsim.engines.systolic.counts import hops
from accelsim.errors import UsageError, nearest
from accelsim.formats.table import bytes_of
from accelsim.spec.yaml.parts import load_energy

SUM_B = 4
"""Bytes of a sum: int32 or fp32."""


def array_energy_J(dataflow: str, counts: Mapping[str, float], table: str, dtype: str) -> dict[str, float | None]:
    """Energy of one product, J: multiply-accumulates, registers in the PEs, the network between them, and the sum.

    None: the table says nothing of it, and the sum is that of the others. ``counts``: of ``engines.systolic.sweep.one``
    under ``dataflow``, operands of ``dtype``, sums of 4 bytes. SRAM and memories outside the array are not in it.
    SpecError for an unknown table; UsageError for a format that it lacks.
    """
    energy = load_energy(table)
    if dtype not in energy.mac:
        known = ", ".join(energy.mac)
        raise UsageError(f"{table} has no energy of {dtype!r}", "--dtype", known, nearest(dtype, energy.mac))
    operand_B = bytes_of(dtype)
    kinds = ("moving", "stationary", "shadow")
    operands = sum(counts[f"{kind}_{way}"] for kind in kinds for way in ("reads", "writes"))
    registers_B = operands * operand_B + (counts["psum_reads"] + counts["psum_writes"]) * SUM_B
    moved = hops(dataflow, SimpleNamespace(**counts))  # type: ignore[arg-type]
    network_B = moved.operands * operand_B + moved.sums * SUM_B
    parts: dict[str, float | None] = {
        "mac_energy_J": counts["macs"] * float(energy.mac[dtype]),
        "register_energy_J": registers_B * float(energy.register),
        "network_energy_J": None if energy.network is None else network_B * float(energy.network),
    }
    return {**parts, "array_energy_J": sum(part for part in parts.values() if part is not None)}
