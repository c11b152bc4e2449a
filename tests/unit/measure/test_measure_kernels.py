"""Measuring kernels, with a stand-in for PyTorch: what is drawn, what is timed, what is refused."""

from __future__ import annotations

import pytest

from accelsim.errors import UsageError
from accelsim.measure.clock import CALLS, WARM
from accelsim.measure.kernels import FORMATS, OPS, drawn, measured
from tests.helpers.fake_torch import Torch


def test_every_call_is_timed_as_often_as_is_said() -> None:
    torch = Torch()
    rows = list(measured(torch, "cuda:0", list(OPS), 2, "fp16", 0, called=True))
    assert len(rows) == 2 * len(OPS) and len(torch.calls) == len(rows) * (WARM + CALLS)
    assert {row["time_us"] for row in rows} == {"2000"}
    assert {row["device"] for row in rows} == {"Tesla T4"}
    assert {row["op"] for row in rows} >= {"matmul", "bmm", "softmax"}


def test_kernels_alone_share_the_time_of_a_graph() -> None:
    torch = Torch()
    (row,) = measured(torch, "cuda:0", ["softmax"], 1, "fp16", 0)
    sets = max(1, min(64, -(-3 * (4 << 20) // (4 * row["rows"] * row["cols"]))))
    assert float(row["time_us"]) == pytest.approx(2000 / sets, rel=1e-5)
    assert "CUDA graph" in row["source"]
    (row,) = measured(torch, "cuda:0", ["softmax"], 1, "fp16", 0, most_sets=1)
    assert row["time_us"] == "2000" and row["source"].endswith("one set of operands")


def test_a_kernel_that_is_refused_has_a_reason() -> None:
    torch = Torch()

    def refused(*given: object, **_: object) -> None:
        raise RuntimeError("no kernel for it\nmore")

    vars(torch)["_int_mm"] = refused
    (row,) = measured(torch, "cuda:0", ["gemm"], 1, "int8", 0)
    assert row["why"] == "no kernel for it" and "time_us" not in row


def test_power_of_the_first_kernels() -> None:
    rows = list(measured(Torch(), "cuda:0", ["add"], 3, "fp16", 0, False, 2, lambda replay, calls: {"power_W": "300"}))
    assert [row.get("power_W") for row in rows] == ["300", "300", None]


@pytest.mark.parametrize("dtype", FORMATS)
def test_sizes_fit_the_format(dtype: str) -> None:
    torch, form = Torch(), FORMATS[dtype]
    rows = list(measured(torch, "cuda:0", ["gemm"], 8, dtype, 0))
    assert all(row[name] % form.multiple == 0 for row in rows for name in ("M", "K", "N"))
    assert torch.precision == ("high" if dtype == "tf32" else "highest")


@pytest.mark.parametrize("op", OPS)
def test_sizes_are_those_of_the_seed(op: str) -> None:
    assert list(drawn(op, 5, 3)) == list(drawn(op, 5, 3)) != list(drawn(op, 5, 4))


def test_operands_have_the_sizes_of_their_row() -> None:
    torch = Torch()
    (row,) = measured(torch, "cuda:0", ["bmm"], 1, "fp16", 0)
    name, shapes = torch.calls[0]
    assert name == "matmul" and shapes == ((row["B"], row["M"], row["K"]), (row["B"], row["K"], row["N"]))
    assert row["op"] == "gemm"


def test_what_is_not_there_is_told_at_once() -> None:
    with pytest.raises(UsageError) as told:
        list(measured(Torch(there=False), "cuda:0", ["gem"], 1, "fp12", 0))
    text = str(told.value)
    assert "did you mean 'gemm'" in text and "fp12" in text and "no GPU at cuda:0" in text
