"""Kernels of LLM serving that were measured under vLLM (aiconfigurator), as rows of ``accelsim kernel --csv``.

What a row contains is stated nowhere in the tables, but in what collected them: linear layers, six with weights of their
own in one CUDA graph (one where they are NVFP4), narrow ones with the kernel that quantises their input; attention with
the write to the cache before it, one layer in a graph; mixtures of experts with routing and sum.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from tests.validation.measured import folder

SYSTEMS: Mapping[str, str] = {
    "a100_sxm": "a100-80-sxm", "h100_sxm": "h100-sxm", "h200_sxm": "h200-sxm", "b200_sxm": "b200-sxm", "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
}  # fmt: skip
"""System of the tables -> chip here."""
DTYPES: Mapping[str, str] = {
    "bfloat16": "bf16", "fp8": "fp8_e4m3fn", "nvfp4": "nvfp4", "fp8_block": "fp8_block", "int4_wo": "int4xbf16",
    "w4a16_mxfp4": "mxfp4xbf16", "w4a8_mxfp4_mxfp8": "mxfp4xmxfp8_e4m3",
}  # fmt: skip
LAYERS, LONE = "6", "1"
"""Layers in a graph: of linear ones, and of NVFP4 and attention."""
UNGATED = {("2688", "1856"), ("1024", "2688"), ("2048", "5120")}
"""Sizes of experts whose activation has no gate (Nemotron 3: squared ReLU, recalled); the collector of the A100's rows
did not know of these."""
PARTS, UNSEEN = 3, 2
"""Parts of the rows by a hash of their number, and the one that no fit sees."""


class Row(NamedTuple):
    """A measured kernel: the chip, kind and constants' key; its cells; whether a fit may see it."""

    chip: str
    kind: str
    key: str
    cells: Mapping[str, str]
    seen: bool


def tables() -> Path | None:
    """The folder of the tables, None where there is none."""
    data = folder()
    found = None if data is None else data / "serving" / "kernels"
    return found if found is not None and found.is_dir() else None


@cache
def rows(data: Path) -> list[Row]:
    """Every kernel of a chip that is known here, but for layers in blocks of FP8, which were timed with their host."""
    found = []
    for name, reader in READERS.items():
        with gzip.open(data / f"{name}_public.csv.gz", "rt", encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                read = reader(line) if line["system"] in SYSTEMS else None
                if read is not None:
                    kind, key, cells = read
                    timed = {**cells, "device": SYSTEMS[line["system"]], "time_ms": line["latency"]}
                    seen = crc32(line["row_id"].encode()) % PARTS != UNSEEN
                    found.append(Row(SYSTEMS[line["system"]], kind, key, timed, seen))
    return found


Read = tuple[str, str, Mapping[str, str]] | None


def _layer(line: Mapping[str, str]) -> Read:
    dtype = DTYPES[line["gemm_dtype"]]
    if dtype == "fp8_block":
        return None
    sizes = {"M": line["m"], "K": line["k"], "N": line["n"]}
    layers = LONE if dtype == "nvfp4" else LAYERS
    return "layer", dtype, {"op": "serving_linear", "dtype": dtype, **sizes, "layers": layers}


def _attention(line: Mapping[str, str]) -> Read:
    """A prompt, or a single query, by the kernel that computed it."""
    kv_dtype, library = DTYPES[line["kv_cache_dtype"]], "triton" if "triton" in line["kernel_source"] else ""
    window = str(int(float(line["window_size"] or 0)))
    decode = line["op_name"] == "generation_attention" or "decode" in line["kernel_source"]
    kv = str(int(line["step"]) + int(line["isl"]))
    cells = {
        "op": "serving_decode" if decode else "serving_prefill", "dtype": "bf16", "kv_dtype": kv_dtype,
        "batch": line["batch_size"], "tokens": "1" if decode else line["isl"], "kv": kv, "heads": line["num_heads"],
        "kv_heads": line["num_key_value_heads"], "head_dim": line["head_dim"], "window": window, "layers": LONE,
        "library": library,
    }  # fmt: skip
    return "decode" if decode else "prefill", _key(kv_dtype, library), cells


LIBRARY_OF: Mapping[str, str] = {
    "tritonexperts": "triton", "fused_moe": "triton", "tritonmxfp4": "triton", "flashinfer_cutlass": "cutlass",
    "trtllm": "trtllm", "marlin": "marlin",
}  # fmt: skip
"""Part of the name of a kernel -> library."""


def _experts(line: Mapping[str, str]) -> Read:
    dtype = DTYPES[line["moe_dtype"]]
    library = next(name for part, name in LIBRARY_OF.items() if part in line["kernel_source"])
    size = (line["hidden_size"], line["inter_size"])
    gated = line["system"] == "a100_sxm" or size not in UNGATED
    cells = {
        "op": "moe", "dtype": dtype, "tokens": line["num_tokens"], "hidden": size[0], "inter": size[1],
        "topk": line["topk"], "experts": line["num_experts"], "tp": line["moe_tp_size"], "ep": line["moe_ep_size"],
        "skew": line["distribution"].removeprefix("power_law_"), "gated": str(int(gated)), "library": library,
    }  # fmt: skip
    return "experts", _key(dtype, library), cells


def _key(dtype: str, library: str) -> str:
    return f"{dtype}/{library}" if library else dtype


READERS = {
    "gemm": _layer, "context_attention": _attention, "generation_attention": _attention, "moe": _experts,
}  # fmt: skip
"""File -> what its rows are."""
