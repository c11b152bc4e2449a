"""Mappings that the machine decides: the fastest of the leaders, remembered by all that the decision depends on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.errors import UsageError
from accelsim.request.tuning import default_cache
from tests.helpers.all_mappings import Product

GEMM = "gemm?M=24,N=20,K=16"


def run(cache: Path, **options: Any) -> accelsim.Run:
    return accelsim.run(
        GEMM, on="edu-4x4", dtype="int8", values="off", edges="outside", tune_cache=str(cache), **options
    )


def test_the_machine_decides_and_says_so(tmp_path: Path) -> None:
    cache = tmp_path / "tuned.json"
    tuned, plain = run(cache, tune=16), run(cache)
    assert tuned.time_fs < plain.time_fs
    (note,) = [note for note in tuned.program.notes if "decided by the machine" in note]
    assert note.endswith("among the best 16 of each search; 16 simulations of a layer alone")
    assert not any("decided" in note for note in plain.program.notes)


def test_what_was_decided_is_found_again(tmp_path: Path) -> None:
    cache = tmp_path / "tuned.json"
    first = run(cache, tune=4)
    again = run(cache, tune=4)
    assert len(json.loads(cache.read_text())) == 1
    assert again.time_fs == first.time_fs
    assert f"1 of them before (from {cache}); 0 simulations" in again.program.notes[-1]
    run(cache, tune=4, set=["clock=50 MHz"])
    run(cache, tune=5)
    run(cache, tune=4, search="best")
    assert len(json.loads(cache.read_text())) == 4


@pytest.mark.parametrize("content", ["no JSON", "[]", "\x00", "[" * 10**5])
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, content: str) -> None:
    cache = tmp_path / "tuned.json"
    cache.write_text(content)
    with pytest.raises(UsageError, match="decisions"):
        run(cache, tune=2)


def test_a_decision_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    cache = tmp_path / "tuned.json"
    run(cache, tune=2)
    cache.write_text(json.dumps({key: {"order": "nmk"} for key in json.loads(cache.read_text())}))
    with pytest.raises(UsageError, match="is no mapping"):
        run(cache, tune=2)


def test_without_a_file_it_is_in_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    accelsim.run(GEMM, on="edu-4x4", dtype="fp32", values="off", tune=2)
    assert default_cache() == tmp_path / "accelsim" / "tuned.json" and default_cache().is_file()


def test_a_step_alone_takes_what_it_takes_in_a_run_of_nothing_else() -> None:
    """The machine's time of the step, its operands in memory as the run has them."""
    whole = accelsim.run(GEMM, on="edu-4x4", dtype="fp32", values="off")
    step = next(step for step in whole.program.steps if step.mapping is not None)
    assert step.mapping is not None
    product = Product(whole.program.graph, whole.program.chip, "fp32")
    clocks = product.clocks(step.mapping)
    assert clocks == whole.time_fs * float(whole.program.chip.clock) / 1e15


@pytest.mark.parametrize("effort", ["slow", 0, -1.0, "0", "inf", ""])
def test_an_effort_that_is_none_is_refused(effort: Any) -> None:
    with pytest.raises(UsageError, match="effort"):
        accelsim.run(GEMM, on="edu-4x4", values="off", search=effort)


def test_a_thorough_search_tries_more_and_is_recorded(tmp_path: Path) -> None:
    fast, best = (run(tmp_path / "none", search=effort) for effort in ("fast", "best"))
    tried = [sum(step.scored for step in each.program.steps) for each in (fast, best)]
    assert tried[1] > 10 * tried[0]
    assert best.asked["asked"]["search"] == "best" and "search" not in fast.asked["asked"]
    assert "--search best" in best.asked["command"]
