"""Mapping files that say nothing, or cannot be read, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import UsageError
from accelsim.program.mapping_file import load_mappings


@pytest.mark.parametrize("text", ["", "# Mappings of gemm on edu-4x4\n", "{}\n"])
def test_a_mapping_without_layers(tmp_path: Path, text: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_mappings(file)
    (problem,) = caught.value.problems
    assert (problem.where, problem.what) == (str(file), "no layer in it")
    assert problem.expected == "layer names, each with its fields"


def test_a_layer_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("y: {tm: 8}\n")
    assert load_mappings(file) == {"y": {"tm": 8}}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"[" * 100_000, "not YAML: more than 30 blocks inside each other"),
        (b"\xff\xfe\xff", "cannot read the mapping"),
        (b"[a", "not YAML"),
    ],
)
def test_what_is_no_mapping(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=what):
        load_mappings(file)
