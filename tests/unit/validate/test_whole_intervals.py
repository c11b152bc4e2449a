"""Factors of whole things and the table of coverage: how they are fitted, and that the page has every kind."""

from __future__ import annotations

from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from accelsim.kernels.whole import shipped
from accelsim.spec.yaml.load import check
from tests.validation.claims import CLAIMS
from tests.validation.coverage import HEADERS, LEAST, Kind, table, wholes
from tests.validation.shipped_whole import APART, factors, held, text
from tests.validation.whole_rows import Row, family, plans

ROOT = Path(__file__).resolve().parents[3]


def rows(ratios: list[float], lab: str = "a", kernels: float = 1.0) -> list[Row]:
    return [
        Row("step: one node", lab, f"family {at % 3}", f"device {at % 2}", f"{lab} {at}", ratio, 1.0, kernels)
        for at, ratio in enumerate(ratios)
    ]


def test_a_factor_holds_nine_of_ten_on_both_sides() -> None:
    ratios = [exp((-1) ** at * at / 100) for at in range(100)]
    found = factors(rows(ratios))
    assert found[0] == found[1] and 0.90 <= held(rows(ratios), found).mean() <= 0.93


def test_ends_differ_where_predictions_are_biased_and_rows_many() -> None:
    ratios = [exp((-1) ** at * at / 100) ** (0.3 if at % 2 else 1) for at in range(100)]
    below, above = factors(rows(ratios))
    assert 1 < below < 1.4 and above > 2 and 0.90 <= held(rows(ratios), (below, above)).mean() <= 0.93
    below, above = factors(rows(ratios[-APART + 1 :]))
    assert below == above


def test_the_factor_of_few_rows_is_their_largest() -> None:
    assert factors(rows([1.1, 0.5, 1.2])) == pytest.approx((2.0, 2.0))


def test_a_lab_of_many_rows_does_not_outvote_one_of_few() -> None:
    many, few = rows([1.01] * 400, "many"), rows([1.5] * 25, "few")
    assert factors([*many, *few])[1] == pytest.approx(1.5)  # 5 of 25 by square roots, 25 of 425 by rows
    assert factors([*many, *few[:4]])[1] == pytest.approx(1.01)


def test_the_interval_of_kernels_holds_where_it_is_wider() -> None:
    assert held(rows([1.5, 1.5]), (1.1, 1.1)).tolist() == [0, 0]
    assert held(rows([1.5, 1.5], kernels=1.6), (1.1, 1.1)).tolist() == [1, 1]


def test_ends_of_wholes_hold_each_on_its_side() -> None:
    assert held(rows([0.7, 0.9, 1.5, 2.5]), (1.2, 2.0)).tolist() == [0, 1, 1, 0]


def test_pairs_of_plans_are_those_of_one_model_batch_and_size() -> None:
    made = [
        Row("step: one node", "vTrain", "f", "d", f"{name}, {plan}", seconds, predicted, 1.2)
        for name, plan, seconds, predicted in [
            ("8 GPUs", "dp=8", 4.0, 3.0), ("8 GPUs", "tp=8", 2.0, 2.0), ("4 GPUs", "dp=4", 9.0, 9.0),
        ]
    ]  # fmt: skip
    (pair,) = plans(made)
    assert (pair.key, pair.name, pair.measured, pair.predicted) == ("plans: one node", "8 GPUs", 2.0, 1.5)


def test_the_file_that_is_written_is_a_table_of_intervals(tmp_path: Path) -> None:
    path = tmp_path / "intervals" / "whole.yaml"
    path.parent.mkdir()
    path.write_text(text(rows([1.0 + at / 50 for at in range(30)])), encoding="utf-8")
    assert check(path) == []


def test_rows_are_left_out_by_what_they_are() -> None:
    found = [row.unseen for row in rows([1.0] * 300)]
    assert 70 <= sum(found) <= 130 and found == [row.unseen for row in rows([2.0] * 300)]


def test_coverage_is_told_as_shipped_by_parts_and_left_out() -> None:
    normal = np.random.default_rng(0).normal(0, 0.1, 600)
    own = [*rows([exp(each) for each in normal[:300]], "a"), *rows([exp(each) for each in normal[300:]], "b")]
    (found,) = wholes(own)
    assert found.agrees and found.rows == 600 and None not in (found.shipped, found.parts, *found.left)
    biased = [*own, *rows([exp(each + 1) for each in normal[:300]], "c")]
    (found,) = wholes(biased)
    assert not found.agrees and found.left[0] is not None and found.left[0] < 0.8
    (alone,) = wholes(own[:300])
    assert alone.left[0] is None and alone.cells[HEADERS.index("lab left out")] == "-"


def test_a_kind_that_holds_too_few_does_not_agree() -> None:
    assert not Kind("x", 10_000, LEAST - 0.02).agrees and not Kind("x", 10_000, 0.99).agrees
    assert Kind("x", 10, 1.0).agrees  # ten rows tell no more
    assert table([Kind("x", 10, 1.0)])[-1] == "| x | 10 | 100% | - | - | - | - |"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("BERT-Large SQuAD (99%), t4", "encoders"), ("resnet50", "convolutions"), ("gpt3_xl", "decoders")],
)
def test_families_of_models(name: str, kind: str) -> None:
    assert family(name) == kind


def test_the_page_has_every_kind_that_ships() -> None:
    page = (ROOT / "reports" / "accuracy.md").read_text(encoding="utf-8")
    section = page.partition("## coverage:")[2].partition("\n## ")[0]
    kinds = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| ")]
    assert set(shipped().wholes) <= set(kinds)
    assert len(kinds) - 2 == CLAIMS["coverage"].rows


def test_what_ships_holds_its_own_test_rows() -> None:
    for key, whole in shipped().wholes.items():
        if whole.inside is not None:
            assert Kind(key, whole.rows, whole.inside, unseen=whole.unseen).agrees, key
        assert 0 <= log(whole.below) < 1.4 and 0 < log(whole.above) < 1.4, key
