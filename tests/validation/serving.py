"""Check ``serving``: what a call of a language model on several GPUs is made of, against measured times.

* **Llama 2 70B on eight GPUs**: the four products with weights of a layer, as the pieces of a call run them, against
  the profiles of Vidur for a split over eight, prefill (2,048 tokens) and decoding (the fewest that were measured
  for all four), and its all-reduce of these tokens. Chips and library as they ship: products by the constants of vLLM's
  kernels, in which these profiles have no part; in those of the library they have one. Between measured sizes a straight line. Of an all-reduce 6 % are claimed where the measurements let a time
  that grows with size come so near to all of them: below 1 MiB they jump by half and more from one size to the next.
* **One layer of GPT-3 on four A100** (LLMCompass, ISCA 2024), prefill and decoding, its all-reduces with it: kernels of
  the lab by constants of kernels that it measured alone, all-reduces by those of its library; see ``lab``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.choice import library_of
from accelsim.cluster.collectives.software import estimate
from accelsim.cluster.fit import read_collectives
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.pieces import ATTENTION, FEED_FORWARD, Call, attention, feed_forward
from accelsim.cluster.shapes.building import build
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import transformer_of
from accelsim.engines.simt.spec import Simt
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.clusters import load_cluster
from tests.validation.base import Check, check
from tests.validation.gpu_rows import rows_of
from tests.validation.lab import layer
from tests.validation.measured import ABSENT, folder

PRODUCTS = "vidur_llm_gemm_fp16.csv"
COLLECTIVES = "vidur_collectives.csv"
MODEL, TP, PROMPT = "llama2-70b", 8, 2048
CALLED = ("Llama-2-70b-hf", "Meta-Llama-3-70B")
"""Models of the profile whose layers have these products."""
OPS = {ATTENTION: ("attn_pre_proj", "attn_post_proj"), FEED_FORWARD: ("mlp_up_proj", "mlp_down_proj")}
"""Piece of a call -> its products as the profile calls them."""
MACHINES = {"dgx-a100": ("NVIDIA A100 80GB SXM", "a100_dgx"), "dgx-h100": ("NVIDIA H100 80GB", "h100_dgx")}
"""Cluster -> its device in the profiles of products and of collectives."""

CALLED_BY = "nccl-pytorch"
"""Library of a cluster: NCCL as the profile timed it, with its host."""
PRODUCTS_OFF = 0.12
"""What is claimed of products: they are timed by the constants of vLLM's kernels, in which these profiles have no part
(by constants in which they have one it was 8 %)."""
ALL_REDUCE = 0.06
"""What is claimed of an all-reduce."""


class Compared(NamedTuple):
    """A time, s, and the size of the relative error that is claimed of it (None: nothing is, and why)."""

    name: str
    measured: float
    predicted: float
    claimed: float | None
    why: str = ""

    @property
    def error(self) -> float:
        """Relative."""
        return self.predicted / self.measured - 1


def profile(data: Path, device: str) -> dict[str, dict[int, float]]:
    """Product -> tokens -> s, the median of what was measured more than once."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows_of(data / PRODUCTS):
        if row["device"] == device and row["tp"] == str(TP) and row["model"] in CALLED:
            found.setdefault(row["op"], {}).setdefault(int(row["M"]), []).append(float(row["time_us"]) * 1e-6)
    return {op: {tokens: float(np.median(times)) for tokens, times in sorted(of.items())} for op, of in found.items()}


def between(of: Mapping[int, float], size: int) -> float:
    """A measured time at a size: as it is, or on the line between its neighbours."""
    return float(np.interp(size, list(of), list(of.values())))


def jump(of: Mapping[int, float], size: int) -> float:
    """The least relative error of any time that grows with size: of the one between the measured ones at this size, or
    of a larger one that took less, or of a smaller one that took more."""
    time_s = between(of, size)
    slower = max((one for nbytes, one in of.items() if nbytes <= size), default=time_s)
    faster = min((one for nbytes, one in of.items() if nbytes >= size), default=time_s)
    return float(max(np.sqrt(slower / time_s), np.sqrt(time_s / faster), 1.0)) - 1


def fewest(products: Mapping[str, Mapping[int, float]]) -> int:
    """The fewest tokens for which each product was measured."""
    return min(set.intersection(*(set(of) for of in products.values())))


