"""A dataflow is one row: no other file of the product knows one by its name, and a new row is proven like the others."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import accelsim
from accelsim.engines.systolic.dataflow import DATAFLOWS, Dataflow
from accelsim.engines.systolic.fabric import Setup
from accelsim.engines.systolic.watch import legend
from accelsim.errors import UsageError
from tests.validation.scalesim_report import scalesim_report
from tests.validation.systolic import prove

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "add-a-dataflow.md"
TABLE = "accelsim/engines/systolic/dataflow.py"
DEFAULTS = ("accelsim/engines/systolic/spec.py", "accelsim/cli/array.py", "accelsim/cli/sram.py")
"""Files that name the dataflow of an array whose spec, or command, says nothing of it."""

FOLLOWED = [axes for axes in permutations("mnk") if axes[1] != "k"]
"""Axes along rows, columns and in time that an array can follow whose sums move down, if they move."""


def test_one_file_knows_the_dataflows() -> None:
    name = re.compile(rf'"({"|".join(DATAFLOWS)})"')
    lessons = ROOT / "accelsim" / "lessons"  # one of them is about these three
    words = ROOT / "accelsim" / "errors.py"  # where "is" is a verb
    files = sorted(path for path in (ROOT / "accelsim").rglob("*.py") if lessons not in path.parents and path != words)
    knowing = {str(path.relative_to(ROOT)) for path in files if name.search(path.read_text(encoding="utf-8"))}
    assert knowing == {TABLE, *DEFAULTS}
    for file in DEFAULTS:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert len(name.findall(text)) == 1, file
        assert re.search(r'"ws",\s+(description|metavar|type)|default="ws"', text), file


@pytest.mark.parametrize("axes", FOLLOWED, ids="".join)
def test_a_new_row_is_proven_like_the_others(axes: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATAFLOWS, "new", Dataflow(*axes))
    for schedule in ("sequential", "overlapped"):
        assert prove("new", schedule, "column", 24, np.random.default_rng(1)) == (24, [])
    assert f"{DATAFLOWS['new'].at_rows} moves right" in legend(Setup(2, 2, "new", "overlapped"))
    a_run, os_run = (
        accelsim.run("gemm?M=9,N=7,K=6", on="edu-4x4", dataflow=name, values="exact") for name in ("new", "os")
    )
    assert all(np.array_equal(a_run.outputs[name], value) for name, value in os_run.outputs.items())
    assert scalesim_report(4, 4, "new", 5, 6, 7).macs == 5 * 6 * 7


@pytest.mark.parametrize("axes", FOLLOWED, ids="".join)
def test_what_a_row_says(axes: tuple[str, str, str]) -> None:
    flow = Dataflow(*axes)
    assert {flow.at_rows, flow.at_cols} == {"a", "b"} and flow.stationary is (flow.still != "y")
    assert sorted(flow.spatial(2, 3, 5)) == [2, 3, 5]
    assert flow.a_and_b("rows", "cols") == (("rows", "cols") if flow.at_rows == "a" else ("cols", "rows"))


@pytest.mark.parametrize("axes", ["mkn", "nkm", "mmk", "kn?"])
def test_axes_that_no_array_follows(axes: str) -> None:
    with pytest.raises(UsageError, match="expected m, n and k once each; sums move down"):
        Dataflow(*axes)


def test_the_page_names_the_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`(accelsim/[\w/]+\.py)`", page))
    assert TABLE in named
    assert all((ROOT / file).exists() for file in named)
