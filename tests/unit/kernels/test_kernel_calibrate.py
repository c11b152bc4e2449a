"""Calibration: constants that are known are found again, intervals hold, what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.fit.chips import write_spec
from accelsim.kernels.calibrate import balanced, calibrate, regimes
from accelsim.kernels.explain import ends, sentences
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import joined, read_table, several
from accelsim.kernels.whole import in_other_labs, uncalibrated
from accelsim.spec.constants import constants, is_calibrated, with_values
from accelsim.spec.site import with_site
from accelsim.spec.yaml.chips import load_site
from accelsim.spec.yaml.load import load_chip
from tests.helpers.kernel_rows import measured_csv

TRUE = {"sm.formats.fp16.sustained": 0.6, "hbm.memory.efficiency": 0.7, "sm.launch": 9e-6}
CHIP = load_chip("a100-80-sxm", ["calibration=null"])


def test_constants_that_are_known_are_found_again(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 120, TRUE, noise=0.01), timed=True)
    groups = [(name,) for name in TRUE]
    found = calibrate(table, load_chip(CHIP.name), "made up", "2026-11", groups)
    for name, value in TRUE.items():
        assert found.values[name] == pytest.approx(value, rel=0.05), name
    errors = np.abs(found.left_out / table.measured - 1)
    assert np.median(errors) < 0.015
    block = found.chip.calibration
    assert block is not None and block.rows == 120 and set(block.values) == set(TRUE)
    assert 1 < block.intervals["all"].factor < 1.1
    again = load_chip(write_spec(found.chip, tmp_path / "mine.yaml"))
    assert again == found.chip
    assert all(is_calibrated(again, constants(again)[name]) for name in TRUE)


def test_thirty_rows_give_three_constants(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 30), timed=True)
    found = calibrate(table, CHIP, "made up", "2026-11")
    assert len(found.values) == 3 and found.coverage.rows == 30


def test_outliers_do_not_pull_a_fit(tmp_path: Path) -> None:
    """Every tenth kernel takes three times as long, as where a library takes a bad one."""
    path = measured_csv(tmp_path / "rows.csv", CHIP.name, 120, TRUE, noise=0.005)
    table = read_table(path, timed=True)
    table.measured[::10] *= 3
    found = calibrate(table, load_chip(CHIP.name), "made up", "2026-11", [(name,) for name in TRUE])
    for name, value in TRUE.items():
        assert found.values[name] == pytest.approx(value, rel=0.08), name


def test_the_same_rows_give_the_same_constants(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 60), timed=True)
    one, two = (calibrate(table, CHIP, "made up", "2026-11", seed=3) for _ in range(2))
    assert one.values == two.values and np.array_equal(one.left_out, two.left_out)


def test_rows_below_the_bound_of_the_peaks_are_listed(tmp_path: Path) -> None:
    path = measured_csv(tmp_path / "rows.csv", CHIP.name, 40)
    table = read_table(path, timed=True)
    table.measured[[4, 8]] = 1e-9
    with pytest.raises(UsageError) as error:
        calibrate(table, CHIP, "made up", "2026-11")
    text = str(error.value)
    assert f"{path}:6: gemm in 0.001 us; expected at least" in text and f"{path}:10:" in text
    assert "the bound of the peaks of a100-80-sxm" in text and len(error.value.problems) == 2


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 11), timed=True)
    with pytest.raises(UsageError, match="11 rows of a100-80-sxm; expected at least 12"):
        calibrate(table, CHIP, "made up", "2026-11")


def test_a_format_that_a_chip_lacks_is_refused(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", "t4", 12, dtype="fp16"))
    with pytest.raises(UsageError, match="p4 does not multiply fp16; expected fp32, int8, fp64"):
        Kernels(table, load_chip("p4"))


def test_a_chip_without_kernels_is_refused(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", "t4", 12))
    with pytest.raises(UsageError, match="tpu-v1 has no engine that runs kernels"):
        Kernels(table, load_chip("tpu-v1"))


def test_intervals_are_those_of_the_calibration_else_of_other_chips(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 60), timed=True)
    plain = Kernels(table, CHIP)
    found = plain.predicted(CHIP)
    wide = ends(plain, found)
    assert not wide.calibrated.any()
    assert np.allclose(wide.high / found.seconds, [uncalibrated(kind) for kind in found.family])
    chip = calibrate(table, CHIP, "made up", "2026-11").chip
    own = Kernels(table, chip)
    narrow = ends(own, own.predicted(chip))
    assert narrow.calibrated.all() and (narrow.high / narrow.low < wide.high / wide.low).all()
    inside = (narrow.low <= table.measured) & (table.measured <= narrow.high)
    assert inside.mean() >= 0.85


def test_sentences_are_those_of_the_times(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 24), timed=True)
    kernels = Kernels(table, CHIP)
    found = kernels.predicted(CHIP)
    for row in range(24):
        text = " ".join(sentences(kernels, found, row))
        times = found.times
        assert ("Launch and host take longest:" in text) == (times.binds[row] == "launch")
        part = times.bound[row] / times.seconds[row]
        share = f"L2 cache gives {part:.0%} of" if part >= 0.005 else "L2 cache gives less than 1% of"
        assert (share in text) == (times.bound[row] > 0)
        assert ("of the multiprocessors." in text or "waves." in text) == (found.family[row] == "product")
        assert regimes(found)[row].startswith(str(found.family[row]))


def test_a_site_is_two_numbers_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mysite.yaml"
    path.write_text("name: mysite\nsustained_clock: 0.8\ndispatch: 20 us\nsource: a test\nas_of: 2026-11\n")
    chip = with_site(CHIP, load_site(path))
    known = constants(chip)
    assert (known["sm.sustained_clock"].value, known["sm.dispatch"].value) == (0.8, 20e-6)
    with pytest.raises(UsageError, match="tpu-v1 has no constant that belongs to a site"):
        with_site(load_chip("tpu-v1"), load_site(path))


def test_functions_tell_the_memory_even_after_products(tmp_path: Path) -> None:
    """What products made of the memory's share does not stay, and they are no longer calibrated with another one."""
    mixed = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 80, noise=0.02), timed=True)
    products = mixed.only([row for row, op in enumerate(mixed.ops) if op == "gemm"])
    first = calibrate(products, CHIP, "products", "2026-11").chip
    known = Kernels(several("relu", "fp16", SIZES), first).predicted(with_values(CHIP, {"hbm.memory.efficiency": 0.55}))
    functions = replace(several("relu", "fp16", SIZES), measured=known.seconds)
    found = calibrate(functions, first, "functions", "2026-11")
    assert found.values["hbm.memory.efficiency"] == pytest.approx(0.55, rel=0.02)
    block = found.chip.calibration
    assert block is not None and block.kinds == ["function"]


