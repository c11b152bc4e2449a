"""Laws of number formats: what a narrower format saves, exactly; what it never changes."""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.categories import by_category
from accelsim.account.energy import by_component, by_op, energy_table, total_J
from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.numbers.sparsify import prune
from accelsim.errors import Infeasible
from accelsim.explore.against_reference import check_run
from accelsim.formats import table
from accelsim.formats.ranges.methods import METHODS
from accelsim.machine.run import Run
from accelsim.program.actions import MAC, NOT_DONE, SKIPPED, is_done
from accelsim.program.work import Folds
from accelsim.spec.chip import Chip
from accelsim.spec.multiplying import Sparse
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from tests.helpers.estimates import ROUNDING, choice_of, clocks
from tests.helpers.law_cases import (
    Case,
    base_chip,
    changed,
    compiled,
    image_graphs,
    matrix_graphs,
    products,
    whole_tiles,
)

QUICK = settings(max_examples=25)
MIXED = base_chip("edu-mixed")
assert MIXED.matrix is not None
FORMATS = list(MIXED.matrix.formats)
WHOLE = {"tm": 10**6, "tn": 10**6, "tk": 10**6, "a_resident": True, "y_resident": True}


def gemm(m: int = 24, n: int = 40, k: int = 64) -> Graph:
    return load_model(f"gemm?M={m},N={n},K={k}", weights="random:0")


def small(rows: int = 8, cols: int = 8) -> Chip:
    """edu-mixed with a small array, so that a few rows and columns are several folds."""
    return changed(changed(MIXED, "matrix", rows=rows, cols=cols), "", peak={})


def count(run: Run, *actions: str) -> int:
    return sum(row.count for row in run.ledger if row.action in actions)


def macs(run: Run) -> int:
    """MACs of every format in the ledger, carried out."""
    return sum(row.count for row in run.ledger if is_done(row.action))


def moved(run: Run, tensor: str) -> int:
    """Bytes of a tensor that came from the memories."""
    return sum(
        row.count for row in run.ledger
        if row.component in run.chip.memories and row.action == "read" and row.tensor.partition(".")[0] == tensor
    )  # fmt: skip


def energy(run: Run) -> float:
    return total_J(energy_table(run))


@st.composite
def networks(draw: Any) -> tuple[Graph, Chip, dict[str, Any]]:
    """A random graph, edu-mixed with an array of another size, and how its numbers are represented."""
    graph = draw(st.one_of(image_graphs(3), matrix_graphs(3)))
    size = draw(st.sampled_from([4, 8, 12, 64]))
    layers = {name: draw(st.sampled_from(FORMATS)) for name in products(graph) if draw(st.integers(0, 3)) == 0}
    options = {
        "dtype": draw(st.sampled_from(FORMATS)), "layers": layers, "scheme": draw(st.sampled_from(["symmetric", "affine"])),
        "sparsity": draw(st.sampled_from(["", "", "2:4", "1:4"])), "per_channel": draw(st.booleans()),
    }  # fmt: skip
    return graph, small(size, size), options


def made(network: tuple[Graph, Chip, dict[str, Any]]) -> Case:
    graph, chip, options = network
    return compiled(graph, chip, **options)


@QUICK
@given(networks())
def test_macs_and_skipped_macs_are_those_of_the_graph(network: Any) -> None:
    """In any mix of formats, sparse or not; each step multiplies in one format."""
    case = made(network)
    run = case.run()
    for index, step in enumerate(run.program.steps):
        rows = [row for row in run.ledger if row.op == index and row.action.kind == MAC]
        done = {row.action.of for row in rows if row.action not in NOT_DONE}
        assert sum(row.count for row in rows if row.action != "mac.padding") == step.macs
        assert done == ({step.node.format} if step.macs else set())


@QUICK
@given(networks())
def test_parts_of_the_energy_equal_the_total(network: Any) -> None:
    run = made(network).run()
    rows = energy_table(run)
    total = total_J(rows)
    assert total > 0 and all(row.energy_J >= 0 for row in rows)
    for parts in (by_component(rows), by_op(rows), by_category(run.chip, rows)):
        assert fsum(parts.values()) == pytest.approx(total, rel=1e-12, abs=0)


