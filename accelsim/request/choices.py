"""Names that a field of a request may have: each from where it is defined, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable


def policies() -> Iterable[str]:
    """Policies of values."""
    from accelsim.machine.values.effects import POLICIES

    return POLICIES


def schedules() -> Iterable[str]:
    """Timings of an array."""
    from accelsim.engines.systolic.timing import SCHEDULES

    return SCHEDULES


def dataflows() -> Iterable[str]:
    """Dataflows of an array."""
    from accelsim.engines.systolic.dataflow import DATAFLOWS

    return DATAFLOWS


def methods() -> Iterable[str]:
    """Methods that choose ranges of codes."""
    from accelsim.formats.ranges.methods import METHODS

    return METHODS


def schemes() -> Iterable[str]:
    """Schemes of codes."""
    from accelsim.compiler.state import SCHEMES

    return SCHEMES


def shares() -> Iterable[str]:
    """Return what cores share."""
    from accelsim.compiler.state import SHARES

    return SHARES


def edges() -> Iterable[str]:
    """Return who converts at the ends of a network."""
    from accelsim.compiler.state import EDGES

    return EDGES


def fusions() -> Iterable[str]:
    """Return what runs together."""
    from accelsim.compiler.state import FUSIONS

    return FUSIONS


def memory_models() -> Iterable[str]:
    """Levels of detail of off-chip memories."""
    from accelsim.machine.memory_models import MODELS

    return MODELS
