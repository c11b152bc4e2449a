from typing import Any

import numpy as np
import pytest

from accelsim.dram.bank import Bank
from accelsim.errors import SpecError, UsageError
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram


@pytest.mark.parametrize("more", [{"injection": 0}, {"outstanding": -1}, {"outstanding": 10**7}])
def test_counts_out_of_range(more: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(more))} {next(iter(more.values()))}"):
        Bank(device(load_dram("ddr4-3200")), **more)


@pytest.mark.parametrize(
    ("addresses", "writes"),
    [(np.zeros((2, 2), np.int64), False), (np.zeros(3, np.int64), np.zeros(2, bool)), (np.array([64.5]), False)],
)
def test_shapes_that_do_not_fit(addresses: Any, writes: Any) -> None:
    with pytest.raises(UsageError, match="expected integers"):
        Bank(device(load_dram("ddr4-3200"))).serve(addresses, writes)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"page_policy": "close"}, "page_policy 'close'"),
        ({"window": 0}, "window 0"),
        ({"window": 10**6}, "window 1000000"),
        ({"shared": 3}, "1 channels are no groups of 3"),
        ({"refresh": "per_bank"}, "does not refresh single banks"),
        ({"refersh": "none"}, "unknown field 'refersh'"),
    ],
)
def test_controllers_that_cannot_be(change: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        device(load_dram("ddr4-3200"), **change)


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("currents.IDD0=40 mA", "an activation would cost nothing"),
        ("timing.tRCD=100 s", "out of range"),
        ("timing.tRP=99999999999 tCK", "out of range"),
    ],
)
def test_specs_that_cannot_be(override: str, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        load_dram("ddr4-3200", [override])
