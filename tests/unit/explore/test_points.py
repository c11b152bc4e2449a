"""Points of every kind: the figures are those of the commands, keys differ by all that a run reads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.explore.sweep.point import DONE, Facts, Point, key_of, outcome, quick_key
from accelsim.spec.yaml import where

GEMM = "gemm?M=8,N=12,K=16"

TINY = "llama?layers=2,hidden=64,heads=2"
GENERATION = {"latency_s": "total_s", "ttft_s": "time_to_first_token_s", "tpot_s": "token_s", "energy_J": "total_J"}
GENERATION |= {key: key for key in ("tokens_per_s", "energy_per_token_J")}
STEP = {"latency_s": "time_s", "energy_per_sample_J": "sample_J", "throughput_per_s": "samples_per_s", "plan": "plan"}


def _facts(model: str, on: str, **options: object) -> Facts:
    found = outcome(Point.of(model, on, options))
    assert found.status == DONE, found.error
    return found.facts


def _printed(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["run", *words, "--values", "off", "--no-advice", "--json"])
    assert done.exit_code == 0, done.output
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize(
    ("model", "on", "options", "words", "keys"),
    [
        (f"{TINY},prompt=8,new=3", "edu-4x4", {"values": "off"}, [], GENERATION),
        (f"{TINY},prompt=8,new=3", "4x-edu", {"plan": "tp=2,pp=2"}, ["--plan", "tp=2,pp=2"], GENERATION),
        (
            "mlp?inputs=16,hidden=8", "4x-edu", {"plan": "dp=2,pp=2", "train": True, "batch": 8},
            ["--train", "--plan", "dp=2,pp=2", "--batch", "8"], STEP,
        ),
        (TINY, "edu-4x4", {"train": True, "tokens": 1e6, "batch": 4}, ["--train", "--tokens", "1e6", "--batch", "4"], STEP),
    ],
    ids=["generation", "serving", "step", "training"],
)  # fmt: skip
def test_figures_are_those_of_the_command(
    model: str, on: str, options: dict[str, object], words: list[str], keys: dict[str, str]
) -> None:
    facts, said = _facts(model, on, **options), _printed(model, "--on", on, *words)
    assert {key: facts[key] for key in keys} == {key: said[other] for key, other in keys.items()}
    if "tokens" in options:
        whole = said["training"]
        assert [facts[f"training_{key}"] for key in ("s", "J", "steps")] == [
            whole[key] for key in ("seconds", "joules", "steps")
        ]
        assert facts["days"] == whole["days"]


def test_a_gpu_has_intervals() -> None:
    facts = _facts(f"{TINY},prompt=8,new=3", "t4", values="off")
    for name in ("latency", "ttft", "tpot"):
        assert (
            cast(float, facts[f"{name}_low_s"]) < cast(float, facts[f"{name}_s"]) < cast(float, facts[f"{name}_high_s"])
        )


def test_an_instance_is_what_it_stands_for() -> None:
    one, other = (Point.of(GEMM, on, {"values": "off"}) for on in ("aws:g4dn.xlarge", "t4"))
    assert key_of(one) == key_of(other) and quick_key(one) == quick_key(other)
    assert Point.read(one.text) == one != other
    bad = outcome(Point.of(GEMM, "aws:g4dn.xlarg", {"values": "off"}))
    assert bad.status == "refused" and "aws:g4dn.xlarge" in bad.error


def test_a_key_is_of_the_cluster_and_its_chips() -> None:
    def key(on: str, **options: object) -> str:
        return key_of(Point.of("mlp", on, {"train": True, **options}))

    assert key("4x-edu") == key("4x-edu", set=["nodes.node.devices.chip.count=4"])
    chip = ["nodes.node.devices.chip.settings=[clock=123 MHz]"]
    assert len({key("4x-edu"), key("2x-edu"), key("4x-edu", set=chip), key("4x-edu", plan="dp=4"), key("edu-4x4")}) == 5


def test_a_file_that_changed_is_another_point(tmp_path: Path) -> None:
    file, point = tmp_path / "mine.yaml", Point.of(GEMM, str(tmp_path / "mine.yaml"), {})
    content = where.names("chips")["edu-4x4"].read_text()
    file.write_text(content)
    before = quick_key(point)
    file.write_text(content + "# edited\n")
    assert quick_key(point) != before


def test_what_means_nothing_is_refused() -> None:
    found = outcome(Point.of("mlp", "4x-edu", {"train": True, "dataflow": "ws"}))
    assert found.status == "refused" and "'dataflow' means nothing" in found.error
    assert "needs a task" in outcome(Point.of("mlp", "4x-edu", {})).error


def test_a_profile_of_rates_is_part_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    point = Point.of("llama3-8b", "h100-sxm", {"load": f"rates:{path}"})
    keys = []
    for at, rate in enumerate((1, 2, 1)):
        path.write_text(f"time_s,rate\n0,{rate}\n100,3\n")
        os.utime(path, (at, at))
        keys.append((quick_key(point), key_of(point)))
    assert keys[0] == keys[2] and all(a != b for a, b in zip(*keys[:2], strict=True))
