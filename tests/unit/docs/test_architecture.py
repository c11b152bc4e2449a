"""How the files depend on each other: the table of imports, the floors of the packages, no circle between files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.helpers.doc_blocks import ROOT

FARTHEST = 14
"""Floors between the ground, where nothing is imported, and the command line."""


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {_name(path): path for path in sorted((ROOT / "accelsim").rglob("*.py"))}
"""Module -> its file."""


def _of_types(tree: ast.AST) -> set[int]:
    """Nodes that only the type checker sees."""
    blocks = (node for node in ast.walk(tree) if isinstance(node, ast.If))
    seen = [block for block in blocks if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"]
    return {id(node) for block in seen for each in block.body for node in ast.walk(each)}


@cache
def imports(module: str, types: bool = True) -> frozenset[str]:
    """Modules of accelsim that a module imports anywhere in it; ``types``: those too that only the type checker sees."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    hidden = set() if types else _of_types(tree)
    nodes = [node for node in ast.walk(tree) if id(node) not in hidden]
    return frozenset(_named(nodes)) - {module}


def _named(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in FILES else node.module


def package(module: str) -> str:
    """The row of the table that a module is of: its folder, and ``spec`` for the specs of engine types and the dataflows that these name."""
    if re.match(r"accelsim\.engines\.\w+\.(spec|dataflow)$", module):
        return "spec"
    return module.split(".")[1] if "." in module else module


@pytest.fixture(scope="module", name="packages")
def _packages() -> dict[str, set[str]]:
    """Package -> those that it imports."""
    found: dict[str, set[str]] = {}
    for module in FILES:
        if package(module) not in ("accelsim", "__main__"):
            found.setdefault(package(module), set()).update(map(package, imports(module)))
    return {name: others - {name, "accelsim"} for name, others in found.items()}


def test_imports_are_those_of_the_table(packages: Mapping[str, set[str]]) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \|(.*)\|$", text[text.index("| package |") :].split("\n\n")[0], re.M)
    allowed = {name: set(re.findall(r"`(\w+)`", others)) for name, others in rows}
    everything = list(allowed)
    for index, name in enumerate(everything):
        assert allowed[name] <= set(everything[:index]), f"{name} imports from below"
        small = everything[: min(index, everything.index("formats"))]
        allowed[name] |= set().union(small, *(allowed[other] for other in allowed[name]))
    allowed |= {name: set(everything[: everything.index(name)]) for name in ("cli",)}
    assert set(packages) == set(everything)
    for name, others in packages.items():
        assert others <= allowed[name], f"{name} imports {sorted(others - allowed[name])}"


def test_no_package_is_far_from_the_ground(packages: Mapping[str, set[str]]) -> None:
    @cache
    def floor(name: str) -> int:
        return 1 + max((floor(other) for other in packages[name]), default=-1)

    floors = {name: floor(name) for name in packages}
    assert max(floors.values()) <= FARTHEST, sorted(floors.items(), key=lambda item: item[1])


def test_no_circle_between_files() -> None:
    """Of what is imported when the program runs, within functions too; types may name each other."""
    try:
        TopologicalSorter({module: imports(module, types=False) for module in FILES}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_core_path_is_short_and_a_run_passes_through_all_of_it() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| `(accelsim/\S+\.py)` \|", page[page.index("## Core path") : page.index("## Contracts")], re.M
    )
    lines = {name: (ROOT / name).read_text(encoding="utf-8").count("\n") for name in listed}
    assert len(listed) <= 25 and max(lines.values()) <= 250 and sum(lines.values()) <= 4000
    command = "import sys; seen = set(); sys.setprofile(lambda frame, event, arg: seen.add(frame.f_code.co_filename))"
    run = "import accelsim; accelsim.run('gemm?M=8,N=4,K=8', 'edu-4x4', values='off').energy_J"
    printed = subprocess.run(
        [sys.executable, "-c", f"{command}; {run}; print(*seen, sep=chr(10))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {str(ROOT / name) for name in listed} <= set(printed)
