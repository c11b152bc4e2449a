"""Laws of one mapping and of columns of them: the same words, the same verdict, there and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.mapping.columns import Frame, Mappings
from accelsim.mapping.legal import legality
from accelsim.mapping.levels import Hierarchy, LevelMap, Mapping, Store, footprint_B, refusals
from accelsim.mapping.rules import Rules
from accelsim.workload.nest import product_nest
from tests.helpers import mapping_draws as draws

NEST = product_nest(8, 6, 10)
KEEP = {"A": 1, "B": 2, "Y": 1}
ENGINE = Hierarchy(
    (Store("dram"), Store("sram", 100, {"rows": 4}), Store("regs", 12, {}, ("Y",), ("Y",))),
    {"A": 1, "B": 0.5, "Y": 4},
)
GOOD = Mapping((
    LevelMap("dram", (("m", 4), ("k", 5)), {}, KEEP),
    LevelMap("sram", (("n", 6),), {"m": ("rows", 2)}, {"A": 2, "Y": 1}),
    LevelMap("regs", (("k", 2),), {}, {"Y": 1}),
))  # fmt: skip


def words(mapping: Mapping) -> list[str]:
    return [str(refusal) for refusal in refusals(NEST, ENGINE, mapping)]


def changed(level: int, part: LevelMap) -> Mapping:
    return Mapping((*GOOD.levels[:level], part, *GOOD.levels[level + 1 :]))


def test_a_legal_mapping_and_its_footprint() -> None:
    assert words(GOOD) == []
    assert GOOD.tile(NEST, 1) == {"m": 2, "n": 6, "k": 2}
    assert footprint_B(NEST, ENGINE, GOOD, 1) == 2 * 4 + 12 * 4


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (changed(0, LevelMap("dram", (("m", 4), ("k", 4)), {}, KEEP)), ["dram: loops and lanes of axis 'k' cover 8 of 10"]),
        (changed(0, LevelMap("dram", (("m", 4), ("k", 5)), {}, {"A": 1, "B": 1})),
         ["dram: does not keep Y: the outermost level, where every operand lies"]),
        (changed(1, LevelMap("sram", (("n", 6),), {"m": ("rows", 8)}, {"A": 1})), ["sram: 8 lanes along 'rows', which has 4"]),
        (changed(1, LevelMap("sram", (("n", 6),), {"m": ("rows", 2)}, {"A": 2, "Y": 2})), ["sram: 104 B of tiles in 100 B"]),
        (changed(2, LevelMap("regs", (("k", 2),), {}, {"A": 1})), ["regs: cannot keep A", "regs: does not keep Y: it cannot go past"]),
        (changed(2, LevelMap("regs", (("k", 2), ("k", 2), ("z", 2)), {}, {"Y": 1, "Q": 1})),
         ["regs: axis 'k' has two loops; a level without anything kept can take one",
          "regs: axis 'z' is none of m, n, k", "regs: keeps 'Q', which is none of A, B, Y"]),
        (Mapping(GOOD.levels[:2]), ["dram: levels dram, sram, not dram, sram, regs"]),
    ],
)  # fmt: skip
def test_refusals_in_words(mapping: Mapping, expected: list[str]) -> None:
    assert words(mapping) == expected


@given(st.data())
def test_columns_and_text_there_and_back(data: st.DataObject) -> None:
    nest = data.draw(draws.nests())
    mapping = data.draw(draws.mappings(nest, 3))
    columns = Mappings.of(Frame.of(nest, draws.hierarchy(3)), [mapping, mapping])
    assert columns.mapping(1) == mapping.trimmed()
    assert Mapping.from_dict(json.loads(json.dumps(mapping.as_dict()))) == mapping
    again = Mappings.of(columns.frame, [columns.mapping(0)])
    assert (again.temporal == columns.temporal[:1]).all() and (again.spatial == columns.spatial[:1]).all()


@given(st.data())
def test_columns_are_legal_where_nothing_is_refused(data: st.DataObject) -> None:
    nest = data.draw(draws.nests())
    mapping = data.draw(draws.mappings(nest, 3))
    sizes = [data.draw(st.one_of(st.none(), st.integers(1, 60))) for _ in range(3)]
    kept = data.draw(st.sampled_from([None, ("A", "Y"), ("A", "B", "Y")]))
    stores = tuple(
        Store(
            f"L{level}",
            size,
            {"rows": data.draw(st.integers(1, 30))},
            kept if level else None,
            ("A",) if level == 2 else (),
        )
        for level, size in enumerate(sizes)
    )
    engine = Hierarchy(stores, {"A": 1, "B": 0.5, "Y": 4})
    found = legality(nest, engine, Mappings.of(Frame.of(nest, engine), [mapping]))
    assert bool(found.ok[0]) == (not refusals(nest, engine, mapping))
    assert found.footprint_B[0].tolist() == [footprint_B(nest, engine, mapping, level) for level in range(3)]


def test_texts_that_are_no_mapping() -> None:
    with pytest.raises(UsageError, match="list of levels"):
        Mapping.from_dict({})
    bad = [
        {"level": "a", "temporal": ["m x"], "keep": {"A": 0}, "spatal": {}},
        {"level": "b", "spatial": [1]},
        3,
    ]
    with pytest.raises(UsageError) as caught:
        Mapping.from_dict(bad)
    assert len(caught.value.problems) == 5
    assert "did you mean 'spatial'" in str(caught.value)


def test_columns_refuse_what_the_frame_has_not() -> None:
    frame = Frame.of(NEST, ENGINE)
    with pytest.raises(UsageError, match="levels dram sram"):
        Mappings.of(frame, [Mapping(GOOD.levels[:2])])
    with pytest.raises(UsageError, match="names z"):
        Mappings.of(frame, [changed(2, LevelMap("regs", (("z", 2),)))])
    with pytest.raises(UsageError, match="two loops"):
        Mappings.of(frame, [changed(2, LevelMap("regs", (("k", 2), ("k", 2))))])
    assert len(Mappings.of(frame, [])) == 0
    assert np.array_equal(Mappings.of(frame, [GOOD]).inside()[0, -1], [1, 1, 1])


def test_clipped_windows_are_fetched_again() -> None:
    with pytest.raises(UsageError, match="clipped"):
        Rules(window="clipped")
