"""Every row of an independent event simulation of pipelines: makespan, bubble, stashes, exactly."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.registry import SCHEDULES
from tests.helpers.schedule_forms import CLOSED, Times

GOLDEN = Path(__file__).parents[3] / "golden" / "training" / "pipeline_schedule_golden.csv"
NAMES = {"gpipe": "gpipe", "1f1b_flush": "1f1b", "interleaved_1f1b_megatron": "interleaved", "zb_h1": "zb-h1"}
ROWS = list(csv.DictReader(GOLDEN.read_text().splitlines()))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_exact(name: str) -> None:
    rows = [row for row in ROWS if row["schedule"] == name]
    assert len(rows) >= 27
    for row in rows:
        p, m, v = (int(row[key]) for key in ("stages", "microbatches", "chunks_v"))
        f, b, w, c = (Fraction(row[key]) for key in ("t_fwd", "t_bwd", "t_wgrad", "t_p2p"))
        orders = SCHEDULES[NAMES[name]].orders(p, m, v)
        played = play_schedule(orders, f / v, b / v, w / v, c)
        assert played.makespan_fs == Fraction(row["makespan"]), row
        assert set(played.bubble_fs) == {Fraction(row["bubble_time"])}, row
        over_ideal = Fraction(played.makespan_fs - max(played.busy_fs)) / max(played.busy_fs)
        assert float(over_ideal) == pytest.approx(float(row["bubble_over_ideal"]), abs=5e-10)
        share = float(row["bubble_fraction_of_makespan"])
        assert float(played.bubble_fraction) == pytest.approx(share, abs=5e-10)
        peaks = row["peak_live_microbatch_activations_per_stage"].split()
        assert played.peak_stashes == tuple(map(int, peaks)), row
        closed, times = CLOSED[NAMES[name]], Times(p, m, v, f / v, b / v, w / v, c)
        assert closed.holds(times)
        assert closed.makespan(times) == Fraction(row["closed_form"])
