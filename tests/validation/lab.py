"""Kernels of a GPT-3 layer on A100 by what the lab that timed it (LLMCompass, ISCA 2024) measured of kernels alone.

A chip in another lab is the same chip: how operands reach its tensor cores, its prologues, epilogues and partial waves
are those of the chip as it ships, fitted to another lab's products. The lab has numbers of its own: the clock that it
keeps, the share of the memory's peak, what a launch takes. These three are fitted to the products that it measured
alone; the power limit of the other lab does not come along. Softmax, layer norm and GELU are each fitted to the kernels
of that kind that the lab measured alone: three numbers as well, since each comes from another library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from accelsim.kernels.calibrate import Calibrated, calibrate
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import Table, one, read_table
from accelsim.spec.chip import Chip
from accelsim.spec.constants import constants, with_values
from accelsim.spec.yaml.load import load_chip
from tests.validation.gpu_rows import rows_of
from tests.validation.shipped import plain_chip

CHIP = "a100-80-sxm"
FILES = {
    "prefill": "llmcompass/gpt3_layer_transformer_A100.csv",
    "decode": "llmcompass/gpt3_layer_transformerAR_A100.csv",
}
OF_THE_CHIP = ("feed", "softness", "prologue", "epilogue")
"""Constants of products that are those of the chip wherever it stands."""
OF_THE_LAB = (("sm.formats.fp16.sustained",), ("hbm.memory.efficiency",), ("sm.launch",))
"""Constants of products that a lab has of its own."""
Parts = Sequence[tuple[str, int, Mapping[str, int]]]
"""(op, how often, sizes) of kernels."""


def by_kind(data: Path) -> dict[str, Calibrated]:
    """Op -> the chip as the lab has it for that kind of kernel."""
    found = {
        op: calibrate(_table(data, op), plain_chip(CHIP), op, "2026-11") for op in ("softmax", "layernorm", "gelu")
    }
    products = calibrate(_table(data, "matmul"), _of_the_chip(), "matmul", "2026-11", OF_THE_LAB)
    return found | {"gemm": products, "bmm": products}


def _table(data: Path, file: str) -> Table:
    return read_table(data / "llmcompass" / f"{file}_A100.csv", timed=True)


def _of_the_chip() -> Chip:
    """The chip without what was fitted to another lab, but for what is its own."""
    plain, block = plain_chip(CHIP), load_chip(CHIP).calibration
    assert block is not None
    known = constants(plain)
    own = {
        name: known[name].read(text) for name, text in block.values.items() if name.rsplit(".", 1)[-1] in OF_THE_CHIP
    }
    return with_values(plain, own)


def kernel_s(op: str, cells: Mapping[str, int], chip: Chip) -> float:
    """Time of one kernel in FP16, s."""
    table = one(op, "fp16", {name: str(value) for name, value in cells.items()})
    return float(Kernels(table, chip).predicted(chip).seconds[0])


def parts_of(rows: int, queries: int, keys: int) -> dict[str, Parts]:
    """Kernels of a quarter of a GPT-3 layer (12,288 wide, 96 heads of 128), 8 sequences: the lab's rows by name."""
    heads, own, hidden = 8 * 24, 3072, 12288
    normed: Parts = [("layernorm", 1, {"rows": rows, "cols": hidden})]
    return {
        "Q_K_V": [("gemm", 3, {"M": rows, "K": hidden, "N": own})],
        "Q_mul_K": [("bmm", 1, {"B": heads, "M": queries, "K": 128, "N": keys})],
        "A_mul_V": [("bmm", 1, {"B": heads, "M": queries, "K": keys, "N": 128})],
        "Wo_proj": [("gemm", 1, {"M": rows, "K": own, "N": hidden})],
        "W1_proj": [("gemm", 1, {"M": rows, "K": hidden, "N": hidden})],
        "W2_proj": [("gemm", 1, {"M": rows, "K": hidden, "N": hidden})],
        "Softmax": [("softmax", 1, {"rows": heads * queries, "cols": keys})],
        "LayerNorm_MHA": normed, "LayerNorm_FFN": normed,
        "GeLU": [("gelu", 1, {"rows": rows, "cols": hidden})],
    }  # fmt: skip


HIDDEN = 12288
ROWS = {"prefill": 8 * 2048, "decode": 8}
KERNELS = {"prefill": parts_of(8 * 2048, 2048, 2048), "decode": parts_of(8, 1, 3072)}
"""Case -> kernels of the layer."""


class Layer(NamedTuple):
    """The layer of a case: tokens, width, and in s its kernels as measured and as predicted, by constants that all
    chips share too, and both of its all-reduces as measured."""

    rows: int
    hidden: int
    measured_s: float
    predicted_s: float
    shared_s: float
    reduce_s: float


@cache
def layer(data: Path, case: str) -> Layer:
    """The kernels of a layer one after the other, 'prefill' or 'decode'."""
    chips, kernels = by_kind(data), KERNELS[case]
    times = {row["op"]: float(row["time_us"]) * 1e-6 for row in rows_of(data / FILES[case])}
    every = [part for parts in kernels.values() for part in parts]
    predicted, shared = (
        sum(kernel_s(op, cells, chip_of[op]) * count for op, count, cells in every)
        for chip_of in ({op: each.chip for op, each in chips.items()}, dict.fromkeys(chips, plain_chip(CHIP)))
    )
    reduced = sum(seconds for op, seconds in times.items() if op.startswith("AllReduce"))
    return Layer(ROWS[case], HIDDEN, sum(times[op] for op in kernels), predicted, shared, reduced)
