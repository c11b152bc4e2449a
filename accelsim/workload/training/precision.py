"""Formats of the numbers in a training step."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.errors import UsageError, nearest


@dataclass(frozen=True)
class Precision:
    """A policy. ``master``: weights and optimiser states; ``compute``: activations, their gradients and the weights as
    the products read them; ``scaled``: whether gradients need a loss scale to stay inside the format.

    The loss and the arithmetic of the update are fp32 under every policy; what ``master`` cannot hold is rounded when
    the new weights are written.
    """

    name: str
    master: str
    compute: str
    scaled: bool
    what: str


PRECISIONS: dict[str, Precision] = {
    entry.name: entry
    for entry in (
        Precision("fp32", "fp32", "fp32", False, "everything in fp32"),
        Precision("mixed", "fp32", "fp16", True, "fp16 products, fp32 master weights, loss scaling"),
        Precision("mixed-bf16", "fp32", "bf16", False, "bf16 products, fp32 master weights"),
        Precision("fp16", "fp16", "fp16", True, "fp16 weights and states too"),
        Precision("bf16", "bf16", "bf16", False, "bf16 weights and states too"),
    )
}
"""Policies by name. Mixed: Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3; bf16 has the exponents
of fp32 and needs no scale (Kalamkar et al., arXiv 1905.12322)."""


def precision_of(name: str) -> Precision:
    """The policy of that name; UsageError with the nearest one."""
    if name not in PRECISIONS:
        expected = "one of " + ", ".join(PRECISIONS)
        raise UsageError(f"no precision {name!r}", "", expected, nearest(name, PRECISIONS))
    return PRECISIONS[name]
