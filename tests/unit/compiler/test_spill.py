"""Who makes room in a full buffer, by hand: tensors of known sizes in the activation buffer of edu-4x4."""

from __future__ import annotations

import pytest

from accelsim.engines.registry import sequential
from accelsim.program.roles import Roles
from accelsim.program.writing.builder import Builder
from accelsim.program.writing.layout import Layout
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph, Node, Tensor

SHAPES = {"d": (8,), "b": (4, 2), "c": (2, 8), "a": (2, 4), "e": (3,)}
"""In fp32, 4 B per element: c has 64 B, a, b and d have 32 B each, e has 12 B; together 172 B."""


def layout(order: str) -> Layout:
    """All tensors are in a buffer of 172 B, brought there in this order."""
    tensors = {name: Tensor(name, shape) for name, shape in SHAPES.items()}
    made = {f"{name}.out": Tensor(f"{name}.out", shape) for name, shape in SHAPES.items()}
    nodes = [Node(name, "Relu", [name], [f"{name}.out"]) for name in SHAPES]
    graph = Graph("by hand", nodes, tensors | made, list(tensors), list(made))
    roles = Roles(load_chip("edu-4x4", ["act_sram.capacity=172 B"]))
    found = Layout(graph, roles, Builder({"dma_in": "dma", "dma_out": "dma"}, sequential({"dma"})))
    for name in order:
        assert found.load_whole(0, name)
    assert not found.load_whole(0, "a.out")
    return found


def gone(found: Layout, keep: list[str]) -> str:
    """The tensor that leaves, '' for none."""
    before = {name for name, place in found.places.items() if place.chip is not None}
    assert found.spill(0, keep) is (len(before - set(keep)) > 0)
    return "".join(name for name in sorted(before) if found.places[name].chip is None)


@pytest.mark.parametrize("order", ["dbcae", "abcde", "ecdba"])
def test_the_largest_goes_first_and_of_equals_the_first_by_name(order: str) -> None:
    found = layout(order)
    assert [gone(found, []) for _ in range(6)] == ["c", "a", "b", "d", "e", ""]
    assert found.spills == 5


@pytest.mark.parametrize("order", ["dbcae", "abcde", "ecdba"])
def test_what_is_kept_stays_and_can_go_later(order: str) -> None:
    found = layout(order)
    assert [gone(found, ["c", "a"]) for _ in range(4)] == ["b", "d", "e", ""]
    assert gone(found, ["c"]) == "a"
    assert gone(found, ["e", "nothing of that name"]) == "c"


def test_what_has_a_home_is_given_up_and_what_has_none_is_stored_first() -> None:
    """A graph input is still in the memory; a tensor that was made on the chip is nowhere else."""
    found = layout("dbcae")
    loads = len(found.builder.commands)
    found.spill(0, [])
    assert len(found.builder.commands) == loads == len(SHAPES)
    found.places["a"].home = None
    found.spill(0, [])
    (store,) = found.builder.commands[loads:]
    assert (store.kind, store.work) == ("Store", ("dram", 32, True, 0, 1))
    assert found.places["a"].chip is None and found.places["a"].home is not None
    assert found.reserve("a.out")
