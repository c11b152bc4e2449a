"""How many nodes a network has, and how many are too many."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.network.noc.topology import named
from accelsim.spec.network import MOST_NODES, Noc
from accelsim.spec.yaml.parts import load_part
from tests.helpers.effort import at_once

LARGEST = [("ring", 1024), ("mesh", 32, 32), ("torus", 1024, 1), ("tree", 2, 10), ("fat-tree", 4, 5), ("tree", 1, 9)]
TOO_LARGE = [
    ("bus", 1025), ("crossbar", 2**16), ("mesh", 2**16, 2**16), ("mesh", 33, 32), ("torus", 1025, 1),
    ("tree", 2, 40), ("fat-tree", 2, 11), ("tree", 1, 2**16), ("tree", 2**16, 2**16),
]  # fmt: skip


def spec(topology: str, *shape: int) -> Noc:
    example = load_part("mesh-4x4", "networks", Noc).model_dump(mode="json")
    return Noc.model_validate({**example, "topology": topology, "shape": list(shape)})


@pytest.mark.parametrize("network", LARGEST, ids=str)
def test_nodes_are_those_of_the_network_that_is_built(network: tuple[str, int]) -> None:
    assert spec(*network).nodes == named(*network).nodes <= MOST_NODES


@pytest.mark.parametrize("network", TOO_LARGE, ids=str)
def test_a_network_that_is_too_large(network: tuple[str, int]) -> None:
    with at_once():
        result = CliRunner().invoke(main, ["noc", *map(str, network)])
    assert result.exit_code == 2, result.output
    topology, *shape = network
    assert f"a {topology} of shape {shape} is too large; expected 1,024 nodes or fewer" in result.stderr
