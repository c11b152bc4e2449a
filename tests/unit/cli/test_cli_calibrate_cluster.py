"""``accelsim calibrate CLUSTER``: constants, errors, the spec that comes of it, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from accelsim.cluster.fit import Measured, Model, Sort, with_constants
from accelsim.cluster.shapes.building import build
from accelsim.spec.yaml.clusters import load_cluster

Cli = Callable[..., Result]
NAMES = "launch,simple.share"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    cluster = load_cluster("4x-a100-nvlink")
    sizes = [2**power for power in range(10, 30)]
    kind = Sort("all_reduce", 4, 4)
    truth = with_constants(cluster.collectives, {"simple.share": 0.6})
    import numpy as np

    made = Measured([kind] * len(sizes), [""] * len(sizes), np.array(sizes), np.ones(len(sizes)))
    seconds = Model(made, build(cluster), truth).seconds()
    path = tmp_path / "rows.csv"
    lines = [f"all_reduce,4,4,{size},{time * 1e6}" for size, time in zip(sizes, seconds, strict=True)]
    lines.append("all_reduce,16,8,1024,9")
    path.write_text("op,n_devices,devices_per_node,bytes,time_us\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_constants_are_fitted_and_written(cli: Cli, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    told = cli("calibrate", "4x-a100-nvlink", "--data", str(rows), "--constants", NAMES, "--out", str(out))
    assert told.exit_code == 0, told.output
    text = " ".join(told.stdout.split())
    assert "simple.share 0.796 0.6" in text and "1 row more need devices" in text
    mine = load_cluster(out)
    assert mine.collectives.protocols["simple"].share == pytest.approx(0.6, rel=0.01)
    assert "20 rows of rows.csv" in (mine.collectives.fitted_on or "")


def test_json_has_constants_and_errors(cli: Cli, rows: Path) -> None:
    told = cli("calibrate", "4x-a100-nvlink", "--data", str(rows), "--constants", NAMES, "--json")
    facts = json.loads(told.stdout)
    assert facts["rows"] == 20 and facts["rows_without_place"] == 1
    assert facts["errors"]["all"]["mean"] < 0.01 and set(facts["values"]) == {"launch", "simple.share"}


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--site", "mine"), "a chip, whose kernels are measured"), (("--constants", "simple.shore"), "simple.share"),
        (("--device", "x"), "no rows of x"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(cli: Cli, rows: Path, arguments: tuple[str, ...], words: str) -> None:
    told = cli("calibrate", "4x-a100-nvlink", "--data", str(rows), *arguments)
    assert told.exit_code == 2 and words in told.stderr + told.stdout
