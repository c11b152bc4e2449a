"""The table of cores: its form, paths into it, the tree of memories, several kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accelsim.errors import Problem, SpecError
from accelsim.spec.levels import feeders, holder, home, way
from accelsim.spec.yaml.load import load_chip, override, show

Write = Callable[..., Path]
HEAD = "use: chips/edu-4x4\nname: mine\nsource: A test.\nas_of: 2026-11\n"


def told(chip: str | Path, *overrides: str) -> list[Problem]:
    with pytest.raises(SpecError) as error:
        load_chip(chip, overrides)
    return list(error.value.problems)


@pytest.mark.parametrize(
    ("block", "what", "expected"),
    [
        (
            "engines:\n  matrix: {rows: 8}\n",
            "engines: no key of today: it stands in the table 'cores'",
            "cores: {core: {engines: {...}}}",
        ),
        (
            "buffers:\n  act_sram: {capacity: 1 KiB}\n",
            "buffers: no key of today: it stands in the table 'cores'",
            "cores: {core: {memories: {...}}}",
        ),
        ("cores: 2\n", "cores: '2' is no table of cores", "cores: {core: {count: ..., engines: ..., memories: ...}}"),
    ],
)
def test_the_older_form_is_told_with_its_line_and_the_new_one(
    write: Write, block: str, what: str, expected: str
) -> None:
    path = write(HEAD + block)
    (problem,) = told(path)
    assert (problem.what, problem.expected) == (what, expected)
    assert problem.where.startswith(f"{path}:5:")


@pytest.mark.parametrize("path", ["matrix.rows", "core.matrix.rows", "cores.core.engines.matrix.rows"])
def test_ways_to_say_an_engine(path: str) -> None:
    assert load_chip("edu-4x4", [f"{path}=8"]).engines["matrix"].rows == 8


@pytest.mark.parametrize("path", ["cores", "core.count", "cores.core.count"])
def test_ways_to_say_the_number_of_cores(path: str) -> None:
    chip = load_chip("edu-4x4", [f"{path}=3"])
    assert chip.core_count == 3
    assert override(chip, ["cores=1"]).model_dump()["cores"] == load_chip("edu-4x4").model_dump()["cores"]


@pytest.mark.parametrize(
    ("old", "new"), [("buffers.act_sram.capacity", "act_sram.capacity"), ("engines.matrix.rows", "matrix.rows")]
)
def test_an_older_path_is_told_what_it_is_now(old: str, new: str) -> None:
    (problem,) = told("edu-4x4", f"{old}=8")
    assert (problem.what, problem.nearest) == (f"no field {old.split('.')[0]!r}", new)


def test_of_several_kinds_a_path_needs_one() -> None:
    (problem,) = told("edu-two-kinds", "matrix.rows=8")
    assert problem.what == ("'matrix.rows' may mean cores.big.engines.matrix.rows or cores.little.engines.matrix.rows")
    (problem,) = told("edu-two-kinds", "cores=2")
    assert problem.what == "'cores' may mean cores.big.count or cores.little.count"
    chip = load_chip("edu-two-kinds", ["little.matrix.rows=2", "big.act_sram.capacity=1 MiB", "little.count=3"])
    assert [view.matrix.rows for view in chip.views() if view.matrix] == [8, 2]
    assert chip.core_count == 4 and [chip.kind_of(i) for i in range(4)] == ["big", *["little"] * 3]
    assert chip.buffers["act_sram"].capacity == 1 << 20
    assert chip.seen_from("little").called("matrix") == "little.matrix"


def test_two_kinds_are_shown_and_read_back(write: Write) -> None:
    chip = load_chip("edu-two-kinds")
    assert load_chip(write(show(chip))) == chip


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("cores.little.engines.vector=null", "engines: matrix, where 'big' has matrix, vector"),
        ("little.matrix.epilogue=false", "engines.matrix.epilogue: 'False', where 'big' has 'True'"),
        ("little.vector.functions.Relu=none", "engines.vector.functions: "),
        ("little.matrix.formats.int8.accumulate=int16", "engines.matrix.formats.int8.accumulate: 'int16', "),
        ("little.weight_sram.holds=[weights, activations]", "memories.weight_sram.holds: 'weights, activations', "),
    ],
)  # fmt: skip
def test_kinds_differ_in_numbers_alone(change: str, what: str) -> None:
    found = [problem.what for problem in told("edu-two-kinds", change)]
    assert any(each.startswith(f"cores.little.{what}") for each in found), found


def test_a_kind_is_called_like_nothing_else() -> None:
    found = [problem.what for problem in told("edu-two-kinds", "cores.dram={count: 2}")]
    assert "cores.dram: 'dram' is the name of an engine or a memory" in found


def test_laws_of_a_core_hold_for_each_kind() -> None:
    (problem,) = told("edu-two-kinds", "little.act_sram.read_width=1 MiB")
    assert problem.what.startswith("cores.little.memories.act_sram.read_width: 1 MiB are more than the buffer")


TWO_LEVELS = (
    HEAD
    + """\
