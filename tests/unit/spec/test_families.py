"""Families of functions: what a name that stands for many brings, in files, on top of files and by overrides."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelsim.engines.simd.spec import VectorUnit
from accelsim.errors import Problem, SpecError
from accelsim.spec.chip import Chip
from accelsim.spec.names import FUNCTIONS, NONE
from accelsim.spec.yaml.load import list_chips, load_chip, override, resolved, show
from accelsim.spec.yaml.schema import schema

Write = Callable[..., Path]
BASE = "use: chips/dae-edu\nname: mine\nsource: A test.\nas_of: 2026-11\n"
UNIT = "cores:\n  core:\n    engines:\n      vector:\n        type: simd\n        lanes: 4\n        functions:\n"


def table(*lines: str) -> str:
    return BASE + UNIT + "".join(f"          {line}\n" for line in lines)


def functions(chip: Chip) -> dict[str, int]:
    unit = chip.engines["vector"]
    assert isinstance(unit, VectorUnit)
    return unit.functions


def problems(path: Path | str, *overrides: str) -> list[Problem]:
    with pytest.raises(SpecError) as error:
        load_chip(path, overrides)
    return list(error.value.problems)


def test_a_family_brings_its_operators_and_a_name_wins(write: Write) -> None:
    chip = load_chip(write(table("Round: 3", "rounding: 2", "logic: 1", "Xor: none", "TopKGating: 5")))
    assert functions(chip) == {
        "Round": 3, "Floor": 2, "Ceil": 2, "And": 1, "Or": 1, "Not": 1, "TopKGating": 5
    }  # fmt: skip


def test_a_chip_on_top_of_another_changes_and_leaves_out(write: Write) -> None:
    write(table("rounding: 1", "logic: 1", "Exp: 1"), "chips/first.yaml")
    lines = ("rounding: 2", "Ceil: none", "Exp: none", "logic: none", "Or: 7")
    path = write(table(*lines).replace("dae-edu", "first"), "chips/second.yaml")
    assert functions(load_chip(path)) == {"Round": 2, "Floor": 2, "Or": 7}


def test_overrides_take_families_in_their_order() -> None:
    changes = ["vector.functions.rounding=2", "vector.functions.Floor=3", "vector.functions.Relu=none",
               "vector.functions.quantisation=none"]  # fmt: skip
    made = functions(load_chip("tpu-v1", changes))
    assert {name: made.get(name) for name in ("Round", "Ceil", "Floor")} == {"Round": 2, "Ceil": 2, "Floor": 3}
    assert not {"Relu", *FUNCTIONS.members["quantisation"]} & made.keys() and made["Tanh"] == 1
    assert functions(override(load_chip("tpu-v1"), changes)) == made
    assert functions(load_chip("tpu-v1", ["vector.functions={logic: 1, Or: none}"])).keys() == {"And", "Not", "Xor"}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("Rellu: 1",), ("12:18", "cores.core.engines.vector.functions.Rellu: no operator of this name", "Relu")),
        (
            ("rundoing: 1",),
            ("12:21", "cores.core.engines.vector.functions.rundoing: no operator or family of this name", "rounding"),
        ),
        (("Rellu: none",), ("12:11", "cores.core.engines.vector.functions.Rellu: no operator of this name", "Relu")),
        (
            ("logic: 1", "Relu: none"),
            ("13:11", "cores.core.engines.vector.functions.Relu: leaves out what is not there", ""),
        ),
        (("logic: none",), ("12:11", "cores.core.engines.vector.functions.logic: leaves out what is not there", "")),
        (
            ("logic: 1", "logic: 2"),
            ("13:11", "cores.core.engines.vector.functions.logic: key given twice, first in line 12", ""),
        ),
        (("logic: fast",), ("12:18", "cores.core.engines.vector.functions.logic: 'fast' is not accepted", "")),
        (("logic: 0",), ("12:18", "cores.core.engines.vector.functions.logic: '0' is not accepted", "")),
        (("logic: [1]",), ("12:18", "cores.core.engines.vector.functions.logic: a list is not accepted", "")),
    ],
)
def test_what_is_wrong_is_told_once_with_its_place(
    write: Write, lines: tuple[str, ...], found: tuple[str, str, str]
) -> None:
    path = write(table(*lines))
    assert [(each.where, each.what, each.nearest) for each in problems(path)] == [(f"{path}:{found[0]}", *found[1:])]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("logic=fast", "cores.core.engines.vector.functions.logic: 'fast' is not accepted"),
        ("logic=", "cores.core.engines.vector.functions.logic: an empty value is not accepted"),
        ("logic=none", "cores.core.engines.vector.functions.logic: leaves out what is not there"),
        ("Gelu=none", "cores.core.engines.vector.functions.Gelu: leaves out what is not there"),
        ("logics=1", "cores.core.engines.vector.functions.logics: no operator or family of this name"),
    ],
)
def test_what_is_wrong_with_an_override(value: str, what: str) -> None:
    text = f"vector.functions.{value}"
    assert [(each.what, each.where) for each in problems("tpu-v1", text)] == [(what, f"override {text!r}")]


def test_names_of_families_are_no_names_of_operators() -> None:
    assert all(family == family.lower() and len(ops) > 1 for family, ops in FUNCTIONS.members.items())
    known = [name.casefold() for name in (*FUNCTIONS.members, *FUNCTIONS.operators)]
    assert len(set(known)) == len(known)
    assert not set(FUNCTIONS.others) & {op for ops in FUNCTIONS.members.values() for op in ops}


def test_a_new_operator_is_on_every_chip_that_lists_its_family(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(table("rounding: 2"))
    monkeypatch.setitem(FUNCTIONS.members, "rounding", (*FUNCTIONS.members["rounding"], "Exp"))
    assert functions(load_chip(path))["Exp"] == 2


@pytest.mark.parametrize("name", [each.name for each in list_chips()])
def test_a_shown_chip_has_families_and_reads_back_the_same(name: str, write: Write) -> None:
    chip = load_chip(name)
    assert load_chip(write(show(chip))) == chip
    assert json.loads(json.dumps(resolved(chip)))["name"] == name
    units = {unit: spec for unit, spec in chip.engines.items() if isinstance(spec, VectorUnit)}
    for unit, spec in units.items():
        assert resolved(chip)["cores"][chip.core_kind]["engines"][unit]["functions"] == spec.functions
    assert not units or any(
        set(FUNCTIONS.members) & FUNCTIONS.shortened(spec.functions).keys() for spec in units.values()
    )


@pytest.mark.parametrize("seed", range(5))
def test_any_table_is_the_same_shortened(seed: int, write: Write) -> None:
    draw = random.Random(seed)
    ops = draw.sample(FUNCTIONS.operators, draw.choice([10, 60, 100, len(FUNCTIONS.operators)]))
    plain = {op: draw.choice([1, 1, 1, 1, 1, 2]) for op in ops}
    short = FUNCTIONS.shortened(plain)
    assert len(short) <= len(plain)
    path = write(table(*(f"{key}: {value}" for key, value in short.items())))
    assert functions(load_chip(path)) == plain


def test_the_schema_takes_families_operators_and_none() -> None:
    made: dict[str, Any] = schema("chips")["$defs"]["VectorUnit"]["properties"]["functions"]
    assert made["propertyNames"]["enum"] == [*FUNCTIONS.members, *FUNCTIONS.operators]
    assert {"const": NONE} in made["additionalProperties"]["anyOf"]
    assert any(each.get("type") == "integer" for each in made["additionalProperties"]["anyOf"])
