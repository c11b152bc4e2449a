"""The check ``row-stationary``: what it claims, what it only compares, and the mean errors that the pages tell."""

from __future__ import annotations

from accelsim.engines.row_stationary.published import ALEXNET_TOTAL_MS
from accelsim.validate import row_stationary as validated
from accelsim.validate.row_stationary import UNEXPLAINED, equalities, mean_errors, row_stationary, rows


def test_clocks_and_words_are_those_of_the_closed_forms() -> None:
    found = [each for row in rows() for each in equalities(row)]
    assert len(found) == 25
    assert [text for text, holds in found if not holds] == []


def test_a_count_that_differs_is_named(monkeypatch) -> None:
    monkeypatch.setattr(validated, "clocks", lambda *args: 1)
    broken = [text for text, holds in equalities(rows()[0]) if not holds]
    assert broken == ["CONV1 clocks: closed form 1, simulated 3,324,704"]


def test_the_check_passes_and_claims_nothing_of_what_is_unexplained() -> None:
    found = row_stationary()
    assert found.rows == found.equal
    assert found.unclaimed == 1
    (line,) = [line for line in found.details if "nothing is claimed" in line]
    assert line.startswith(" ".join(UNEXPLAINED))


def test_mean_errors_are_those_of_the_page() -> None:
    anchors = [anchor for row in rows() for anchor in row.anchors()]
    errors = {what: round(100 * error, 1) for what, error in mean_errors(anchors).items()}
    assert errors == {"processing": 5.5, "latency": 5.4, "GLB": 7.7, "DRAM": 3.7}


def test_latency_is_what_the_array_works_and_waits() -> None:
    """All but a few clocks at the end, in which the last psums leave."""
    assert abs(sum(ALEXNET_TOTAL_MS.values()) - 115.3) < 0.01
    for row in rows():
        left = row.latency_ms - row.ms - sum(row.waits.values())
        assert 0 <= left < 0.06 * row.latency_ms
