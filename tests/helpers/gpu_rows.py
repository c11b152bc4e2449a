"""Everything that the project measured itself on a GPU: ``python -m tests.helpers.gpu_rows FOLDER [SHARE [SECONDS [SEED]]]``.

Writes ``kernels.csv``, ``warm.csv``, ``calls.csv``, ``networks.csv``, ``more.csv`` (kernels side by side, transfers, idle power) and
``products.npz`` (operands and results of matrix products). ``SHARE`` of the rows, for a trial, in so many ``SECONDS`` at the most. Needs PyTorch, a GPU and
NVML.
"""

from __future__ import annotations

import csv
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from accelsim.formats.codec import encode
from accelsim.measure.clock import CALLS, WARM, between, captured, graph_seconds, host_seconds
from accelsim.measure.kernels import COLUMNS, FORMATS, OPS, Operands, measured, pytorch
from accelsim.measure.power import Meter
from tests.validation.tensor_cores import STORED

DEVICE = "cuda:0"
VECTOR = ("softmax", "layernorm", "gelu", "silu", "relu", "add", "mul", "copy")
KERNELS: Sequence[tuple[str, Sequence[str], int, int]] = (
    ("fp16", ("gemm",), 240, 8), ("fp16", ("attention", "conv2d"), 120, 3), ("fp16", ("bmm",), 60, 2),
    ("fp16", VECTOR, 100, 2), ("fp32", ("gemm",), 80, 3), ("bf16", ("gemm", "attention"), 60, 3),
    ("fp8_e4m3fn", ("gemm",), 60, 3), ("int8", ("gemm",), 60, 3), ("tf32", ("gemm",), 60, 3),
    ("fp32", ("conv2d", "softmax", "add", "gelu", "layernorm"), 40, 1), ("fp32", ("bmm",), 40, 0),
    ("fp64", ("gemm",), 30, 2),
)  # fmt: skip
"""Format, ops, kernels of each, and how many of these are metered."""
POWER: Sequence[tuple[str, Mapping[str, int], Sequence[str], bool]] = (
    ("gemm", {"M": 8192, "K": 8192, "N": 8192}, ("fp16", "bf16", "fp8_e4m3fn", "int8", "tf32", "fp32"), True),
    ("gemm", {"M": 4096, "K": 4096, "N": 4096}, ("fp16", "fp32"), True),
    ("gemm", {"M": 8192, "K": 8192, "N": 8192}, ("fp16", "fp32"), False),
    ("gemm", {"M": 16, "K": 16384, "N": 16384}, ("fp16",), True),
    ("copy", {"rows": 8192, "cols": 16384}, ("fp16", "fp32"), True),
    ("relu", {"rows": 8192, "cols": 16384}, ("fp16", "fp32"), True),
    ("relu", {"rows": 8192, "cols": 16384}, ("fp16",), False),
    ("relu", {"rows": 4096, "cols": 1024}, ("fp16", "fp32"), True),
    ("add", {"rows": 8192, "cols": 16384}, ("fp16", "fp32"), True),
    ("gelu", {"rows": 8192, "cols": 16384}, ("fp16", "fp32"), True),
    ("softmax", {"rows": 8192, "cols": 4096}, ("fp16", "fp32"), True),
    ("layernorm", {"rows": 8192, "cols": 4096}, ("fp16",), True),
)
"""Kernels of given sizes whose power is measured, formats, and whether of random numbers (else of zeros): relu of 4,096
rows from the L2 cache, all others from DRAM, as one set of operands is larger or not."""
Networks = Sequence[tuple[str, Sequence[int], str]]
OTHERS: Networks = (
    ("vit-b16", (1, 64), "fp16"), ("mobilenet-v2", (64,), "fp16"), ("resnet18", (64,), "fp16"), ("vgg19", (16,), "fp16"),
    ("llama3-8b?seq=1024", (2,), "bf16"), ("llama3-8b?seq=1,past=1024", (16,), "bf16"), ("bert-base?seq=256", (16,), "tf32"),
    ("gpt3?layers=2,seq=1,past=1024", (8,), "fp16"), ("densenet121", (16,), "fp16"), ("inception-v1", (16,), "fp16"),
)  # fmt: skip
"""Networks, batches and formats of another time."""
NETWORKS: Networks = (
    ("resnet50", (1, 8, 32, 128), "fp16"), ("bert-large?seq=128", (1, 8, 32), "fp16"),
    ("llama2-7b?seq=2048", (1,), "bf16"), ("llama2-7b?seq=1,past=2048", (1, 8), "bf16"),
    ("gpt3?layers=4,seq=1024", (4,), "fp16"), ("resnet50", (32,), "fp32"), ("bert-large?seq=384", (8,), "fp32"),
)  # fmt: skip


