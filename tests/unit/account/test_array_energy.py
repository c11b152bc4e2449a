"""Energy of the array alone: each part from its counts, with the energies of the table."""

from __future__ import annotations

import pytest

from accelsim.account.array_energy import SUM_B, array_energy_J
from accelsim.engines.systolic.counts import counts, hops
from accelsim.errors import UsageError
from accelsim.spec.yaml.parts import load_energy

TABLE = "energy/scaled-28nm"


@pytest.mark.parametrize(("dtype", "operand_B"), [("int8", 1), ("fp16", 2)])
@pytest.mark.parametrize("flow", ["ws", "os", "is"])
def test_parts_are_counts_times_energies(flow: str, dtype: str, operand_B: int) -> None:
    found, energy = counts(4, 3, flow, "overlapped", 7, 5, 9), load_energy(TABLE)
    made = array_energy_J(flow, found.as_dict(), TABLE, dtype)
    operands = sum(
        getattr(found, f"{kind}_{way}") for kind in ("moving", "stationary", "shadow") for way in ("reads", "writes")
    )
    sums = found.psum_reads + found.psum_writes
    assert made["mac_energy_J"] == pytest.approx(7 * 5 * 9 * energy.mac[dtype], rel=1e-9, abs=0)
    registers_J = (operands * operand_B + sums * SUM_B) * float(energy.register)
    assert made["register_energy_J"] == pytest.approx(registers_J, rel=1e-9, abs=0)
    moved = hops(flow, found)
    parts = [made["mac_energy_J"], made["register_energy_J"]]
    if energy.network is None:
        assert made["network_energy_J"] is None
    else:
        network_J = (moved.operands * operand_B + moved.sums * SUM_B) * float(energy.network)
        assert made["network_energy_J"] == pytest.approx(network_J, rel=1e-9, abs=0)
        parts.append(made["network_energy_J"])
    assert made["array_energy_J"] == pytest.approx(sum(part for part in parts if part is not None), rel=1e-9, abs=0)


def test_a_format_without_energy_is_refused() -> None:
    with pytest.raises(UsageError, match="no energy of 'int9'"):
        array_energy_J("ws", counts(4, 3, "ws", "overlapped", 7, 5, 9).as_dict(), TABLE, "int9")
