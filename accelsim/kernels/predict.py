"""Kernels of a table on a chip: how long each takes, by the closed form of the engine that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from accelsim.engines.kernel_times import KernelModel, KernelTimes, Prepared
from accelsim.engines.registry import ENGINES
from accelsim.errors import Problem, UsageError, begun
from accelsim.kernels.table import Table
from accelsim.program.roles import units
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.where import chips_with
from accelsim.types import Array, Floats, Ints


def model_of(chip: Chip) -> KernelModel:
    """Return the kernels of a chip. Raises UsageError for one whose engines run none."""
    for unit in units(chip).values():
        found = ENGINES[unit.type].kernels(chip, unit)
        if found is not None:
            return found
    raise UsageError(f"{chip.name} has no engine that runs kernels", "", "a GPU")


def usual_format(chip: Chip) -> str:
    """Return FP16 where the chip multiplies it, else its first format. Raises UsageError without kernels."""
    known = list(model_of(chip).formats("product"))
    return "fp16" if "fp16" in known else known[0]


class PreparedRows(NamedTuple):
    """Rows of a kernel table and their kernels, prepared on a chip."""

    rows: Ints
    prepared: Prepared


@dataclass(frozen=True)
class Prediction:
    """Prediction for each row of a table: seconds, the least that the peaks allow, the part of launch and
    host; tile, cuts of K and waves; what binds, and where like errors are to be expected (family
    and regime)."""

    times: KernelTimes
    family: Array

    @property
    def seconds(self) -> Floats:
        """Return the time of each row, s."""
        return self.times.seconds


class Kernels:
    """The kernels of a table on a chip, with everything that no constant changes worked out once."""

    def __init__(self, table: Table, chip: Chip) -> None:
        self.table, self.chip, model = table, chip, model_of(chip)
        _check_formats(table, chip, model)
        self.parts = [
            PreparedRows(
                group.rows, model.prepared(group.family, _format(model, group.family, group.format), group.columns)
            )
            for group in table.groups
        ]
        self.constants = _in_turn([part.prepared.constants for part in self.parts])
        self._families = np.empty(len(table.ops), dtype=object)
        for group in table.groups:
            self._families[group.rows] = group.family

    def predicted(self, chip: Chip) -> Prediction:
        """Predict every row; ``chip``: the same but for its constants."""
        found = [part.prepared.times(chip) for part in self.parts]
        rows = np.argsort(np.concatenate([part.rows for part in self.parts]))
        columns = (np.concatenate(parts)[rows] for parts in zip(*found, strict=True))
        return Prediction(KernelTimes(*columns), self._families)

    def likely(self, chip: Chip, most: int) -> Kernels:
        """Return the kernels with at most ``most`` candidates each, for fits."""
        other = copy(self)
        other.parts = [
            part._replace(prepared=part.prepared.likely(chip, most)) if part.prepared.likely else part
            for part in self.parts
        ]
        return other


def _in_turn(lists: Sequence[Sequence[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """The first of each list, then the second of each; each once, none with a name that was there before."""
    found: list[tuple[str, ...]] = []
    for group in (each for rank in zip_longest(*lists) for each in rank if each is not None):
        if not {name for other in found for name in other} & set(group):
            found.append(group)
    return found


def _format(model: KernelModel, family: str, name: str) -> str:
    """The format of a group; functions compute in whatever there is."""
    known = list(model.formats(family))
    return name if name in known or family != "function" else known[0]


def _check_formats(table: Table, chip: Chip, model: KernelModel) -> None:
    problems = []
    for group in table.groups:
        name, known = group.format, list(model.formats(group.family))
        if _format(model, group.family, name) not in known:
            place = table.where(int(group.rows[0])) if len(table.ops) > 1 else ""
            others = chips_with(name)
            expected = ", ".join(known) + (f"; chips that have it: {others}" if others else "")
            what = f"{chip.name} does not multiply {name}"
            problems.append(Problem(what, place, expected, begun(name, known)))
    UsageError.raise_for(problems)
