"""Memory of training a transformer: activations, and parameters with all that belongs to them.

Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023 (2205.05198), sections
4 and 5; activations in 2 bytes, dropout masks in 1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from accelsim.cluster.sizes.transformer import RECOMPUTE, Exact, Recompute, Transformer, checked_split, whole
from accelsim.errors import known

Factor = Callable[[int, Fraction], Fraction]
"""Bytes per s b h: of tensor-parallel size t and of attention's core 5 a s / h."""

_FACTORS: dict[tuple[Recompute, bool], Factor] = {
    ("none", False): lambda t, core: 10 + Fraction(24, t) + core / t,
    ("none", True): lambda t, core: (34 + core) / t,
    ("selective", False): lambda t, core: 10 + Fraction(24, t),
    ("selective", True): lambda t, core: Fraction(34, t),
    ("full", False): lambda t, core: Fraction(2),
    ("full", True): lambda t, core: Fraction(2),
}
"""Table 2 of the paper: (recompute, sequence parallel) -> factor."""


def layer_activation_B(
    model: Transformer, microbatch: int = 1, tp: int = 1, sp: bool = False, recompute: Recompute = "none"
) -> Exact:
    """Bytes that the forward of one microbatch leaves for the backward in one layer, per device.

    s b h (10 + 24/t + 5as/(ht)); with sequence parallelism s b h/t (34 + 5as/h); with selective recomputation without
    the term in as; with full recomputation 2 s b h, the input of the layer (equations 1, 2, 4, 6 and table 2).
    """
    known("recompute", recompute, RECOMPUTE)
    checked_split(microbatch=microbatch, tp=tp)
    core = Fraction(5 * model.heads * model.seq, model.hidden)
    return whole(model.seq * microbatch * model.hidden * _FACTORS[recompute, sp](tp, core))
