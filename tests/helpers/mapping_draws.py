"""Random nests, mappings and rules for Hypothesis."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from accelsim.mapping.levels import Hierarchy, LevelMap, Mapping, Store
from accelsim.mapping.rules import OURS, TIMELOOP, TIMELOOP_LATCHED, ZIGZAG, Rules
from accelsim.workload.nest import Form, LoopNest, Operand, product_nest


@st.composite
def nests(draw: st.DrawFn) -> LoopNest:
    if draw(st.booleans()):
        m, n, k = (draw(st.integers(1, 7)) for _ in range(3))
        return product_nest(m, n, k, draw(st.integers(1, 2)))
    axes = {"k": draw(st.integers(1, 3)), "c": draw(st.integers(1, 3)),
            "p": draw(st.integers(1, 7)), "r": draw(st.integers(1, 4))}  # fmt: skip
    seen = Form((("p", draw(st.integers(1, 3))), ("r", draw(st.integers(1, 2)))))
    one = {axis: Form(((axis, 1),)) for axis in axes}
    return LoopNest(axes, (
        Operand("A", {"c": one["c"], "h": seen}),
        Operand("B", {"k": one["k"], "c": one["c"], "r": one["r"]}),
        Operand("Y", {"k": one["k"], "p": one["p"]}, "writes"),
    ))  # fmt: skip


@st.composite
def mappings(draw: st.DrawFn, nest: LoopNest, levels: int) -> Mapping:
    parts = []
    left = dict(nest.axes)  # what loops inside must still cover
    names = [operand.name for operand in nest.operands]
    for level in range(levels - 1, -1, -1):
        order = draw(st.permutations(list(nest.axes)))
        spatial, temporal = {}, []
        for axis in order:
            if draw(st.integers(0, 3)) == 0:
                lanes = draw(st.integers(1, 3))
                spatial[axis] = ("rows", lanes)
                left[axis] = -(-left[axis] // lanes)
        for axis in order:
            count = left[axis] if level == 0 else draw(st.integers(1, min(left[axis], 4)))
            left[axis] = -(-left[axis] // count)
            temporal.append((axis, count))
        keep = {name: draw(st.integers(1, 2)) for name in names if level == 0 or draw(st.integers(0, 3))}
        parts.append(LevelMap(f"L{level}", tuple(temporal), spatial, keep))
    return Mapping(tuple(reversed(parts)))


_free = st.builds(
    Rules, st.sampled_from(["kept", "innermost", "fetched"]), st.sampled_from(["nothing", "inputs", "all"]),
    st.sampled_from(["omitted", "counted", "revisited"]), st.sampled_from(["one", "all"]), st.booleans(),
    st.sampled_from(["union", "interval"]),
)  # fmt: skip
rules = st.one_of(
    _free,
    st.just(OURS),
    st.just(TIMELOOP),
    st.just(TIMELOOP_LATCHED),
    st.just(replace(ZIGZAG, window="union")),
)


def hierarchy(levels: int) -> Hierarchy:
    stores = tuple(Store(f"L{level}", None, {"rows": 1 << 20}) for level in range(levels))
    return Hierarchy(stores, {"A": 1, "B": 1, "Y": 1})


def plain(nest: LoopNest, keep: str) -> Mapping:
    """Two levels, tiles of two elements, with these operands kept inside."""
    outer = LevelMap(
        "L0",
        tuple((axis, -(-extent // 2)) for axis, extent in nest.axes.items()),
        {},
        dict.fromkeys("ABY", 1),
    )
    return Mapping(
        (outer, LevelMap("L1", tuple((axis, 2) for axis in nest.axes), {}, dict.fromkeys(keep, 1)))
    )
