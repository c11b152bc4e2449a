"""Studies: their figures are those of runs, their sentences those of their figures."""

from __future__ import annotations

import re

import numpy as np
import pytest

import accelsim
from accelsim.account.latency import summary
from accelsim.errors import UsageError
from accelsim.explore.batching import batching
from accelsim.explore.studies import crossover, crossover_sentences, ladder_sentences, precision
from accelsim.report.studies import crossing, ladder

MLP = "mlp?hidden=256"


@pytest.fixture(scope="module")
def found():
    return precision(MLP, ["v100-sxm2-16", "a100-80-sxm"], ("fp32", "tf32", "fp16", "int8"), batch=4)


def test_a_rung_is_a_run(found) -> None:
    rung = next(each for each in found.rungs_of("a100-80-sxm") if each.dtype == "fp16")
    run = accelsim.run(MLP, on="a100-80-sxm", dtype="fp16", batch=4, values="off", edges="outside")
    assert rung.seconds == pytest.approx(run.seconds / 4)
    assert rung.joules == pytest.approx(summary(run)["energy_per_inference_J"], rel=1e-9, abs=0)
    assert rung.low < rung.seconds < rung.high


def test_what_a_chip_lacks_is_said_and_not_run(found) -> None:
    assert found.lacking == {"v100-sxm2-16": ["tf32"]} and len(found.rungs) == 7
    assert ladder_sentences(found)[-1].endswith("does not multiply tf32.")


def test_errors_grow_as_formats_narrow(found) -> None:
    for chip in found.chips:
        errors = [rung.error for rung in found.rungs_of(chip)]
        assert errors == sorted(errors) and 1e-8 < errors[0] < 1e-6 and 0.005 < errors[-1] < 0.05


def test_sentences_say_what_the_rungs_are(found) -> None:
    for chip, told in zip(found.chips, ladder_sentences(found), strict=False):
        wide, best = found.rungs_of(chip)[0], min(found.rungs_of(chip), key=lambda rung: rung.seconds)
        factor = float(re.findall(r"is ([\d.e+]+) times", told)[0]) if best is not wide else 1.0
        assert factor == pytest.approx(wide.seconds / best.seconds, rel=0.06)


def test_no_chip_has_the_format() -> None:
    with pytest.raises(UsageError, match="no chip has any"):
        precision(MLP, ["v100-sxm2-16"], ("fp8_e4m3fn",))


def test_a_crossing_is_told_from_the_first_batch_on() -> None:
    study = crossover("mlp?hidden=64", ["haswell-e5-2699v3", "t4"], (1, 8, 4096))
    host, gpu = study.series
    wins = [
        a.batch for a, b in zip(gpu.points, host.points, strict=True) if a.seconds_per_sample < b.seconds_per_sample
    ]
    told = " ".join(crossover_sentences(study))
    if wins:
        assert str(wins[0]) in told
    else:
        assert "slower" in told
    again = batching("mlp?hidden=64", "t4", (1, 8, 4096))
    assert np.allclose([p.seconds_per_sample for p in again.points], [p.seconds_per_sample for p in gpu.points])
    assert f"{gpu.points[0].parts_fs['link'] / gpu.points[0].time_fs:.0%} of its time at batch 1" in told
    assert len(crossing(study).figure().axes[0].lines) == 3  # the host has no link


def test_one_chip_is_no_study_and_all_that_is_wrong_is_told() -> None:
    with pytest.raises(UsageError, match="1 chip; expected 2 chips or more"):
        crossover(MLP, ["t4"])
    with pytest.raises(UsageError, match="0 chips"):
        precision(MLP, [])
    with pytest.raises(UsageError) as caught:
        precision(MLP, ["t4", "t4", "t44"], ["fp99", "fp16"])
    said = [str(each) for each in caught.value.problems]
    assert len(said) == 3 and "'t4' is there twice" in said[0] and "'t44'" in said[1] and "'fp99'" in said[2]


def test_the_ladder_has_a_bar_for_each_rung(found) -> None:
    axes = ladder(found).figure().axes[0]
    assert sum(1 for bar in axes.patches if bar.get_height() > 0) == len(found.rungs)
