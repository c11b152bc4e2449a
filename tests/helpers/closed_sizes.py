"""A decoder as the closed forms see it: numbers of its parameters, bytes of its activations.

Activations: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", MLSys 2023
(2205.05198), sections 4 and 5; in 2 bytes, dropout masks in 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from accelsim.errors import Problem, UsageError, known

Recompute = Literal["none", "selective", "full"]
"""Activations that are computed anew in the backward: none, those of the attention's core, all of a layer."""
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")

Exact = int | Fraction
"""Bytes or operations; a Fraction only where sizes do not divide."""


@dataclass(frozen=True)
class Transformer:
    """A decoder with layers of four hidden x hidden and two hidden x 4 hidden matrices (GPT-3's).

    ``heads`` a, ``hidden`` h, ``layers`` L, ``seq`` s (tokens of a sequence), ``vocab`` V.
    """

    layers: int
    hidden: int
    heads: int
    seq: int
    vocab: int = 51200

    def __post_init__(self) -> None:
        fields = ("layers", "hidden", "heads", "seq", "vocab")
        wrong = [name for name in fields if getattr(self, name) < 1]
        if wrong:
            raise UsageError([Problem(f"{getattr(self, name)}", name, "a whole number from 1") for name in wrong])

    @property
    def block_parameters(self) -> int:
        """12 L h^2: the matrices of all layers, as the closed forms of memory count them."""
        return 12 * self.layers * self.hidden**2

    @property
    def parameters(self) -> int:
        """12 L h^2 (1 + 13/(12h) + (V + s)/(12Lh)): biases, norms and embeddings too (Megatron-LM, SC 2021, eq. 2)."""
        h = self.hidden
        return self.block_parameters + 13 * self.layers * h + (self.vocab + self.seq) * h


def whole(value: Fraction) -> Exact:
    """An int where it is one."""
    return int(value) if value.denominator == 1 else value


def checked_split(**counts: int) -> None:
    """UsageError for each count below 1, all at once."""
    wrong = [Problem(f"{count}", name, "a whole number from 1") for name, count in counts.items() if count < 1]
    if wrong:
        raise UsageError(wrong)


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
