"""Every number of a spec has a least and a most, and what is beyond is told with both, at once and without a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_origin

import pytest

from accelsim.errors import Problem, SpecError
from accelsim.request.job import Request, prepare
from accelsim.spec.base import Model
from accelsim.spec.energy import SramPoint, sram_J_per_B
from accelsim.spec.yaml import where
from accelsim.spec.yaml.kinds import KINDS
from accelsim.spec.yaml.load import check, load_chip, show
from accelsim.spec.yaml.parts import load_dram, load_energy, load_link, load_memory
from accelsim.spec.yaml.shape import annotation_of, core, model_of
from accelsim.units import DIMENSIONS, parse, spell
from tests.helpers import spec_reference as schema
from tests.helpers.effort import calls

Write = Callable[..., Path]


def told(*overrides: str, chip: str = "edu-mixed") -> list[Problem]:
    with pytest.raises(SpecError) as error:
        load_chip(chip, overrides)
    return list(error.value.problems)


def fields() -> Iterator[tuple[str, Any]]:
    """Every field of every block of every kind of file, down to what tables and lists hold."""
    seen: set[type[Model]] = set()
    queue: list[type[Model]] = list(KINDS.values())
    while queue:
        model = queue.pop()
        if model in seen:
            continue
        seen.add(model)
        for name in model.model_fields:
            annotation: Any = annotation_of(model, name)
            while get_origin(core(annotation)) in (dict, list):
                annotation = annotation_of(annotation, 0)
            inner = model_of(annotation)
            if inner is not None and issubclass(inner, Model):
                queue.append(inner)
            else:
                yield f"{model.__name__}.{name}", annotation


NUMBERS = [
    (name, annotation)
    for name, annotation in fields()
    if core(annotation) in (int, float) and not schema._unit(annotation)
]
FREE = {
    "Calibration.values",
    "MemoryController.high",
    "MemoryController.low",
    "Pcie.generation",
    "Pcie.lanes",
    "Pcie.address_bits",
}
"""Constants that mean anything, shares with an open end, and numbers that are one of a few choices."""


@pytest.mark.parametrize(("name", "annotation"), NUMBERS, ids=[name for name, _ in NUMBERS])
def test_every_number_has_a_least_and_a_most(name: str, annotation: Any) -> None:
    least, most = schema._limits(annotation)
    assert name in FREE or (least is not None and most is not None and least < most)


@pytest.mark.parametrize("unit", DIMENSIONS)
def test_every_dimension_has_a_least_and_a_most_that_read_back(unit: str) -> None:
    row = DIMENSIONS[unit]
    assert 0 < row.least < row.most < 1e30
    for value in (row.least, row.most, row.least * 1.37, row.most / 3):
        assert parse(spell(value, unit), unit) == value or unit == "B"


TOLD: list[tuple[str, str, str]] = [
    ("matrix.formats={}", "matrix.formats", "1 or more"),
    ("memories.hbm.memory.dram.timing.tRAS=1.5 tCK", "tRAS", "whole clocks"),
    ("memories.hbm.memory.dram.timing.tRP=null", "tRP", ""),
    ("memories.hbm.memory.dram.timing.tCK=0 s", "tCK", "more than zero"),
    ("memories.hbm.memory.dram.timing.tCK=0.4 fs", "tCK", "1 ps to 1 us"),
    ("memories.hbm.memory.dram.timing.CWL=9 ms", "CWL", "100,000 tCK or 100 us"),
    ("memories.hbm.memory.latency=0.3 fs", "latency", "0 s, or 1 fs to 1 s"),
    ("memories.hbm.memory.beat=8 GiB", "beat", "1 B to 1 MiB"),
    ("host.peak={}", "host.peak", "1 or more"),
    ("host.efficiency=1e-320", "host.efficiency", "0.001"),
    ("host.peak.fp32=1e-300 op/s", "host.peak.fp32", "1 kop/s"),
    ("vector=null", "cores.core.engines.matrix.epilogue", "epilogue: false"),
    ("vector.lanes=9223372036854775808", "vector.lanes", "1048576"),
    ("vector.functions.Relu=9223372036854775808", "vector.functions.Relu", "1000000"),
    ("matrix.accumulator_latency=99999999999999999999", "accumulator_latency", "1000000"),
    ("matrix.min_interval=18446744073709551616", "min_interval", "1000000"),
    ("matrix.formats.int8.cycles_per_row=18446744073709551616", "cycles_per_row", "1000000"),
    ("matrix.load_rows_per_clock=18446744073709551616", "load_rows_per_clock", "65536"),
    ("token_delay=18446744073709551616", "token_delay", "1000000"),
    ("cores=1000000000", "cores", "1024"),
    (f"clock={'9' * 30_000} Hz", "clock", "a frequency"),
    ("energy.register=1e308 J/B", "energy.register", "1 aJ/B to 1 J/B"),
    ("energy.sram.0.read=1e30 pJ/B", "energy.sram.0.read", "1 J/B"),
    ("energy.mac.int9999=1 pJ", "'int9999' is no number format", "int8"),
    ("energy.vector.fp23=1 pJ", "'fp23' is no number format", "int8"),
    ("act_sram={capacity: 1 KiB, holds: [activations], read_width: 4 KiB, write_width: 4 B}", "read_width", "at most its capacity"),
    ("act_sram.holds=[activations, activations]", "given twice", "each once"),
    ("memories.hbm.holds=[activations, weights, host, host]", "given twice", "each once"),
    ("matrix.stationary_from=[]", "stationary_from", "1 or more"),
    ("as_of=2020-13-45", "is no date", "YYYY-MM-DD"),
    ("title=" + "x" * 300, "title", "at most 200"),
    ("memories.hbm.memory={use: [memories/hbm2]}", "a list or a block", "the name of one file"),
    ("memories.hbm.memory={use: {a: b}}", "a list or a block", "the name of one file"),
    (f"memories.hbm.memory={'x' * 300}", "no spec file", "below hwspecs"),
    ("matrix.rows=32.5", "'32.5' is not accepted", "a whole number"),
    ("vector.functions.Relu=-1", "'-1' is not accepted", "1 or more, or 'none' to leave it out"),
    ("name=../../x", "'../../x' is not accepted", "a-z 0-9 _ . -, a letter or digit first"),
    ("memories.hbm.memory=energy/scaled-28nm", "is an energy table, not a memory", "hwspecs/memories"),
    ("memories.hbm.memory={use: chips/edu-4x4}", "is a chip, not a memory", "hwspecs/memories"),
]  # fmt: skip


@pytest.mark.parametrize(("override", "what", "expected"), TOLD, ids=[row[0][:60] for row in TOLD])
def test_what_no_chip_has_is_told_in_one_line(override: str, what: str, expected: str) -> None:
    found = [problem for problem in told(override) if what in problem.what]
    assert found and expected in found[0].expected.replace(",", "" if expected.isdigit() else ",")
    assert all(len(str(problem)) < 1500 for problem in found)


def test_a_file_of_the_wrong_kind_is_the_only_thing_that_is_told() -> None:
    assert len(told("memories.hbm.memory=energy/scaled-28nm")) == 1
    assert len(told("energy=memories/hbm2")) == 1
    with pytest.raises(SpecError, match=r"hbm2.yaml: is a memory; expected a chip; 'accelsim spec show' shows"):
        load_chip("memories/hbm2")
    with pytest.raises(SpecError, match=r"hbm2.yaml: is a memory; expected a link"):
        load_link(where.names("memories")["hbm2"])


def test_currents_and_timing_beyond_all_measure() -> None:
    for override, expected in (
        ("currents.VDD=1e308 V", "10 mV to 100 V"),
        ("organisation.density=" + "9" * 5000 + " Gbit", "1 bit to 1024 Tbit"),
        ("timing.tREFI=" + "9" * 5000 + " tCK", "0 to 10,000,000 tCK or 10 ms"),
        ("timing.tRTW=0 tCK", "or more"),
    ):
        with pytest.raises(SpecError) as error:
            load_dram("ddr4-3200", [override])
        assert any(expected in problem.expected for problem in error.value.problems), override


@pytest.mark.parametrize("place", ["    int8:\n", "accumulate: int32"])
def test_a_long_name_of_a_format_takes_no_more_work_than_a_short_one(write: Write, place: str) -> None:
    text = show(load_chip("edu-4x4"))
    short, long = (
        write(text.replace(place, place.replace(place.strip(" :\n").split()[-1], name), 1), f"chips/{len(name)}.yaml")
        for name in ("x" * 30, "x" * 30_000)
    )
    found = check(long)
    assert found and all(len(str(problem)) < 600 for problem in found)
    assert calls(check, long) < 1.5 * calls(check, short)


@pytest.mark.parametrize("load", [load_chip, load_dram, load_energy, load_memory])
def test_names_that_no_file_system_has(load: Callable[[str], object]) -> None:
    for name in ("a" * 300, "a/" * 200 + "b.yaml", "a" * 5000 + ".yaml"):
        with pytest.raises(SpecError) as error:
            load(name)
        assert len(error.value.problems[0].what) < 200


def test_energy_between_two_points_is_between_their_energies() -> None:
    points = [
        SramPoint(capacity="1 KiB", read="1 J/B", write="1 aJ/B"),  # type: ignore[arg-type]
        SramPoint(capacity="1 MiB", read="1 aJ/B", write="1 J/B"),  # type: ignore[arg-type]
    ]
    for size in (1, 1024, 1025, 4096, 2**19, 2**20 - 1, 2**20):
        for write_too in (False, True):
            assert 1e-18 <= sram_J_per_B(points, size, write_too) <= 1


def test_a_broken_chip_of_several_cores_has_one_error() -> None:
    import numpy as np

    import accelsim

    shape = accelsim.load_model("mlp").tensors["x"].shape
    asked = {"x": np.zeros((2 * shape[0], *shape[1:]), dtype=np.float32)}
    with pytest.raises(SpecError) as error:
        prepare(Request("mlp", "edu-4x4", inputs=asked, set=("cores=2", "vector.lanes=no")))
    assert [problem.what.split(":")[0] for problem in error.value.problems] == ["cores.core.engines.vector.lanes"]
