"""Chips from the user's cache are those of their files, and no file is read for them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from accelsim.errors import SpecError
from accelsim.spec import digest, dram_memory
from accelsim.spec.chip import Chip
from accelsim.spec.yaml import chips, clusters, kept, load, where
from accelsim.spec.yaml.parts import load_dram
from accelsim.usercache import Table

CLOCK = ["clock=123 MHz"]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCELSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "KNOWN", Table("chips", 8))
    monkeypatch.setattr(where, "READ", set())


def _again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a later process, in which no spec file can be read."""
    kept.KNOWN.save()
    monkeypatch.setattr(kept, "KNOWN", Table("chips", 8))
    for name in ("load_chip", "read_part"):
        monkeypatch.setattr(load, name, lambda *_: pytest.fail("a file was read"))


@pytest.mark.parametrize("overrides", [[], CLOCK])
def test_a_kept_chip_is_the_one_of_its_file(overrides: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = chips.load_chip("tpu-v1", overrides)
    assert made == load.load_chip("tpu-v1", overrides)
    _again(monkeypatch)
    assert chips.load_chip("tpu-v1", overrides) == made


def test_a_kept_cluster_is_the_one_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    made = clusters.load_devices("16x-dgx-a100")
    assert made == clusters.load_cluster("16x-dgx-a100") != clusters.load_devices("8x-dgx-a100")
    _again(monkeypatch)
    assert clusters.load_devices("16x-dgx-a100") == made


def test_other_overrides_and_a_changed_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "specs" / "chips" / "mine.yaml"
    mine.parent.mkdir(parents=True)
    text = (where.shipped() / "chips" / "edu-4x4.yaml").read_text().replace("name: edu-4x4", "name: mine")
    mine.write_text(text)
    monkeypatch.setenv("ACCELSIM_HWSPECS", str(tmp_path / "specs"))
    first, faster = chips.load_chip("mine"), chips.load_chip("mine", CLOCK)
    mine.write_text(text.replace("\ntitle: ", "\ntitle: Another "))
    assert [first.clock, faster.clock] == [100e6, 123e6]
    assert chips.load_chip("mine").title == f"Another {first.title}"


def test_what_a_chip_takes_from_elsewhere_is_read_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "mine.yaml"
    memory.write_text((where.shipped() / "memories" / "ddr3-1600.yaml").read_text())
    chips.load_chip("edu-4x4", [f"memories.dram.memory={memory}"])
    memory.unlink()
    with pytest.raises(SpecError, match="no spec file"):
        chips.load_chip("edu-4x4", [f"memories.dram.memory={memory}"])


@pytest.mark.parametrize("text", ["", "no base 85 \N{SNOWMAN}", "c" * 40, 3])
def test_a_damaged_entry_is_read_again(text: object) -> None:
    key = kept._key(Chip, ["edu-4x4"], where.states())
    assert key is not None
    kept.KNOWN.put(key, text)
    assert chips.load_chip("edu-4x4") == load.load_chip("edu-4x4")


def test_a_digest_is_that_of_the_json_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "_KNOWN", Table("digests", 8))
    first, other = load.load_chip("edu-4x4"), load.load_chip("edu-4x4", CLOCK)
    made = [digest.digest(first), digest.digest(other), digest.digest(first, {"name"})]
    assert len(set(made)) == 3
    assert made[0] == sha256(json.dumps(first.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()
    monkeypatch.setattr(type(first), "model_dump", lambda *_, **__: pytest.fail("it was written again"))
    assert [digest.digest(first), digest.digest(other), digest.digest(first, {"name"})] == made


def test_figures_of_a_dram_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dram_memory, "_KNOWN", Table("drams", 8))
    dram_memory._figures.cache_clear()
    made = dram_memory.figures(load_dram("ddr3-1600"))
    dram_memory._KNOWN.save()
    monkeypatch.setattr(dram_memory, "_KNOWN", Table("drams", 8))
    monkeypatch.setattr(dram_memory, "_stream", lambda _: pytest.fail("the stream was followed again"))
    dram_memory._figures.cache_clear()
    assert dram_memory.figures(load_dram("ddr3-1600")) == made
    dram_memory._figures.cache_clear()
