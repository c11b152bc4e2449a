"""Plans as texts and the layout of their devices."""

from __future__ import annotations

import pytest

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.errors import UsageError

TEXTS = {
    "dp=2,pp=2": Plan(dp=2, pp=2),
    "tp=8,pp=8,dp=16,sp,zero=1": Plan(dp=16, tp=8, pp=8, sp=True, zero=1),
    " dp=2 ,tp=2": Plan(dp=2, tp=2),
    "pp=4,chunks=2,microbatches=8,schedule=interleaved,recompute=full,period=3":
        Plan(pp=4, chunks=2, microbatches=8, schedule="interleaved", recompute="full", period=3),
    "sp=no": Plan(),
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_and_written(text: str) -> None:
    assert parse_plan(text) == TEXTS[text]
    assert parse_plan(str(TEXTS[text])) == TEXTS[text]


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_plan("dp=0,dq=2,tp,pp=1.5,zero=4,recompute=all,sp=maybe,dp=1,period=99999999999999")
    text = str(caught.value)
    for part in ("dp=0; expected a whole number from 1", "no 'dq'; ", "did you mean 'dp'?", "tp has no value",
                 "pp=1.5", "zero=4; expected a whole number from 0 to 3", "one of none, selective, full",
                 "sp=maybe", "dp is given twice", "period=9"):  # fmt: skip
        assert part in text, part
    assert len(caught.value.problems) == 9


def test_an_empty_text_is_no_plan() -> None:
    with pytest.raises(UsageError, match="a plan has no ''"):
        parse_plan("")


def test_ranks_are_laid_out_as_in_megatron() -> None:
    plan = Plan(dp=2, tp=4, pp=3)
    ranks = [plan.rank(p, d, t) for p in range(3) for d in range(2) for t in range(4)]
    assert ranks == list(range(24)) and plan.devices == 24
    assert [plan.rank(*plan.place(rank)) for rank in ranks] == ranks
    assert plan.tp_group(6) == (4, 5, 6, 7)
    assert plan.dp_group(6) == (2, 6)
