"""Intervals of chips that nobody has calibrated: how far off constants of other devices are.

Each device of ``accelsim validate gpu-gemm`` and ``gpu-vector`` was left out, the constants of its group fitted to
all others together, and its rows predicted by these. An interval holds nine of ten rows of nearly all of these devices:
of the products of the P100, the oddest, 85 %, of all others 95 to 100 %; of the functions of the P100, whose host takes
nearly twice as long as the others', 89 %, of all others at least 96 %. It comes of all of them: what the others say of
the P100 alone (a factor of 1.4 holds nine of ten products of each of them) would hold 60 % of its rows. Where a
framework asks for kernels one by one, give a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, hypot, log

UNCALIBRATED: Mapping[str, float] = {
    "product": 1.8,
    "function": 1.8,
    "convolution": 2.8,
    "attention": 2.6,
    "layer": 2.0,
    "prefill": 2.7,
    "decode": 2.4,
    "experts": 2.6,
}
"""Kind of kernel -> factor of its interval. Of attention one device was measured, an H100 that runs FlashAttention 2:
the factor is how far off it is by the default, at which an A100 reaches what its authors state (50 to 73 % of the peak;
Dao 2023, abstract). That of convolutions holds nine of ten of each set of NeuSight and DeepBench on nine GPUs by the
defaults (``Convolution`` of the engine's spec). Of kernels of serving stacks (the last four) it is how far off a GPU
is by medians over the other families (``accelsim validate gpu-serving``): it holds at least 86, 86, 80 and 85 % of the
rows of each GPU, but for mixtures of experts in INT4 on a B200 (56 %), and in FP8 on an H100 and an H200 (15 %), whose
library reads weights at a sixth of the bandwidth, as no other does."""

LABS: Mapping[str, float] = {"product": 1.4, "function": 1.4, "convolution": 1.6, "attention": 1.6}
"""Kind of kernel -> spread between labs that measured one chip, beside that of kernels in one lab: another board and
cooler, driver, library, way of timing and operands. Nine of ten kernels lie within both together, each place weighing
alike: ten places for products (T4, P100, V100, A100, H100, H200), ten for functions and four for convolutions that are
not those of the fit (``accelsim validate gpu-labs``). Of attention nobody measured one chip twice with one library: it
has that of convolutions."""


def in_other_labs(kind: str, factor: float) -> float:
    """Return the factor of an interval of a calibrated chip that holds in other labs too: both spreads are
    independent."""
    return exp(hypot(log(factor), log(LABS.get(kind, LABS["attention"]))))


CORRELATION_OWN, CORRELATION_OTHER = 0.13, 0.34
"""How far errors of different kernels of one chip go together: the share of the variance of log residuals that lies
between groups. Of a calibrated chip, between operators (rows left out of the fit of the A100 and the H100 to Vidur's
products: 0.13 and 0.04; between models 0.02 and 0.03). Of others, between devices that were left out (Tensor Cores
0.11, FP32 lanes 0.30, functions 0.34). The largest of each is taken. Kernels of one shape err together."""
