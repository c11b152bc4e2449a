"""Mapping files that say nothing, or cannot be read, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import UsageError
from accelsim.program.mapping_file import load_mappings, mapping_text
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from tests.helpers.law_cases import changed, compiled


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


@pytest.mark.parametrize("split", ["none", "m", "n", "k"])
def test_the_split_over_arrays_is_kept(tmp_path: Path, split: str) -> None:
    chip = changed(changed(load_chip("edu-4x4"), "", peak={}), "matrix", count=2)
    graph = load_model("gemm?M=16,N=16,K=16")
    program = compiled(graph, chip, "int8", pinned={"y": {"split": split}}).program
    file = tmp_path / "m.yaml"
    file.write_text(mapping_text(program))
    pinned = load_mappings(file)
    assert pinned["y"]["split"] == split
    step, again = program.steps[0], compiled(graph, chip, "int8", pinned=pinned).program.steps[0]
    assert again.mapping == step.mapping


def test_a_chip_with_one_array_has_no_split() -> None:
    program = compiled(load_model("gemm?M=16,N=16,K=16"), load_chip("edu-4x4"), "int8").program
    assert "split" not in mapping_text(program)


def test_an_axis_that_no_arrays_split(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("y: {split: rows}\n")
    with pytest.raises(UsageError) as caught:
        load_mappings(file)
    (problem,) = caught.value.problems
    assert (problem.what, problem.expected) == ("split is 'rows'", "none, m, n, k")
