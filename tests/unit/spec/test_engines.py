"""The table of engines of a chip: a union over the types that there are, each a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from accelsim.engines.simd.spec import VectorUnit
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.errors import Problem, SpecError
from accelsim.spec.chip import Chip
from accelsim.spec.engine import modules, specs, type_of
from accelsim.spec.yaml.load import load_chip, override, show

Write = Callable[..., Path]
GOOD = show(load_chip("tpu-v1"))


def told(path: Path | str, *overrides: str) -> list[Problem]:
    with pytest.raises(SpecError) as error:
        load_chip(path, overrides)
    return list(error.value.problems)


def test_the_types_are_those_with_a_spec() -> None:
    folder = Path(__file__).parents[3] / "accelsim" / "engines"
    assert [type_of(spec) for spec in specs()] == sorted(path.parent.name for path in folder.glob("*/spec.py"))


def test_engines_have_any_names(write: Write) -> None:
    text = GOOD.replace("\n      matrix:", "\n      array:").replace("\n      vector:", "\n      pipeline:", 1)
    chip, base = load_chip(write(text)), load_chip("tpu-v1")
    assert list(chip.engines) == ["array", "pipeline"]
    assert (chip.matrix, chip.vector) == (base.matrix, base.vector)
    assert override(chip, ["array.rows=128", "peak={}"]) == override(
        chip, ["cores.core.engines.array.rows=128", "peak={}"]
    )


def test_another_unit_in_the_place_of_one() -> None:
    chip = load_chip("tpu-v1")
    assert isinstance(chip.matrix, MatrixUnit) and isinstance(chip.vector, VectorUnit)
    changed = chip.with_engine(chip.matrix.model_copy(update={"rows": 7}))
    assert changed.matrix is not None and changed.matrix.rows == 7
    assert changed.vector is chip.vector and chip.matrix.rows == 256


@pytest.mark.parametrize(("name", "unit"), [("matrix", "systolic"), ("vector", "simd")])
def test_units_beside_the_table_are_told_how_they_are_written(write: Write, name: str, unit: str) -> None:
    head, rest = GOOD.split("cores:\n")
    text = f"{head}{name}:\n  rows: 4\n{rest[rest.index(chr(10) + 'memories:') + 1 :]}"
    path = write(text)
    (problem,) = told(path)
    assert problem.what == f"{name}: no key of today: it stands in the table 'cores'"
    assert problem.where == f"{path}:{text[: text.index(f'{name}:')].count(chr(10)) + 1}:1"
    assert problem.expected == f"cores: {{core: {{engines: {{{name}: {{type: {unit}, ...}}}}}}}}"


def test_an_unknown_type_is_told_with_its_place_and_the_list(write: Write) -> None:
    text = GOOD.replace("type: systolic", "type: systolc").replace("rows: 256", "rose: 256")
    path = write(text)
    (problem,) = told(path)
    line = text[: text.index("type: systolc")].count("\n") + 1
    assert problem.where == f"{path}:{line}:15"
    assert problem.expected == "one of " + ", ".join(type_of(spec) for spec in specs())
    assert problem.nearest == "systolic"


def test_keys_are_those_of_the_type(write: Write) -> None:
    (problem,) = told(write(GOOD.replace("        rows: 256", "        rows: 256\n        lanes: 4")))
    assert (problem.what, problem.nearest) == ("cores.core.engines.matrix.lanes: unknown key", "")
    (problem,) = told(write(GOOD.replace("        rows: 256\n", "")))
    assert problem.what == "cores.core.engines.matrix.rows: missing" and "PEs in a column" in problem.expected
    found = told("tpu-v1", "matrix.formats.int8.cycles_per_row=none")
    assert "cores.core.engines.matrix.formats.int8.cycles_per_row: 'none' is no pace" in [each.what for each in found]


def test_a_name_that_is_none(write: Write) -> None:
    (problem, *_) = told(write(GOOD.replace("\n      matrix:", "\n      My unit:")))
    assert (problem.what, problem.expected) == ("cores.core.engines.My unit: not a valid name", "a-z 0-9 _ . -")


@pytest.mark.parametrize(("value", "what"), [("4", "no spec file '4'"), ("[]", "a list is not accepted")])
def test_what_is_no_block_is_no_engine(value: str, what: str) -> None:
    assert f"cores.core.engines.matrix: {what}" in [problem.what for problem in told("tpu-v1", f"matrix={value}")]


def test_an_engine_may_be_a_file_or_start_from_one(write: Write, tmp_path: Path) -> None:
    (tmp_path / "unit.yaml").write_text(
        "type: simd\nlanes: 8\nfunctions: {rounding: 3}\nsource: A test.\nas_of: 2026-11\n", encoding="utf-8"
    )
    for value in (
        str(tmp_path / "unit.yaml"),
        f"{{use: {tmp_path / 'unit.yaml'}, latency: 5, functions: {{Ceil: 4}}}}",
    ):
        unit = load_chip("tpu-v1", [f"vector={value}"]).vector
        assert unit is not None and unit.lanes == 8
        assert (unit.latency, unit.functions) == (
            (5, {"Round": 3, "Floor": 3, "Ceil": 4}) if "use" in value else (0, {"Round": 3, "Floor": 3, "Ceil": 3})
        )


def test_a_path_may_start_with_a_name_in_a_table() -> None:
    chip = load_chip("tpu-v1", ["vector.lanes=8", "ddr3.memory.bandwidth=68 GB/s", "weight_fifo.slots=2"])
    full = ["cores.core.engines.vector.lanes=8", "memories.ddr3.memory.bandwidth=68 GB/s", "weight_fifo.slots=2"]
    assert chip == load_chip("tpu-v1", full)


@pytest.mark.parametrize(
    ("name", "what"), [("clock", "a field of the chip"), ("ddr3", "a memory"), ("weight_fifo", "a buffer")]
)
def test_names_of_engines_are_no_others(name: str, what: str) -> None:
    unit = "{type: simd, lanes: 4, functions: {}}"
    found = told("tpu-v1", "cores.core.engines.vector=null", f"cores.core.engines.{name}={unit}", "clock=800 MHz")
    assert [each.what for each in found] == [f"cores.core.engines.{name}: {name!r} is the name of {what}"]


def test_a_name_with_a_dot_is_one_name(write: Write) -> None:
    text = GOOD.replace("\n      matrix:", "\n      v:").replace("\n      vector:", "\n      v.1:", 1)
    chip = load_chip(write(text), ["v.1.lanes=8"])
    assert chip.vector is not None and chip.vector.lanes == 8


def test_a_name_in_two_tables_needs_the_table() -> None:
    adds = "cores.core.memories.vector={capacity: 1 KiB, holds: [weights], read_width: 1 B, write_width: 1 B}"
    found = [each for each in told("tpu-v1", adds, "vector.lanes=8") if "override 'vector" in each.where]
    assert [each.what for each in found] == [
        "'vector.lanes' may mean cores.core.engines.vector.lanes or cores.core.memories.vector.lanes"
    ]


TYPE = '''
from typing import Literal

from accelsim.spec.engine import EngineSpec
from accelsim.spec.laws.finding import Finding


class Toy(EngineSpec):
    """A toy."""

    type: Literal["toy"]
    wheels: int

    def rates(self):
        return {"int8": self.wheels}


def even(unit, chip, path):
    """Wheels come in pairs."""
    if unit.wheels % 2:
        yield Finding((*path, "wheels"), "no pairs")


SPEC, LAWS = Toy, (even,)
'''
LOADED = """
import sys
import accelsim.engines
accelsim.engines.__path__.append(sys.argv[1])
from accelsim.errors import SpecError
from accelsim.spec.yaml.load import load_chip, show
from accelsim.spec.yaml.schema import schema
from tests.helpers.spec_reference import reference_markdown
BASE = ["cores={core: {engines: {car: {type: toy, wheels: 4}}}}", "peak={int8: 18.4 GOPS}",
    "memories={m: {memory: memories/hbm2, holds: [activations, weights, host]}}"]
