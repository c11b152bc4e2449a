"""Collectives of serving stacks on GPU servers, as tables of kernels state them: NCCL alone, and vLLM's all-reduce.

Sizes of the tables are in elements, times in ms. A third of the rows, by a hash of their names, is left out of all fits.
(Numbers of rows would not do: they go round the numbers of GPUs.)
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from accelsim.cluster.fit import Measured, Sort

TABLES = {"nccl": "nccl_public.csv.gz", "vllm": "custom_allreduce_public.csv.gz"}
"""Library -> its table, in ``serving/kernels``."""
FOLDER = "serving/kernels"
KINDS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
         "alltoall": "all_to_all"}  # fmt: skip
FORMATS = {"half": ("fp16", 2), "int8": ("int8", 1), "bfloat16": ("bf16", 2)}
"""Format of a table -> its name and bytes."""
THIRD = 3


class Rows(NamedTuple):
    """Measured rows, and of each whether it may be fitted to."""

    measured: Measured
    fitted: Sequence[bool]

    def part(self, fitted: bool) -> Measured:
        """Rows to fit to, or those that no fit has seen."""
        return self.measured.only([row for row, each in enumerate(self.fitted) if each is fitted])


def rows(data: Path, library: str, systems: Sequence[str], eager: bool = False) -> Rows:
    """The rows of a library on some systems; of vLLM those of an eager host, or those of a CUDA graph."""
    found = list(_rows(data / FOLDER / TABLES[library], systems, eager))
    sorts, devices, nbytes, seconds, fitted = zip(*found, strict=True)
    return Rows(Measured(list(sorts), list(devices), np.array(nbytes), np.array(seconds)), fitted)


def _rows(path: Path, systems: Sequence[str], eager: bool) -> Iterator[tuple[Sort, str, int, float, bool]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["system"] not in systems or row["kernel_source"].endswith("eager") != eager:
                continue
            dtype, each_B = FORMATS[row.get("nccl_dtype") or row["allreduce_dtype"]]
            ranks = int(row["num_gpus"])
            sort = Sort(KINDS[row["op_name"]], ranks, ranks, dtype, eager)
            size, seconds = int(row["message_size"]) * each_B, float(row["latency"]) * 1e-3
            yield sort, row["system"], size, seconds, crc32(row["row_id"].encode()) % THIRD != 0
