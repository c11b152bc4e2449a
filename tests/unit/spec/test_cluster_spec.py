"""Cluster specs: names with numbers, overrides, and what is wrong told at once, with line and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accelsim.errors import Problem, SpecError
from accelsim.spec.cluster import OPTIONAL, SHAPES, ClusterSpec, Fabric
from accelsim.spec.counts import MOST_DEVICES
from accelsim.spec.yaml.clusters import clusters, is_cluster, listed, load_cluster, resolve_cluster
from accelsim.spec.yaml.load import check, show

Write = Callable[..., Path]
KIND = "clusters"
TAIL = "source: a test\nas_of: 2026-11\n"
GOOD = f"""\
name: mine
title: Mine
nodes:
  node:
    count: 2
    devices:
      gpu: {{chip: edu-4x4, count: 4}}
    fabrics:
      inner: {{shape: ring, link: links/edu-link}}
    nics: {{count: 2, pcie: links/pcie-gen4-x16}}
networks:
  outer: {{shape: switch, link: links/roce-100g}}
{TAIL}"""


def told(file: Path, *overrides: str) -> list[Problem]:
    with pytest.raises(SpecError) as error:
        load_cluster(file, overrides)
    return list(error.value.problems)


def test_a_number_before_a_name_counts_nodes_or_devices() -> None:
    assert load_cluster("dgx-a100").size == 8
    assert load_cluster("128x-dgx-a100").nodes["node"].count == 128
    assert load_cluster("128x-dgx-a100").name == "128x-dgx-a100"
    pod = load_cluster("16x-tpu-v4-pod").nodes["pod"]
    assert (pod.size, pod.fabrics["ici"].dims) == (16, [2, 2, 4])


def test_fewer_devices_keep_their_share_of_what_a_node_draws() -> None:
    whole, one = (load_cluster(name).nodes["node"] for name in ("dgx-a100", "dgx-a100?devices=1"))
    assert whole.power is not None and one.power is not None
    assert one.power.idle == whole.power.idle / 8 and one.power.supply == whole.power.supply < 1


def test_another_number_takes_the_place_of_one_in_the_name() -> None:
    assert load_cluster("4x-edu").size == 4
    assert load_cluster("8x-edu").size == 8
    assert is_cluster("8x-edu") and resolve_cluster("4x-edu").many is None


@pytest.mark.parametrize("name", ["dgx-a100", "3x-dgx-a100", "6x-edu"])
def test_names_of_clusters(name: str) -> None:
    assert is_cluster(name)


@pytest.mark.parametrize(
    "name", ["edu-4x4", "a100-40-sxm", "0x-dgx-a100", "x-edu", "12345678x-edu", "no/such.yaml", ""]
)
def test_names_of_no_cluster(name: str) -> None:
    assert not is_cluster(name)


def test_a_file_is_a_cluster_or_a_chip(write: Write) -> None:
    assert is_cluster(write(GOOD))
    assert not is_cluster(write("name: c\nclock: 1 GHz\n", "chips/c.yaml"))


def test_set_knows_nodes_and_what_is_in_them() -> None:
    assert load_cluster("dgx-a100", ["nodes=16"]).size == 128
    assert load_cluster("4x-edu", ["chip.count=6", "chip.chip=tpu-v1"]).nodes["node"].devices["chip"].chip == "tpu-v1"
    wide = load_cluster("16x-dgx-a100", ["infiniband.oversubscription=3", "infiniband.link=links/infiniband-ndr"])
    assert wide.networks["infiniband"].oversubscription == 3
    quick = load_cluster("4x-edu", ["node.link.link.bandwidth=1 GB/s"]).nodes["node"].fabrics["link"].link
    assert quick.bandwidth == 10**9


@pytest.mark.parametrize(
    ("name", "nodes", "devices", "cards"),
    [
        ("dgx-h100?devices=2", 1, 2, 2),
        ("dgx-h100?nodes=4,devices=2", 4, 2, 2),
        ("3x-dgx-h100?devices=4", 3, 4, 4),
        ("p4d-cluster?nodes=2,devices=4", 2, 4, 2),
        ("4x-edu?devices=6", 1, 6, 0),
        ("8x-t4-pcie?devices=2", 1, 2, 0),  # one switch below one root complex
    ],
)
def test_numbers_behind_the_name(name: str, nodes: int, devices: int, cards: int) -> None:
    """Fewer devices of a node keep their share of its network cards, rounded up."""
    assert is_cluster(name)
    made = load_cluster(name)
    (node,) = made.nodes.values()
    assert (made.name, node.count, node.size) == (name, nodes, devices)
    assert (node.nics.count if node.nics else 0) == cards


def test_wrong_numbers_behind_the_name_are_told_at_once() -> None:
    with pytest.raises(SpecError) as told:
        load_cluster("dgx-h100?node=2,devices=0,devices=x,nodes=2,nodes=3")
    assert [problem.what for problem in told.value.problems] == [
        "a cluster has no 'node'", "devices=0", "devices=x", "nodes is given twice",
    ]  # fmt: skip
    assert listed("edu-4x4,dgx-h100?nodes=2,devices=1,4x-edu") == ["edu-4x4", "dgx-h100?nodes=2,devices=1", "4x-edu"]


def test_several_kinds_of_nodes_are_counted_one_by_one() -> None:
    assert load_cluster("edge-and-cloud", ["edge.count=3"]).size == 7
    with pytest.raises(SpecError, match=r"3x: the cluster has 2 kinds of nodes.*--set NODE.count"):
        load_cluster("3x-edge-and-cloud")
    with pytest.raises(SpecError, match=r"may mean nodes.edge.count or nodes.cloud.count"):
        load_cluster("edge-and-cloud", ["nodes=3"])


@pytest.mark.parametrize("name", clusters())
def test_a_cluster_that_is_shown_reads_back_the_same(name: str, tmp_path: Path) -> None:
    cluster = load_cluster(name)
    copy = tmp_path / "copy.yaml"
    copy.write_text(show(cluster), encoding="utf-8")
    assert load_cluster(copy) == cluster
    assert ClusterSpec.model_validate(cluster.model_dump(mode="json")) == cluster


def test_no_such_cluster_names_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"no cluster 'dgx-a10'.*did you mean 'dgx-a100'"):
        load_cluster("dgx-a10")
    with pytest.raises(SpecError, match=r"no spec file 'here/mine.yaml'"):
        load_cluster("here/mine.yaml")


WRONG: list[tuple[str, str, int, int, str, str]] = [
    ("chip: edu-4x4", "chip: edu-4x5", 7, 19, "no chip 'edu-4x5'", "edu-4x4"),
    ("shape: ring", "shape: rung", 9, 22, "'rung' is not one of the choices", "ring"),
    ("shape: ring", "shape: torus, dims: [3, 2]", 9, 35, "3 x 2 are 6 places for 4 devices; expected 4", ""),
    ("shape: ring", "shape: torus, dims: [2, 2], along: [links/edu-link]", 9, 50, "1 link for 2 dimensions", ""),
    ("shape: ring", "shape: torus", 9, 14, "a torus without dims", ""),
    ("shape: ring", "shape: ring, dims: [4]", 9, 34, "a ring has no dims", ""),
    ("shape: ring", "shape: hybrid-cube-mesh", 9, 22, "4 ends in a hybrid cube mesh; expected 8", ""),
    ("links/edu-link}", "links/edu-lonk}", 9, 34, "no spec file 'links/edu-lonk'", "links/edu-link"),
    ("links/edu-link}", "links/nvlink-gen3}", 9, 14, "2 wires of all of the 12 links that a device has; expected 6", ""),
    ("shape: ring, link", "shape: fully-connected, links: 5, link", 9, 46, "3 wires of 5 of the 12 links", ""),
    ("shape: ring", "shape: list, wires: [{ends: [gpu0, gpu1]}, {ends: [gpu1, gpu2]}, {ends: [gpu2, gpu9]}]", 9, 94, "no device or switch 'gpu9'", "gpu3"),
    ("shape: switch", "shape: leaf-spine, members: 2, oversubscription: 0.5", 12, 60, "1 or more", ""),
    ("count: 2, pcie", "count: 3, pcie", 10, 19, "3 cards for 4 devices", ""),
    ("count: 2, pcie: links/pcie-gen4-x16", "count: 2", 10, 11, "devices share a card, and nothing leads to it", ""),
    ("    count: 2\n", "    count: 2\n    network: outre\n", 6, 14, "no network 'outre'", "outer"),
    ("    count: 2\n", "    count: 60000\n", 4, 3, "240,000 devices", ""),
    ("      gpu:", "      gpu1:", 7, 13, "'gpu1' ends in a digit", ""),
    ("networks:", "speeds: {node0.gpu7: 0.5}\nnetworks:", 11, 22, "no device 'node0.gpu7'", "node0.gpu3"),
    ("networks:", "wide_area: {shape: ring, link: links/wan-1g}\nnetworks:", 11, 12, "it joins 1 network", ""),
    ("  outer:", "  other: {shape: ring, link: links/wan-1g}\n  outer:", 5, 5, "there are several networks", ""),
    ("as_of: 2026-11\n", "", 1, 1, "as_of: missing", ""),
    ("count: 4}", "cuont: 4}", 7, 28, "cuont: unknown key", "count"),
    ("      gpu: {", "      gpu: {chip: t4}\n      gpu: {", 8, 7, "key given twice", ""),
    ("link: links/roce-100g", "link: {use: links/roce-100g, duplex: half}", 12, 63, "half duplex", ""),
]  # fmt: skip
"""Text of ``GOOD`` -> what stands there instead, line and column of the problem, what is said, the nearest."""


@pytest.mark.parametrize(("old", "new", "line", "column", "said", "near"), WRONG, ids=[row[4][:40] for row in WRONG])
def test_what_is_wrong_is_told_where_it_stands(
    old: str, new: str, line: int, column: int, said: str, near: str, write: Write
) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    if "12 links" in said and "nvlink" not in text:
        text = text.replace("links/edu-link", "links/nvlink-gen3")
    file = write(text)
    found = [problem for problem in told(file) if said in str(problem)]
    assert found, told(file)
    assert (found[0].where, found[0].nearest) == (f"{file}:{line}:{column}", near)
    assert all(len(str(problem)) < 1500 for problem in told(file))


def test_all_that_is_wrong_is_told_at_once(write: Write) -> None:
    file = write(
        GOOD.replace("edu-4x4", "edu-5x5")
        .replace("count: 2, pcie", "count: 3, pcie")
        .replace("outer: {shape: switch", "outer: {dims: [2], shape: switch")
    )
    assert len(check(file)) == 3
    assert [str(problem) for problem in told(file)] == [str(problem) for problem in check(file)]


APART: list[tuple[str, str, tuple[str, str]]] = [
    (GOOD.partition("networks:")[0].replace("    nics", "    #") + TAIL, "networks:", ("node0.gpu0", "node1.gpu0")),
    (GOOD.replace("count: 2\n", "count: 1\n").replace("ring", "pairs"), "a fabric", ("node0.gpu0", "node0.gpu2")),
    (GOOD.replace("count: 2\n", "count: 1\n").replace("shape: ring", "shape: list, wires: [{ends: [gpu1, gpu2]}]"), "a fabric", ("node0.gpu1", "node0.gpu0")),
    (GOOD.replace("networks:", "  far: {network: b, devices: {chip: {chip: edu-4x4}}}\nnetworks:\n  b: {shape: switch, link: links/roce-100g}")
     .replace("    count: 2", "    network: outer"), "wide_area:", ("node0.gpu0", "far0.chip0")),
]  # fmt: skip
"""A cluster in two parts, what would join them, devices that do not reach each other."""


@pytest.mark.parametrize(("text", "expected", "ends"), APART, ids=["no network", "pairs", "list", "no wide area"])
def test_two_devices_that_cannot_reach_each_other_are_named(
    text: str, expected: str, ends: tuple[str, str], write: Write
) -> None:
    found = told(write(text))
    assert f"no way leads from {ends[0]} to {ends[1]}" in found[0].what
    assert expected in found[0].expected


def test_the_largest_cluster(write: Write) -> None:
    file = write(GOOD)
    assert load_cluster(file, [f"nodes={MOST_DEVICES // 4}"]).size == MOST_DEVICES
    assert "131,072 at the most" in told(file, f"nodes={MOST_DEVICES // 4 + 1}")[0].expected


def test_fields_of_shapes_are_fields_of_a_fabric() -> None:
    assert set(OPTIONAL) <= set(Fabric.model_fields)
    assert all(set(shape.needs) <= set(shape.takes) for shape in SHAPES.values())
    always = {"shape", "link", "source", "as_of", "note"}
    assert set(Fabric.model_fields) == always | set(OPTIONAL)


def test_a_stated_bandwidth_yields_to_packets_that_are_set(write: Write) -> None:
    """Also in the link of a listed wire; a file that contradicts itself is wrong."""
    file = write(GOOD.replace("shape: ring", "shape: list, wires: [{ends: [gpu0, gpu1], link: links/roce-100g}]"))
    wires = "nodes.node.fabrics.inner.wires.0.link.packets.rate=25 Gbit/s"
    made = load_cluster(file, ["networks.outer.link.packets.rate=50 Gbit/s", wires])
    joins = made.nodes["node"].fabrics["inner"].wires
    assert joins is not None and joins[0].link is not None
    assert [made.networks["outer"].link.bandwidth / 2, joins[0].link.bandwidth] == pytest.approx(
        [3.064e9] * 2, rel=1e-3
    )
    wrong = write(GOOD.replace("links/roce-100g}", "{use: links/roce-100g, bandwidth: 9 GB/s}}"))
    assert "stated 9 GB/s contradicts the packets" in told(wrong)[0].what