chip = load_chip("haswell-e5-2699v3", BASE)
print(chip.engines["car"].wheels, chip.peak["int8"], "wheels: 4" in show(chip))
print("`wheels`" in reference_markdown(), "Toy" in schema("chips")["$defs"])
for change in ("car.wheels=5", "car.weels=4", "car.type=toi"):
    try:
        load_chip("haswell-e5-2699v3", [*BASE, change])
    except SpecError as error:
        print(error)
"""


def test_a_new_type_is_a_new_folder(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "toy" / "spec.py").write_text(TYPE, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", LOADED, str(tmp_path)], capture_output=True, text=True, check=True)
    types = ", ".join(sorted([*modules(), "toy"]))
    assert done.stdout.splitlines() == [
        "4 18400000000 True",
        "True True",
        "override 'car.wheels=5': cores.core.engines.car.wheels: no pairs",
        "override 'car.weels=4': no field 'cores.core.engines.car.weels'; did you mean 'cores.core.engines.car.wheels'?",
        f"override 'car.type=toi': cores.core.engines.car.type: no type 'toi'; expected one of {types}; did you mean 'toy'?",
    ]


def test_a_chip_of_python_takes_blocks_by_their_type() -> None:
    chip = load_chip("tpu-v1")
    assert Chip.model_validate(chip.model_dump(mode="json")) == chip
