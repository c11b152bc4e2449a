"""What '--check' compares, and that it sees what is wrong."""

from __future__ import annotations

from math import inf, log10

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.explore.against_reference import BOUNDS, Compared, Verdict, check_run, sqnr_dB
from accelsim.machine.run import Run
from accelsim.request import Request
from accelsim.request.job import Job, execute, prepare

CASES = [
    ("cnn", "edu-4x4", "fp32"), ("cnn", "edu-4x4", "int8"), ("cnn", "tpu-v1", "int8"), ("cnn", "tpu-v1", "int8xint16"),
    ("mlp?hidden=64", "neuroncore-v2", "bf16"), ("mlp?hidden=64", "neuroncore-v2", "fp16"),
    ("cnn", "haswell-e5-2699v3", "fp32"), ("lstm?steps=2", "tpu-v1", "int8"), ("gpt-decode?seq=32", "tpu-v1", "int8"),
]  # fmt: skip


def checked(model: str, chip: str, dtype: str, values: str = "exact") -> tuple[Job, Run]:
    job = prepare(Request(model, chip, dtype=dtype, values=values))
    return job, execute(job, keep=True)


@pytest.mark.parametrize(("model", "chip", "dtype"), CASES)
def test_a_run_holds(model: str, chip: str, dtype: str) -> None:
    job, run = checked(model, chip, dtype)
    verdict = check_run(run, job.graph)
    assert verdict.holds, verdict.wrong
    assert set(job.graph.outputs) <= {row.tensor for row in verdict.rows}
    assert len(verdict.rows) + len(verdict.alone) == len(set(run.tensors) | set(run.outputs) - set(job.graph.inputs))
    integers = {name for name, value in run.tensors.items() if value.dtype.kind in "iu"}
    bounds = {row.tensor: row.bound for row in verdict.rows}
    assert all(bounds[name] == 0 for name in integers & set(bounds))
    assert set(verdict.sqnr_dB) == (set(job.graph.outputs) if dtype.startswith("int") else set())
    assert all(20 < value < 120 for value in verdict.sqnr_dB.values())


@pytest.mark.parametrize(("chip", "dtype"), [("tpu-v1", "int8"), ("edu-4x4", "fp32"), ("neuroncore-v2", "bf16")])
def test_one_wrong_element_is_found(chip: str, dtype: str) -> None:
    job, run = checked("cnn", chip, dtype)
    value = run.tensors["pool2"] = run.tensors["pool2"].copy()
    step = 1 if dtype == "int8" else 2 * BOUNDS[dtype] * float(np.abs(value).max())
    value.flat[5] += step
    verdict = check_run(run, job.graph)
    assert not verdict.holds
    assert [row.tensor for row in verdict.wrong] == [verdict.worst.tensor] == ["pool2"]
    assert verdict.as_dict()["beyond_bound"] == ["pool2"]


def test_another_type_is_wrong_although_the_numbers_are_right() -> None:
    job, run = checked("cnn", "tpu-v1", "int8")
    run.tensors["pool2"] = run.tensors["pool2"].astype(np.int32)
    verdict = check_run(run, job.graph)
    assert verdict.wrong == [Compared("pool2", inf, 0.0)]
    assert verdict.as_dict()["largest_relative_error"] is None


def test_a_last_bit_of_a_real_function_is_no_error_but_what_follows_is_exact() -> None:
    job, run = checked("gpt-decode?seq=32", "tpu-v1", "int8")
    real = [row for row in check_run(run, job.graph).rows if row.bound]
    assert real, "this model has real-valued functions on the host"
    assert {run.tensors.get(row.tensor, run.outputs.get(row.tensor)).dtype.kind for row in real} == {"f"}  # type: ignore[union-attr]


def test_nothing_compared_does_not_hold() -> None:
    assert not Verdict("nobody", []).holds
    job, run = checked("cnn", "tpu-v1", "int8", "off")
    with pytest.raises(UsageError, match="computes nothing"):
        check_run(run, job.graph)


def test_sqnr_in_decibels() -> None:
    x = np.array([3.0, 4.0])
    assert sqnr_dB(x, x) == inf
    assert sqnr_dB(np.zeros(2), x) == -inf
    assert sqnr_dB(x, x + np.array([0.5, 0.0])) == pytest.approx(10 * log10(25 / 0.25))
