"""Cores of several kinds: each runs the graph on a batch of its own, on engines and memories of its own sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelsim.account.energy import energy_table, price_list
from accelsim.account.latency import layers, summary
from accelsim.account.provenance import status_of
from accelsim.account.spans import peak_mac_rate
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.explore.against_reference import check_run
from accelsim.explore.levers import levers
from accelsim.machine.check import check
from accelsim.program.mapping_file import mapping_text
from accelsim.report.words import sentences
from accelsim.result import Result, run
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model

TWO = "edu-two-kinds"
PRODUCT = "gemm?M=24,N=40,K=56"


def of_kinds(**counts: int) -> Chip:
    """The chip with so many cores of these kinds."""
    chip = load_chip(TWO)
    cores = {kind: chip.cores[kind].model_copy(update={"count": count}) for kind, count in counts.items()}
    return chip.model_copy(update={"cores": cores, "peak": {}})


def on(chip: Chip, model: str = PRODUCT, **options: Any) -> Result:
    return run(model, chip, **{"dtype": "fp32", "values": "off", **options})


@pytest.mark.parametrize(("model", "dtype"), [("cnn", "int8"), ("mlp?hidden=24,layers=2", "fp32"), ("moe", "int8")])
@pytest.mark.parametrize("values", ["exact", "fast"])
def test_values_are_those_of_each_part_of_the_batch(model: str, dtype: str, values: str) -> None:
    result = run(model, load_chip(TWO), dtype=dtype, values=values, keep=True)
    assert check_run(result, load_model(model)).holds
    check(result, thorough=True)


def test_each_core_takes_what_it_takes_alone_and_the_run_what_the_slowest_takes() -> None:
    ideal = {"memory_model": "ideal"}
    alone = {kind: on(of_kinds(**{kind: 1}), **ideal).time_fs for kind in ("big", "little")}
    together = on(load_chip(TWO), **ideal).time_fs  # they meet at the port of the memory only
    assert alone["big"] < alone["little"] <= together <= 1.01 * alone["little"]


@pytest.mark.parametrize("model", [PRODUCT, "cnn", "gpt?layers=4,hidden=32,heads=4,seq=8"])
def test_two_kinds_of_equal_cores_are_two_cores_of_one_kind(model: str) -> None:
    one = of_kinds(little=2)
    core = one.core.model_copy(update={"count": 1})
    runs = [on(chip, model) for chip in (one, one.model_copy(update={"cores": {"a": core, "b": core}}))]
    first, second = ([getattr(each, name) for name in ("time_fs", "slices", "ledger")] for each in runs)
    assert [first[0], list(first[1]), first[2]] == [second[0], list(second[1]), second[2]]
    energies = [[row.energy_J for row in energy_table(each)] for each in runs]
    assert energies[0] == energies[1]


def test_peak_and_work_are_those_of_all_cores() -> None:
    chip = of_kinds(big=1, little=3)
    assert peak_mac_rate(chip, "int8") == (64 + 3 * 16) * 100e6
    facts = summary(on(chip))
    assert facts["batch"] == 4 * summary(on(of_kinds(big=1)))["batch"]
    assert facts["utilisation"] == pytest.approx(facts["achieved_TOPS"] / facts["peak_TOPS"])


def test_each_kind_has_its_own_prices() -> None:
    chip = load_chip(TWO)
    prices = price_list(chip)
    big, little = (prices[f"{kind}.act_sram", "read"] for kind in chip.cores)
    assert big > little > 0 and ("act_sram", "read") not in prices
    assert all(status_of(chip, *price) for price in prices)
    priced = {(row.component, row.action): row for row in energy_table(on(chip)) if row.action == "read" and row.count}
    for number, expected in enumerate((big, little)):
        row = priced[f"core{number}.act_sram", "read"]
        assert row.energy_J == pytest.approx(row.count * expected, rel=1e-9, abs=0)


def test_ports_are_those_of_each_core() -> None:
    narrow = load_chip(TWO, ["little.act_sram.ports=1"])
    waits = {entry.engine: entry.stalled.get("buffer port", 0) for entry in on(narrow, "cnn").engines}
    assert waits["core0.matrix"] == waits["core0.vector"] == 0 < waits["core1.vector"] + waits["core1.matrix"]


def test_what_would_help_is_said_of_a_kind_in_paths_that_are_taken() -> None:
    found = [lever.sets for lever in levers(on(load_chip(TWO), "cnn"), least=0.0) if lever.sets]
    assert any(sets[0].startswith("little.matrix.rows=") for sets in found)
    assert ("big.matrix.dataflow=os", "little.matrix.dataflow=os") in found
    for sets in found:
        load_chip(TWO, sets)


def test_the_report_says_which_core_ends_last() -> None:
    result = on(load_chip(TWO))
    told = " ".join(sentences(result, layers(result), summary(result)))
    assert "Core 1 (little) ends last, after " in told and "; core 0 (big) after " in told
    alike = on(of_kinds(little=2))
    assert "ends last" not in " ".join(sentences(alike, layers(alike), summary(alike)))


def test_blocks_that_are_alike_are_not_replayed_and_the_run_says_so() -> None:
    result = on(load_chip(TWO), "gpt?layers=6,hidden=32,heads=4,seq=8")
    assert result.program.repeat is None
    assert any("of several kinds (big, little)" in note for note in result.program.notes)


def test_what_several_kinds_cannot_do_is_refused(tmp_path: Path) -> None:
    graph, chip = load_model(PRODUCT), load_chip(TWO)
    options = Options(dtype="fp32", values="off")
    with pytest.raises(UsageError) as error:
        compile(graph, chip, replace(options, share="layer", pinned={graph.nodes[0].name: {"tm": 4}}))
    assert [problem.where for problem in error.value.problems] == ["share 'layer'", "mapping"]
    text = mapping_text(compile(graph, chip, options))
    assert "of the kind little" in text


def test_a_node_runs_on_an_engine_only_where_all_kinds_do_it() -> None:
    """A training step runs on one core of the first kind; with cores=1 nothing of the others is left."""
    program = compile(load_model(PRODUCT), load_chip(TWO), Options(dtype="fp32", values="off", cores=1))
    assert list(program.chip.cores) == ["big"] and program.cores == 1


def test_the_machine_decides_for_each_kind(tmp_path: Path) -> None:
    result = on(load_chip(TWO), tune=2, tune_cache=str(tmp_path / "decisions.json"))
    assert result.time_fs <= on(load_chip(TWO)).time_fs * 1.02
    again = on(load_chip(TWO), tune=2, tune_cache=str(tmp_path / "decisions.json"))
    assert again.time_fs == result.time_fs
