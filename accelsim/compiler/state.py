"""What the passes hand to each other, and what the user asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accelsim.spec.models import Chip
from accelsim.workload.graph import Array, Graph


@dataclass(frozen=True)
class Options:
    """Choices of one compilation. ``dtype``: operand format of the matrix unit ('' = the chip's preferred
    one).

    ``dataflow`` and ``schedule`` ('' = the chip's) override the array. ``fuse``: whether nodes may be fused.
    ``calibration``: feeds (input name -> array) whose absolute maxima set the activation scales of an integer
    format; None: one batch drawn with ``seed``. ``values``: 'exact', 'fast' or 'off'; off skips the
    calibration, so scales are placeholders, and changes nothing else. ``cores``: how many cores run the graph
    side by side, each on its own part of the batch. ``pinned``: node name -> mapping fields that the search
    must keep.
    """

    dtype: str = ""
    dataflow: str = ""
    schedule: str = ""
    fuse: bool = True
    calibration: Mapping[str, Array] | None = None
    seed: int = 0
    values: str = "exact"
    cores: int = 1
    pinned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass
class State:
    """The work in progress: each pass reads and changes it, and says in ``notes`` what a user should know."""

    graph: Graph
    chip: Chip
    options: Options
    dtype: str
    notes: list[str] = field(default_factory=list)
    choices: dict[Hashable, list[Any]] = field(
        default_factory=dict
    )  # searches that were made, see ``search.choose``


class Pass(NamedTuple):
    """One entry of the visible list: its name, what it does in a few words, the function."""

    name: str
    what: str
    run: Callable[[State], None]
