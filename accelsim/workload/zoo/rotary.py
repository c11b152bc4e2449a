"""Rotary positions: the angles of each position, and rules that stretch them to contexts longer than those trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, floor, log, pi, sqrt
from typing import Any

import numpy as np

from accelsim.types import Array
from accelsim.workload.zoo.style import Rope

Numbers = Mapping[str, Any]
Stretch = Callable[[Array, float, Numbers], tuple[Array, float]]
"""Takes turns per token, the base, and the numbers of the rule; returns the turns, and a factor of cosines and
sines."""


def magnitude(factor: float, scale: float = 1.0) -> float:
    """Return YaRN's factor of attention for a context ``factor`` times as long (Peng et al., arXiv 2309.00071)."""
    return 1.0 if factor <= 1 else 0.1 * scale * log(factor) + 1.0


def _linear(rates: Array, theta: float, numbers: Numbers) -> tuple[Array, float]:
    return rates / numbers["factor"], 1.0


def _llama3(rates: Array, theta: float, numbers: Numbers) -> tuple[Array, float]:
    """Slow turns are divided by the factor, fast ones stay (Grattafiori et al., arXiv 2407.21783)."""
    low, high = numbers.get("low_freq_factor", 1.0), numbers.get("high_freq_factor", 4.0)
    turns = numbers["original_max_position_embeddings"] * rates / (2 * pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return rates * (kept + (1 - kept) / numbers["factor"]), 1.0


def _yarn(rates: Array, theta: float, numbers: Numbers) -> tuple[Array, float]:
    """Turn as ``_llama3`` does, with a ramp over the elements, and larger scores."""
    factor, depth = numbers["factor"], 2 * len(rates)
    ends = [
        depth * log(numbers["original_max_position_embeddings"] / (turns * 2 * pi)) / (2 * log(theta))
        for turns in (numbers.get("beta_fast") or 32, numbers.get("beta_slow") or 1)
    ]
    low, high = (floor(ends[0]), ceil(ends[1])) if numbers.get("truncate", True) else ends
    low, high = max(low, 0), min(high, depth - 1)
    gone = np.clip((np.arange(len(rates)) - low) / max(high - low, 0.001), 0, 1)
    scale, whole = numbers.get("mscale"), numbers.get("mscale_all_dim")
    grown = magnitude(factor, scale) / magnitude(factor, whole) if scale and whole else magnitude(factor)
    return rates * (1 - gone + gone / factor), numbers.get("attention_factor") or grown


def _longrope(rates: Array, theta: float, numbers: Numbers) -> tuple[Array, float]:
    """A factor for each element (Ding et al., arXiv 2402.13753), here those of contexts as short as in training."""
    factor, trained = numbers["factor"], numbers["original_max_position_embeddings"]
    grown = sqrt(1 + log(factor) / log(trained)) if factor > 1 else 1.0
    return rates / np.asarray(numbers["short_factor"]), numbers.get("attention_factor") or grown


def _none(rates: Array, theta: float, numbers: Numbers) -> tuple[Array, float]:
    """A rule that changes nothing in contexts as short as in training."""
    return rates, 1.0


STRETCHES: dict[str, Stretch] = {
    "linear": _linear, "llama3": _llama3, "yarn": _yarn, "longrope": _longrope, "su": _longrope, "dynamic": _none
}  # fmt: skip
"""Name of a rule, as configurations of Hugging Face have it -> the rule."""


@dataclass(frozen=True)
class Rotation:
    """Cosines or signed sines of rotary positions ``past`` to ``past + seq``: float32 [seq, 1, depth].

    Element i turns with element i + depth / 2 by position / theta^(2 i / depth); the sines of the first half are
    negative, so that x rotates to x cos + swapped(x) sin, ``swapped`` the two halves changed.
    """

    seq: int
    past: int
    depth: int
    rope: Rope
    sine: bool

    def __call__(self) -> Array:
        """The values."""
        half, rope = self.depth // 2, self.rope
        rates, factor = rope.theta ** (-np.arange(half, dtype=np.float64) / half), 1.0
        if rope.stretch:
            rates, factor = STRETCHES[rope.stretch](rates, rope.theta, dict(rope.numbers))
        angles = np.arange(self.past, self.past + self.seq)[:, np.newaxis] * rates
        halves = [-np.sin(angles), np.sin(angles)] if self.sine else [np.cos(angles)] * 2
        return (factor * np.concatenate(halves, 1, dtype=np.float64))[:, np.newaxis].astype(np.float32)
