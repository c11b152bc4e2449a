"""PipeDream's optimiser on models and clusters of this package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.cluster.partition.assign import assigned
from accelsim.cluster.step.asked import Asked
from accelsim.cluster.step.ops import Options
from accelsim.errors import UsageError

PROFILE = "".join(
    f"node{n} -- Linear{n} -- forward_compute_time=1.0, backward_compute_time={time}, activation_size=4000.0, "
    f"parameter_size={size}\n"
    for n, (time, size) in enumerate([(7, 0), (3, 0), (1, 8_000_000), (1, 8_000_000)])
) + "".join(f"\tnode{n} -- node{n + 1}\n" for n in range(3))


def test_a_profile_on_a_cluster(tmp_path: Path) -> None:
    """Layers with weights are not replicated on a link of 100 MB/s, the heavy ones without are."""
    path = tmp_path / "model.txt"
    path.write_text(PROFILE, encoding="utf-8")
    found = assigned(Asked(str(path), "4x-edu", options=Options(ignore_capacity=True)))
    assert [(row["first_layer"], row["last_layer"], row["replicas"]) for row in found.rows()] == [
        (0, 1, 3), (2, 3, 1),
    ]  # fmt: skip
    assert found.partition.time_s == pytest.approx(4e-3)
    assert found.machines == (4,) and found.samples == 0


def test_a_model_is_cut_where_a_pipeline_may_be() -> None:
    result = CliRunner().invoke(main, ["plan", "digits-mlp", "--on", "4x-edu", "--batch", "8", "--pipedream", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    stages = facts["stages"]
    assert stages[0]["first_layer"] == 0 and sum(stage["replicas"] for stage in stages) <= 4
    assert [stage["first_layer"] for stage in stages[1:]] == [stage["last_layer"] + 1 for stage in stages[:-1]]
    assert facts["one_device_s"] / facts["minibatch_s"] == pytest.approx(facts["speedup"])


@pytest.mark.parametrize(
    ("model", "on", "expected"),
    [
        ("digits-mlp", "edu-4x4", "one device"),
        ("digits-mlp", "edge-and-cloud", "devices or nodes that differ"),
        ("no.txt", "4x-edu", "expected a profile of PipeDream"),
    ],
)
def test_what_the_optimiser_does_not_know(model: str, on: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        assigned(Asked(model, on))


def test_a_model_that_fits_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_text(PROFILE.replace("8000000", "8000000000000"), encoding="utf-8")
    with pytest.raises(UsageError, match="no partition fits"):
        assigned(Asked(str(path), "4x-edu"))
