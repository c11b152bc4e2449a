"""Return a sentence about the basis of an interval: measured wholes, or the kernels that carry its width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.errors import count_of
from accelsim.report.text import percent

if TYPE_CHECKING:
    from accelsim.kernels.whole import Interval

FAMILIES = {
    "product": "matrix products",
    "function": "functions of rows",
    "convolution": "convolutions",
    "attention": "attention",
    "layer": "linear layers of a serving stack",
    "prefill": "attention over prompts",
    "decode": "attention of single queries",
    "experts": "mixtures of experts",
}
"""Kind of kernels -> its name in a sentence."""
THINGS = {
    "network": "network",
    "step": "training step",
    "generation": "generation",
    "token": "token",
    "joules": "run's joule",
    "watts": "run's power",
    "plans": "pair of plans",
}
"""First part of a key -> what was measured."""
WHERE = {
    "one node": "on one node",
    "many nodes": "on many nodes",
    "wall": "at the wall",
    "eager, host": "kernel by kernel under frameworks, bound by the host",
    "eager, GPU": "kernel by kernel under frameworks, bound by the GPU",
    "eager, this lab": "kernel by kernel in the lab of the chip",
}
"""Second part of a key -> where it was measured."""


def basis_text(key: str, family: str = "") -> str:
    """Return what an interval of ``key`` stands on, without a subject: 'that of 491 measured training steps (...)'."""
    from accelsim.kernels.whole import KERNELS, shipped

    if key == KERNELS or key not in shipped().wholes:
        return f"that of its kernels; {FAMILIES.get(family, 'copies')} carry most of its width"
    whole, (thing, _, where) = shipped().wholes[key], key.partition(": ")
    placed = f" {WHERE[where]}" if where else ""
    return f"that of {count_of(whole.rows, THINGS[thing])} measured{placed}: {whole.fitted_on}"


def order_text(key: str, factor: float) -> str:
    """Return how well the times of two plans are predicted relative to each other."""
    from accelsim.kernels.whole import shipped

    whole, placed = shipped().wholes[key], WHERE[key.partition(": ")[2]]
    return (
        f"of {count_of(whole.rows, 'measured pair')} of plans {placed} ({whole.fitted_on}), nine of ten differ from "
        f"each other as predicted within {percent(factor - 1)}"
    )


def of_what(what: str, key: str, family: str) -> str:
    """Return a sentence on the interval of ``what``."""
    return f"The 90 % interval of {what} is {basis_text(key, family)}."


def sentences(found: Interval | None, what: str) -> list[str]:
    """Return a sentence on the interval of ``what``; nothing where it has none."""
    return [] if found is None else [of_what(what, found.basis, found.family)]
