"""Names of number formats in specs: every one of the table, configurable floats, pairs; no aliases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import SpecError
from accelsim.formats import table
from accelsim.spec.laws.chip import broken
from accelsim.spec.names import format_bits, nearest_format, operand_formats
from accelsim.spec.yaml.load import load_chip

NAMES = sorted(table.FORMATS)


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_its_own_operand(name: str) -> None:
    assert operand_formats(name) == (table.FORMATS[name],)
    assert nearest_format(name) == name


@given(st.sampled_from([*NAMES, "fp8_e5m2b20", "fp6_e3m2"]), st.sampled_from([*NAMES, "fp12_e5m6"]))
def test_any_two_make_a_pair(weights: str, activations: str) -> None:
    """Names with an x of their own (mxfp4) too."""
    assert operand_formats(f"{weights}x{activations}") == (table.get(weights), table.get(activations))


@pytest.mark.parametrize(
    ("name", "bits"),
    [("int8", (8,)), ("int8xint16", (8, 16)), ("int4xint8", (4, 8)), ("fp8_e4m3fnxfp8_e5m2", (8, 8)),
     ("tf32", (19,)), ("int1", (1,)), ("mxfp4", (4,)), ("mxfp8_e4m3xmxfp4", (8, 4)), ("fp8_e5m2b20", (8,)),
     ("word", None), ("", None), ("x", None), ("int8x", None), ("int8xint8xint8", None), ("fp9_e4m3", None)],
)  # fmt: skip
def test_bits(name: str, bits: tuple[int, ...] | None) -> None:
    assert format_bits(name) == bits


@pytest.mark.parametrize("alias", sorted(table.ALIASES))
def test_an_alias_is_no_name_but_leads_to_it(alias: str) -> None:
    assert format_bits(alias) is None and format_bits(f"int8x{alias}") is None
    assert nearest_format(alias) == table.ALIASES[alias]
    assert nearest_format(f"int8x{alias}") == f"int8x{table.ALIASES[alias]}"


@pytest.mark.parametrize(
    ("wrong", "meant"), [("in8", "int8"), ("int4xintt8", "int4xint8"), ("fp8_e4m3fm", "fp8_e4m3fn"), ("quux", "")]
)
def test_a_slip_leads_to_the_name(wrong: str, meant: str) -> None:
    assert nearest_format(wrong) == meant


@pytest.mark.parametrize(
    ("override", "meant"),
    [("matrix.formats.fp8={}", "fp8_e4m3fn"), ("matrix.formats.int4xfp8={}", "int4xfp8_e4m3fn"),
     ("matrix.formats.int8.accumulate=float32", "fp32")],
)  # fmt: skip
def test_a_spec_with_an_alias_is_refused_with_the_name(override: str, meant: str) -> None:
    with pytest.raises(SpecError) as error:
        load_chip("tpu-v1", [override])
    found = [problem for problem in error.value.problems if "is no number format" in problem.what]
    assert [problem.nearest for problem in found] == [meant]


@pytest.mark.parametrize(("fmt", "least_B"), [("int8", 4096), ("int4", 2048), ("int1", 512), ("tf32", 16384)])
def test_a_slot_is_measured_in_packed_bytes(fmt: str, least_B: int) -> None:
    """A fold of 64 x 64 stationary operands."""
    chip = load_chip("edu-mixed")
    assert chip.matrix is not None
    formats = {fmt: chip.matrix.formats[fmt]}
    weights = chip.buffers["weight_sram"]
    for capacity, fits in (least_B, True), (least_B - 1, False):
        small = chip.with_engine(chip.matrix.model_copy(update={"formats": formats}))
        narrow = weights.model_copy(update={"capacity": capacity})
        small = small.with_core(memories={**chip.buffers, "weight_sram": narrow})
        small = small.model_copy(update={"peak": {}})
        complaints = [each for each in broken(small) if "too small for weights" in each.what]
        assert (complaints == []) == fits