cores:
  core:
    memories:
      act_sram: {fed_by: near}
      weight_sram: {fed_by: dram}
memories:
  near: {memory: {kind: sram, capacity: 16 KiB, bandwidth: 3.2 GB/s, beat: 16 B, latency: 10 ns}, fed_by: far, holds: [activations]}
  far: {memory: {kind: sram, capacity: 64 KiB, bandwidth: 1.6 GB/s, beat: 16 B, latency: 20 ns}, fed_by: dram, holds: [activations]}
"""
)


def test_one_tree_from_the_engines_to_the_memory(write: Write) -> None:
    chip = load_chip(write(TWO_LEVELS))
    assert way(chip, "activations") == ["near", "far", "dram"] and way(chip, "weights") == ["dram"]
    assert (holder(chip, "activations"), home(chip, "activations")) == ("act_sram", "dram")
    fed = {name: feeders(chip, name) for name in (*chip.buffers, *chip.memories)}
    assert fed == {
        "act_sram": ["near"], "weight_sram": ["dram"], "accumulators": [], "dram": [], "near": ["far"],
        "far": ["dram"],
    }  # fmt: skip
    assert feeders(load_chip("edu-cache"), "act_sram") == ["l2"], "through the cache"


@pytest.mark.parametrize(
    ("change", "what", "expected", "near"),
    [
        ("act_sram.fed_by=dran", "no memory 'dran'", "dram, near, far", "dram"),
        ("act_sram.fed_by=far", "'near' lies before 'far'", "fed_by: near", ""),
        ("act_sram.fed_by=dram", "'near' lies before 'dram'", "fed_by: near", ""),
        ("weight_sram.fed_by=far", "weights do not pass 'far'", "fed_by: dram", ""),
        ("accumulators.fed_by=dram", "partial_sums do not pass 'dram'", "no fed_by", ""),
        ("act_sram.fed_by=weight_sram", "no memory 'weight_sram'", "dram, near, far", ""),
    ],
)
def test_what_a_memory_of_a_core_says_to_be_fed_by_is_true(
    write: Write, change: str, what: str, expected: str, near: str
) -> None:
    (problem,) = told(write(TWO_LEVELS), change)
    name = change.split(".")[0]
    assert problem.what == f"cores.core.memories.{name}.fed_by: {what}"
    assert (problem.expected, problem.nearest) == (expected, near)


def test_a_circle_of_levels_is_told(write: Write) -> None:
    found = [problem.what for problem in told(write(TWO_LEVELS), "memories.far.fed_by=near")]
    assert "memories.far.fed_by: 'far' feeds itself" in found


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("{}", "cores: 0 entries"),
        ("{core: null}", "cores.core: an empty value is not accepted"),
        ("{core: 2}", "cores.core: no spec file '2'"),
        ("{A b: {}}", "cores.A b: not a valid name"),
        ("{core: {engine: {}}}", "cores.core.engine: unknown key"),
        ("{core: {count: 0}}", "cores.core.count: '0' is not accepted"),
    ],
)
def test_what_is_no_table_of_cores(table: str, what: str) -> None:
    assert what in [problem.what for problem in told("edu-4x4", f"cores={table}")]