@QUICK
@given(networks())
def test_values_change_neither_time_nor_ledger(network: Any) -> None:
    case = made(network)
    off = case.run()
    with np.errstate(all="ignore"):
        for policy in ("exact", "fast"):
            other = case.run(policy)
            assert (other.slices, other.ledger, other.engines) == (off.slices, off.ledger, off.engines)


@QUICK
@given(networks(), st.sampled_from(list(METHODS)), st.booleans(), st.booleans())
def test_every_tensor_is_that_of_the_reference(network: Any, method: str, corrected: bool, emulated: bool) -> None:
    """Any mix of formats, schemes, methods and patterns, computed by the unit itself or emulated."""
    graph, chip, options = network
    if emulated:
        assert MIXED.matrix is not None
        few = {name: MIXED.matrix.formats[name] for name in ("fp32", "int16", "fp16")}
        chip = changed(chip, "engines.matrix", formats=few)
    if options["sparsity"]:
        graph = prune(graph, options["sparsity"])
    case = compiled(
        graph, chip, ranges_from=synthetic(graph, 1), ranges=method, bias_correction=corrected, emulate=emulated,
        **options,
    )  # fmt: skip
    exact = case.run("exact", keep=True)
    verdict = check_run(exact, graph)
    assert verdict.holds, verdict.wrong
    fast = case.run("fast")
    for name, value in exact.outputs.items():
        largest = float(np.max(np.abs(value), initial=0.0))
        np.testing.assert_allclose(fast.outputs[name], value, rtol=0, atol=1e-2 * largest, err_msg=name)


@pytest.mark.parametrize("dtype", FORMATS)
def test_energy_by_component_op_and_tensor_in_each_format(dtype: str) -> None:
    case = compiled(load_model("cnn", weights="random:0"), MIXED, dtype)
    rows = energy_table(case.run())
    for parts in (by_component(rows), by_op(rows)):
        assert fsum(parts.values()) == pytest.approx(total_J(rows), rel=1e-12, abs=0)


SHARES = {"fp16": 2, "bf16": 2, "int16": 2, "tf32": 1, "fp8_e4m3fn": 4, "fp8_e5m2": 4, "int8": 4, "int4": 8, "int2": 16,
          "int1": 32}  # fmt: skip


@pytest.mark.parametrize("on", ["edu-mixed", "systolic-generic"])
@pytest.mark.parametrize("dtype", SHARES)
def test_bytes_from_memory_shrink_exactly_with_the_bits(dtype: str, on: str) -> None:
    """Everything fits and moves once: INT8 a quarter of FP32, INT4 an eighth, INT1 a thirty-second."""
    chip = base_chip(on)
    assert chip.matrix is not None
    pinned = {"y": {"order": "nmk", "a_resident": True}}
    runs = [compiled(gemm(32, 96, 64), chip, name, pinned=pinned).run() for name in ("fp32", dtype)]
    for tensor in ("a", "b"):
        wide, narrow = (moved(run, tensor) for run in runs)
        assert wide == 4 * {"a": 32 * 64, "b": 96 * 64}[tensor]
        assert narrow * SHARES[dtype] == wide


@QUICK
@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 90), st.sampled_from(FORMATS))
def test_bytes_are_whole_and_never_fewer_than_the_bits(m: int, n: int, k: int, dtype: str) -> None:
    """Packed, and only the last byte of a tensor may be filled up."""
    run = compiled(gemm(m, n, k), whole_tiles(MIXED), dtype, pinned={"y": WHOLE}).run()
    weights, activations = (dtype.split("x") * 2)[:2] if "x" in dtype else (dtype, dtype)
    for tensor, elements, name in (("a", m * k, activations), ("b", n * k, weights)):
        assert 0 <= moved(run, tensor) - elements * table.bytes_of(name) < 1


def test_energy_of_a_product_falls_with_the_format() -> None:
    """On the chip. Codes cost more all in all: the host that makes them idles at many watts while it does."""
    order = ["fp32", "tf32", "fp16", "int8", "int4", "int1"]
    runs = [compiled(gemm(64, 256, 256), MIXED, dtype).run() for dtype in order]
    on_chip = [
        fsum(row.energy_J for row in energy_table(run) if row.component in ("matrix", "vector", *run.chip.buffers))
        for run in runs
    ]
    assert on_chip == sorted(on_chip, reverse=True) and len(set(on_chip)) == len(order)
    total = [energy(run) for run in runs]
    assert total[:3] == sorted(total[:3], reverse=True)
    assert total[3:] == sorted(total[3:], reverse=True)


