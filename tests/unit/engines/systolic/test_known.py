"""Searches that are kept: made once for what they read, found again by later processes, and the same as made anew."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.systolic.mapping import decide, known, search
from accelsim.engines.systolic.mapping.known import Known
from accelsim.engines.systolic.mapping.space import Chunk
from accelsim.spec.yaml.load import load_chip
from accelsim.usercache import Table
from accelsim.workload.sources.load import load_model

MODEL = "mlp?hidden=48,layers=3"


class Counted(search.ProductSearch):
    """A search that notes that it was made."""

    made = 0

    def best(self) -> known.Choice:
        """Return the best mapping, and count."""
        Counted.made += 1
        return super().best()


@pytest.fixture(name="table", autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """Nothing is known at first; searches are counted."""
    table = Table("of a test", 100)
    monkeypatch.setattr(Table, "save", lambda self: None)
    monkeypatch.setattr(search, "KNOWN", Known(table))
    monkeypatch.setattr(search, "ProductSearch", Counted)
    yield table


def mappings(*sets: str, model: str = MODEL, **options: Any) -> tuple[list[Any], int]:
    """Mappings and commands of all steps on edu-4x4, and how many searches were made for them."""
    before = Counted.made
    program = compile(load_model(model), load_chip("edu-4x4", sets), Options(values="off", **options))
    found = [(step.mapping, step.binds, step.scored) for step in program.steps]
    return [found, list(program.commands), program.regions], Counted.made - before


def test_what_a_search_does_not_read_makes_no_new_one() -> None:
    first, made = mappings()
    assert made > 0 and mappings() == (first, 0)
    other, more = mappings("host.overhead=1 ms")
    assert more == 0 and other[0] == first[0] and other[2] == first[2]
    assert mappings("memories.dram.memory.latency=400 ns")[1] == made
    assert mappings("act_sram.write_width=64 B")[1] == made
    assert mappings(search="best")[1] == made
    assert mappings(dtype="fp32")[1] == made


def test_effort_in_seconds_is_never_shared() -> None:
    """How far it gets depends on the machine."""
    made = [mappings(search=0.001)[1] for _ in range(2)]
    assert made[0] == made[1] > 0


def test_later_processes_find_the_same(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    first, made = mappings()
    assert made > 0
    monkeypatch.setattr(search, "KNOWN", Known(table))
    assert mappings() == (first, 0)


@pytest.mark.parametrize(
    "kept", [3, [1], [[[], [1.0, "", 2], [], [], [], 0]], [[["nmk"], [1, "", "x"], [], [], [], 0]]]
)
def test_what_is_no_search_is_made_anew(kept: Any, monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    first, made = mappings()
    monkeypatch.setattr(table, "get", lambda key: kept)
    monkeypatch.setattr(search, "KNOWN", Known(table))
    assert mappings() == (first, made)


def test_a_process_keeps_a_bounded_number(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    monkeypatch.setattr(known, "MOST", 2)
    kept = Known(table)
    for key in "abc":
        kept.searches(key)
    assert list(kept._made) == ["b", "c"]


def test_what_chips_share_changes_no_choice(monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
    """Candidates and tapes of chips with other rates and room are those that a new process would make."""
    sets = [
        (f"memories.dram.memory.bandwidth={rate} GB/s", f"act_sram.capacity={room} B", f"weight_sram.capacity={room} B")
        for room in (700, 1500, 20_000)
        for rate in (0.4, 6.4)
    ]

    def alone(changes: tuple[str, ...]) -> list[Any]:
        with pytest.MonkeyPatch.context() as fresh:
            fresh.setattr(search, "KNOWN", Known(Table("of another process", 100)))
            fresh.setattr(search, "TABLES", known.Tables(10_000))
            fresh.setattr(decide, "TAPES", known.Tapes(10_000))
            return mappings(*changes, model="digits-cnn")[0]

    monkeypatch.setattr(search, "TABLES", known.Tables(100_000))
    monkeypatch.setattr(decide, "TAPES", known.Tapes(100_000))
    found = [mappings(*changes, model="digits-cnn")[0] for changes in sets]
    assert found == [alone(changes) for changes in sets]
    assert len({str(mapped) for mapped, *_ in found}) > 3


def test_tables_that_all_points_ask_for_stay() -> None:
    """Beyond the limit new ones are not kept, until the old ones were not asked for in a long time."""
    tables = known.Tables(1)
    first = tables.get("a")
    first.chunks[0] = Chunk(np.zeros((1, 6), np.int64), [])
    assert tables.get("b") is not tables.get("b") and tables.get("a") is first
    for _ in range(known.Tables.AGE):
        tables.get("b")
    assert tables.get("b") is tables.get("b") and tables.get("a") is not first


def test_one_array_is_not_rehearsed_where_it_is_surely_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large product two arrays take about half as long: estimates of one are enough, and change no result."""
    found, real = list[tuple[object, int]](), search.fastest
    for sure in (inf, search.SURE):
        decided = list[None]()
        monkeypatch.setattr(search, "KNOWN", Known(Table(f"sure {sure}", 100)))
        monkeypatch.setattr(search, "SURE", sure)
        monkeypatch.setattr(search, "fastest", lambda *asked, made=decided: made.append(None) or real(*asked))
        program = compile(load_model("gemm?M=2048,N=512,K=512"), load_chip("trainium1"), Options("bf16", values="off"))
        found.append(([(step.mapping, step.binds, step.scored) for step in program.steps], len(decided)))
    assert found == [(found[0][0], 2), (found[0][0], 1)]
