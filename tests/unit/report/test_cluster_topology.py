"""Pictures of clusters: what is drawn of each, what is said to be left out, traffic as width."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.cluster.shapes.building import build
from accelsim.report.cluster.layout import MOST_DRAWN, layout
from accelsim.report.cluster.topology import draw, others_text
from accelsim.spec.yaml.clusters import clusters, load_cluster


@pytest.mark.parametrize("name", [*clusters(), "16x-dgx-a100", "64x-tpu-v4-pod"])
def test_everything_has_a_place_of_its_own_or_is_said_to_be_left_out(name: str) -> None:
    topology = build(load_cluster(name))
    made = layout(topology)
    assert len(set(made.at.values())) == len(made.at)
    if len(made.at) < len(topology.labels):
        assert made.left_out and topology.ranks > MOST_DRAWN
    assert set(range(min(4, topology.ranks))) <= set(made.at)


def test_what_a_picture_says() -> None:
    drawn = draw(build(load_cluster("16x-dgx-a100"))).figure()
    (axes,) = drawn.axes
    texts = [text.get_text() for text in axes.texts]
    assert "768 wires, a direction each; 17 switches and 128 cards; drawn: 2 of 16 nodes" in texts
    assert {"node0", "gpu0", "nic7", "nvlink.switch", "infiniband.leaf0"} <= set(texts)
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "nvlink: 282 GB/s, 750 ns", "pcie: 26.4 GB/s", "infiniband: 24.8 GB/s, 1 us",
    ]  # fmt: skip


def test_traffic_is_the_width_of_lines(tmp_path: Path) -> None:
    topology = build(load_cluster("4x-edu"))
    carried = dict.fromkeys(range(len(topology.wires)), 0) | {0: 4000, 3: 1000}
    picture = draw(topology, carried)
    picture.save(tmp_path / "traffic.png")
    drawn = picture.figure()
    (axes,) = drawn.axes
    lines = [line.get_linewidth() for line in axes.lines if len(line.get_xdata()) == 2]  # type: ignore[arg-type]
    assert sorted(lines) == pytest.approx([0.8, 0.8, 0.8 + 4.2 / 4, 5.0])
    (legend,) = drawn.legends
    assert legend.get_texts()[0].get_text() == "most: 4 kB from node0.chip0 to node0.link.switch"
    assert (tmp_path / "traffic.png").stat().st_size > 1000


def test_traffic_of_nothing() -> None:
    topology = build(load_cluster("4x-edu"))
    (legend,) = draw(topology, [0] * len(topology.wires)).figure().legends
    assert [text.get_text() for text in legend.get_texts()] == ["nothing"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("4x-edu", "1 switch"), ("p100-roce", "17 switches and 4 cards"), ("2x-hls1-gaudi", "1 switch"), ("p4d-cluster", "3 switches and 8 cards")],
)  # fmt: skip
def test_switches_and_cards_are_counted(name: str, said: str) -> None:
    assert others_text(build(load_cluster(name))) == said