@settings(QUICK, max_examples=25)
@given(
    st.sampled_from(["fp16", "int8", "int4", "fp32"]),
    st.integers(1, 6),
    st.integers(1, 80),
    st.integers(1, 70),
    st.integers(1, 70),
)
def test_a_faster_format_never_takes_longer(dtype: str, less: int, m: int, n: int, k: int) -> None:
    """Time never rises when the clocks of a row fall, the mapping kept; re-mapped by one per cent at the most."""
    assert MIXED.matrix is not None
    formats = MIXED.matrix.formats
    rate = formats[dtype].cycles_per_row
    quick = formats[dtype].model_copy(update={"cycles_per_row": max(1, rate - less)})
    slow = compiled(gemm(m, n, k), small(), dtype)
    faster = changed(small(), "matrix", formats={**formats, dtype: quick})
    before = slow.run().time_fs
    (step,) = [step for step in slow.program.steps if step.mapping is not None]
    kept = compiled(gemm(m, n, k), faster, dtype, pinned={step.name: vars(step.mapping)})
    assert kept.run().time_fs <= before
    assert compiled(gemm(m, n, k), faster, dtype).run().time_fs <= 1.01 * before


@pytest.mark.parametrize(("dtype", "share"), [("fp16", 9 / 16), ("bf16", 9 / 16), ("int8", 5 / 8), ("int4", 3 / 4)])
def test_sparse_weights_take_the_published_share_of_bytes(dtype: str, share: float) -> None:
    """Half of the values and 2 bits of position for each (Mishra et al., arXiv:2104.08378)."""
    dense, sparse = (compiled(gemm(), MIXED, dtype, sparsity=text).run() for text in ("", "2:4"))
    assert moved(sparse, "b") == share * moved(dense, "b")
    assert moved(sparse, "a") == moved(dense, "a")
    assert macs(dense) == 24 * 40 * 64 and count(dense, SKIPPED) == 0
    assert macs(sparse) == count(sparse, SKIPPED) == macs(dense) // 2


def array_clocks(run: Run) -> int:
    return sum(
        command.work.n * command.work.rows * command.work.cycles_per_row
        for command in run.program.commands
        if isinstance(command.work, Folds)
    )


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_sparse_unit_needs_fewer_clocks_and_a_plain_one_just_as_many(dtype: str) -> None:
    assert MIXED.matrix is not None
    has_it = MIXED.matrix.formats[dtype].sparse is not None
    cases = [compiled(gemm(16, 40, 96), small(), dtype, sparsity=text) for text in ("", "2:4")]
    dense, sparse = (case.run() for case in cases)
    if has_it:
        assert array_clocks(sparse) < array_clocks(dense)
        assert sparse.time_fs < dense.time_fs
        assert energy(sparse) < energy(dense)
    else:
        assert sparse.slices == dense.slices
        assert [(row.action, row.count) for row in sparse.ledger] == [(row.action, row.count) for row in dense.ledger]
        assert any("like any other" in note for note in cases[1].program.notes)


@pytest.mark.parametrize(("k", "text"), [(30, "2:4"), (6, "2:4"), (64, "3:5"), (1, "1:2")])
def test_a_reduction_that_is_no_whole_number_of_groups_stays_dense(k: int, text: str) -> None:
    dense, sparse = (compiled(gemm(8, 8, k), MIXED, "int8", sparsity=each) for each in ("", text))
    assert sparse.run().slices == dense.run().slices
    (note,) = [note for note in sparse.program.notes if note.startswith("sparsify")]
    assert "dense" in note and "y" in note
    weights = [tensor for tensor in sparse.program.graph.constants() if tensor.sparse]
    assert not weights


