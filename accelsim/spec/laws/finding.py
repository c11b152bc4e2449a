"""What breaks a law of a spec."""

from __future__ import annotations

from typing import NamedTuple

from accelsim.spec.yaml.marks import PathTo


class Finding(NamedTuple):
    """One law broken: where, what, what was expected, nearest name.

    ``claim``: a mere claim about the rest (a stated peak), which is dropped from a chip whose user has overridden what
    it rests on. ``beside``: keys of the same block that the claim rests on; it is dropped, too, where one of them is
    stated in another file than the claim, which was then inherited (``use``) by a block that has changed what it rests
    on.
    """

    path: PathTo
    what: str
    expected: str = ""
    near: str = ""
    claim: bool = False
    beside: tuple[str, ...] = ()
