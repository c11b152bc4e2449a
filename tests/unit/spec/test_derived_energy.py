"""Rows of an energy table that follow from a file of ``hwspecs/arithmetic``: which stay, what status they have, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import SpecError
from accelsim.spec.derived_energy import PAIRS, SINGLES, Arithmetic, rows
from accelsim.spec.energy import EnergyTable
from accelsim.spec.yaml.load import load_chip
from accelsim.spec.yaml.parts import load_arithmetic, load_energy

TABLE = """
node: 45 nm
{rows}
register: 0.03 pJ/B
sram: [{{capacity: 1 KiB, read: 0.1 pJ/B, write: 0.2 pJ/B}}]
source: a test
as_of: 2026-11
"""


def made(folder: Path, rows: str) -> EnergyTable:
    path = folder / "energy" / "mine.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(TABLE.format(rows=rows))
    return load_energy(path)


def test_every_format_has_a_row() -> None:
    table = load_energy("horowitz-45nm")
    assert list(table.mac) == [*SINGLES, *PAIRS] and list(table.vector) == list(SINGLES)
    assert table.arithmetic is None


def test_a_row_that_is_stated_stays(tmp_path: Path) -> None:
    table = made(tmp_path, "arithmetic: arithmetic/horowitz-45nm\nmac: {int4: 9 pJ}\nstatus: {mac: {fp64: measured}}")
    assert table.mac["int4"] == 9e-12 and table.mac["int8"] == pytest.approx(0.3e-12, rel=1e-9, abs=0)
    assert table.status_of("mac", "int4") == "guess", "the table says nothing of it"
    assert table.status_of("mac", "fp64") == "measured"
    assert table.status_of("mac", "int8") == "secondary"


def test_rows_of_a_table_beneath_yield_to_arithmetic_on_top(tmp_path: Path) -> None:
    table = made(tmp_path, "use: energy/horowitz-45nm\narithmetic: arithmetic/jouppi-7nm")
    other = load_energy("jouppi-7nm")
    assert table.mac == other.mac and table.vector == other.vector
    assert {table.status_of("mac", name) for name in table.mac} == {"recalled"}


def test_status_is_the_weakest_of_what_a_row_was_made_of() -> None:
    table = load_energy("horowitz-45nm")
    said = {name: table.status_of("mac", name) for name in ("int32", "fp32", "int8", "int1", "fp16", "fp64")}
    assert said == {
        "int32": "derived", "fp32": "derived", "int8": "secondary", "int1": "secondary", "fp16": "recalled",
        "fp64": "recalled",
    }  # fmt: skip
    added = {name: table.status_of("vector", name) for name in ("int32", "int8", "int4", "int16")}
    assert added == {"int32": "verified", "int8": "secondary", "int4": "secondary", "int16": "recalled"}
    assert load_energy("scaled-28nm").status_of("vector", "int32") == "derived", "it was scaled"


def test_scaling_multiplies_every_row() -> None:
    here = load_arithmetic("horowitz-45nm")
    there = here.model_copy(update={"scaled_to": "28 nm"})
    assert there.factor == pytest.approx(0.4836, rel=1e-4)
    for column, found in rows(there).items():
        assert {name: row.energy_J / there.factor for name, row in found.items()} == pytest.approx(
            {name: row.energy_J for name, row in rows(here)[column].items()}, rel=1e-9, abs=0
        )


WRONG = {
    "{add: {fp17: 1 pJ}}": "no arithmetic in 'fp17', perhaps fp1",
    "{add: {int8: 0 pJ}}": "int8 costs nothing",
    "{scaled_to: 3 nm}": "no scaling for 3 nm",
    "{scaled_to: small}": "'small' is no node",
    "{as_of: }": "arithmetic.as_of: missing",
}


@pytest.mark.parametrize("keys", WRONG)
def test_errors_name_place_and_remedy(tmp_path: Path, keys: str) -> None:
    with pytest.raises(SpecError) as caught:
        made(tmp_path, "arithmetic: " + keys.replace("{", "{use: arithmetic/horowitz-45nm, ", 1))
    text = str(caught.value)
    assert "mine.yaml:3" in text and "mac" not in text
    assert WRONG[keys] in text


def test_four_operations_are_needed(tmp_path: Path) -> None:
    columns = "multiply: {int8: 1 pJ, int32: 1 pJ, fp16: 1 pJ}, add: {int32: 1 pJ}"
    with pytest.raises(SpecError) as caught:
        made(tmp_path, f"arithmetic: {{node: 45 nm, {columns}}}")
    assert "no energy of fp32; expected int8, int32, fp16, fp32" in str(caught.value)
    assert "no energy of int8 and fp16 and fp32" in str(caught.value)


def test_a_chip_is_told_to_set_rows() -> None:
    with pytest.raises(SpecError, match="arithmetic beside rows that are there; expected single rows"):
        load_chip("tpu-v1", ["energy.arithmetic=arithmetic/jouppi-7nm"])
    assert load_chip("tpu-v1", ["energy.mac.int4=7 pJ"]).energy.mac["int4"] == 7e-12


def test_a_file_of_arithmetic_is_a_spec_of_its_own() -> None:
    assert isinstance(load_arithmetic("jouppi-7nm"), Arithmetic)
    with pytest.raises(SpecError, match="jouppi-7nm"):
        load_arithmetic("jouppi-7")