@settings(QUICK, max_examples=60)
@given(
    st.sampled_from([(2, 4), (1, 4), (1, 2), (3, 4), (4, 8)]), st.sampled_from(["fp16", "int8", "int4"]),
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 10), st.booleans(), st.data(),
)  # fmt: skip
def test_the_estimate_of_a_sparse_step_is_never_above_the_machine(
    sparse: tuple[int, int], dtype: str, m: int, n: int, groups: int, tight: bool, data: st.DataObject
) -> None:
    """Whatever the mapping; all laws of the machine hold, and the weights move at least once."""
    assert MIXED.matrix is not None
    mac = MIXED.matrix.formats[dtype].model_copy(update={"sparse": Sparse(n=sparse[0], m=sparse[1])})
    chip = changed(small(), "matrix", formats={**MIXED.matrix.formats, dtype: mac})
    if tight:
        chip = changed(chip, "weight_sram", capacity=4096)
    g = gemm(m, n, 8 * groups)
    pins = {name: data.draw(st.integers(1, 40)) for name in ("tm", "tn", "tk") if data.draw(st.booleans(), name)}
    options = {"sparsity": "{}:{}".format(*sparse), "layers": {"y": dtype}}
    try:
        case = compiled(g, chip, "fp32", pinned={"y": pins}, **options)
    except Infeasible:
        case = compiled(g, chip, "fp32", **options)
    if len(case.program.steps) == 1:
        assert choice_of(case).clocks <= clocks(case) + ROUNDING
    run = case.run("exact")
    whole = case.program.graph.tensors["b"]
    assert whole.sparse == sparse
    assert moved(run, "b") >= whole.nbytes
    assert macs(run) + count(run, SKIPPED) == m * n * 8 * groups
    np.testing.assert_array_equal(run.outputs["y"].shape, (m, n))


def gated(chip: Chip) -> Chip:
    return changed(chip, "matrix", zero_gating=True)


def mac_energy(run: Run) -> float:
    return fsum(row.energy_J for row in energy_table(run) if row.action.kind == MAC)


@settings(QUICK, max_examples=30)
@given(networks())
def test_gating_changes_nothing_but_the_energy_of_macs(network: Any) -> None:
    """Same timeline, same ledger; at most the energy without it, which is what a run without values says."""
    graph, chip, options = network
    plain, gate = compiled(graph, chip, **options), compiled(graph, gated(chip), **options)
    with np.errstate(all="ignore"):
        dense, exact, fast = plain.run("exact"), gate.run("exact"), gate.run("fast")
    blind = gate.run()
    for other in (exact, fast, blind):
        assert (other.slices, other.ledger) == (dense.slices, dense.ledger)
    assert dense.nonzero_macs == blind.nonzero_macs == {}
    assert energy(blind) == energy(dense)
    assert mac_energy(exact) <= mac_energy(dense) and mac_energy(fast) <= mac_energy(dense)
    assert energy(dense) - energy(exact) == pytest.approx(mac_energy(dense) - mac_energy(exact), abs=1e-18)
    for op, nonzero in exact.nonzero_macs.items():
        done = sum(
            row.count for row in exact.ledger
            if row.op == op and is_done(row.action)
        )  # fmt: skip
        assert 0 <= nonzero <= done


@settings(QUICK, max_examples=30)
@given(
    st.sampled_from(["fp16", "fp32", "int8", "int4", "tf32"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 99),
    st.sampled_from(["", "2:4"]),
)
def test_the_energy_of_gated_macs_is_that_of_the_products_without_zeros(
    dtype: str, of_a: float, of_b: float, seed: int, sparsity: str
) -> None:
    """count x energy x share of products that are not zero; tile by tile as layer by layer."""
    rng = np.random.default_rng(seed)
    a, b = (rng.choice([-1.0, 1.0], shape).astype(np.float32) for shape in ((10, 16), (16, 12)))
    a, b = a * (rng.random(a.shape) < of_a), b * (rng.random(b.shape) < of_b)
    graph = gemm(10, 12, 16)
    graph.tensors["b"].data = b.astype(np.float32)
    case = compiled(graph, gated(small(4, 4)), dtype, ranges_from={"a": np.ones_like(a)}, sparsity=sparsity)
    case.feeds["a"] = a.astype(np.float32)
    weights = case.program.graph.tensors["b"].value()
    nonzero = int(np.count_nonzero(a[:, :, None] * weights[None].astype(np.float64)))
    price = float(MIXED.energy.mac[dtype])
    for policy in ("exact", "fast"):
        run = case.run(policy)
        assert list(run.nonzero_macs.values()) == [nonzero]
        assert mac_energy(run) == pytest.approx(nonzero * price, rel=1e-9, abs=1e-30)
