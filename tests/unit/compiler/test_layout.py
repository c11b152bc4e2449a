"""Who makes room in a full buffer: the largest tensor, of several the first by name, seen against going through all."""

from __future__ import annotations

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.program.writing.layout import Layout
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.sources.load import load_model
from tests.helpers.long_graphs import LONG, SHAPE


def views(count: int) -> Graph:
    """``waiting``, but what is read late is a view of what was made."""
    graph = LONG["waiting"](count)
    made = [node for node in graph.nodes if node.name.startswith("u")]
    for node in graph.nodes:
        if node.op == "Add":
            node.inputs[1] = node.inputs[1].replace("u", "v")
    for node in made:
        view = f"v{node.name[1:]}"
        graph.tensors[view] = Tensor(view, SHAPE)
        graph.nodes.insert(len(made), Node(view, "Reshape", list(node.outputs), [view], {"shape": list(SHAPE)}))
    return graph


GRAPHS = [
    ("waiting", LONG["waiting"](60), "512 B"),
    ("views", views(60), "1 KiB"),
    ("llama", load_model("llama"), "1 KiB"),
    ("llama", load_model("llama"), "2 KiB"),
]


def largest(layout: Layout, kept: set[int]) -> str | None:
    """All tensors in the buffer, one name for each place: that of what was made, not of a view of it."""
    names: dict[int, str] = {}
    for name, place in layout.places.items():
        if place.chip is not None and id(place) not in kept:
            names.setdefault(id(place), name)
    sizes = {name: layout.graph.tensors[name].nbytes for name in names.values()}
    return min(sizes, key=lambda name: (-sizes[name], name), default=None)


@pytest.mark.parametrize(("graph", "capacity"), [pytest.param(*row, id=f"{name}-{row[1]}") for name, *row in GRAPHS])
def test_the_largest_makes_room(monkeypatch: pytest.MonkeyPatch, graph: Graph, capacity: str) -> None:
    asked, find = [], Layout._largest

    def checked(layout: Layout, kept: set[int]) -> str | None:
        expected = largest(layout, kept)
        asked.append((find(layout, kept), expected))
        return asked[-1][0]

    monkeypatch.setattr(Layout, "_largest", checked)
    chip = load_chip("edu-4x4", [f"act_sram.capacity={capacity}"])
    compile(graph, chip, Options(values="off"))
    assert any(found for found, _ in asked)
    assert all(found == expected for found, expected in asked)
