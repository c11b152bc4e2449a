"""Laws of the spec of a row-stationary array: what breaks each, and where that is."""

from __future__ import annotations

import pytest

from accelsim.engines.row_stationary.spec import LAWS, SPEC
from accelsim.errors import SpecError
from accelsim.spec.laws.finding import only_one
from accelsim.spec.yaml.load import load_chip

SIZES = "capacity: 8 KiB, read_width: 8 B, write_width: 8 B"
CASES = [
    ("array.formats={int16: {accumulate: int61}}", "cores.core.engines.array.formats.int16.accumulate: 'int61' is no number format"),
    ("filters.holds=[activations]", "cores.core.memories.filters.holds: activations live in glb and filters"),
    ("filters.holds=[weights, partial_sums]", "cores.core.memories.filters.holds: partial_sums live in glb and filters"),
    ("glb.holds=[activations]", "cores.core.memories: no buffer holds partial_sums"),
    (f"cores.core.memories={{glb: {{holds: [activations], {SIZES}}}, filters: {{holds: [weights, partial_sums], {SIZES}}}}}",
     "cores.core.memories.filters.holds: activations live in glb, partial sums in filters"),
    (f"cores.core.memories={{glb: {{holds: [activations, partial_sums, weights], {SIZES}}}}}",
     "cores.core.memories.glb.holds: weights live beside activations"),
    ("filters.slots=2", "cores.core.memories.filters.slots: fixed slots, and tiles of any size"),
    ("cores.core.engines={array: {type: row_stationary, rows: 1, cols: 1, filter_register: 1, ifmap_register: 1, psum_register: 1, "
     "formats: {int16: {}}}, other: {type: row_stationary, rows: 1, cols: 1, filter_register: 1, ifmap_register: 1, "
     "psum_register: 1, formats: {int16: {}}}}", "cores.core.engines.other: a second engine of type row_stationary"),
    ("array.rows=0", "cores.core.engines.array.rows"),
]  # fmt: skip


@pytest.mark.parametrize(("override", "told"), CASES)
def test_a_broken_law_has_a_place(override, told):
    with pytest.raises(SpecError) as error:
        load_chip("eyeriss", [override])
    assert any(told in str(problem) for problem in error.value.problems), list(map(str, error.value.problems))


def test_every_law_is_there():
    assert {law.__name__ for law in LAWS} == {"only_one", "formats_are_known", "buffers_are_the_global_one"}
    assert only_one in LAWS


def test_a_spec_that_says_nothing_of_it_has_plain_pes():
    """Zeros are multiplied as other values are, and each bus brings a word a clock."""
    sizes = dict.fromkeys(("rows", "cols", "filter_register", "ifmap_register", "psum_register"), 1)
    unit = SPEC.model_validate({"type": "row_stationary", **sizes, "formats": {"int16": {}}})
    assert unit.zero_gating is False
    assert (unit.filter_bus, unit.ifmap_bus, unit.psum_bus) == (1, 1, 1)
