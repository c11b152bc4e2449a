from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quantiphy import Quantity

from accelsim import units

EXAMPLES = [
    ("24 MiB", "B", 25165824),
    ("64 KiB", "B", 65536),
    ("64B", "B", 64),
    ("8 Gbit", "B", 10**9),
    ("34 GB/s", "B/s", 34e9),
    ("100 Gbit/s", "B/s", 12.5e9),
    ("1.41 GHz", "Hz", 1.41e9),
    ("700 MHz", "Hz", 7e8),
    ("0.9 pJ/B", "J/B", 0.9e-12),
    ("20 pJ/bit", "J/B", 160e-12),
    ("4.0 pJ/bit", "J/B", 32e-12),
    ("3.7 pJ", "J", 3.7e-12),
    ("92 TOPS", "op/s", 92e12),
    ("1.3 TFLOPS", "op/s", 1.3e12),
    ("5 Gop/s", "op/s", 5e9),
    ("28 W", "W", 28.0),
    ("3 mW", "W", 0.003),
    ("40 ns", "s", 40e-9),
    ("5 µs", "s", 5e-6),
    ("331 mm2", "m²", 331e-6),
    ("331 mm²", "m²", 331e-6),
    ("1e-4 m^2", "m²", 1e-4),
]


@pytest.mark.parametrize(("text", "unit", "value"), EXAMPLES)
def test_parse_is_exact(text: str, unit: str, value: float) -> None:
    assert units.parse(text, unit) == value


@pytest.mark.parametrize("unit", units.DIMENSIONS)
def test_own_example_is_understood_and_every_other_dimension_refuses_it(unit: str) -> None:
    example = units.DIMENSIONS[unit].example
    assert units.parse(example, unit) > 0
    for other in units.DIMENSIONS:
        if other != unit:
            with pytest.raises(ValueError, match="wrong unit"):
                units.parse(example, other)


@pytest.mark.parametrize(
    "text", ["34", "", "GB/s", "fast", "1,5 GB/s", "34 GHz", "34 xB/s", "34 gb/s", "3 4 GB/s", "nan B/s"]
)
def test_what_is_no_bandwidth_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected a bandwidth in B/s, such as '34 GB/s'"):
        units.parse(text, "B/s")


def test_commas_part_thousands_of_dollars_alone() -> None:
    assert units.parse("1,270,000.5 USD", "USD") == 1270000.5
    for text in ("1,27 USD", "1,2700 USD", ",270 USD", "1,500.000,1 USD"):
        with pytest.raises(ValueError, match="expected a price in USD, such as '270000 USD'"):
            units.parse(text, "USD")


def test_prefixes_keep_their_case() -> None:
    assert units.parse("1 mW", "W") * 10**9 == units.parse("1 MW", "W")


@given(st.floats(min_value=1e-20, max_value=1e20), st.sampled_from([unit for unit in units.DIMENSIONS if unit != "B"]))
def test_spelling_reads_back_exactly(value: float, unit: str) -> None:
    assert units.parse(units.spell(value, unit), unit) == value


@given(st.integers(min_value=1, max_value=2**62))
def test_bytes_read_back_exactly(value: int) -> None:
    assert units.parse_exact(units.spell(value, "B"), "B") == value


@given(st.floats(min_value=1e-17, max_value=1e17), st.sampled_from(list(units.DIMENSIONS)), st.integers(2, 9))
def test_showing_rounds_to_the_digits_asked_for(value: float, unit: str, digits: int) -> None:
    shown = units.parse(units.show(value, unit, digits), unit)
    assert abs(shown - value) <= 0.5000001 * value * 10.0 ** (1 - digits)


@given(
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value or 1e-250 < abs(value) < 1e250),
    st.sampled_from(["", "B", "op/s"]),
    st.integers(1, 9),
)
def test_showing_is_what_quantiphy_renders(value: float, unit: str, digits: int) -> None:
    theirs = units._quantity()(value, units=unit).render(prec=digits - 1, strip_zeros=True)
    assert units.show(value, unit, digits) == theirs


@given(st.integers(1, 5000), st.sampled_from([1024**power for power in range(6)]), st.integers(3, 6))
def test_binary_prefixes_are_as_quantiphy_renders_them(count: int, scale: int, digits: int) -> None:
    theirs = units._quantity()(count * scale, units="B").binary(prec=digits - 1, strip_zeros=True)
    assert units.show(count * scale, "B", digits, binary=True) == theirs


@pytest.mark.parametrize("prefix", [name for name in units._WORTH if name])
def test_usual_prefixes_are_worth_what_quantiphy_says(prefix: str) -> None:
    assert float(units._WORTH[prefix]) == float(Quantity(f"1 {prefix}g", binary=True))


def test_show() -> None:
    assert units.show(34e9, "B/s") == "34 GB/s"
    assert units.show(1_234_567, "B/s") == "1.235 MB/s"
    assert units.show(25165824, "B", binary=True) == "24 MiB"
    assert units.show(331e-6, "m²") == "331 mm²"
    assert units.show(0, "W") == "0 W"
    assert units.spell(0, "W") == "0 W"
    assert units.spell(65536, "B") == "64 KiB"
    assert units.spell(0.9e-12, "J/B") == "900 fJ/B"


@pytest.mark.parametrize(
    "text", ["1e400 B", "-1e400 B", "1e308 kB", "1e999999999 B", "1e-999999999 B", "0e999999999 B", "9" * 500 + " B",
             "1e99999999999999999999999 B"],
)  # fmt: skip
def test_numbers_that_no_float_holds(text: str) -> None:
    with pytest.raises(ValueError, match="beyond what a number can be; expected a number of bytes"):
        units.parse(text, "B")
    assert units.parse("1.7e305 kB", "B") == 1.7e308
