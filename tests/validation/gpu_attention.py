"""Check ``gpu-attention``: attention in one kernel on an H100, as LLMServingSim measured it under vLLM.

Prompts of 36 to 2,007 tokens of Llama-3.1-8B and 70B, on one device of one, two or four that share the heads. Two
constants, the share of the rate of products and the launch, are fitted; each row is predicted by a fit that had not
seen it. Beside it stands a roofline of three constants, fitted in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from accelsim.fit.validation import residuals
from accelsim.kernels.calibrate import Calibrated, calibrate
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import Table, several
from accelsim.spec.chip import Chip
from tests.validation.base import Check, check
from tests.validation.gpu import covered, plain_chip, roofline
from tests.validation.gpu_rows import rows_of
from tests.validation.kernel_plot import Compared
from tests.validation.measured import ABSENT, folder

FILE, OP, DEVICE, DTYPE = "llmservingsim_layers.csv", "attn", "NVIDIA H100", "bf16"
CHIP = "h100-sxm"
HEADS: Mapping[str, tuple[int, int, int]] = {"Llama-3.1-8B": (32, 8, 128), "Llama-3.1-70B": (64, 8, 128)}
"""Model -> heads of queries, of keys, elements of a head (Llama 3 paper, table 3)."""
CLAIMED = 0.13
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


def calibrated(table: Table, chip: Chip) -> Calibrated:
    """Its two constants fitted."""
    return calibrate(table, chip, "attention of vLLM (LLMServingSim)", "2026-11", CONSTANTS)


@check("gpu-attention")
def gpu_attention() -> Check:
    """All rows against fits that had not seen them."""
    what = "attention in one kernel on an H100 against measured times, by cross-validation"
    data = folder()
    if data is None:
        return Check("gpu-attention", what, 0, 0, np.zeros(0), [ABSENT])
    table, chip = measured(data), plain_chip(CHIP)
    found = calibrated(table, chip)
    errors = found.left_out / table.measured - 1
    left, plain = (
        residuals(each, table.measured) for each in (found.left_out, roofline(Kernels(table, chip)))
    )
    agrees = left.mean <= CLAIMED and covered(found)
    said = (
        f"{CHIP}: {left.rows:,} rows, mean {left.mean:.1%}, median {left.median:.1%}, 90th percentile {left.p90:.1%} "
        f"of rows left out (claimed: {CLAIMED:.1%}); a fitted roofline {plain.mean:.1%}; {found.coverage.share:.1%} "
        f"within intervals of / and x {found.coverage.factor:.2f}"
    )
    return Check(
        "gpu-attention", what, 1, int(agrees), errors, [said], "mean error and coverage as claimed",
        compared=[
            Compared(
                f"{CHIP}, attention", table.measured, found.left_out, found.fitted.times.regime, found.coverage.factor
            )
        ],
    )  # fmt: skip
