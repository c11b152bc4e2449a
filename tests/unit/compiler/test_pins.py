"""What is pinned of mappings: kept by every engine type that chooses something, and refused where nobody can pin it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.engines.registry import ENGINES
from accelsim.errors import UsageError
from accelsim.program.mapping import Mapping
from accelsim.program.mapping_file import load_mappings, save_mappings
from accelsim.spec.yaml.load import load_chip
from accelsim.spec.yaml.where import names

PRODUCT = "gemm?M=48,N=24,K=36"
SMALL = "gemm?M=12,N=6,K=9"
"""For a search per field: with one field pinned, few of the other mappings are ruled out early."""
CHIPS = {
    next(spec.type for spec in chip.engines.values() if ENGINES[spec.type].mapping): name
    for name in names("chips")
    if (chip := load_chip(name)).engines
}
"""Type of engine that chooses something of a product -> a chip that has one."""


def test_every_engine_type_of_products_is_here() -> None:
    assert set(CHIPS) == {name for name, each in ENGINES.items() if each.mapping}


@pytest.mark.parametrize("kind", CHIPS)
def test_what_a_file_holds_is_what_was_chosen(kind: str, tmp_path: Path) -> None:
    run = accelsim.run(PRODUCT, on=CHIPS[kind], values="off")
    file = tmp_path / "m.yaml"
    save_mappings(run.program, file)
    (step,) = [step for step in run.program.steps if step.gemm is not None]
    assert step.mapping is not None
    written = load_mappings(file, [type(step.mapping)])
    assert written == {step.name: step.mapping.written(run.program.chip)}
    again = accelsim.run(PRODUCT, on=CHIPS[kind], values="off", mapping=file)
    assert [each.mapping for each in again.program.steps] == [each.mapping for each in run.program.steps]
    assert again.time_fs == run.time_fs


@pytest.mark.parametrize("kind", CHIPS)
def test_single_fields_are_kept(kind: str) -> None:
    chosen = asdict(_mapping(CHIPS[kind], {}, SMALL))
    for name, value in chosen.items():
        assert asdict(_mapping(CHIPS[kind], {name: value}, SMALL))[name] == value


def _mapping(chip: str, fields: dict[str, Any], model: str = PRODUCT) -> Any:
    run = accelsim.run(model, on=chip, values="off", mapping={"y": fields} if fields else None)
    return next(step.mapping for step in run.program.steps if step.gemm is not None)


def test_parts_of_supersteps_may_be_pinned() -> None:
    found = asdict(_mapping("ipu-gc200", {"m": 7, "turns": 2}))
    assert (found["m"], found["turns"]) == (7, 2)
    with pytest.raises(UsageError, match="turns 5; expected a divisor of N 24"):
        _mapping("ipu-gc200", {"turns": 5})
    with pytest.raises(UsageError, match="m 49; expected at most 1,472 parts, none of them empty"):
        _mapping("ipu-gc200", {"m": 49})


def test_all_mistakes_at_once() -> None:
    pins: Any = {"y": {"tn": 0, "ordr": "mnk", "reuse": 1, "split": "rows"}, "z": {"tm": 1}}
    with pytest.raises(UsageError) as caught:
        accelsim.run(PRODUCT, on="edu-4x4", values="off", mapping=pins)
    assert [str(problem) for problem in caught.value.problems] == [
        "mapping of y: tn is 0; expected a whole number from 1 to 2,147,483,648",
        f"mapping of y: unknown field 'ordr'; expected {', '.join(Mapping.types())}; did you mean 'order'?",
        "mapping of y: reuse is 1; expected true or false",
        "mapping of y: split is 'rows'; expected none, m, n, k",
        "the mapping names a layer 'z' that the model does not have",
    ]


def test_an_engine_that_chooses_nothing() -> None:
    with pytest.raises(
        UsageError, match="mapping of y: haswell-e5-2699v3 chooses nothing of a layer; expected no fields"
    ):
        accelsim.run(PRODUCT, on="haswell-e5-2699v3", values="off", mapping={"y": {"tm": 1}})
