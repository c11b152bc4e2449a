"""Sweeps from Python: run or read in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from accelsim.explore.sweep.fronts import UNITS
from accelsim.explore.sweep.store import Store
from accelsim.explore.sweep.study import check_size, read_study, read_sweep, run_sweep
from accelsim.limits import read_limits
from accelsim.report.answer import Answer
from accelsim.report.sweep import sweep as reported


class Swept(Answer):
    """A study: its points as ``records``, a ``frame()`` of pandas, a ``plot()``; see ``Answer``."""

    @property
    def records(self) -> list[dict[str, Any]]:
        """Points in their order: axes, figures in SI units, whether on the front, status."""
        return [dict(row) for row in self.rows]

    @property
    def front(self) -> list[dict[str, Any]]:
        """Points within the limits that no other beats in all objectives, in their order."""
        return [row for row in self.records if row["front"]]


def sweep(
    asked: Mapping[str, object] | str | Path,
    store: str | Path | None = None,
    *,
    workers: int = 1,
    dask: str = "",
    objectives: Sequence[str] = (),
    limits: Mapping[str, str] | None = None,
    prices: str | Path | None = None,
    name: str = "sweep",
    yes: bool = False,
) -> Swept:
    """Run a sweep, or read a study, as ``accelsim sweep`` does.

    ``asked``: the content of a sweep file, its path, or that of a store (``.db``). ``store``: the file that keeps the
    results; without one nothing is kept. ``workers``, ``dask``: as on the command line; more than one worker needs a
    script that is safe to import. ``name``: of the study. ``yes``: run even a very large sweep. Raises UsageError and
    SpecError with all problems.
    """
    own = Path(prices) if prices else None
    kept = read_limits([f"{key}={value}" for key, value in (limits or {}).items()], UNITS, "limits")
    if not isinstance(asked, Mapping) and Path(asked).suffix not in (".yaml", ".yml"):
        read, name = None, "" if name == "sweep" else name
    else:
        read = read_sweep(asked if isinstance(asked, Mapping) else Path(asked))
        check_size(read, "sweep", workers, yes)
    with closing(Store(Path(str(asked)), new=False) if read is None else Store(Path(store or ":memory:"))) as found:
        ran = 0 if read is None else run_sweep(read, found, name, workers, dask, prices=own)
        made = reported(read_study(found, name, objectives, kept, own), ran, sensitivity=False)
    return Swept(**vars(made))
