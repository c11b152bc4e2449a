"""A product, or the layers of a CSV, are no network with inputs and outputs of numbers, and no batch of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import accelsim
from accelsim.account.latency import batch_size, summary
from accelsim.workload.load import load_model

pytestmark = pytest.mark.usefixtures("unpainted")

Cli = Callable[..., Result]
PRODUCT = "gemm?M=16,N=256,K=256"
CSV = "Layer, M, N, K,\nfirst, 16, 64, 64,\nsecond, 32, 64, 64,\n"


def engines(run: accelsim.Run) -> set[str]:
    return {step.engine for step in run.program.steps if not step.node.attrs.get("outside")}


def test_rows_of_a_product_are_no_inferences(cli: Cli) -> None:
    run = accelsim.run(PRODUCT, "tpu-v1", values="off")
    facts = summary(run)
    assert (facts["batch"], facts["counts"]) == (1, "products")
    assert facts["throughput_per_s"] == pytest.approx(1 / run.seconds)
    told = cli("run", PRODUCT, "--on", "tpu-v1", "--values", "off").stdout
    assert "products/s" in told
    assert "energy per product" in told
    assert "inference" not in told
    assert batch_size(load_model("gemm", batch=3)) == 3


def test_networks_count_their_batch() -> None:
    facts = summary(accelsim.run("mlp", "tpu-v1", values="off", batch=16))
    assert (facts["batch"], facts["counts"]) == (16, "inferences")


@pytest.mark.parametrize("kind", ["product", "csv"])
def test_integers_of_a_product_and_of_a_csv_come_from_outside(kind: str, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "layers.csv"
    file.write_text(CSV)
    model = PRODUCT if kind == "product" else str(file)
    assert engines(accelsim.run(model, "tpu-v1", values="off")) == {"matrix"}
    assert engines(accelsim.run(model, "tpu-v1", values="off", edges="host")) == {"matrix", "host"}
    latency = [
        json.loads(cli("run", model, "--on", "tpu-v1", "--values", "off", "--json", *edges).stdout)[
            "latency_s"
        ]
        for edges in ((), ("--edges", "outside"), ("--edges", "host"))
    ]
    assert latency[0] == latency[1] < latency[2]


def test_a_network_keeps_its_conversions_on_the_host() -> None:
    run = accelsim.run("mlp", "tpu-v1", values="off")
    assert "host" in engines(run)
    edges = [step.edge for step in run.program.steps]
    assert (edges[0], edges[-1]) == ("input", "output")
    assert not any(edges[1:-1])


def test_a_csv_of_a_network_counts_the_batch_that_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "layers.csv"
    file.write_text(CSV)
    facts = summary(accelsim.run(str(file), "tpu-v1", values="off", batch=4))
    assert (facts["batch"], facts["counts"]) == (4, "inferences")
