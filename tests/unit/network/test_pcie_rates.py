"""PCI Express: packet arithmetic against the golden rows and against sums by hand."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from pydantic import ValidationError

from accelsim.errors import UsageError
from accelsim.spec.link import GENERATIONS, Pcie
from tests.validation import pcie_rates as pcie
from tests.validation.pcie import golden_rows, row_errors

GEN3 = Pcie(generation=3, lanes=16)


def test_every_golden_row() -> None:
    rows = list(golden_rows())
    assert len(rows) == 192
    assert max(abs(error) for row in rows for error in row_errors(row).values()) < 1e-5


def test_acknowledgements_by_hand() -> None:
    """Gen 3 x16, 256 B: (256 + 28) x 3 / 16 + 115 = 168 symbols between acknowledgements, and between credits."""
    assert GEN3.raw_Bps == 8_000_000_000 * 16 * Fraction(128, 130) / 8
    assert GEN3.control_share == 2 * Fraction(8, 168) + Fraction(4, 1538)
    assert (GEN3.write_header_B, GEN3.read_header_B, GEN3.completion_header_B) == (24, 24, 20)


def test_one_transfer_by_hand() -> None:
    """700 B are three packets; 700 B are asked for by two reads of at most 512 B."""
    assert pcie.write_wire(GEN3, 700) == (700 + 3 * 24, 0)
    assert pcie.read_wire(GEN3, 700) == (2 * 24, 700 + 3 * 20)
    split = GEN3.model_copy(update={"split_completions": True})
    assert pcie.read_wire(split, 700).to_device_B == 700 + 11 * 20
    small = GEN3.model_copy(update={"address_bits": 32, "ecrc": True})
    assert pcie.write_wire(small, 700).from_device_B == 700 + 3 * (8 + 12 + 4)


def test_both_at_once_share_the_way_out() -> None:
    found = pcie.rates(GEN3, 1024)
    assert found.simultaneous_Bps == pytest.approx(1024 * float(GEN3.tlp_Bps) / (1024 + 4 * 24 + 2 * 24))
    assert found.simultaneous_Bps < found.write_Bps < found.read_Bps


def test_few_tags_bound_reads_only() -> None:
    tagged = Pcie(generation=4, lanes=16, tags=32, round_trip="1 us")  # type: ignore[arg-type]
    free = Pcie(generation=4, lanes=16)
    assert pcie.rates(tagged, 1 << 20).read_Bps == pytest.approx(32 * 512 / 1e-6)
    assert pcie.rates(tagged, 128).read_Bps == pytest.approx(32 * 128 / 1e-6)
    assert pcie.rates(tagged, 1 << 20).write_Bps == pcie.rates(free, 1 << 20).write_Bps
    assert pcie.tag_bound_Bps(free, 1) == float("inf")
    assert tagged.framing(False).payload_Bps == 32 * 512 * Fraction(10**6)


def test_generations_rise_and_flits_have_no_framing() -> None:
    best = [pcie.rates(Pcie(generation=number, lanes=16), 1 << 20).read_Bps for number in GENERATIONS]
    assert all(slow < fast for slow, fast in itertools.pairwise(best))
    gen6 = Pcie(generation=6, lanes=16)
    assert gen6.tlp_Bps == 64_000_000_000 * 16 * Fraction(236, 256) / 8
    assert gen6.write_header_B == 16


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"generation": 8, "lanes": 16}, "8 is not one of the choices"),
        ({"generation": 4, "lanes": 3}, "3 is not one of the choices"),
        ({"generation": 4, "lanes": 4, "max_payload": "100 B"}, "100 B is not one of the choices"),
        ({"generation": 4, "lanes": 4, "address_bits": 48}, "48 is not one of the choices"),
    ],
)
def test_what_no_link_has_is_refused(fields: dict[str, object], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        Pcie.model_validate(fields)


def test_energy_says_how_far_it_can_be_trusted() -> None:
    assert pcie.energy_per_bit(3) == pcie.ENERGY[3]
    assert pcie.energy_per_bit(1)[:3] == (4e-12, 4e-12, "guess")
    assert pcie.energy_per_bit(7).high_J == pcie.ENERGY[5].high_J
    with pytest.raises(UsageError):
        pcie.energy_per_bit(8)
    with pytest.raises(UsageError, match="0 B"):
        pcie.rates(GEN3, 0)