def _save(path: Path, rows: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> None:
    names = list(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    used = [name for name in names if any(name in row for row in rows)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, used, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _kernels(torch: Any, share: float, meter: Meter, seed: int) -> Iterator[dict[str, Any]]:
    for number, (dtype, ops, rows, metered) in enumerate(KERNELS):
        count, power = max(1, round(rows * share)), round(metered * share)
        yield from measured(torch, DEVICE, ops, count, dtype, seed + number, False, power, meter)


def _calls(torch: Any, share: float) -> Iterator[dict[str, Any]]:
    ops = ("gemm", "bmm", "softmax", "layernorm", "gelu", "relu", "add", "attention", "conv2d")
    yield from measured(torch, DEVICE, ops, max(1, round(20 * share)), "fp16", 99, True)


def _warm(torch: Any, share: float) -> Iterator[dict[str, Any]]:
    """The first kernels of those in FP16 again, with one set of operands."""
    for op, seed in (("gemm", 0), ("softmax", 3), ("add", 3), ("layernorm", 3)):
        yield from measured(torch, DEVICE, [op], max(1, round(30 * share)), "fp16", seed, most_sets=1)


def _networks(torch: Any, meter: Meter, networks: Networks) -> Iterator[dict[str, Any]]:
    from accelsim.measure.network import measured_networks

    attend = ("bert", "gpt", "llama", "vit")
    for model, batches, dtype in networks:
        for attention in ("unfused", "fused") if model.startswith(attend) else ("unfused",):
            yield from measured_networks(torch, DEVICE, [model], batches, dtype, attention, meter)


def _power(torch: Any, meter: Meter) -> Iterator[dict[str, Any]]:
    for op, size, formats, drawn in POWER:
        for dtype in formats:
            form = FORMATS[dtype]
            torch.set_float32_matmul_precision(form.precision)
            tensor = Operands(torch, DEVICE, form)
            if not drawn:
                tensor.zero()
            calls = [OPS[op].make(torch, size, tensor, form.product)]
            time_us = {"time_us": f"{graph_seconds(torch, calls) * 1e6:.6g}"}
            same = {"what": "power", "op": op, "dtype": dtype, "data": "random" if drawn else "zeros"}
            yield {**same, **size, **time_us, **meter(*captured(torch, calls))}
            torch.cuda.empty_cache()


def _more(torch: Any, meter: Meter, idle_W: float) -> Iterator[dict[str, Any]]:
    yield {"what": "idle", "power_W": f"{idle_W:.2f}"}
    yield from _power(torch, meter)
    yield from _transfers(torch)
    yield from _side_by_side(torch)


def _transfers(torch: Any) -> Iterator[dict[str, Any]]:
    """Copies between the host's pinned memory and the device, both ways."""
    for size in (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20):
        host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        device = torch.empty(size, dtype=torch.uint8, device=DEVICE)
        for what, source, target in (("to device", host, device), ("to host", device, host)):
            call = lambda s=source, t=target: t.copy_(s, non_blocking=True)  # noqa: E731
            yield {"what": what, "bytes": size, "time_us": f"{host_seconds(torch, [call]) * 1e6:.6g}"}


def _side_by_side(torch: Any) -> Iterator[dict[str, Any]]:
    """32 kernels that do not depend on each other, on 1 to 16 streams of a graph: microseconds of all."""
    form = FORMATS["fp16"]
    tensor = Operands(torch, DEVICE, form)
    shapes = [("gemm", {"M": m, "K": k, "N": n}) for m, k, n in (
        (64, 1024, 64), (128, 4096, 128), (256, 1024, 512), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
        (1, 4096, 4096), (64, 4096, 1024))]  # fmt: skip
    shapes += [(op, {"rows": r, "cols": 1024}) for op in ("gelu", "softmax", "copy") for r in (32, 512, 8192)]
    for op, size in shapes:
        calls = [OPS[op].make(torch, size, tensor, form.product) for _ in range(32)]
        for streams in (1, 2, 4, 8, 16):
            seconds = _on_streams(torch, calls, streams)
            yield {
                "what": "streams",
                "op": op,
                **size,
                "streams": streams,
                "kernels": 32,
                "time_us": f"{seconds * 1e6:.6g}",
            }


def _on_streams(torch: Any, calls: Sequence[Callable[[], Any]], count: int) -> float:
    """Median seconds of a graph of all calls, dealt to so many streams."""
    streams = [torch.cuda.Stream() for _ in range(count)]
    for call in calls[:3]:
        call()
    torch.cuda.synchronize()
    graph, results = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        here = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(here)
        for number, call in enumerate(calls):
            with torch.cuda.stream(streams[number % count]):
                results.append(call())
        for stream in streams:
            here.wait_stream(stream)
    for _ in range(WARM):
        graph.replay()
    return float(np.median([between(torch, graph.replay) for _ in range(CALLS)]))


def _products(torch: Any) -> dict[str, Any]:
    """Products of wide-ranging numbers in every format of Tensor Cores, the sums in FP32: codes of the operands, and results."""
    found: dict[str, Any] = {}
    draw = np.random.default_rng(7)
    for name, kind in (("fp16", "float16"), ("bf16", "bfloat16"), ("tf32", "float32"), ("fp8_e4m3fn", "float8_e4m3fn")):
        for k in (16, 32, 64, 256):
            a, b = (_wide(torch, draw, (64, k), kind) for _ in range(2))
            for way, result in _ways(torch, name, a, b):
                found[f"{name}_{k}_{way}"] = result.float().cpu().numpy()
            found |= {
                f"{name}_{k}_{side}": encode(each.float().cpu().numpy(), STORED.get(name, name))
                for side, each in (("a", a), ("b", b))
            }
    return found


def _wide(torch: Any, draw: np.random.Generator, shape: tuple[int, int], kind: str) -> Any:
    values = draw.standard_normal(shape) * 2.0 ** draw.integers(-6, 7, shape)
    return torch.tensor(values, dtype=torch.float32).to(getattr(torch, kind)).to(DEVICE)


def _ways(torch: Any, name: str, a: Any, b: Any) -> Iterator[tuple[str, Any]]:
    """Names of ways to multiply, and results; FP8 with all sums in Tensor Cores, and with FP32 lanes beside them."""
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    scales = dict.fromkeys(("scale_a", "scale_b"), torch.ones((), device=DEVICE))
    ways: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {"mm": (torch.mm, {"out_dtype": torch.float32})}
    if name == "tf32":
        ways = {"mm": (torch.mm, {})}
    elif name.startswith("fp8"):
        known = {**scales, "out_dtype": torch.float32}
        ways = {
            way: (torch._scaled_mm, {**known, "use_fast_accum": fast})
            for way, fast in (("fast", True), ("slow", False))
        }
    for way, (function, more) in ways.items():
        try:
            yield way, function(a, b.t(), **more)
        except Exception as error:
            print(f"{name} {way}: {error}", flush=True)


def _part(out: Path, name: str, rows: Iterator[Mapping[str, Any]], until: float, first: Sequence[str] = ()) -> None:
    """One table; what was measured before an error, or before the time is over, is kept."""
    began, found = perf_counter(), []
    try:
        for row in rows:
            found.append(row)
            if perf_counter() > until:
                print(f"{name}: out of time", flush=True)
                break
    except Exception:
        traceback.print_exc()
    _save(out / name, found, first)
    print(f"{name}: {len(found)} rows in {perf_counter() - began:.1f} s", flush=True)


def main(out: Path, share: float, limit_s: float, seed: float) -> None:
    """All of it, in about so many seconds at the most."""
    until = perf_counter() + limit_s
    torch = pytorch()
    out.mkdir(parents=True, exist_ok=True)
    torch.zeros(1, device=DEVICE)
    meter = Meter(torch, DEVICE)
    idle_W = meter.idle_W()
    print(torch.cuda.get_device_name(DEVICE), torch.__version__, f"idle {idle_W:.1f} W", flush=True)
    try:
        np.savez_compressed(out / "products.npz", **_products(torch))
    except Exception:
        traceback.print_exc()
    _part(out, "more.csv", _more(torch, meter, idle_W), until)
    networks = {0: NETWORKS, 1000: OTHERS}.get(int(seed), (*NETWORKS, *OTHERS))
    _part(out, "networks.csv", _networks(torch, meter, networks), until)
    _part(out, "kernels.csv", _kernels(torch, share, meter, int(seed)), until, COLUMNS)
    _part(out, "warm.csv", _warm(torch, share), until, COLUMNS)
    _part(out, "calls.csv", _calls(torch, share), until, COLUMNS)


if __name__ == "__main__":
    folder, *more = sys.argv[1:]
    main(Path(folder), *map(float, [*more, *("1", "600", "0")[len(more) :]]))
