"""What a run would build is estimated before it is built, and refused beyond a limit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import TooLarge, UsageError
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.limits import MOST_COMMANDS, limited, limits
from accelsim.workload.sources.load import load_model
from accelsim.workload.value_memory import value_B

Cli = Callable[..., Result]
OFF = Options(values="off")
HUGE = "gemm?M=10000,N=10000,K=10000"


def relu(elements: int) -> Graph:
    tensors = {name: Tensor(name, (elements,)) for name in "xy"}
    return Graph("relu", [Node("relu", "Relu", ["x"], ["y"])], tensors, ["x"], ["y"])


def refused(graph: Graph, chip: str, commands: int) -> TooLarge:
    with limited(commands=commands), pytest.raises(TooLarge) as caught:
        compile(graph, load_chip(chip), OFF)
    return caught.value


@settings(max_examples=40)
@given(
    st.integers(1, 300),
    st.integers(1, 200),
    st.integers(1, 300),
    st.sampled_from(["edu-4x4", "eyeriss-hierarchy", "edu-mixed"]),
)
def test_the_estimate_of_a_product_is_the_number_of_its_commands(M: int, N: int, K: int, chip: str) -> None:
    graph = load_model("gemm", params={"M": M, "N": N, "K": K})
    options = Options(values="off", edges="outside", dtype="int8" if chip != "eyeriss-hierarchy" else "int16")
    program = compile(graph, load_chip(chip), options)
    of_product = sum(program.steps[command.op].engine == "matrix" for command in program.commands)
    pinned = {step.name: vars(step.mapping) for step in program.steps if step.mapping is not None}
    with limited(commands=len(program.steps)), pytest.raises(TooLarge) as caught:
        compile(graph, load_chip(chip), replace(options, pinned=pinned))  # not searched for again
    # besides: operands that are fetched whole, results that go to the host, host steps before it
    assert abs(caught.value.needed - of_product) <= 4


@pytest.mark.parametrize("elements", [100_000, 1_000_003])
def test_the_estimate_of_a_vector_step_is_the_number_of_its_commands(elements: int) -> None:
    program = compile(relu(elements), load_chip("edu-4x4"), OFF)
    assert refused(relu(elements), "edu-4x4", 10).needed == len(program.commands)


@pytest.mark.parametrize("model", [HUGE, "gemm?M=2147483647,N=1,K=100"])
def test_a_huge_product_is_refused_before_a_command_is_written(model: str) -> None:
    tracemalloc.start()
    try:
        error = refused(load_model(model), "edu-4x4", 10_000)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    assert error.resource == "commands"
    assert error.needed > error.limit == 10_000
    assert "y in tiles of" in str(error)
    assert "--limit-commands" in str(error)
    assert "larger array" in str(error)


def test_a_huge_product_with_values_is_refused_before_they_are_computed() -> None:
    graph = load_model(HUGE)
    with limited(commands=10_000), pytest.raises(TooLarge, match="commands"):
        compile(graph, load_chip("edu-4x4"))
    assert all(tensor.data is None for tensor in graph.tensors.values())


def test_huge_elementwise_steps_are_refused() -> None:
    assert refused(relu(2**31 - 1), "edu-4x4", 1_000_000).needed > 1_000_000


def test_a_tall_convolution_is_counted_without_an_entry_for_each_of_its_rows() -> None:
    tensors = {name: Tensor(name, (1, 1, 2**30, 1)) for name in "xy"}
    tensors["w"] = Tensor("w", (1, 1, 3, 1), data=np.ones((1, 1, 3, 1), np.float32))
    attrs = {
        "kernel_shape": [3, 1], "strides": [1, 1], "pads": [1, 0, 1, 0], "dilations": [1, 1], "group": 1,
        "a_zero_point": 0, "b_zero_point": 0,
    }  # fmt: skip
    graph = Graph("tall", [Node("conv", "Conv", ["x", "w"], ["y"], attrs)], tensors, ["x"], ["y"])
    tracemalloc.start()
    try:
        assert refused(graph, "edu-4x4", 1000).what.startswith("conv")
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


def test_many_cores_are_refused_before_their_queues_are_made() -> None:
    chip = load_chip("edu-4x4", ["cores=1000"])
    with limited(commands=3000), pytest.raises(TooLarge, match="1,000 cores"):
        compile(load_model("mlp"), chip, Options(values="off", cores=1000))


def test_a_program_that_takes_more_memory_than_the_limit_is_refused() -> None:
    with limited(memory_B=10**6), pytest.raises(TooLarge) as caught:
        compile(load_model("gemm?M=1000,N=1000,K=100"), load_chip("edu-4x4"), OFF)
    assert caught.value.resource == "bytes"
    assert "977 KiB" in str(caught.value)


def test_values_beyond_the_limit_are_refused_and_values_off_runs() -> None:
    with pytest.raises(TooLarge, match="--values off") as caught:
        accelsim.run("gpt-prefill?hidden=12288,heads=96,seq=2048,layers=8", "neuroncore-v2")
    assert caught.value.resource == "bytes"
    with pytest.raises(TooLarge):
        accelsim.run("mlp", "edu-mixed", limit_bytes=10**6)
    assert accelsim.run("mlp", "edu-mixed", limit_bytes=10**6, values="off").time_fs


@pytest.mark.parametrize(
    ("model", "chip", "dtype", "values"),
    [
        ("gemm?M=400,N=500,K=600", "tpu-v1", "int8", "exact"),
        ("gemm?M=400,N=500,K=600", "neuroncore-v2", "bf16", "fast"),
        ("mlp?hidden=1024", "tpu-v1", "int8", "exact"),
        ("cnn?resolution=128", "tpu-v1", "int8", "exact"),
    ],
)
def test_the_estimate_of_values_is_near_the_measured_peak(model: str, chip: str, dtype: str, values: str) -> None:
    needed_B = value_B(load_model(model))
    accelsim.run("mlp", chip, dtype=dtype, values=values)  # what is imported on first use
    tracemalloc.start()
    try:
        accelsim.run(model, chip, dtype=dtype, values=values)
        peak_B = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_B < needed_B * 1.1
    assert needed_B < 5 * peak_B


def test_limits_hold_within_their_block_only() -> None:
    with limited(commands=5) as inner, limited(memory_B=7) as both:
        assert (inner.commands, both.commands, both.memory_B) == (5, 5, 7)
    assert limits().commands == MOST_COMMANDS
    with pytest.raises(UsageError, match="limit of 0"), limited(commands=0):
        pass


@pytest.mark.parametrize("command", ["run", "accuracy", "batching", "quantize", "train"])
def test_every_command_that_takes_a_model_has_the_limits(cli: Cli, command: str) -> None:
    told = " ".join(cli(command, "--help").stdout.split())
    assert "--limit-commands N" in told
    assert "--limit-bytes SIZE" in told
    assert f"{MOST_COMMANDS:,}" in told


def test_the_command_line_tells_estimate_and_limit(cli: Cli) -> None:
    line = ("run", HUGE, "--on", "edu-4x4", "--values", "off", "--limit-commands", "1000")
    result = cli(*line)
    assert result.exit_code == 2
    assert "commands" in result.stderr
    assert "1,000" in result.stderr
    small = cli("run", "mlp", "--on", "edu-mixed", "--limit-bytes", "1 MiB")
    assert "limit of 1 MiB" in small.stderr
    wrong = cli("run", "mlp", "--on", "edu-mixed", "--limit-bytes", "1 s")
    assert wrong.exit_code == 2
    assert "a number of bytes" in wrong.stderr


def test_scales_of_many_channels() -> None:
    graph = load_model("gemm?M=1,K=1,N=2000000")
    with limited(memory_B=10_000_000), pytest.raises(TooLarge, match="one scale per channel of 'b' takes"):
        compile(graph, load_chip("edu-4x4"), Options(dtype="int8", values="off"))
