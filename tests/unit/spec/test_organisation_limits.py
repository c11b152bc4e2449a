"""A DRAM of a million channels is a slip of the pen."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import SpecError
from accelsim.spec.dram import MOST_CHANNELS, MOST_PARTS
from accelsim.spec.yaml.load import load_chip
from accelsim.spec.yaml.parts import load_dram
from accelsim.spec.yaml.where import shipped

MOST = {"channels": MOST_CHANNELS} | dict.fromkeys(
    ("pseudo_channels", "ranks", "bank_groups", "banks_per_group"), MOST_PARTS
)


@pytest.mark.parametrize("name", MOST)
def test_one_more_than_the_most(name: str) -> None:
    override = f"organisation.{name}={MOST[name] + 1}"
    with pytest.raises(SpecError) as caught:
        load_dram("ddr4-3200", [override])
    assert any(
        name in problem.what and override in problem.where and f"{MOST[name]:,}" in problem.expected
        for problem in caught.value.problems
    )


def test_a_file_and_a_chip(tmp_path: Path) -> None:
    text = (shipped() / "dram" / "ddr4-3200.yaml").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("  channels:")]
    file = tmp_path / "wide.yaml"
    file.write_text(text.replace(line, "  channels: 1048576"))
    with pytest.raises(SpecError) as caught:
        load_dram(file)
    assert f"{file}:{text.splitlines().index(line) + 1}:13" in [each.where for each in caught.value.problems]
    with pytest.raises(SpecError, match="channels"):
        load_chip("tpu-v1", ["memories.ddr3.memory.dram.organisation.channels=1048576"])
