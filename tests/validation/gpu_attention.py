"""Check ``gpu-attention``: attention in one kernel on an H100, as LLMServingSim measured it under vLLM.

Prompts of 36 to 2,007 tokens of Llama-3.1-8B and 70B, on one device of one, two or four that share the heads. The
constants that ship come of another lab, with a later FlashAttention in a graph; no row had a part in them. These rows
are those of a profiler whose times hold launches of its host and FlashAttention 2, so that what ships is far below them:
the mean error is stated, coverage is not claimed. Beside it stand the errors of fits of two constants (the share of the rate of products, and the
launch) on rows that they had not seen, and of a roofline fitted in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from accelsim.fit.validation import residuals
from accelsim.kernels.calibrate import calibrate
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import Table, several
from accelsim.spec.yaml.load import load_chip
from tests.validation.base import Check, check
from tests.validation.gpu import compared, roofline, shipped, told
from tests.validation.gpu_rows import rows_of
from tests.validation.measured import ABSENT, folder
from tests.validation.shipped import plain_chip

FILE, OP, DEVICE, DTYPE = "llmservingsim_layers.csv", "attn", "NVIDIA H100", "bf16"
CHIP = "h100-sxm"
HEADS: Mapping[str, tuple[int, int, int]] = {"Llama-3.1-8B": (32, 8, 128), "Llama-3.1-70B": (64, 8, 128)}
"""Model -> heads of queries, of keys, elements of a head (Llama 3 paper, table 3)."""
CLAIMED = 0.53
"""Mean error that is claimed."""
CONSTANTS = (("sm.attention",), ("sm.launch",))


def measured(data: Path) -> Table:
    """The rows, by the columns that kernels have here."""
    rows = [row for row in rows_of(data / FILE) if row["op"] == OP and row["device"] == DEVICE]
    seconds = np.array([float(row["time_us"]) * 1e-6 for row in rows])
    return replace(several("attention", DTYPE, [_cells(row) for row in rows]), measured=seconds)


def _cells(row: Mapping[str, str]) -> dict[str, str]:
    heads, kv_heads, depth = HEADS[row["model"]]
    devices = int(row["tp"])
    return {
        "tokens": row["tokens"], "heads": str(heads // devices), "kv_heads": str(kv_heads // devices),
        "head_dim": str(depth),
    }  # fmt: skip


@check("gpu-attention")
def gpu_attention() -> Check:
    """All rows by the constants that ship."""
    what = "attention in one kernel on an H100 against measured times, by the constants that ship"
    data = folder()
    if data is None:
        return Check("gpu-attention", what, 0, 0, np.zeros(0), [ABSENT])
    table, chip = measured(data), plain_chip(CHIP)
    found = shipped(table, load_chip(CHIP))
    refit = calibrate(table, chip, "attention of vLLM (LLMServingSim)", "2026-11", CONSTANTS).left_out
    left, plain = (residuals(each, table.measured).mean for each in (refit, roofline(Kernels(table, chip))))
    agrees = found.residuals.mean <= CLAIMED
    said = f"{told(CHIP, found, CLAIMED)}; by cross-validated fits of two constants {left:.1%}, a fitted roofline {plain:.1%}"
    return Check(
        "gpu-attention",
        what,
        1,
        int(agrees),
        found.error,
        [said],
        "mean error as claimed",
        compared=[compared(CHIP, found)],
    )
