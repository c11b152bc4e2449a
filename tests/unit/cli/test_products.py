"""A product, or the layers of a CSV, are no network with inputs and outputs of numbers, and no batch of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import accelsim
from accelsim.account.latency import batch_size, summary
from accelsim.workload.sources.load import load_model

pytestmark = pytest.mark.usefixtures("unpainted")

Cli = Callable[..., Result]
PRODUCT = "gemm?M=16,N=256,K=256"
OFF = ("--values", "off", "--no-advice")
CSV = "Layer, M, N, K,\nfirst, 16, 64, 64,\nsecond, 32, 64, 64,\n"


def engines(run: accelsim.Run) -> set[str]:
    return {step.engine for step in run.program.steps if not step.node.attrs.get("outside")}


def test_rows_of_a_product_are_no_inferences(cli: Cli) -> None:
    run = accelsim.run(PRODUCT, "tpu-v1", values="off")
    facts = summary(run)
    assert (facts["batch"], facts["counts"]) == (1, "products")
    assert facts["throughput_per_s"] == pytest.approx(1 / run.seconds)
    told = cli("run", PRODUCT, "--on", "tpu-v1", *OFF).stdout
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
        json.loads(cli("run", model, "--on", "tpu-v1", *OFF, "--json", *edges).stdout)["latency_s"]
        for edges in ((), ("--edges", "outside"), ("--edges", "host"))
    ]
    assert latency[0] == latency[1] < latency[2]


def test_a_network_keeps_its_conversions_on_the_host() -> None:
    run = accelsim.run("mlp", "tpu-v1", values="off")
    assert "host" in engines(run)
    edges = [step.edge for step in run.program.steps]
    assert (edges[0], edges[-1]) == ("input", "output")
    assert not any(edges[1:-1])


def test_a_csv_of_several_layers_is_a_list_and_no_inference(tmp_path: Path, cli: Cli) -> None:
    file, one = tmp_path / "layers.csv", tmp_path / "one.csv"
    file.write_text(CSV)
    one.write_text(CSV.rpartition("second")[0])
    facts = summary(accelsim.run(str(file), "tpu-v1", values="off", batch=4))
    assert (facts["batch"], facts["counts"]) == (4, "passes")
    assert summary(accelsim.run(str(one), "tpu-v1", values="off"))["counts"] == "products"
    told = cli("run", str(file), "--on", "tpu-v1", *OFF).stdout
    assert "passes/s" in told and "energy per pass " in told and "inference" not in told
    assert "each of its 2 layers once; nothing says that they are a network" in " ".join(told.split())


def test_comparisons_count_what_the_runs_count(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "layers.csv"
    file.write_text(CSV)
    lists, network = [
        [
            str(accelsim.run(model, chip, values="off").report(tmp_path / f"{name}-{chip}").parent)
            for chip in ("tpu-v1", "edu-4x4")
        ]
        for name, model in (("csv", str(file)), ("mlp", "mlp?hidden=16"))
    ]
    told = cli("compare", *lists).stdout
    assert "passes/s" in told and "inferences" not in told
    assert "inferences/s" in cli("compare", *network).stdout
    mixed = " ".join(cli("compare", lists[0], network[0]).stdout.split())
    assert "per second" in mixed and "inferences/s" not in mixed
    assert "Rates and energies are of layers per pass, of mlp?hidden=16 per inference." in mixed
    several = cli("run", str(file), "--on", "tpu-v1", "--on", "edu-4x4", *OFF).stdout
    assert "passes/s" in several and "inferences" not in several
