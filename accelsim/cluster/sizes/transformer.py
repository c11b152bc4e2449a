"""A decoder as the closed forms see it, and the numbers of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from accelsim.errors import Problem, UsageError

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
            raise UsageError(
                [Problem(f"{getattr(self, name)}", name, "a whole number from 1") for name in wrong]
            )

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
    wrong = [
        Problem(f"{count}", name, "a whole number from 1") for name, count in counts.items() if count < 1
    ]
    if wrong:
        raise UsageError(wrong)
