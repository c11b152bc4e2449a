"""Measurements of other people: they are not part of this project, and read where they are."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ACCELSIM_MEASURED"
"""Environment variable that names the folder; ``accelsim validate --data`` sets it."""
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "measured"
"""Beside a checkout."""
ABSENT = "no measured rows here: name their folder with --data DIR (or the environment variable ACCELSIM_MEASURED)"

FILES = (
    "neusight_gemm.csv", "neusight_conv.csv", "neusight_vector.csv", "neusight_model_e2e.csv",
    "vidur_llm_gemm_fp16.csv", "deepbench_gemm.csv", "deepbench_conv.csv", "published_results.csv",
    "vidur_collectives.csv", "deepbench_allreduce.csv",
)  # fmt: skip
"""What the checks ``gpu-*``, ``collectives`` and ``serving`` read there, beside the folders ``llmcompass`` and
``serving/kernels``."""


def missing(folder: Path) -> list[str]:
    """Return what of ``FILES`` is not in a folder."""
    return [name for name in FILES if not (folder / name).is_file()]


def folder() -> Path | None:
    """The folder, None where there is none."""
    named = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else BESIDE
    return named if named.is_dir() else None
