"""One buffer for several roles: tiles of all of them are counted together, and values are right."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from accelsim.compiler.numbers.ranges import synthetic
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import Infeasible, SpecError
from accelsim.machine.check import check
from accelsim.machine.lifetimes import occupancy
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload import execute
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs, chip

ALL = ("activations", "weights", "partial_sums")
SHARED = [ALL, ("activations", "weights"), ("activations", "partial_sums"), ("weights", "partial_sums")]


def sharing(base: Chip, roles: tuple[str, ...], capacity_B: int | None = None, **fields: Any) -> Chip:
    """The chip with one buffer, 'global', for these roles: as large as theirs together, or as told."""
    theirs = [buffer for buffer in base.buffers.values() if set(buffer.holds) <= set(roles)]
    others = {name: buffer for name, buffer in base.buffers.items() if buffer not in theirs}
    size_B = sum(buffer.capacity for buffer in theirs) if capacity_B is None else capacity_B
    fields = {"holds": list(roles), "capacity": size_B, **fields}
    buffers = {"global": theirs[0].model_copy(update=fields), **others}
    return base.with_core(memories=buffers)


def network() -> Graph:
    """Convolutions with a residual, a pooling, two classifiers: streamed and resident operands, sides, parameters."""
    g = Graphs()
    x = g.input("x", (2, 3, 6, 6))
    y = g.op("Relu", [g.conv(x, 6, 3, "c1", pad=1)], "r1")
    y = g.op("Relu", [g.op("Add", [g.conv(y, 6, 3, "c2", pad=1), y], "sum")], "r2")
    y = g.op("Flatten", [g.max_pool(y, 2, "pool")], "flat", axis=1)
    return g.finish(g.dense(g.dense(y, 20, "fc1", relu=True), 10, "fc2"))


def product(M: int = 24, N: int = 20, K: int = 16) -> Graph:
    g = Graphs()
    return g.finish(g.matmul(g.input("x", (M, K)), g.weight("w", (K, N)), "y"))


def fullest(run: Run) -> dict[str, int]:
    return {name: max(held_B for _, held_B in points) for name, points in occupancy(run).items()}


@pytest.mark.parametrize("capacity_B", [2600, 6000, 1 << 16])
@pytest.mark.parametrize("roles", SHARED, ids="+".join)
def test_values_are_those_of_the_reference(roles: tuple[str, ...], capacity_B: int) -> None:
    """From a buffer in which everything is streamed in tiles of a few bytes to one in which everything fits."""
    on = sharing(chip("edu-4x4"), roles, capacity_B)
    program = compile(network(), on, Options(dtype="fp32"))
    feeds = synthetic(program.graph, 1)
    run = simulate(program, feeds, "exact")
    check(run, thorough=True)
    for name, values in execute.run(program.graph, feeds).items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(run.outputs[name] / scale, values / scale, atol=1e-5)
    assert 0 < fullest(run)["global"] <= capacity_B


@pytest.mark.parametrize("roles", SHARED, ids="+".join)
def test_codes_are_those_of_the_reference_to_the_last_bit(roles: tuple[str, ...]) -> None:
    program = compile(network(), sharing(chip("edu-4x4"), roles, 2500), Options(dtype="int8"))
    feeds = synthetic(program.graph, 1)
    run = simulate(program, feeds, "exact")
    for name, values in execute.run(program.graph, feeds).items():
        np.testing.assert_array_equal(run.outputs[name], values)


def images(width: int) -> Graph:
    g = Graphs()
    return g.finish(g.conv(g.input("x", (1, 2, 3, width)), 5, 3, "y", pad=1))


@pytest.mark.parametrize(
    ("graph", "window"),
    [(product(), 1), (product(M=35, N=40, K=31), 1), (images(6), 9), (images(13), 9)],
    ids=["few tilings", "many tilings", "images", "odd images"],
)
@pytest.mark.parametrize("roles", SHARED, ids="+".join)
def test_the_least_that_is_asked_for_is_enough_and_no_byte_too_many(
    roles: tuple[str, ...], graph: Graph, window: int
) -> None:
    """A sum of one term: also where a search has too many tilings for those below the array, and in columns of an image.
    Of fp32 the pixels of a ``window``, two weights, a sum, two results."""
    with pytest.raises(Infeasible) as caught:
        compile(graph, sharing(chip("edu-4x4"), roles, 8), Options(dtype="fp32"))
    error = caught.value
    assert (error.op, error.buffer, error.available_B) == ("y", "global", 8)
    words = {"activations": window + 2, "weights": 2, "partial_sums": 1}
    assert error.needed_B == 4 * sum(words[role] for role in roles)
    assert f"y does not fit: global needs {error.needed_B} B, 8 B are available" in str(error)
    assert f"raise global.capacity by {error.needed_B - 8} B or more" in str(error)
    compile(graph, sharing(chip("edu-4x4"), roles, error.needed_B), Options(dtype="fp32"))
    with pytest.raises(Infeasible):
        compile(graph, sharing(chip("edu-4x4"), roles, error.needed_B - 1), Options(dtype="fp32"))


def test_values_are_right_in_the_least_that_is_enough() -> None:
    """Blocks of one pixel, of 3 x 3 that one filter reads of one channel."""
    program = compile(images(5), sharing(chip("edu-4x4"), ALL, 36 + 8 + 8 + 4), Options(dtype="fp32"))
    feeds = synthetic(program.graph, 1)
    run = simulate(program, feeds, "exact")
    for name, values in execute.run(program.graph, feeds).items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(run.outputs[name] / scale, values / scale, atol=1e-5)
    mapping = program.steps[0].mapping
    assert mapping is not None
    assert (mapping.tm, mapping.tn, mapping.tk, mapping.tq) == (1, 1, 1, 1)
    assert fullest(run)["global"] <= 56


def test_the_error_says_what_takes_the_bytes() -> None:
    """In fp32 one word of activations, two tiles of one weight, one sum, two of results."""
    with pytest.raises(Infeasible, match="activations 4 B \\+ weights 8 B \\+ results 8 B \\+ partial sums 4 B"):
        compile(product(), sharing(chip("edu-4x4"), ALL, 20), Options(dtype="fp32"))


def test_the_error_says_what_pinned_tiles_take() -> None:
    """One row of 4 words, two tiles of 4 x 4 weights, a row of 4 sums, two of results: fp32 on 4 x 4 PEs."""
    with pytest.raises(Infeasible, match="activations 16 B \\+ weights 128 B \\+ results 32 B \\+ partial sums 16 B"):
        pinned = {"y": {"tn": 4, "tk": 4}}
        compile(product(), sharing(chip("edu-4x4"), ALL, 100), Options(dtype="fp32", pinned=pinned))


def test_a_pin_that_asks_too_much_is_named() -> None:
    """24 words of activations, 24 sums, and twice as many results and two weights: 392 B."""
    with pytest.raises(Infeasible, match="by 1 B or more, or do not pin tm"):
        compile(product(), sharing(chip("edu-4x4"), ALL, 391), Options(dtype="fp32", pinned={"y": {"tm": 24}}))


def test_two_small_buffers_are_both_counted() -> None:
    """A tiling that fits one buffer and another that fits the other are no mapping."""
    on = sharing(chip("edu-4x4"), ("activations", "weights"), 190)
    on.buffers["accumulators"] = on.buffers["accumulators"].model_copy(update={"capacity": 12})
    with pytest.raises(Infeasible) as caught:
        compile(product(), on, Options(dtype="fp32", pinned={"y": {"tn": 4, "tk": 4}}))
    assert (caught.value.buffer, caught.value.needed_B, caught.value.available_B) == ("accumulators", 16, 12)


def test_fixed_slots_are_for_one_role() -> None:
    on = sharing(chip("edu-4x4"), ("activations", "weights"), slots=2)
    with pytest.raises(SpecError, match=r"global.slots: fixed slots for activations and weights together"):
        compile(product(), on, Options(dtype="fp32"))


def slots_of(program: Program) -> list[set[tuple[int, int]]]:
    """(first byte, end) of the slots in the shared buffer, per step."""
    found: list[set[tuple[int, int]]] = [set() for _ in program.steps]
    for command in program.commands:
        for use in command.writes:
            region = program.regions[use.region]
            if region.memory == "global" and region.name.rpartition(" ")[0] in ("weights", "sums", "tiles"):
                found[command.op].add((region.offset, region.offset + region.size_B))
    return found


def test_the_tiles_of_a_step_lie_behind_those_of_the_step_before() -> None:
    """So that weights of the next layer can come while the last sums of this one are still taken."""
    g = Graphs()
    x = g.input("x", (4, 16))
    for index in range(3):
        x = g.dense(x, 16, f"fc{index}")
    one, two, three = slots_of(compile(g.finish(x), sharing(chip("edu-4x4"), ALL), Options(dtype="fp32")))
    assert max(end for _, end in one) <= min(start for start, _ in two)
    assert max(end for _, end in two) <= min(start for start, _ in three)


@cache
def alexnet_on(roles: tuple[str, ...]) -> Run:
    """AlexNet on 12 x 14 PEs with 108 KiB: in three buffers, or with these roles in one of the same bytes."""
    base = load_chip("eyeriss-hierarchy")
    on = sharing(base, roles) if roles else base
    assert sum(buffer.capacity for buffer in on.buffers.values()) == 108 * 1024
    return simulate(compile(load_model("alexnet"), on, Options(dtype="int16", values="off", edges="outside")))


def traffic(run: Run) -> Counter[str]:
    """Step -> bytes that it moves between the memory and the chip."""
    moved: Counter[str] = Counter()
    for row in run.ledger:
        if row.component == "dram" and row.action in ("read", "write"):
            moved[run.program.steps[row.op].name] += row.count
    return moved


def test_one_buffer_moves_no_more_than_three_of_the_same_bytes() -> None:
    """Each layer of AlexNet; and where tiles can be larger, the convolutions move less."""
    one, split = traffic(alexnet_on(ALL)), traffic(alexnet_on(()))
    assert all(one[layer] <= split[layer] for layer in split)
    products = [step.name for step in alexnet_on(()).program.steps if step.gemm is not None and step.gemm.conv]
    assert sum(one[layer] for layer in products) < 0.95 * sum(split[layer] for layer in products)


@pytest.mark.parametrize("roles", SHARED, ids="+".join)
def test_alexnet_fits_however_108_KiB_are_shared(roles: tuple[str, ...]) -> None:
    run = alexnet_on(roles)
    assert fullest(run)["global"] <= run.chip.buffers["global"].capacity
    assert run.time_fs <= 1.01 * alexnet_on(()).time_fs


CUTS: dict[str, dict[str, Any]] = {
    "y0": {"order": "mkn", "tm": 24, "tn": 4, "tk": 4, "y_slots": 4},
    "y1": {"order": "nmk", "tm": 24, "tn": 4, "tk": 4, "y_slots": 2},
    "y2": {"order": "nmk", "tm": 24, "tn": 4, "tk": 16, "y_slots": 2},
}
"""Three products with two slots for weights each, and 4, 2 and 2 for sums."""


def slots_of_three_products(on: Chip) -> dict[str, list[tuple[int, int]]]:
    """Buffer -> begin and end of each slot for tiles, in the order in which steps take them."""
    g = Graphs()
    y = g.input("x", (24, 16))
    for name in CUTS:
        y = g.matmul(y, g.weight(f"w_{name}", (16, 16)), name)
    program = compile(g.finish(y), on, Options(dtype="fp32", values="off", pinned=CUTS))
    found: dict[str, list[tuple[int, int]]] = {}
    for region in program.regions:
        if region.memory in on.buffers and region.name not in program.graph.tensors:
            found.setdefault(region.memory, []).append((region.offset, region.offset + region.size_B))
    return found


@pytest.mark.parametrize("roles", [ALL, ("weights", "partial_sums")], ids="+".join)
def test_slots_of_a_step_lie_behind_those_of_the_step_before(roles: tuple[str, ...]) -> None:
    """Where roles share a buffer, so that no step waits until the one before has left; else they begin anew."""
    shared = slots_of_three_products(sharing(chip("edu-4x4"), roles, 1 << 14))["global"]
    tensor_B = 24 * 16 * 4 if "activations" in roles else 0
    assert [begin for begin, _ in shared] == [tensor_B, *(end for _, end in shared[:-1])]
    alone = slots_of_three_products(chip("edu-4x4"))["weight_sram"]
    assert [begin for begin, _ in alone].count(0) == 3


@pytest.mark.parametrize(("capacity_B", "steps"), [(1800, [6, 10]), (3072, [10])])
def test_slots_of_a_step_stay_side_by_side_where_there_is_no_room_behind(capacity_B: int, steps: list[int]) -> None:
    """All of them move to the front, also those that would have fitted; ``steps``: of which the first slot is so."""
    on = sharing(chip("edu-4x4"), ("weights", "partial_sums"), capacity_B)
    found = slots_of_three_products(on)["global"]
    anew = {at: begin for at, ((_, end), (begin, _)) in enumerate(pairwise(found), 1) if begin != end}
    assert anew == dict.fromkeys(steps, 0)
