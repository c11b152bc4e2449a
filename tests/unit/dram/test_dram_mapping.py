"""Address mappings: bijections, with each field where its text says."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.dram.device import Geometry
from accelsim.dram.mapping import ALIASES, Decoder, Place, decoder, problems
from accelsim.errors import UsageError
from accelsim.spec.dram_device import geometry_of
from accelsim.spec.yaml.parts import load_dram
from tests.validation.golden import anchor, golden

GOLDEN = golden("dram/dram_golden.csv")
DDR4 = Geometry(channels=1, ranks=2, groups=4, banks=4, rows=65536, columns=128, access_B=64)
STACK = Geometry(channels=16, ranks=4, groups=4, banks=4, rows=32768, columns=32, access_B=32)
CODES = ("ro", "ch", "ra", "ba", "bg", "co")

PRESETS = {
    ("DRAMsim3", "DDR3_8Gb_x8_1600"): "dramsim3-ddr3-1600",
    ("DRAMsim3", "DDR4_8Gb_x8_2400"): "dramsim3-ddr4-2400",
    ("DRAMsim3", "DDR4_8Gb_x8_3200"): "dramsim3-ddr4-3200",
    ("DRAMsim3", "GDDR5_8Gb_x32"): "dramsim3-gddr5",
    ("DRAMsim3", "GDDR6_8Gb_x16"): "dramsim3-gddr6",
    ("DRAMsim3", "HBM2_8Gb_x128"): "dramsim3-hbm2",
    ("DRAMsim3", "DDR4_8Gb_x8_3200@rorabachcobg"): "dramsim3-ddr4-3200-rorabachcobg",
    ("DRAMsim3", "DDR4_8Gb_x8_3200@rorabacochbg"): "dramsim3-ddr4-3200-rorabacochbg",
    ("DRAMsim3", "DDR4_8Gb_x8_3200@CLOSE"): "dramsim3-ddr4-3200-closed",
    ("DRAMsim3", "DDR3_aligned"): "dramsim3-ddr3-aligned",
    ("DRAMsim3", "DDR4_3200_aligned"): "dramsim3-ddr4-3200-aligned",
    ("Ramulator2", "DDR3_1600K_8Gb_x8"): "ramulator2-ddr3-1600",
    ("Ramulator2", "DDR4_2400U_8Gb_x8"): "ramulator2-ddr4-2400",
    ("Ramulator2", "DDR4_3200AA_8Gb_x8"): "ramulator2-ddr4-3200",
    ("Ramulator2", "DDR4_3200AA_8Gb_x8@MOP4CLXOR"): "ramulator2-ddr4-3200-mop4clxor",
    ("Ramulator2", "DDR3_aligned"): "ramulator2-ddr3-aligned",
    ("Ramulator2", "DDR4_3200_aligned"): "ramulator2-ddr4-3200-aligned",
    ("Ramulator2", "GDDR6_14000_8Gb_x16"): "ramulator2-gddr6-14000",
    ("Ramulator2", "HBM2_2000_8Gb_8ch"): "ramulator2-hbm2-2000",
    ("Ramulator2", "HBM1_1000_4Gb_8ch"): "ramulator2-hbm1-1000",
    ("Ramulator2", "HBM3_8ch"): "ramulator2-hbm3-6400",
}
"""Every configuration of the golden runs -> its preset."""

ROWS = {
    (row["simulator"], row["config"]): row for row in csv.DictReader(GOLDEN.read_text(encoding="utf-8").splitlines())
}


def powers(top: int) -> st.SearchStrategy[int]:
    return st.integers(0, top).map(lambda bits: 1 << bits)


geometries = st.builds(
    Geometry,
    channels=powers(5),
    ranks=powers(2),
    groups=powers(3),
    banks=powers(3),
    rows=powers(6).map(lambda rows: rows * 16),
    columns=powers(5).map(lambda columns: columns * 4),
    access_B=st.sampled_from([32, 64, 128, 256]),
)


@st.composite
def mappings(draw: st.DrawFn) -> tuple[str, Geometry]:
    """A mapping text of any kind, with a geometry that it fits."""
    geometry = draw(geometries)
    if draw(st.booleans()):
        return stacked(draw(st.sampled_from(sorted(ALIASES))), geometry, draw(st.booleans()))
    order = list(draw(st.permutations(CODES)))
    suffix = ""
    if draw(st.booleans()):
        order.remove("ch")
        channel_B = geometry.capacity_B // geometry.channels
        sizes = [f"{geometry.access_B << i}B" for i in range(8) if geometry.access_B << i <= channel_B]
        suffix = ":ch@" + draw(st.sampled_from(["burst", "page", *sizes]))
    if draw(st.booleans()):
        order.insert(draw(st.integers(0, len(order))), "co2")
    if draw(st.booleans()):
        order.insert(draw(st.integers(0, len(order))), "ro3")
    text = "".join(order) + suffix + draw(st.sampled_from(["", "^row", "^co"]))
    return stacked(text, geometry, draw(st.booleans()))


def stacked(text: str, geometry: Geometry, asked: bool) -> tuple[str, Geometry]:
    """With three times the rows where that is asked and they lie on top."""
    more = Geometry(**{**geometry.__dict__, "rows": 3 * geometry.rows})
    on_top = text in ALIASES or text.startswith("ro")
    return (text, more) if asked and on_top and not problems(text, more) else (text, geometry)


@given(mappings(), st.data())
def test_every_mapping_is_a_bijection(drawn: tuple[str, Geometry], data: st.DataObject) -> None:
    text, geometry = drawn
    made = decoder(text, geometry)
    bursts = geometry.capacity_B // geometry.access_B
    numbers = np.array(data.draw(st.lists(st.integers(0, bursts - 1), min_size=1, max_size=20)), np.int64)
    place = made.decode(numbers * geometry.access_B)
    assert np.array_equal(made.encode(place), numbers * geometry.access_B)
    for values, count in zip(place, counts(geometry), strict=True):
        assert values.dtype == np.int32
        assert values.min() >= 0 and values.max() < count


def counts(geometry: Geometry) -> tuple[int, ...]:
    return (
        geometry.channels, geometry.ranks, geometry.groups, geometry.banks, geometry.rows, geometry.columns,
    )  # fmt: skip


@given(mappings())
def test_every_place_is_hit_exactly_once(drawn: tuple[str, Geometry]) -> None:
    text, geometry = drawn
    rows = 8 if geometry.rows % 3 else 6
    small = Geometry(**{**geometry.__dict__, "rows": rows, "channels": min(geometry.channels, 4)})
    if problems(text, small):
        return
    place = decoder(text, small).decode(np.arange(0, small.capacity_B, small.access_B))
    flat = np.ravel_multi_index(tuple(place), counts(small))
    assert np.array_equal(np.sort(flat), np.arange(flat.size))


@given(mappings(), st.integers(0, 2**40), st.integers(0, 31))
def test_bytes_of_a_burst_lie_together_and_addresses_wrap(drawn: tuple[str, Geometry], address: int, byte: int) -> None:
    text, geometry = drawn
    made = decoder(text, geometry)
    first = address // geometry.access_B * geometry.access_B
    same = made.decode(np.array([first, first + byte, first + 3 * geometry.capacity_B]))
    assert all((values == values[0]).all() for values in same)


@pytest.mark.parametrize("key", ROWS, ids="-".join)
def test_row_field_lies_where_the_simulators_have_it(key: tuple[str, str]) -> None:
    dram, row = load_dram(anchor(PRESETS[key])), ROWS[key]
    geometry = geometry_of(dram)
    made = decoder(dram.controller.mapping, geometry)
    assert geometry.access_B == int(row["access_bytes"])
    if row["row_field_lsb_bit"]:
        assert made.row_lsb == int(row["row_field_lsb_bit"])
    if row["address_mapping"] not in ("RoBaRaCoCh",):
        assert dram.controller.mapping == row["address_mapping"]


def at(made: Decoder, *addresses: int) -> list[tuple[int, ...]]:
    place = made.decode(np.array(addresses))
    return [tuple(int(values[i]) for values in place) for i in range(len(addresses))]


def test_fields_of_dramsims_default() -> None:
    """Row, channel, rank, bank, bank group, column from the top, 6 bits of a burst at the bottom."""
    made = decoder("rochrababgco", DDR4)
    place = (0, 1, 2, 3, 4711, 100)
    address = (4711 << 18) | (1 << 17) | (3 << 15) | (2 << 13) | (100 << 6)
    assert at(made, address) == [place]
    assert made.row_lsb == 18


def test_column_lowest_puts_bank_group_below_bank() -> None:
    """Ramulator flattens rank, bank group, bank and row, each above the one before."""
    made = decoder("RoBaRaCoCh", DDR4)
    assert at(made, 1 << 13, 1 << 14, 1 << 16, 1 << 18) == [
        (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0),
    ]  # fmt: skip
    assert decoder("column-lowest", DDR4).pieces == made.pieces


def test_pseudo_channels_above_the_column() -> None:
    made = decoder("robabgrachcoch3", STACK)
    assert [place[0] for place in at(made, 1 << 5, 4 << 5, 1 << 13)] == [1, 4, 8]
    assert at(made, 1 << 8)[0][5] == 1


@pytest.mark.parametrize(
    ("text", "block_B"),
    [
        ("rorababgco:ch@burst", 32),
        ("rorababgco:ch@256B", 256),
        ("rorababgco:ch@page", 1024),
        ("rorabaco:ch@4KiB", 4096),
    ],
)
def test_channels_alternate_after_each_block(text: str, block_B: int) -> None:
    geometry = STACK if "bg" in text else Geometry(16, 4, 1, 16, 32768, 32, 32)
    channels = decoder(text, geometry).decode(np.arange(0, 64 * block_B, 32)).channel
    assert np.array_equal(channels, np.repeat(np.arange(64) % 16, block_B // 32))


def test_interleaving_keeps_the_order_of_a_channel() -> None:
    """What one channel sees is the mapping of a memory that has only this channel."""
    made = decoder("rorabacobg:ch@256B", STACK)
    alone = decoder("rorabacobg", Geometry(**{**STACK.__dict__, "channels": 1}))
    place = made.decode(np.arange(0, 1 << 20, 32))
    mine = place.channel == 5
    expected = alone.decode(np.arange(0, mine.sum() * 32, 32))
    assert all(np.array_equal(a[mine], b) for a, b in zip(place[1:], expected[1:], strict=True))


def test_row_xor_changes_the_bank_from_row_to_row() -> None:
    made = decoder("bank-xor", DDR4)
    place = made.decode(np.arange(16) << made.row_lsb)
    assert len(set(zip(place.group.tolist(), place.bank.tolist(), strict=True))) == 16
    assert np.array_equal(place.row, np.arange(16))


def test_mop4_keeps_four_bursts_together() -> None:
    place = decoder("mop4", DDR4).decode(np.arange(0, 64 * 16, 64))
    assert place.column.tolist() == [0, 1, 2, 3] * 4
    ranks = list(zip(place.rank.tolist(), place.group.tolist(), strict=True))
    assert ranks == [pair for pair in ((0, 0), (1, 0), (0, 1), (1, 1)) for _ in range(4)]


def test_ramulators_mop4clxor_takes_bits_of_the_column() -> None:
    """src/addr_mapper/impl/linear_mappers.cpp: bank group, bank and row are XORed with rising bits of the column."""
    one_rank = Geometry(1, 1, 4, 4, 65536, 128, 64)
    made = decoder("MOP4CLXOR", one_rank)
    for burst in (0, 1, 5, 77, 1234, 99999):
        low, group, bank, high, row = (
            burst & 3, burst >> 2 & 3, burst >> 4 & 3, burst >> 6 & 31, burst >> 11,
        )  # fmt: skip
        column = high << 2 | low
        expected = (0, 0, group ^ column & 3, bank ^ column >> 2 & 3, row ^ column >> 4, column)
        assert at(made, burst << 6) == [expected]


ERRORS = [
    ("rorabachcoXX", "is no row of fields"),
    ("rorababgco", "field ch (channel) is missing"),
    ("rorachbgco", "field ba (bank) is missing"),
    ("rororabachbgco", "field ro (row) is given twice"),
    ("rorabachbgcoco9", "9 bits of column are split off, it has 5"),
    ("rorabachbgco:ch@256B", "the channel has two places"),
    ("rorababgco:ch@48B", "channels every 48B: not possible"),
    ("rorababgco:ch@16B", "channels every 16B: not possible"),
    ("rorababgco:ch@often", "channels every often: 'often' is not a number with a unit"),
    ("rorabachbgco^bank", "^bank is unknown"),
    ("", "is not understood"),
]


@pytest.mark.parametrize(("text", "what"), ERRORS)
def test_what_is_wrong_with_a_mapping(text: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        decoder(text, STACK)
    assert [what in problem.what for problem in error.value.problems] == [True]


def test_the_nearest_name_is_offered() -> None:
    (found,) = problems("RoBaRaCoC", STACK)
    assert found.nearest == "RoBaRaCoCh"


def test_only_powers_of_two() -> None:
    with pytest.raises(UsageError) as error:
        decoder("chrorababgco", Geometry(3, 1, 4, 4, 1000, 32, 32))
    assert [problem.what for problem in error.value.problems] == [
        "1000 rows: no power of two", "3 channels: no power of two",
    ]  # fmt: skip


def test_place_has_the_fields_of_the_hierarchy() -> None:
    assert Place._fields == ("channel", "rank", "group", "bank", "row", "column")


def test_rows_on_top_may_be_any_number() -> None:
    """Stacks of twelve dies have three halves of the rows of eight: one behind the last is the first again."""
    geometry = Geometry(channels=2, ranks=1, groups=1, banks=1, rows=3, columns=2, access_B=32)
    made = decoder("rochrababgco", geometry)
    assert made.decode(np.arange(0, 2 * geometry.capacity_B, 128)).row.tolist() == [0, 1, 2, 0, 1, 2]
    with pytest.raises(UsageError, match="rows may be any number on top"):
        decoder("rochrababgcoro2", geometry)


FIVE_STACKS = Geometry(channels=80, ranks=1, groups=4, banks=4, rows=32768, columns=32, access_B=32)


@given(st.lists(st.integers(0, FIVE_STACKS.capacity_B // 32 - 1), min_size=1, max_size=50), st.integers(2, 100))
def test_any_number_of_channels_takes_blocks_in_turn(bursts: list[int], channels: int) -> None:
    geometry = replace(FIVE_STACKS, channels=channels)
    mapping = decoder("rorabacobg:ch@256B", geometry)
    addresses = np.array(bursts, np.int64) * 32 % geometry.capacity_B
    place = mapping.decode(addresses)
    np.testing.assert_array_equal(place.channel, addresses // 256 % channels)
    np.testing.assert_array_equal(mapping.encode(place), addresses)
    np.testing.assert_array_equal(mapping.decode(addresses + geometry.capacity_B).row, place.row)
    for field, size in zip(place, (channels, 1, 4, 4, 32768, 32), strict=True):
        assert field.min() >= 0 and field.max() < size


def test_channels_in_turn_are_those_of_address_bits_where_both_can_be() -> None:
    """Two stacks of 40 beside one of 64: within a channel, bursts lie as they do in any other."""
    even, odd = (decoder("rorabacobg:ch@256B", replace(FIVE_STACKS, channels=n)) for n in (64, 80))
    inside = np.arange(0, 2**22, 32, dtype=np.int64)
    block, rest = inside // 256, inside % 256
    of_even, of_odd = (mapping.decode(block * 256 * n + rest) for mapping, n in ((even, 64), (odd, 80)))
    for one, other in zip(of_even, of_odd, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_number_of_channels_that_xor_would_leave_is_refused() -> None:
    with pytest.raises(UsageError, match="80 channels"):
        decoder("rorabacobg:ch@256B^co", FIVE_STACKS)
    with pytest.raises(UsageError, match="any number where they change by blocks"):
        decoder("rochrababgco", FIVE_STACKS)
