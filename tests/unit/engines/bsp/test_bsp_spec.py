"""The spec of a machine of tiles, the chip that comes with it, and what is refused of either."""

from __future__ import annotations

from fractions import Fraction

import pytest

from accelsim.engines.bsp import spec
from accelsim.errors import SpecError
from accelsim.spec.yaml.load import load_chip

TILES = "type: bsp, tiles: 1472, threads: 1, load_width: 1 B, vector_width: 1 B, send_width: 1 B, receive_width: 1 B"
MORE = "exchange_energy: 1 pJ/B, sync: 1, formats: {fp32: {k: 1, n: 1, cycles_per_row: 1}}, functions: {}"


@pytest.mark.parametrize(
    ("override", "what"),
    [
        (f"cores.core.engines.more={{{TILES}, {MORE}}}", "a second engine of type bsp, beside 'tiles'"),
        ("tiles.tiles=1000", "1472 parts for 1000 tiles"),
        ("tile_memory.parts=1", "1 parts for 1472 tiles"),
        ("tile_memory.holds=[weights]", "no buffer holds activations"),
        ("tiles.reserve=624 KiB", "leaves nothing of a tile for data"),
        ("tiles.formats.potato={k: 1, n: 1, cycles_per_row: 1}", "'potato' is no number format"),
        ("tiles.formats.fp16.accumulate=fp17", "'fp17' is no number format"),
        ("tiles.formats.fp16.dot=int32", "'int32' is no rule that adds up products of fp16"),
        ("tiles.functions.Relo=1", "no operator of this name"),
        ("energy.vector={fp32: 1 pJ}", "no energy of format fp16"),
        ("peak.fp16=300 TFLOPS", "stated 300 Top/s contradicts the rest"),
    ],
)
def test_each_law_is_enforced(override: str, what: str) -> None:
    with pytest.raises(SpecError) as error:
        load_chip("ipu-gc200", [override])
    assert any(problem.what.endswith(what) for problem in error.value.problems)


def test_every_law_is_tested_above() -> None:
    assert {law.__name__ for law in spec.LAWS} == {
        "only_one", "the_buffer_is_that_of_the_tiles", "formats_are_known", "dot_rules_fit", "functions_are_known",
        "energies_of_functions_are_there",
    }  # fmt: skip


def test_the_chip_is_that_of_its_sources() -> None:
    chip = load_chip("ipu-gc200")
    (unit,), (buffer,) = chip.engines.values(), chip.buffers.values()
    assert isinstance(unit, spec.BspUnit)
    assert (unit.tiles, unit.tiles * unit.threads) == (1472, 8832)
    assert buffer.part_B == 624 * 1024 and unit.room_B(buffer) == 560 * 1024
    assert unit.rates()["fp16"] == 1472 * 64 and unit.rates()["fp32"] == 1472 * 16
    assert unit.formats["fp32"].macs_per_clock == Fraction(16)
    assert unit.peaks(chip)["fp16"] == pytest.approx(250e12, rel=0.01)
    assert unit.tiles * unit.send_width * chip.clock == pytest.approx(8e12, rel=0.03)
    assert unit.tiles * (buffer.read_width + buffer.write_width) / 1472 * chip.clock == pytest.approx(47.5e12, rel=0.02)
