"""Transfers over links: wire bytes, occupancy, latency, windows; the files that ship; laws of a link alone."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from pydantic import ValidationError

from accelsim.errors import UsageError
from accelsim.network.link import FS_PER_S, effective_Bps, framing, half_size_B, lane, transfer
from accelsim.spec.link import Link
from accelsim.spec.yaml import where
from accelsim.spec.yaml.load import check, load_chip
from accelsim.spec.yaml.parts import load_link

NAMES = tuple(where.names("links"))
#: Links whose packets nobody has published, or that are invented: their files state a bandwidth alone.
UNPUBLISHED = {
    "edu-link",
    "ici-v2",
    "ici-v3",
    "ici-v4",
    "ici-v5e",
    "ici-v5p",
    "neuronlink-v2",
    "neuronlink-v3",
    "neuronlink-v3-rack",
    "nvlink-c2c",
    "upi-10gt",
    "wan-1g",
    "xgmi-64g",
}
HEAD = "kind: test\nlatency: 1 us\nenergy: 1 pJ/bit\nsource: nobody\nas_of: 2026\n"


def made(text: str, tmp_path: Path) -> Link:
    path = tmp_path / "links" / "mine.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + text, encoding="utf-8")
    return load_link(path)


def test_packets_by_hand(tmp_path: Path) -> None:
    """300 B: a full packet of 256 + 16, and one of 44 that is padded to three flits of 16 and has a header too."""
    link = made("packets: {links: 2, rate: 5 GB/s, max_payload: 256 B, header: 16 B, granule: 16 B}\n", tmp_path)
    time = transfer(link, 300, write=True)
    assert time.wire_B == 272 + 48 + 16
    assert time.occupancy_fs == 336 * FS_PER_S // 10**10
    assert (time.latency_fs, time.total_fs) == (10**9, 10**9 + time.occupancy_fs)
    assert time.efficiency == 300 / 336
    assert link.bandwidth == pytest.approx(10e9 * 256 / 272)
    assert transfer(link, 256, False).wire_B == 272 and transfer(link, 257, False).wire_B == 272 + 32


def test_a_window_limits_what_packets_would_allow(tmp_path: Path) -> None:
    link = made(
        "packets: {rate: 10 GB/s, max_payload: 100 B, header: 25 B, window: 1000 B, round_trip: 1 us}\n", tmp_path
    )
    assert link.bandwidth == pytest.approx(1e9)
    assert effective_Bps(link, 10**6, write=False) == pytest.approx(1e9)
    assert lane(link, False).bandwidth_Bps == pytest.approx(1e9 * 125 / 100)
    assert framing(link, False).wire_Bps == 10**10


def test_a_bandwidth_alone_has_no_packets(tmp_path: Path) -> None:
    link = made("bandwidth: 3 GB/s\n", tmp_path)
    time = transfer(link, 3000, write=False)
    assert (time.wire_B, time.occupancy_fs) == (3000, 10**9)
    assert lane(link, True)[2:] == (0, 0, 1)
    assert framing(link, True).payload_Bps == 3 * 10**9


def test_alone_the_latency_counts(tmp_path: Path) -> None:
    link = made("bandwidth: 1 GB/s\n", tmp_path)
    assert half_size_B(link, False) == 1000
    assert effective_Bps(link, 1000, False) == pytest.approx(1e9)
    assert effective_Bps(link, 1000, False, alone=True) == pytest.approx(0.5e9)
    with pytest.raises(UsageError, match="0 B"):
        transfer(link, 0, False)


def test_a_link_states_a_rate(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="no bandwidth"):
        Link.model_validate({"kind": "x", "latency": "1 us", "energy": "1 pJ/B"})
    link = Link.model_validate(
        {"kind": "x", "latency": "1 us", "energy": "1 pJ/B", "pcie": {"generation": 1, "lanes": 1}}
    )
    assert link.bandwidth == pytest.approx(float(framing(link, False).payload_Bps))
    assert Link.model_validate(link.model_dump(mode="json")) == link


def test_a_file_that_contradicts_its_packets_has_the_place(tmp_path: Path) -> None:
    path = tmp_path / "links" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(HEAD + "bandwidth: 20 GB/s\npcie: {generation: 4, lanes: 16}\n", encoding="utf-8")
    (problem,) = check(path)
    assert problem.where == f"{path}:6:12"
    assert problem.what == "bandwidth: stated 20 GB/s contradicts the packets of the link"
    assert problem.expected.startswith("26.37 GB/s")


def test_an_override_of_the_packets_outdoes_the_stated_rate() -> None:
    chip = load_chip("tpu-v1", ["memories.pcie_memory.link.pcie.generation=5"])
    link = chip.memories["pcie_memory"].link
    assert link and round(link.bandwidth, -7) == 52.73e9


@pytest.mark.parametrize("name", NAMES)
def test_shipped_links_agree_with_their_packets(name: str) -> None:
    link = load_link(name)
    assert link.energy_status is not None
    assert (link.protocol is None) == (name in UNPUBLISHED)
    best = max(effective_Bps(link, 1 << 30, write) for write in (False, True))
    assert best == pytest.approx(link.bandwidth, rel=1e-6)
    nbytes = 1 << 30  # the time drops parts of a femtosecond
    assert all(nbytes * FS_PER_S / (transfer(link, nbytes, way).occupancy_fs + 1) <= link.bandwidth for way in (0, 1))
    assert (transfer(link, 1, True).wire_B > 1) == (name not in UNPUBLISHED)


@pytest.mark.parametrize(
    ("name", "both_ways_Bps"),
    [("nvlink-gen1", 160e9), ("nvlink-gen2", 300e9), ("nvlink-gen3", 600e9), ("nvlink-gen4", 900e9),
     ("nvlink-gen5", 1800e9), ("roce-100g", 25e9), ("roce-400g", 100e9)],
)  # fmt: skip
def test_published_rates_of_the_wire(name: str, both_ways_Bps: float) -> None:
    assert 2 * framing(load_link(name), True).wire_Bps == Fraction(both_ways_Bps)
