"""What engine types say of themselves: their names in sentences, and what would help a chip."""

from __future__ import annotations

import pytest

from accelsim.engines.registry import ENGINES
from accelsim.program.roles import Roles, units
from accelsim.spec.yaml.load import load_chip, override

CHIPS = (
    ("edu-4x4", []),
    ("edu-4x4", ["matrix.schedule=sequential", "matrix.dataflow=os", "vector.chained=true"]),
    ("eyeriss", []),
    ("ipu-gc200", []),
    ("ipu-gc200", ["tiles.weights=resident"]),
    ("a100-80-sxm", []),
)


@pytest.mark.parametrize(("name", "sets"), CHIPS)
def test_advice_changes_a_chip_for_a_reason_that_its_type_knows(name: str, sets: list[str]) -> None:
    """Nothing is advised that is so already."""
    chip = load_chip(name, sets)
    for unit in units(chip).values():
        kind = ENGINES[unit.type]
        known = {reason.key for reason in kind.reasons} | set(kind.categories) | {"weights"}
        for advice in kind.improvements(chip, unit):
            assert override(chip, advice.sets) != chip, advice.change
            assert set(advice.keys) <= known and 0 < advice.weight <= 1


@pytest.mark.parametrize(
    ("name", "without", "chosen", "change"),
    [
        ("edu-4x4", "matrix.schedule=sequential", "matrix.schedule=overlapped", "folds that overlap"),
        ("edu-4x4", "matrix.dataflow=ws", "matrix.dataflow=os", "dataflow os"),
        ("edu-4x4", "vector.chained=false", "vector.chained=true", "fused functions of the vector unit in one pass"),
        ("ipu-gc200", "tiles.weights=loaded", "tiles.weights=resident", "weights on the tiles before the run begins"),
    ],
)
def test_what_is_chosen_already_is_not_advised(name: str, without: str, chosen: str, change: str) -> None:
    for setting, offered in ((without, True), (chosen, False)):
        chip = load_chip(name, [setting])
        found = [each.change for unit in units(chip).values() for each in ENGINES[unit.type].improvements(chip, unit)]
        assert (change in found) == offered


def test_an_engine_has_a_queue_for_each_of_its_own_streams() -> None:
    """Another engine of the core runs more kernels side by side."""
    chip = load_chip("a100-80-sxm")
    (unit,) = chip.engines.values()
    engines = {name: unit.model_copy(update={"streams": count}) for name, count in (("a", 3), ("b", 2), ("c", 1))}
    found = Roles(chip.with_core(engines=engines)).engines()
    assert [name for name in found if found[name] == unit.type] == ["a", "b", "c", "a:1", "b:1", "a:2"]
