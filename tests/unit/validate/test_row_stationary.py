"""The check ``row-stationary``: what it claims, what it only compares, and the mean errors that the pages tell."""

from __future__ import annotations

import re
from pathlib import Path

from tests.validation import row_stationary as validated
from tests.validation.eyeriss_jssc2017 import ALEXNET, ALEXNET_TOTAL_MS, WORD_B
from tests.validation.row_stationary import UNEXPLAINED, equalities, mean_errors, row_stationary, rows

PAGE = Path(__file__).parents[3] / "docs" / "row-stationary.md"


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


def test_energy_by_level_is_that_of_the_page() -> None:
    """Chip and model, in multiplications for each multiplication."""
    (told,) = [line for line in row_stationary().details if line.startswith("Energy by level")]
    chip, model = told.split("; of the model ")
    page = PAGE.read_text(encoding="utf-8")
    rows_of = {
        level: list(found)
        for level, *found in re.findall(r"^\| (GLB|DRAM) energy .*chip (\d\.\d\d), model (\d\.\d\d)", page, re.M)
    }
    buffer, dram = re.findall(r"\d\.\d\d", chip)
    assert rows_of == {"GLB": [buffer, model[:4]], "DRAM": [dram, model[9:13]]}


def test_published_accesses_of_conv3_do_not_hold_its_psums() -> None:
    """64 rounds of 256 channels, 4 at a time, each written and all but the first read; 48 are as many as there is room."""
    layer = next(layer for layer in ALEXNET if layer.name == UNEXPLAINED[0])
    conv, mapping = layer.conv, layer.mapping
    assert mapping is not None
    ofmap_MB = conv.N * conv.M * conv.E * conv.F * WORD_B / 1e6
    rounds = conv.C // (mapping.q * mapping.r)
    assert (rounds, round((2 * rounds - 1) * ofmap_MB)) == (64, 66)
    assert int(layer.glb_MB / (2 * ofmap_MB)) == 48