def test_kinds_in_one_table_are_fitted_together_and_keep_intervals_of_their_own(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 120, TRUE, noise=0.01), timed=True)
    block = calibrate(table, CHIP, "both", "2026-11").chip.calibration
    assert block is not None and block.kinds == ["function", "product"]
    factors = {kind: block.intervals[kind].factor for kind in block.kinds}
    assert block.intervals["all"].factor == max(factors.values())
    weights = balanced(table)
    sizes = [len(group.rows) for group in table.groups]
    sums = [float(weights[group.rows].sum()) for group in table.groups]
    assert sums == pytest.approx([size**0.5 for size in sizes])


def test_tables_are_joined_row_by_row(tmp_path: Path) -> None:
    one, two = (
        read_table(measured_csv(tmp_path / f"{seed}.csv", CHIP.name, 20, seed=seed), timed=True) for seed in (0, 1)
    )
    both = joined([one, two])
    assert len(both.ops) == 40 and both.cells[20:] == list(two.cells)
    apart = [Kernels(each, CHIP).predicted(CHIP).seconds for each in (one, two)]
    assert np.array_equal(Kernels(both, CHIP).predicted(CHIP).seconds, np.concatenate(apart))


def test_intervals_cover_other_labs_but_for_a_site_that_was_measured(tmp_path: Path) -> None:
    table = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 12))
    chip = load_chip(CHIP.name)
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nmeasured: true\nsource: a test\nas_of: 2026-11\n")
    factors = {}
    for name, at in {"any": chip, "eager": with_site(chip, load_site("pytorch-eager")),
                     "mine": with_site(chip, load_site(path))}.items():  # fmt: skip
        kernels = Kernels(table, at)
        found = kernels.predicted(at)
        interval = ends(kernels, found)
        products = found.family == "product"
        factors[name] = (interval.high / found.seconds)[products]
        assert set(interval.spread[products]) == {"this lab" if name == "mine" else "any lab"}
    assert (factors["any"] > 1.05 * factors["mine"]).all()
    assert factors["any"].max() == pytest.approx(in_other_labs("product", float(factors["mine"].max())))


def test_a_site_takes_the_host_that_was_measured_with_the_chip() -> None:
    chip = load_chip("v100-pcie")
    assert chip.calibration is not None and chip.calibration.host is not None
    at = constants(with_site(chip, load_site("pytorch-eager")))
    assert at["sm.dispatch"].value == pytest.approx(float(chip.calibration.host))
    assert constants(with_site(CHIP, load_site("pytorch-eager")))["sm.dispatch"].value == 25e-6


def test_what_other_kinds_of_kernels_told_stays(tmp_path: Path) -> None:
    """Functions first, which tell the share of the memory; products then tell the rest, and each keeps its intervals."""
    known = Kernels(several("relu", "fp16", SIZES), load_chip(CHIP.name)).predicted(
        with_values(CHIP, {"hbm.memory.efficiency": 0.65})
    )
    functions = replace(several("relu", "fp16", SIZES), measured=known.seconds)
    first = calibrate(functions, CHIP, "functions", "2026-11", [("hbm.memory.efficiency",)])
    mixed = read_table(measured_csv(tmp_path / "rows.csv", CHIP.name, 80, noise=0.02), timed=True)
    products = mixed.only([row for row, op in enumerate(mixed.ops) if op == "gemm"])
    found = calibrate(products, first.chip, "products", "2026-11")
    block = found.chip.calibration
    assert block is not None and first.chip.calibration is not None
    assert "hbm.memory.efficiency" not in found.values
    assert block.values["hbm.memory.efficiency"] == first.chip.calibration.values["hbm.memory.efficiency"]
    assert float(block.values["hbm.memory.efficiency"]) == pytest.approx(0.65, rel=0.02)
    assert block.kinds == ["function", "product"] and block.fitted_on == "functions; products"
    assert block.rows == len(SIZES) + 60
    assert block.intervals["function"] == first.chip.calibration.intervals["all"]
    assert block.intervals["all"] == max((block.intervals[kind] for kind in block.kinds), key=lambda each: each.factor)
    assert load_chip(write_spec(found.chip, tmp_path / "mine.yaml")) == found.chip
    named = calibrate(products, first.chip, "products", "2026-11", [("hbm.memory.efficiency",)])
    assert "hbm.memory.efficiency" in named.values


SIZES = [{"rows": str(2**power), "cols": "4096"} for power in range(6, 19)]
"""Rows of a function from 64 to 262,144."""
