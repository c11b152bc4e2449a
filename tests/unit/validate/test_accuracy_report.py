"""The generated reports: every check has its row and its meaning, and the committed pages come from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accelsim.account.energy import energy_table, total_J
from accelsim.errors import UsageError
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from tests.validation import report
from tests.validation.anchors import Anchor, outcome, points, relative, run_shapes
from tests.validation.base import CHECKS, Check
from tests.validation.claims import CLAIMS, broken
from tests.validation.light_models import Outcome, Target, summed

REPORTS = Path(__file__).parents[3] / "reports"


def light(model: str, exact: float, sqnr_dB: float | None) -> Outcome:
    dtype = "fp32" if sqnr_dB is None else "int8"
    return Outcome(model, Target("tpu-v1", dtype), 1.5e-3, 2e-3, 3_000_000, 4000, 10, 9, 10, exact, 0.0, sqnr_dB)


def test_every_check_has_a_meaning() -> None:
    assert set(report.check_names()) == set(report.MEANING)


@pytest.mark.parametrize("page", ["accuracy.md", "light-models.md"])
def test_committed_pages_name_their_command(page: str) -> None:
    text = (REPORTS / page).read_text(encoding="utf-8")
    assert report.COMMAND in text.split("\n\n")[1]


def test_committed_page_has_every_check_and_none_that_fails() -> None:
    text = (REPORTS / "accuracy.md").read_text(encoding="utf-8")
    for name, claim in CLAIMS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        cells = [cell.strip() for cell in row.split("|")[2:5]]
        assert cells == [f"{claim.rows:,}", f"{claim.rows:,}", claim.bound], name
    assert "DOES NOT HOLD" not in text


def test_a_claim_is_broken_by_rows_that_differ_or_are_missing_and_by_another_bound() -> None:
    report.check_names()
    kept = CHECKS["pcie"]()
    assert broken(kept) == ""
    assert broken(replace(kept, equal=kept.rows - 1)) == "1 of 192 rows do not agree"
    assert broken(replace(kept, rows=191, equal=191)) == "191 rows were compared, 192 are claimed"
    assert "the bound is 'within 1 %'" in broken(replace(kept, bound="within 1 %"))
    assert broken(replace(kept, rows=1, equal=1, other_rows="no Numba")) == broken(replace(kept, rows=0)) == ""


def test_accuracy_page_shows_rows_errors_and_details() -> None:
    errors = np.array([0.0, -0.02, 0.01])
    page = report.accuracy_page([Check("scalesim", "some rows", 1234, 1200, errors, ["row 7 differs"])])
    assert "| `scalesim` | 1,234 | 1,200 | exact | 1.0% | 1.8% | 2.0% |" in page
    assert "- row 7 differs" in page
    assert report.MEANING["scalesim"] in page
    assert "not validated" in page
    for name in report.ENERGY_TABLES:
        assert f"`{name}`" in page


def test_a_page_keeps_what_other_checks_said() -> None:
    report.check_names()
    first = [
        Check("scalesim", "some rows", 10, 10, np.zeros(2), ["old"]),
        Check("pcie", "links", 5, 5, np.zeros(0), ["x"]),
    ]
    page = report.accuracy_page(first)
    assert report.accuracy_page(first[:1], page) == page == report.accuracy_page(first[1:], page)
    newer = report.accuracy_page([Check("scalesim", "some rows", 12, 12, np.zeros(2), ["new"])], page)
    assert "- new" in newer and "- old" not in newer and "- x" in newer and "| `scalesim` | 12 | 12 |" in newer


def test_the_committed_page_is_kept_whole() -> None:
    report.check_names()
    text = (REPORTS / "accuracy.md").read_text(encoding="utf-8")
    assert report.accuracy_page([], text) == text


def test_a_check_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'gpu-power'"):
        report.main([str(tmp_path), "gpu-powr"])
    assert not list(tmp_path.iterdir())


def test_check_without_errors_has_dashes() -> None:
    page = report.accuracy_page([Check("systolic", "equal or not", 5, 5, np.zeros(0))])
    assert "| `systolic` | 5 | 5 | exact | - | - | - |" in page


def test_energy_spread_reprices_one_ledger() -> None:
    """The table of the chip itself gives the energy that the run has without memory, host and idle power."""
    chip = load_chip(report.SPREAD_CHIP)
    run = run_shapes(load_model("gemm"), chip)
    units = {"matrix", "vector", *chip.buffers}
    own_J = total_J(row for row in energy_table(run) if row.component in units)
    text = report.energy_spread(run)
    assert f"| `energy/scaled-28nm` | {report.si(own_J, 'J')} |" in text
    assert text.count("| 1.0 |") == 1


def test_light_page_has_a_row_per_outcome() -> None:
    page = report.light_models_page([light("alexnet", 0.0, 17.46), light("vgg19", 2.5e-6, None)])
    assert "| alexnet | tpu-v1 | int8 | 1.5 ms | 2 mJ | 3 MB | 4 kB | 10 | 10 | 9 | 0 | 0 | 17.5 dB |" in page
    assert "| vgg19 | tpu-v1 | fp32 | 1.5 ms | 2 mJ | 3 MB | 4 kB | 10 | 10 |  | 2.5e-06 | 0 |  |" in page


def test_light_outcomes_add_up() -> None:
    check = summed([light("alexnet", 0.0, 17.46), light("vgg19", 2.5e-6, None)])
    assert (check.rows, check.equal, check.max) == (20, 20, 2.5e-6)


def test_anchors_hold_within_their_bounds() -> None:
    anchors = [relative("rate", 100, 104, 0.05), relative("rate", 100, 94, 0.05), points("share", 20, 23, 3),
               points("share", 20, 16.5, 3), relative("count", 9, 9, 0.0), relative("count", 9, 10, 0.0)]  # fmt: skip
    assert [anchor.holds for anchor in anchors] == [True, False, True, False, True, False]
    check = outcome("name", "what", anchors, ["remark"])
    assert (check.rows, check.equal, check.details[-1]) == (6, 3, "remark")
    np.testing.assert_allclose(check.errors, [0.04, -0.06, 0.03, -0.035, 0, 1 / 9])


def test_anchor_says_what_it_compares() -> None:
    assert str(points("share", 20, 16.5, 3)) == (
        "share: published 20%, simulated 16.5%, error -3.5 points (DOES NOT HOLD within 3 points)"
    )
    assert str(Anchor("tiles", 9, 9, 0.0, 0.0)) == "tiles: published 9, simulated 9, error +0 % (holds exactly)"
