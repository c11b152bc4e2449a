"""Every file that ships: valid, sourced, and equal to what its source says."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import pytest

from accelsim.spec.arithmetic import sum_format
from accelsim.spec.names import FUNCTIONS, operand_formats
from accelsim.spec.yaml import where
from accelsim.spec.yaml.clusters import load_spec
from accelsim.spec.yaml.load import KINDS, check, kind_of, list_chips, load_chip, show
from accelsim.workload.ops.base import REGISTRY

FILES = [(kind, path) for kind in KINDS for path in where.names(kind).values()]
CHIPS = [summary.name for summary in list_chips()]


def test_every_kind_has_files() -> None:
    assert {kind for kind, _ in FILES} == set(KINDS)
    assert {path.name for path in where.shipped().iterdir() if path.is_dir()} == set(KINDS)


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda each: Path(each).stem)
def test_file_is_right(kind: str, path: Path) -> None:
    assert check(path) == []
    assert kind_of(path) == kind
    assert max(len(line) for line in path.read_text(encoding="utf-8").splitlines()) <= 140


@pytest.mark.parametrize(
    "overrides",
    [(), ("matrix.schedule=sequential",), ("matrix.schedule=scalesim",), ("matrix.dataflow=os",)],
    ids="".join,
)
@pytest.mark.parametrize("name", CHIPS)
def test_shown_chip_reads_back_the_same(name: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    views = list(load_chip(name).views())
    if overrides and views[0].matrix is None:
        return
    chip = load_chip(name, [view.called(text) for view in views for text in overrides])
    assert chip.name == name
    copy = tmp_path / "copy.yaml"
    copy.write_text(show(chip), encoding="utf-8")
    assert load_chip(copy) == chip
    assert show(load_chip(copy)) == show(chip)


def test_a_file_elsewhere_is_known_by_its_keys(tmp_path: Path) -> None:
    for kind, path in FILES:
        copy = tmp_path / "some.yaml"
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        if "use:" not in copy.read_text(encoding="utf-8"):
            assert kind_of(copy) == kind


def test_a_shown_part_reads_back_the_same(tmp_path: Path) -> None:
    for kind, path in {kind: path for kind, path in FILES if kind != "chips"}.items():
        copy = tmp_path / kind / path.name
        copy.parent.mkdir()
        copy.write_text(show(load_spec(path)), encoding="utf-8")
        assert load_spec(copy) == load_spec(path)


def test_list() -> None:
    summaries = {summary.name: summary for summary in list_chips()}
    assert list(summaries) == sorted(summaries)
    assert summaries["tpu-v1"].peak == {"int8": 92e12}
    assert not any(summary.problem for summary in summaries.values())


def test_tpu_v1_is_that_of_the_paper() -> None:
    """Jouppi et al., ISCA 2017: section 2 and Table 2."""
    chip = load_chip("tpu-v1")
    assert chip.matrix and chip.power and chip.host and chip.vector
    assert (chip.matrix.rows, chip.matrix.cols, chip.clock) == (256, 256, 700_000_000)
    assert isinstance(chip.clock, int)
    assert {name: mac.cycles_per_row for name, mac in chip.matrix.formats.items()} == {
        "int8": 1, "int8xint16": 2, "int16": 4,
    }  # fmt: skip
    assert chip.buffers["unified_buffer"].capacity == 24 * 2**20
    assert chip.buffers["accumulators"].capacity == 4096 * 256 * 4
    fifo = chip.buffers["weight_fifo"]
    assert (fifo.slots, fifo.slot_capacity) == (4, 64 * 1024)
    weights = chip.memories["ddr3"].memory
    assert (weights.capacity, weights.bandwidth, weights.efficiency) == (8 * 2**30, 34e9, 1.0)
    assert round(65536 / (weights.bandwidth * weights.channels) * chip.clock) == 1349
    assert (chip.power.idle, chip.power.busy, chip.power.tdp) == (28, 40, 75)
    assert chip.host.peak == {"fp32": 1.3e12, "int8": 2.6e12}
    assert chip.host.memory.bandwidth * chip.host.memory.channels == 51e9
    assert abs(chip.matrix.peaks(chip)["int8"] / 92e12 - 1) < 0.01
    assert chip.matrix.stationary_from == ["weights"]
    assert not {"Softmax", "LRN", "Exp", "LayerNormalization"} & set(chip.vector.functions)


def test_neuroncore_is_that_of_its_documentation() -> None:
    chip = load_chip("neuroncore-v2")
    assert chip.matrix is not None
    assert (chip.matrix.rows, chip.matrix.cols, chip.clock) == (128, 128, 2.8e9)
    clocks = {name: unit.clock for name, unit in chip.engines.items()}
    assert clocks == {"matrix": None, "scalar": 1.4e9, "vector": 1.12e9, "gpsimd": 1.4e9}
    assert (chip.matrix.min_interval, chip.matrix.load_rows_per_clock) == (64, 4)
    rates = {name: mac.cycles_per_row for name, mac in chip.matrix.formats.items()}
    assert rates["fp32"] == 4 and rates["int8"] == Fraction(1, 2)
    assert {rate for name, rate in rates.items() if name not in ("fp32", "int8")} == {1}
    assert next(iter(chip.matrix.formats)) == "bf16"
    assert {"fp16", "tf32", "fp8_e4m3", "fp8_e5m2", "fp8_e3m4", "int8"} <= set(rates)
    assert "fp8_e4m3fn" not in rates
    assert chip.buffers["sbuf"].capacity == 128 * 192 * 1024
    assert chip.buffers["psum"].capacity == 128 * 16 * 1024


def test_systolic_generic_takes_every_width_at_one_rate() -> None:
    unit = load_chip("systolic-generic").matrix
    assert unit is not None
    assert {mac.cycles_per_row for mac in unit.formats.values()} == {1}
    assert next(iter(unit.formats)) == "fp32"
    wanted = {"tf32", "bf16", "fp16", "fp8_e4m3fn", "fp8_e5m2", "int16", "int8", "int4xint8", "int4", "int2", "int1"}
    assert wanted <= set(unit.formats)


def test_edu_mixed_has_the_rates_of_tensor_cores() -> None:
    """A100 SXM4, dense: TF32 156, FP16 and BF16 312, INT8 624, INT4 1,248 T(FL)OPS; H100: FP8 as INT8."""
    unit = load_chip("edu-mixed").matrix
    assert unit is not None
    published = {"tf32": 156, "fp16": 312, "bf16": 312, "int8": 624, "fp8_e4m3fn": 624, "fp8_e5m2": 624, "int4": 1248}
    assert len({unit.formats[name].cycles_per_row * rate for name, rate in published.items()}) == 1


@pytest.mark.parametrize("name", CHIPS)
def test_sums_are_what_the_energy_counts(name: str) -> None:
    """A chip accumulates in the format whose addition is part of the energy of its MAC.

    Published costs relative to a whole multiply-accumulate have no addition of their own.
    """
    chip = load_chip(name)
    if chip.matrix is None or chip.energy.node.startswith("relative"):
        return
    for fmt, mac in chip.matrix.formats.items():
        assert mac.accumulate == sum_format(fmt)


@pytest.mark.parametrize("name", CHIPS)
def test_a_narrower_format_costs_no_more_per_mac(name: str) -> None:
    """Neither clocks nor energy rise when both operands lose bits of exponent and mantissa."""
    chip = load_chip(name)
    formats = chip.matrix.formats if chip.matrix else {}
    for (wide, one), (narrow, other) in itertools.permutations(formats.items(), 2):
        if _within(narrow, wide):
            assert other.cycles_per_row <= one.cycles_per_row, (narrow, wide)
            assert chip.energy.mac[narrow] <= chip.energy.mac[wide], (narrow, wide)


def _within(narrow: str, wide: str) -> bool:
    """Return whether each operand has at most the bits of that of ``wide``, in exponent and in mantissa."""
    pairs = zip((operand_formats(narrow) or ()) * 2, (operand_formats(wide) or ()) * 2, strict=False)
    return all(
        (low.kind == "float") == (high.kind == "float")
        and low.bits <= high.bits and low.exponent <= high.exponent and low.mantissa <= high.mantissa
        for low, high in itertools.islice(pairs, 2)
    )  # fmt: skip


def test_dae_edu_counts_one_beat_per_clock() -> None:
    chip = load_chip("dae-edu")
    memory = chip.memories["dram"].memory
    assert memory.bandwidth == memory.beat * chip.clock
    assert memory.latency * chip.clock == 10
    assert chip.vector is None and chip.matrix and not chip.matrix.epilogue


def test_a_spec_can_name_every_operator_that_is_no_matrix_product() -> None:
    nameable = {op.name for op in REGISTRY.values() if op.kind not in ("alias", "matrix")}
    assert nameable == set(FUNCTIONS.operators), "a family of accelsim/workload/ops/base.py, or none"
    assert len(set(FUNCTIONS.operators)) == len(FUNCTIONS.operators), "in two families"
