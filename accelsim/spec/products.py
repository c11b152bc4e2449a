"""What specs of engines that multiply have in common: sparsity, and what their formats must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from accelsim.errors import brief, nearest
from accelsim.formats import dot
from accelsim.spec.base import Model
from accelsim.spec.counts import Side
from accelsim.spec.declaring import Field
from accelsim.spec.laws.finding import Finding
from accelsim.spec.names import format_bits, nearest_format
from accelsim.spec.yaml.tree import PathTo

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip


class Sparse(Model):
    """N:M structured sparsity: of each M weights along the reduction at most N are not zero, and only they are
    stored and multiplied.
    """

    n: Side = Field(description="weights kept of each group")
    m: Side = Field(description="weights of a group")


def formats_are_known(unit: Any, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """Names of number formats are those of ``accelsim.formats.table``, or pairs of them: int4xint8."""
    for name, mac in unit.formats.items():
        for inner, each in ((name,), name), ((name, "accumulate"), mac.accumulate):
            if format_bits(each) is None:
                what = f"{brief(each)} is no number format"
                yield Finding(
                    (*path, "formats", *inner), what, "int8, fp16, int4xint8, ...", nearest_format(each)
                )


def dot_rules_fit(unit: Any, chip: Chip, path: PathTo) -> Iterator[Finding]:
    """A dot-product rule is a row of the table of rules, and takes the format it is named for."""
    for name, mac in unit.formats.items():
        if mac.dot is None:
            continue
        known = dot.rules_for(name) if format_bits(name) is not None else ()
        if known and mac.dot not in known:
            what = f"{mac.dot!r} is no rule that adds up products of {name}"
            expected = "one of " + ", ".join(known)
            yield Finding((*path, "formats", name, "dot"), what, expected, nearest(mac.dot, known))
