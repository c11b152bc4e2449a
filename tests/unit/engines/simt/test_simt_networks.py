"""Networks on multiprocessors: algorithms of convolutions, the host that asks for kernels, sites."""

from __future__ import annotations

from pathlib import Path

import pytest

import accelsim
from accelsim.account import critical_path
from accelsim.engines.simt.writing import DISPATCH, LAUNCH
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import one
from accelsim.program.actions import MAC, SKIPPED
from accelsim.result import Result
from accelsim.spec.yaml.load import load_chip
from accelsim.time import FS
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder


def conv(channels: int, filters: int = 3, stride: int = 1) -> Graph:
    b = Builder("conv")
    x = b.input("x", (16, channels, 28, 28))
    pad = filters // 2
    y = b.op(
        "Conv", [x, b.weight("w", (channels, channels, filters, filters))], "y",
        strides=[stride] * 2, pads=[pad] * 4, kernel_shape=[filters] * 2, dilations=[1, 1], group=1,
    )  # fmt: skip
    return b.finish(y)


def run(graph: Graph | str, **options: object) -> Result:
    asked = {"on": "v100-pcie", "dtype": "fp32", "values": "off", "edges": "outside", **options}
    return accelsim.run(graph, **asked)  # type: ignore[arg-type]


def multiplied(result: Result, skipped: bool) -> int:
    rows = [row for row in result.ledger if row.action.kind == MAC and row.action.of != "padding"]
    return sum(row.count for row in rows if (row.action == SKIPPED) == skipped)


def test_winograd_saves_multiplications_where_it_is_faster() -> None:
    fast, plain = run(conv(256)), run(conv(256, stride=2))
    assert 0.2 < multiplied(fast, False) / sum(step.macs for step in fast.program.steps) < 0.5
    assert multiplied(fast, False) + multiplied(fast, True) == sum(step.macs for step in fast.program.steps)
    assert multiplied(plain, True) == 0
    fast.check()


def test_a_convolution_takes_as_long_as_the_kernel_alone() -> None:
    chip = load_chip("v100-pcie")
    sizes = {"B": 16, "C_in": 256, "C_out": 256, "kernel": 3, "H_W": 28, "stride": 1, "padding": 1}
    table = one("conv2d", "fp32", {name: str(value) for name, value in sizes.items()})
    alone = float(Kernels(table, chip).predicted(chip).seconds[0])
    whole = run(conv(256))
    link_fs = sum(fs for blame, fs in critical_path.by_blame(whole).items() if "pcie" in blame.text)
    assert whole.latency_s - link_fs * FS == pytest.approx(alone, rel=0.15)


def test_an_eager_host_asks_for_every_kernel(tmp_path: Path) -> None:
    site = tmp_path / "slow.yaml"
    site.write_text("name: slow\ndispatch: 1 ms\nsource: a test\nas_of: 2026-11\n")
    eager = run("mlp", fusion="eager", site=site)
    kernels = [command for command in eager.program.commands if command.label == LAUNCH]
    asked = [command for command in eager.program.commands if command.label == DISPATCH]
    assert len(kernels) == len(asked) and eager.latency_s >= len(asked) * 1e-3
    assert not [command for command in run("mlp", site=site).program.commands if command.label == DISPATCH]
    assert len(run("mlp", fusion="eager").program.steps) > len(run("mlp").program.steps)


def test_a_site_slows_the_clock(tmp_path: Path) -> None:
    site = tmp_path / "hot.yaml"
    site.write_text("name: hot\nsustained_clock: 0.5\nsource: a test\nas_of: 2026-11\n")
    big = "gemm?M=4096,N=4096,K=4096"
    assert run(big, site=site).latency_s > 1.5 * run(big).latency_s


def grouped(channels: int, groups: int) -> Graph:
    b = Builder("grouped")
    x = b.input("x", (16, channels, 56, 56))
    weights = b.weight("w", (channels, channels // groups, 3, 3))
    y = b.op(
        "Conv", [x, weights], "y",
        strides=[1, 1], pads=[1] * 4, kernel_shape=[3, 3], dilations=[1, 1], group=groups,
    )  # fmt: skip
    return b.finish(y)


@pytest.mark.parametrize(("dtype", "each"), [("fp32", 1), ("fp16", 1), ("fp32", 2), ("fp16", 4)])
def test_groups_of_few_channels_are_computed_directly(dtype: str, each: int) -> None:
    """On half of the lanes in every format, hidden where what they move takes longer; nothing is padded."""
    made = run(grouped(256, 256 // each), dtype=dtype)
    made.check()
    macs = sum(step.macs for step in made.program.steps)
    unit = made.program.chip.engines["sm"]
    lanes_s = macs / (unit.lanes * unit.multiprocessors * 0.5 * made.program.chip.clock)
    taken_s = {blame.text: fs * FS for blame, fs in critical_path.by_blame(made).items()}
    moved_s = taken_s["hbm (activations)"] + taken_s["hbm (results)"]
    products_s = taken_s.get("products", 0.0)
    assert products_s == pytest.approx(lanes_s, rel=0.05) if lanes_s > moved_s else products_s < 0.1 * lanes_s
    kinds = {row.action.kind for row in made.ledger if row.action.of == "padding"}
    assert not kinds and multiplied(made, False) == macs


def test_groups_of_as_many_channels_as_a_tensor_core_takes_are_products() -> None:
    made = run(grouped(256, 32), dtype="fp16")
    assert {row.action.of for row in made.ledger if row.action.kind == "around"} == {"fp16"}


@pytest.mark.parametrize(
    ("sizes", "block"),
    [
        ((256, 3, 1), "{}"),
        ((256, 3, 2), "{strided: 2}"),
        ((1024, 1, 2), "{pointwise: 0.2}"),
        ((48, 3, 1), "{channels: 64}"),
        ((512, 7, 1), "{fft: 4000}"),
    ],
)
def test_a_simulation_takes_kernels_of_a_format_s_own_as_single_ones_are(
    sizes: tuple[int, int, int], block: str
) -> None:
    channels, filters, stride = sizes
    dtype = "fp32" if "fft" in block else "fp16"
    sets = [f"sm.formats.{dtype}.convolution={block}", "sm.convolution.call=0 s"]
    made = run(conv(channels, filters, stride), dtype=dtype, set=sets)
    made.check()
    cells = {"B": 16, "C_in": channels, "C_out": channels, "kernel": filters, "H_W": 28, "stride": stride,
             "padding": filters // 2}  # fmt: skip
    chip = load_chip("v100-pcie", sets)
    alone = Kernels(one("conv2d", dtype, {key: str(value) for key, value in cells.items()}), chip).predicted(chip)
    link_fs = sum(fs for blame, fs in critical_path.by_blame(made).items() if "pcie" in blame.text)
    assert made.latency_s - link_fs * FS == pytest.approx(float(alone.seconds[0]), rel=0.15)
