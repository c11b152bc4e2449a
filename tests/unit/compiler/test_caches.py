"""States that grow: appends in place, products that read them transposed, and where they lie."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.program.program import Program
from accelsim.program.roles import HOST_OWN_MEMORY
from accelsim.program.work import Transfer
from accelsim.spec.yaml.load import load_chip
from accelsim.time import FS
from accelsim.workload import execute
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops import base
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder

SMALL = "gpt-decode?layers=2,hidden=32,heads=4,seq=9"
ROWS = 4 * 8
"""Elements of the new keys of a layer."""


def moved(program: Program, memory: str) -> dict[str, tuple[int, int]]:
    """Tensor -> bytes read from a memory and written to it."""
    found: dict[str, tuple[int, int]] = {}
    for command in program.commands:
        if isinstance(command.work, Transfer) and command.work.memory == memory:
            name = command.effect.tensor or command.effect.operands[0][0] if command.effect.what != "none" else "-"
            read, write = found.get(name, (0, 0))
            size, stored = command.work.nbytes, command.work.write
            found[name] = (read + size * (not stored), write + size * stored)
    return found


def test_a_cache_stays_in_the_memory_of_the_chip_and_only_new_rows_are_written() -> None:
    """Keys and values are read once, by the products; nothing of them crosses to the host, nothing is converted."""
    program = compile(load_model(SMALL), accelsim.load_chip("neuroncore-v2"), Options(values="off"))
    hbm, host = moved(program, "hbm"), moved(program, "pcie_memory")
    for cache in program.graph.states.values():
        assert hbm[cache] == (10 * ROWS * 2, ROWS * 2)
    assert {name: sum(bytes_) for name, bytes_ in host.items()} == {"x": 64, "l1.sum2": 64}
    assert not any(step.engine == "host" for step in program.steps)
    appended = [step.name for step in program.steps if step.engine == "dma"]
    assert appended == ["l0.k_cache", "l0.v_cache", "l1.k_cache", "l1.v_cache"]


def test_in_codes_too_and_no_conversion_takes_time() -> None:
    run = accelsim.run(SMALL, "edu-4x4", values="off")
    traffic = moved(run.program, "dram")
    graph = run.program.graph
    for past, cache in graph.states.items():
        assert (graph.tensors[past].dtype, graph.tensors[cache].dtype) == ("int8", "int8")
        assert traffic[cache] == (10 * ROWS, ROWS)
    steps = {step.name: index for index, step in enumerate(run.program.steps)}
    for name in ("l0.k_past.quantize", "l0.k_cache.dequantize"):
        start, end = run.step_spans[steps[name]]
        assert end == start
        assert not [row for row in run.ledger if row.op == steps[name]]


@pytest.mark.parametrize(("chip", "dtype"), [("edu-4x4", "int8"), ("neuroncore-v2", "bf16"), ("tpu-v1", "int8"),
                                             ("edu-mixed", "fp16"), ("haswell-e5-2699v3", "fp32")])  # fmt: skip
def test_time_and_energy_do_not_depend_on_values(chip: str, dtype: str) -> None:
    exact, fast, off = (accelsim.run(SMALL, chip, dtype=dtype, values=how) for how in ("exact", "fast", "off"))
    assert exact.ledger == fast.ledger == off.ledger and exact.slices == fast.slices == off.slices
    for name in exact.outputs:
        np.testing.assert_allclose(exact.outputs[name], fast.outputs[name], atol=0.1)


def test_a_state_that_only_the_host_reads_lies_in_its_memory() -> None:
    """TPU v1 multiplies no activations: keys and values would cross the link at each token."""
    program = compile(load_model(SMALL), accelsim.load_chip("tpu-v1"), Options(values="off"))
    homes = {program.regions[region].memory for cache in program.graph.states.values()
             for region in [use.region for command in program.commands if command.effect.what == "append"
                            and command.effect.tensor == cache for use in command.writes]}  # fmt: skip
    homes |= {program.regions[command.writes[0].region].memory for command in program.commands
              if command.effect.what == "append"}  # fmt: skip
    assert homes == {"pcie_memory"}


def test_a_concat_whose_state_somebody_else_reads_is_a_copy() -> None:
    b = Builder("twice")
    x = b.input("x", (1, 2, 8))
    cache = b.appended("k", (1, 3, 8), x, 1)
    other = b.op("Relu", ["k_past"], "other")
    graph = b.finish(cache, other)
    program = compile(graph, accelsim.load_chip("neuroncore-v2"), Options(values="off"))
    assert [node.op for node in program.graph.nodes] == ["Concat", "Relu"]
    run = accelsim.run(graph, "neuroncore-v2")
    feeds = run.feeds
    np.testing.assert_array_equal(run.outputs["k_cache"].shape, (1, 5, 8))
    np.testing.assert_allclose(run.outputs["k_cache"][:, :3], feeds["k_past"], rtol=1e-2)


def test_rows_that_are_written_into_a_cache_of_fixed_size() -> None:
    """What lies before and behind them stays."""
    b = Builder("ring")
    x = b.input("x", (2, 1, 8))
    new = b.project(x, 8, "k")
    state = b.input("k_past", (2, 6, 8))
    cache = b.op("Append", [state, new], "k_cache", axis=1, at=2)
    b.graph.states[state] = cache
    mixed = b.matmul(x, b.op("Transpose", [cache], "kT", perm=[0, 2, 1]), "scores")
    graph = b.finish(mixed, cache)
    from accelsim.workload.sources.weights import randomise

    run = accelsim.run(randomise(graph, 3), "neuroncore-v2", dtype="fp32", keep=True)
    whole = execute.run(graph, run.feeds)
    np.testing.assert_array_equal(np.delete(run.outputs["k_cache"], 2, 1), np.delete(run.feeds["k_past"], 2, 1))
    for name, values in whole.items():
        np.testing.assert_allclose(run.outputs[name], values, atol=1e-5)
    assert moved(run.program, "hbm")["k_cache"] == (2 * 6 * 8 * 4, 2 * 8 * 4)


@pytest.mark.parametrize(("at", "length"), [(0, 5), (2, 5), (4, 5), (5, 6)])
def test_append_is_numpy_assignment(at: int, length: int) -> None:
    rng = np.random.default_rng(0)
    past, new = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 1, 3))
    node = Node("n", "Append", ["past", "new"], ["y"], {"axis": 1, "at": at})
    op = base.get("Append")
    ins = [Tensor("past", past.shape), Tensor("new", new.shape)]
    assert op.infer(node, list(ins)) == [((2, length, 3), "fp32")]
    expected = np.zeros((2, length, 3))
    expected[:, :5] = past
    expected[:, at : at + 1] = new
    np.testing.assert_array_equal(op.kernel(node, [past, new])[0], expected)


def test_append_leaves_no_hole() -> None:
    node = Node("n", "Append", ["past", "new"], ["y"], {"axis": 1, "at": 6})
    with pytest.raises(accelsim.errors.ModelError, match="rows from 6 on"):
        base.get("Append").infer(node, [Tensor("past", (2, 5)), Tensor("new", (2, 1))])


@pytest.mark.parametrize("at", [0, 2, 4, 5])
def test_append_and_a_transposed_operand_are_exported(at: int) -> None:
    """ONNX Runtime computes the same from Slice, Concat and Transpose."""
    from accelsim.workload.onnx.reference import reference_outputs

    past, new = Tensor("past", (2, 5, 3)), Tensor("new", (2, 1, 3))
    whole = Tensor("y", (2, max(5, at + 1), 3))
    q, s = Tensor("q", (2, 4, 3)), Tensor("s", (2, 4, whole.shape[1]))
    nodes = [Node("n", "Append", ["past", "new"], ["y"], {"axis": 1, "at": at}),
             Node("m", "MatMul", ["q", "y"], ["s"], {"transB": 1})]  # fmt: skip
    graph = Graph("g", nodes, {t.name: t for t in (past, new, whole, q, s)}, ["past", "new", "q"], ["y", "s"], 20)
    rng = np.random.default_rng(1)
    feeds = {name: rng.normal(size=graph.tensors[name].shape).astype(np.float32) for name in graph.inputs}
    theirs, ours = reference_outputs(graph, feeds), execute.run(graph, feeds)
    assert "onnxruntime" in theirs.by or "onnx" in theirs.by
    for name in graph.outputs:
        np.testing.assert_allclose(ours[name], theirs.values[name], rtol=1e-5, atol=1e-6)


def test_models_without_states_keep_their_transposes() -> None:
    program = compile(load_model("bert?layers=1,hidden=32,heads=4,seq=9"), accelsim.load_chip("neuroncore-v2"),
                      Options(values="off"))  # fmt: skip
    assert not any(node.attrs.get("transB") for node in program.graph.nodes)


def test_a_plain_processor_appends_in_its_own_memory() -> None:
    """Its ledger names the memory as the price list does."""
    run = accelsim.run("llama?layers=1,seq=1,past=7", "haswell-e5-2699v3", values="off")
    appended = [index for index, step in enumerate(run.program.steps) if step.node.op == "Append"]
    rows = [row for row in run.ledger if row.op in appended]
    assert {row.component for row in rows} == {HOST_OWN_MEMORY}
    new_B = sum(2 * run.program.graph.tensors[run.program.steps[i].node.inputs[1]].nbytes for i in appended)
    assert sum(row.count for row in rows) == new_B
    host = run.chip.host
    assert host is not None
    took_fs = sum(end - start for start, end in (run.step_spans[index] for index in appended))
    expected_s = len(appended) * host.overhead + new_B / host.memory.rate_Bps
    assert took_fs * FS == pytest.approx(expected_s, rel=1e-9, abs=0)
    assert accelsim.run("llama?layers=1,seq=1,past=7", "haswell-e5-2699v3").energy_J == run.energy_J


def test_new_states_give_their_room_to_later_layers() -> None:
    """A state that begins to stay in memory leaves the buffer once no step reads it, so all layers are mapped alike."""
    graph = load_model("gpt?layers=5,hidden=128,heads=4,seq=64")
    program = compile(graph, load_chip("tpu-v4", ["cmem.capacity=256 KiB"]), Options(values="off"))
    mapped = [[step.mapping for step in program.steps if step.name.startswith(f"l{n}.")] for n in (2, 3, 4)]
    assert mapped[0] == mapped[1] == mapped[2] and any(mapped[0])
