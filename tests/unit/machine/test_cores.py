"""Several cores: each has a batch of its own, and what the compiler, the machine and the peak count are the same cores."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.account.latency import summary
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import UsageError
from accelsim.explore.against_reference import check_run
from accelsim.machine.simulate import simulate
from accelsim.result import run
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder


def chip(cores: int) -> Chip:
    return load_chip("edu-4x4", [f"cores={cores}"])


def scaled_sum() -> Graph:
    """A scalar in, a scalar out: sum(x W) * factor."""
    b = Builder("scalars")
    x = b.input("x", (2, 4))
    factor = b.input("factor", ())
    w = b.constant("w", np.arange(12.0).reshape(4, 3))
    total = b.op("ReduceSum", [b.matmul(x, w, "t")], "total", axes=[0, 1], keepdims=0)
    return b.finish(b.op("Mul", [total, factor], "y"))


@pytest.mark.parametrize("values", ["exact", "fast"])
@pytest.mark.parametrize("cores", [2, 3])
def test_a_scalar_is_a_vector_of_one_entry_per_core(values: str, cores: int) -> None:
    x = np.arange(cores * 8, dtype=np.float32).reshape(cores * 2, 4)
    factor = np.arange(1, cores + 1, dtype=np.float32)
    result = run(scaled_sum(), chip(cores), dtype="fp32", values=values, inputs={"x": x, "factor": factor}, keep=True)
    per_core = [(part @ np.arange(12.0).reshape(4, 3)).sum() for part in np.split(x, cores)]
    np.testing.assert_allclose(result.outputs["y"], per_core * factor, rtol=1e-6)
    assert check_run(result, scaled_sum()).holds


def test_inputs_are_drawn_for_every_core() -> None:
    result = run(scaled_sum(), chip(2), dtype="fp32")
    assert result.outputs["y"].shape == (2,) and result.feeds["factor"].shape == (2,)


def test_a_program_is_for_all_cores_of_the_chip_unless_told_otherwise() -> None:
    graph, two = scaled_sum(), chip(2)
    program = compile(graph, two, Options(dtype="fp32", values="off"))
    assert program.cores == program.chip.core_count == 2
    asked = run(scaled_sum(), two, dtype="fp32", values="off")
    assert simulate(program).time_fs == asked.time_fs and program.commands == asked.program.commands


def test_a_program_for_fewer_cores_has_the_peak_of_those() -> None:
    """Peak rate and static power are those of the cores that work."""
    alone = simulate(compile(scaled_sum(), chip(1), Options(dtype="fp32", values="off")))
    one_of_two = simulate(compile(scaled_sum(), chip(2), Options(dtype="fp32", values="off", cores=1)))
    assert one_of_two.program.cores == one_of_two.chip.core_count == 1
    assert summary(one_of_two) == summary(alone)


def test_feeds_of_a_wrong_shape_are_told_before_anything_runs() -> None:
    program = compile(scaled_sum(), chip(2), Options(dtype="fp32"))
    with pytest.raises(UsageError) as caught:
        simulate(program, {"x": np.zeros((2, 4), np.float32)}, "exact")
    assert [problem.what for problem in caught.value.problems] == [
        "input 'x' has shape [2, 4]", "input 'factor' is missing",
    ]  # fmt: skip
    assert "[4, 4], the batches of 2 cores" in str(caught.value)
