"""Measuring kernels, with a stand-in for PyTorch: what is drawn, what is timed, what is refused."""

from __future__ import annotations

import pytest

from accelsim.errors import UsageError
from accelsim.kernels.measure import CALLS, OPS, WARM, drawn, measured
from tests.helpers.fake_torch import Torch


def test_every_kernel_is_called_as_often_as_is_said() -> None:
    torch = Torch()
    rows = list(measured(torch, "cuda:0", list(OPS), 2, "fp16", 0))
    assert len(rows) == 2 * len(OPS) and len(torch.calls) == len(rows) * (WARM + CALLS)
    assert {row["time_us"] for row in rows} == {"2000"}
    assert {row["device"] for row in rows} == {"Tesla T4"}


@pytest.mark.parametrize("op", OPS)
def test_sizes_are_those_of_the_seed(op: str) -> None:
    assert list(drawn(op, 5, 3)) == list(drawn(op, 5, 3)) != list(drawn(op, 5, 4))


def test_operands_have_the_sizes_of_their_row() -> None:
    torch = Torch()
    (row,) = measured(torch, "cuda:0", ["bmm"], 1, "fp16", 0)
    name, shapes = torch.calls[0]
    assert name == "bmm" and shapes == ((row["B"], row["M"], row["K"]), (row["B"], row["K"], row["N"]))


def test_what_is_not_there_is_told_at_once() -> None:
    with pytest.raises(UsageError) as told:
        list(measured(Torch(there=False), "cuda:0", ["gem"], 1, "fp12", 0))
    text = str(told.value)
    assert "did you mean 'gemm'" in text and "fp12" in text and "no GPU at cuda:0" in text