def llama(data: Path, cluster: str) -> Iterator[Compared]:
    """Products and all-reduce of one layer on a machine."""
    device, network = MACHINES[cluster]
    products = profile(data, device)
    spec = load_cluster(cluster)
    fleet, software = fleet_of(spec, Setting("fp16")), library_of(spec, CALLED_BY)
    devices, model = Devices(fleet, fleet.setting), transformer_of(MODEL)
    assert model is not None
    few = fewest(products)
    calls = {
        f"prefill of {PROMPT:,} tokens": Call(model, 1, PROMPT, 0, TP),
        f"decoding {few} tokens": Call(model, few, 1, PROMPT, TP),
    }
    reduced = _reduced(data, network)
    for title, call in calls.items():
        timed = [op for ops in OPS.values() for op in ops]
        seconds = sum(devices.piece(call, piece, 0).products_s for piece in (attention(call), feed_forward(call)))
        seconds += len(timed) * _alone_s(fleet.chips[0])
        measured = sum(between(products[op], call.rows) for op in timed)
        yield Compared(f"{MODEL} on {cluster}, products of a layer, {title}", measured, seconds, PRODUCTS_OFF)
    for title, call in calls.items():
        nbytes = 2 * call.rows * model.hidden
        predicted = estimate(fleet.topology, software, "all_reduce", nbytes, range(TP)).time_s
        name, least = f"{MODEL} on {cluster}, all-reduce, {title}", jump(reduced, nbytes)
        if least < ALL_REDUCE:
            yield Compared(name, between(reduced, nbytes), predicted, ALL_REDUCE)
        else:
            why = f"a time that grows with size is at least {least:.0%} off, here or at another size"
            yield Compared(name, between(reduced, nbytes), predicted, None, why)


def _alone_s(chip: Chip) -> float:
    """Return what a kernel that is timed by itself takes longer to begin than one of a graph, s."""
    spec = chip.engines["sm"]
    assert isinstance(spec, Simt)
    return float(spec.launch - min(spec.follow, spec.launch))


def _reduced(data: Path, device: str) -> dict[int, float]:
    """Bytes -> s of an all-reduce over eight devices of one node."""
    rows = read_collectives(data / COLLECTIVES, device).select(("all_reduce",), 1, (TP,))
    return dict(sorted(zip(rows.nbytes.tolist(), rows.seconds.tolist(), strict=True)))


def gpt3(data: Path) -> Iterator[Compared]:
    """One layer of GPT-3 with its all-reduces."""
    cluster = load_cluster("4x-a100-nvlink")
    topology = build(cluster)
    for case, claimed in (("prefill", 0.035), ("decode", 0.08)):
        kernels = layer(data, case)
        nbytes = 2 * kernels.rows * kernels.hidden
        reduce_s = estimate(topology, cluster.collectives, "all_reduce", nbytes).time_s
        yield Compared(
            f"GPT-3 layer on 4x-a100-nvlink, {case}", kernels.measured_s + kernels.reduce_s,
            kernels.predicted_s + 2 * reduce_s, claimed,
        )  # fmt: skip


def rows(data: Path) -> list[Compared]:
    """Everything that is compared."""
    return [*(each for cluster in MACHINES for each in llama(data, cluster)), *gpt3(data)]


@check("serving")
def serving() -> Check:
    """Layers of language models on several GPUs."""
    what = "layers of language models on several GPUs against measured times"
    data = folder()
    if data is None:
        return Check("serving", what, 0, 0, np.zeros(0), [ABSENT])
    found = rows(data)
    claims = [(abs(each.error), each.claimed) for each in found if each.claimed is not None]
    return Check(
        "serving", what, len(claims), sum(error <= claimed for error, claimed in claims),
        np.array([each.error for each in found if each.claimed is not None]), [_said(each) for each in found],
        "each row as claimed", len(found) - len(claims),
    )  # fmt: skip


def _said(each: Compared) -> str:
    claim = f"nothing claimed: {each.why}" if each.claimed is None else f"claimed: {each.claimed:.0%}"
    return (
        f"{each.name}: measured {each.measured * 1e3:.4g} ms, predicted {each.predicted * 1e3:.4g} ms, "
        f"{each.error:+.1%} ({claim})"
    )
