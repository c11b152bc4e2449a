"""The search: it keeps pins, says why nothing fits, and is as good as trying everything."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.systolic import placing
from accelsim.errors import Infeasible
from accelsim.machine.simulate import simulate
from accelsim.program.mapping import ORDERS
from accelsim.program.program import Program
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from tests.helpers.pass_graphs import Graphs, chip


def product(M: int = 24, N: int = 20, K: int = 16) -> Graph:
    g = Graphs()
    return g.finish(g.matmul(g.input("x", (M, K)), g.weight("w", (K, N)), "y"))


def sized(**capacities: int) -> Chip:
    base = chip("edu-4x4")
    buffers = dict(base.buffers)
    for name, capacity in capacities.items():
        buffers[name] = buffers[name].model_copy(update={"capacity": capacity})
    return base.with_core(memories=buffers)


def compiled(on: Chip, graph: Graph | None = None, **pinned: Any) -> Program:
    return compile(graph or product(), on, Options(dtype="fp32", pinned={"y": pinned} if pinned else {}))


NEAR = 1.06
"""For a step alone: the search also counts for how long others are kept waiting, of whom there are none here."""

PINS: list[dict[str, Any]] = [
    {"order": "mkn"}, {"tm": 5}, {"tn": 3, "tk": 7}, {"a_resident": False}, {"a_resident": False, "a_whole_k": True},
    {"y_resident": True}, {"reuse": False}, {"w_slots": 3}, {"a_slots": 1, "a_resident": False}, {"y_slots": 3},
]  # fmt: skip


@pytest.mark.parametrize("pinned", PINS, ids=str)
def test_pins_are_kept_and_the_rest_is_chosen(pinned: dict[str, Any]) -> None:
    mapping = compiled(sized(), **pinned).steps[0].mapping
    assert {name: getattr(mapping, name) for name in pinned} == pinned


def test_a_pinned_tile_beyond_the_product_is_the_whole() -> None:
    mapping = compiled(sized(), tm=10**6, tn=10**6, tk=10**6).steps[0].mapping
    assert mapping is not None
    assert (mapping.tm, mapping.tn, mapping.tk) == (24, 20, 16)


def test_what_does_not_fit_is_said_as_data() -> None:
    with pytest.raises(Infeasible) as caught:
        compiled(sized(accumulators=8), tn=4)
    assert (caught.value.op, caught.value.buffer, caught.value.available_B) == ("y", "accumulators", 8)
    assert caught.value.needed_B == 16


@pytest.mark.parametrize("graph", [product(), product(M=240, N=200, K=161)], ids=["small", "large"])
def test_tiles_below_the_array_where_none_of_it_fits(graph: Graph) -> None:
    """A row of 4 sums of fp32 takes 16 B; however many tilings there are, those of fewer columns are found."""
    mapping = compiled(sized(accumulators=8), graph).steps[0].mapping
    assert mapping is not None
    assert mapping.tm * mapping.tn * mapping.y_slots <= 2


def test_pins_that_exclude_each_other_are_said_as_such() -> None:
    """Four open sums in three slots: no buffer is too small, the pins are."""
    with pytest.raises(Infeasible, match=r"no mapping of this chip has all pinned fields \(tile order=nkm"):
        compiled(sized(), order="nkm", tm=6, tk=4, y_slots=3)


def test_more_row_tiles_than_any_search_tries_are_said() -> None:
    chip = load_chip("edu-4x4", ["accumulators.capacity=256 B"])
    with pytest.raises(Infeasible, match="no tiling of 1,048,576 tiles or fewer along M fits the buffers"):
        compile(load_model(f"gemm?M={1 << 28},N=1,K=1"), chip, Options(values="off"))


@pytest.mark.parametrize(("more", "told"), [(0, "accumulators"), (1, "no tiling of 1,048,576 tiles or fewer")])
def test_as_many_row_tiles_as_a_search_tries_are_not_too_many(more: int, told: str) -> None:
    """What is missing then is room for four sums."""
    with pytest.raises(Infeasible, match=told):
        compiled(sized(accumulators=8), product((1 << 20) + more, 4, 1), tn=4)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("resident", [True, False])
def test_commands_are_counted_before_they_are_written(order: str, resident: bool) -> None:
    """Loads of streamed operands, products, and what takes the results out, of tiles that divide no side."""
    pins = {"tm": 7, "tn": 6, "tk": 5, "order": order, "a_resident": resident, "a_whole_k": False}
    with mock.patch.object(placing, "check_matrix", wraps=placing.check_matrix) as checked:
        program = compiled(sized(accumulators=4096), **pins)
    _, _, commands, before = checked.call_args.args
    own = [command for command in program.commands[before:] if command.op == 0]
    assert commands == len(own) - resident > 4 * 4 * 4  # a whole operand is one load


@pytest.mark.parametrize(("capacity", "slots"), [(2 * 6 * 4 * 4, 2), (2 * 6 * 4 * 4 - 4, 1)])
def test_sums_have_two_slots_where_both_just_fit(capacity: int, slots: int) -> None:
    mapping = compiled(sized(accumulators=capacity), tm=6, tn=4, tk=16).steps[0].mapping
    assert mapping is not None and mapping.y_slots == slots


def test_a_pooling_behind_a_product_needs_whole_images() -> None:
    g = Graphs()
    graph = g.finish(g.max_pool(g.conv(g.input("x", (2, 2, 4, 4)), 3, 1, "c"), 2, "pooled"))
    with pytest.raises(Infeasible, match="tm 8 is no multiple of 16, the positions of an image"):
        compile(graph, sized(), Options(dtype="fp32", pinned={"c": {"tm": 8}}))
    program = compile(graph, sized(), Options(dtype="fp32", pinned={"c": {"tm": 16}}))
    assert program.steps[0].label == "Conv+Bias+MaxPool"


def test_the_choice_is_close_to_the_best_of_all_tilings() -> None:
    """The machine's time of the chosen mapping against that of several hundred pinned ones."""
    best = min(
        simulate(compiled(sized(), order=order, tm=tm, tn=tn, tk=tk, a_resident=resident)).time_fs
        for order, tm, tn, tk in itertools.product(ORDERS, (6, 12, 24), (4, 12, 20), (4, 8, 16))
        for resident in (True, False)
    )  # fmt: skip
    assert simulate(compiled(sized())).time_fs <= NEAR * best


@pytest.mark.parametrize("capacity", [600, 1200, 2400, 65536])
def test_every_size_of_the_activation_buffer_works(capacity: int) -> None:
    """What does not fit is streamed; the traffic never grows with the buffer."""
    run = simulate(compiled(sized(act_sram=capacity)))
    assert run.time_fs > 0
    resident = run.program.steps[0].mapping
    assert resident is not None
    assert resident.a_resident == (capacity > 24 * 16 * 4) or not resident.a_resident


def test_steps_that_are_alike_are_mapped_alike() -> None:
    g = Graphs()
    x = g.input("x", (24, 16))
    for index in range(5):
        x = g.matmul(x, g.weight(f"w{index}", (16, 16)), f"y{index}")
    steps = compile(g.finish(x), sized(), Options(dtype="fp32")).steps
    assert steps[1].mapping == steps[2].mapping == steps[3].mapping is not None
    assert steps[1].mapping != steps[4].mapping  # its result leaves the chip
