"""Mappings that the machine decides: the fastest of the leaders, remembered by all that the decision depends on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.engines.registry import ENGINES
from accelsim.errors import UsageError
from accelsim.request.tuning import default_cache
from accelsim.spec.yaml.load import list_chips, load_chip
from tests.helpers.all_mappings import Product

GEMM = "gemm?M=24,N=20,K=16"


def run(cache: Path, **options: Any) -> accelsim.Run:
    if "tune" in options:
        options["tune_cache"] = str(cache)
    return accelsim.run(GEMM, on="edu-4x4", dtype="int8", values="off", edges="outside", **options)


def test_the_machine_decides_and_says_so(tmp_path: Path) -> None:
    cache = tmp_path / "tuned.json"
    tuned, plain = run(cache, tune=16), run(cache)
    assert tuned.time_fs <= plain.time_fs
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


def with_choice() -> list[str]:
    """Chips with an engine of a type that chooses something of a product."""
    units = {
        name: [unit for core in load_chip(name).cores.values() for unit in core.engines.values()]
        for name in [chip.name for chip in list_chips()]
    }
    return [name for name, found in units.items() if any(ENGINES[unit.type].mapping for unit in found)]


@pytest.mark.parametrize("chip", with_choice())
def test_every_type_of_engine_is_tuned_or_says_that_there_is_nothing_to_tune(chip: str, tmp_path: Path) -> None:
    """A product alone is never slower, the cache gives the same again, and what it has that is none of the best is
    decided again."""
    cache, edges = str(tmp_path / "tuned.json"), "host" if load_chip(chip).host else "outside"
    plain, tuned, again = (
        accelsim.run(GEMM, on=chip, values="off", edges=edges, **more)
        for more in ({}, {"tune": 6, "tune_cache": cache}, {"tune": 6, "tune_cache": cache})
    )
    assert tuned.time_fs <= plain.time_fs
    assert again.time_fs == tuned.time_fs
    if "nothing was tuned" in tuned.program.notes[-1]:
        assert not Path(cache).exists()
        return
    assert "decided by the machine among the best 6" in tuned.program.notes[-1]
    assert "; 0 simulations" in again.program.notes[-1]
    odd = {
        key: {name: value + 1 if type(value) is int else value for name, value in fields.items()}
        for key, fields in json.loads(Path(cache).read_text()).items()
    }
    Path(cache).write_text(json.dumps(odd))
    anew = accelsim.run(GEMM, on=chip, values="off", edges=edges, tune=6, tune_cache=cache)
    assert anew.time_fs == tuned.time_fs and "; 0 simulations" not in anew.program.notes[-1]


def test_a_decision_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    cache = tmp_path / "tuned.json"
    run(cache, tune=2)
    cache.write_text(json.dumps({key: {"order": "nmk"} for key in json.loads(cache.read_text())}))
    with pytest.raises(UsageError, match="is no mapping"):
        run(cache, tune=2)


def test_without_a_file_it_is_in_the_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    accelsim.run(GEMM, on="edu-4x4", dtype="fp32", values="off", tune=2)
    assert default_cache() == tmp_path / "accelsim" / "tuned.json" and default_cache().is_file()


def test_a_cache_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    run = accelsim.run(GEMM, on="edu-4x4", dtype="fp32", values="off", tune=2)
    assert "2 simulations of a layer alone; it is forgotten after this run: " in run.program.notes[-1]
    assert str(default_cache().parent) in run.program.notes[-1]
    with pytest.raises(UsageError):
        accelsim.run(GEMM, on="edu-4x4", values="off", tune=2, tune_cache=str(tmp_path / "file" / "tuned.json"))


@pytest.mark.parametrize("content", ["no JSON", "[]", '{"%s": {"order": "nmk"}}'])
def test_a_damaged_cache_is_written_anew(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default_cache().parent.mkdir()
    first = run(default_cache(), tune=2)
    (key,) = json.loads(default_cache().read_text())
    default_cache().write_text(content.replace("%s", key))
    again = accelsim.run(GEMM, on="edu-4x4", dtype="int8", values="off", edges="outside", tune=2)
    assert again.time_fs == first.time_fs and "forgotten" not in again.program.notes[-1]
    assert list(json.loads(default_cache().read_text())) == [key]


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


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("mlp?hidden=64,layers=2", {"set": ["cores=2"], "share": "layer"}),
        ("cnn", {"set": ["cores=2"], "share": "layer"}),
        ("gpt", {}),
    ],
)
@pytest.mark.parametrize("chip", ["edu-4x4", "edu-tensor-core"])
def test_cores_that_share_a_layer_are_tuned(model: str, options: dict[str, Any], chip: str, tmp_path: Path) -> None:
    """Each core has a part of the product; what was decided for it is found again, and the values are the same."""
    runs = [
        accelsim.run(model, on=chip, values="exact", tune=3, tune_cache=str(tmp_path / "tuned.json"), **options)
        for _ in range(2)
    ]
    plain = accelsim.run(model, on=chip, values="exact", **options)
    assert runs[0].time_fs == runs[1].time_fs
    assert "; 0 simulations" in runs[1].program.notes[-1]
    for name, value in plain.outputs.items():
        np.testing.assert_allclose(runs[0].outputs[name], value, rtol=1e-3, atol=1e-3)
