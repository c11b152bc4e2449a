"""Tables of kernels with times that a chip with known constants would have, for tests that fit them again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from accelsim import files
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import read_table
from accelsim.spec.constants import with_values
from accelsim.spec.yaml.load import load_chip

HEADER = "op,device,dtype,B,M,K,N,rows,cols,time_us"


def shapes_csv(path: Path, device: str, count: int, seed: int = 0, dtype: str = "fp16") -> Path:
    """Random products, and every fourth row a function, without times."""
    draw = np.random.default_rng(seed)
    lines = [HEADER]
    for index in range(count):
        a, b, c = (int(2 ** draw.uniform(6, 12)) for _ in range(3))
        if index % 4 == 3:
            lines.append(f"{draw.choice(['add', 'softmax', 'layernorm'])},{device},{dtype},,,,,{a},{b},")
        else:
            lines.append(f"gemm,{device},{dtype},,{a},{b},{c},,,")
    files.write_file(path, files.text("\n".join(lines) + "\n"))
    return path


def measured_csv(
    path: Path, chip: str, count: int, values: Mapping[str, float] | None = None, noise: float = 0.02, seed: int = 0,
    dtype: str = "fp16",
) -> Path:  # fmt: skip
    """The same with times of a chip whose constants have these values, and a little noise."""
    plain = shapes_csv(path, chip, count, seed, dtype)
    loaded = with_values(load_chip(chip), values or {})
    table = read_table(plain)
    seconds = Kernels(table, loaded).predicted(loaded).seconds
    noisy = seconds * np.exp(np.random.default_rng(seed + 1).normal(0, noise, count))
    rows = [{**cells, "time_us": f"{time * 1e6:.6g}"} for cells, time in zip(table.cells, noisy, strict=True)]
    files.write_file(path, files.records(rows))
    return path
