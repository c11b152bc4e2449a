"""Sizes of one call of a decoder on one device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from accelsim.workload.zoo.entry import Params
from accelsim.workload.zoo.style import Style


@dataclass(frozen=True)
class Sizes:
    """Sizes of a call: ``seq`` tokens of ``batch`` sequences after ``past`` earlier ones, on one of ``share`` devices
    that split heads and inner widths; ``heads``, ``kv_heads``, ``ffn`` and ``expert_ffn`` are those of one device.
    ``biased``: projections with biases, 'qkv', 'out', 'ffn'. ``reached``: experts with a token (0: as many as expected
    of a uniform routing). ``full``: rows of experts have no padding, so that every row is one sample's, as a training
    on several devices needs."""

    batch: int
    seq: int
    past: int
    hidden: int
    heads: int
    kv_heads: int
    depth: int
    ffn: int
    expert_ffn: int
    experts: int
    top_k: int
    biased: tuple[str, ...]
    share: int = 1
    reached: int = 0
    full: bool = False

    @classmethod
    def of(cls, batch: int, params: Params, style: Style, share: int = 1) -> Sizes:
        """Return the sizes that the parameters of a model say."""
        ffn, depth = params["ffn"], params.get("head_dim") or params["hidden"] // params["heads"]
        return cls(
            batch, params["seq"], params["past"], params["hidden"], params["heads"] // share,
            max(1, params["kv_heads"] // share), depth, ceil(ffn / share),
            ceil(params.get("expert_ffn", ffn) / share), params.get("experts", 1), params.get("top_k", 1),
            ("qkv", "out", "ffn") if params["bias"] else style.biased, share, full=bool(params.get("train")),
        )  # fmt: skip

    def received(self, rows: int, experts: int, reached: int) -> Sizes:
        """Return the sizes of a device that has so many of the experts and gets ``rows``, each for one of these."""
        return replace(self, batch=1, seq=rows, experts=experts, top_k=1, reached=reached)

    def part(self, width: int) -> int:
        """Return one device's part of a width."""
        return ceil(width / self.share)

    @property
    def together(self) -> int:
        """Heads of queries that share one of keys and values (grouped queries, Ainslie et al., arXiv 2305.13245)."""
        return self.heads // self.kv_heads

    def past_of(self, window: int) -> int:
        """Return the earlier tokens that a layer keeps: with a window, those that the next token sees beside itself."""
        return min(self.past, window - 1) if window else self.past
