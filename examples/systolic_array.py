"""Cycles of one matrix product on a systolic array alone, for every dataflow and schedule."""

from __future__ import annotations

from accelsim.engines.systolic.sweep import one
from accelsim.engines.systolic.timing import DATAFLOWS, SCHEDULES

for dataflow in DATAFLOWS:
    for schedule in SCHEDULES:
        result = one(128, 128, dataflow, schedule, 512, 1024, 768)
        print(f"{dataflow} {schedule:10} {result['cycles']:8,} cycles, {result['utilisation_pct']:5.1f} % used")
