"""Data that checks compare with."""

from __future__ import annotations

from pathlib import Path

from accelsim.errors import Problem, UsageError

FOLDER = Path(__file__).parent / "data"
ANCHORS = FOLDER / "dram" / "anchors"
"""Configurations of DRAMsim3 and Ramulator as specs of DRAMs, quirks included."""


def golden(name: str) -> Path:
    """The file or folder ``name`` ('systolic/scalesim2_check.csv') of the data that comes with the package.

    Raises UsageError when it is missing.
    """
    path = FOLDER / name
    if not path.exists():
        raise UsageError(Problem(f"there is no golden file {name!r}", str(path.parent)))
    return path


def anchor(name: str) -> str:
    """Return the path of a configuration of DRAMsim3 or Ramulator ('dramsim3-ddr3-1600') as a spec of a DRAM."""
    return str(golden(f"dram/anchors/{name}.yaml"))
