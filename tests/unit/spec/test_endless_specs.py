"""Spec files that never end, or would take all memory: circles of aliases, nesting, multiplied values, sizes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelsim.spec.yaml.load import check
from tests.helpers.spec_problems import GOOD, Write, problems


@pytest.mark.parametrize(
    ("text", "where", "path"),
    [
        ("a: &x [*x]\n", "1:4", "a.0"),
        ("a: &x {b: *x}\n", "1:4", "a.b"),
        ("title: t\nmemories: &all\n  far: {near: *all}\n", "2:11", "memories.far.near"),
        ("&x [*x]\n", "1:1", "0"),
    ],
)
def test_a_block_that_contains_itself(write: Write, text: str, where: str, path: str) -> None:
    file = write(text)
    told = [problem for problem in problems(file) if "contains itself" in problem.what]
    assert [(problem.where, problem.what.split(":")[0]) for problem in told] == [(f"{file}:{where}", path)]


def test_a_block_that_contains_itself_by_override_or_beside_a_file() -> None:
    found = problems(Path("tpu-v1"), ("matrix=&x {a: *x}",))
    assert any(
        problem.what.startswith("cores.core.engines.matrix.a: a block that contains itself")
        and "override" in problem.where
        for problem in found
    )


def test_one_block_at_two_places_is_no_circle(write: Write) -> None:
    text = GOOD.replace("source:", "x: {a: &one {b: c}, d: *one}\nsource:", 1)
    assert [problem.what for problem in problems(write(text))] == ["x: unknown key"]


def test_blocks_without_end(write: Write) -> None:
    found = problems(write("a: " + "[" * 1500 + "]" * 1500))
    assert any("more than 30 blocks inside each other" in problem.what for problem in found)


@pytest.mark.parametrize("nested", ["[" * 100_000, "- " * 100_000, "? " * 100_000, "{a: " * 100_000])
def test_blocks_so_deep_that_the_parser_would_crash(write: Write, nested: str) -> None:
    path = write(f"name: deep\nmatrix: {nested}" if nested[0] in "[{" else nested)
    (problem,) = problems(path)
    assert problem.what == "not valid YAML: more than 30 blocks inside each other"
    assert re.fullmatch(rf"{re.escape(str(path))}:\d+:\d+", problem.where)
    assert "more than 30 blocks" in problems(Path("tpu-v1"), (f"matrix={nested}",))[0].what


def aliases() -> list[str]:
    """Nine lines of ten aliases each, which stand for a thousand million values."""
    return ["a0: &a0 x", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10))]


def test_aliases_that_multiply_above_blocks_that_go_on_top_of_files(write: Write) -> None:
    lines = ["use: chips/tpu-v1", "name: mine", *aliases(), "memories: {ddr3: {memory: {use: memories/ddr3-tpu-v1}}}"]
    found = check(write("\n".join(lines)))
    assert any("more than 10,000 values" in problem.what for problem in found)


def test_aliases_that_multiply(write: Write) -> None:
    path = write("\n".join(aliases()))
    told = [problem for problem in problems(path) if "aliases" in problem.what]
    assert [problem.what.split(": ")[1] for problem in told] == [
        "more than 10,000 values, those counted again that aliases (*) repeat"
    ]
    assert told[0].where.startswith(f"{path}:1:5")


def test_a_file_too_long_for_a_spec(write: Write) -> None:
    (problem,) = problems(write("# " + "x" * (1 << 20)))
    assert "1,048,578 B are too many for a spec" in problem.what
