"""Tables of kernels: what is read, and everything that is wrong with one, with file and line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.kernels.ops import FAMILY_OF, FUNCTIONS, PRODUCTS, SERVING
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import MOST_SHOWN, one, read_table
from accelsim.spec.constants import with_values
from accelsim.spec.yaml.load import load_chip


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "kernels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_kernels_of_each_kind_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path, "op,device,dtype,B,M,K,N,rows,cols,C_in,C_out,kernel,H_W,stride,padding,time_us",
        "bmm,X,fp32,4,8,16,32,,,,,,,,,5", "softmax,X,fp16,,,,,10,20,,,,,,,7.5", "conv2d,X,fp32,2,,,,,,3,8,3,10,1,1,9",
    )  # fmt: skip
    table = read_table(path, timed=True)
    assert [(group.family, group.format) for group in table.groups] == [
        ("product", "fp32"), ("function", "fp16"), ("convolution", "fp32"),
    ]  # fmt: skip
    product, function, convolution = (group.columns for group in table.groups)
    assert [product[key][0] for key in ("B", "M", "K", "N")] == [4, 8, 16, 32]
    assert (function["rows"][0], function["cols"][0], function["element_B"][0]) == (10, 20, 2)
    assert [convolution[key][0] for key in ("n", "c", "k", "p", "q")] == [2, 3, 8, 10, 10]
    assert np.allclose(table.measured, [5e-6, 7.5e-6, 9e-6])
    assert table.where(2) == f"{path}:4"


def test_columns_of_deepbench_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path, "op,m,n,k,a_t,precision,device,time_ms",
        "gemm,35,700,2048,T,fp16_in_fp32_acc_tensorcore,T4,0.5", "gemm,35,700,2048,N,fp32,T4,1",
    )  # fmt: skip
    table = read_table(path, timed=True)
    assert [group.format for group in table.groups] == ["fp16", "fp32"]
    assert [group.columns["transposed"][0] for group in table.groups] == [1, 0]
    assert np.allclose(table.measured, [0.5e-3, 1e-3])


def test_copies_are_bytes_and_attention_has_heads() -> None:
    assert one("copy", "fp16", {"bytes": "4096"}).groups[0].columns["rows"][0] == 4096
    columns = one("attention", "fp16", {"tokens": "1", "kv": "512", "heads": "32", "kv_heads": "8", "head_dim": "128"})
    assert columns.groups[0].columns["kv"][0] == 512 and columns.groups[0].columns["causal"][0] == 1
    crossed = one("attention", "fp16", {"tokens": "64", "kv": "8", "heads": "2", "head_dim": "64", "causal": "0"})
    assert crossed.groups[0].columns["kv"][0] == 8  # fewer keys than queries, where no mask wants more


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("gem,X,fp32,8,8,8,5", "op 'gem' is no kernel.*did you mean 'gemm'"),
        ("gemm,X,fp33,8,8,8,5", "dtype 'fp33' is no number format.*did you mean 'fp3"),
        ("gemm,X,fp32,8,,8,5", "no K; expected a value of K or k"),
        ("gemm,X,fp32,8,-1,8,5", "K is -1; expected a number above 0"),
        ("gemm,X,fp32,8,zwei,8,5", "K is 'zwei'; expected a number"),
        ("gemm,X,fp32,8,8,8,", "no time; expected a column time_us or time_ms"),
        ("gemm,X,fp32,8,8,8,0", "time_us is 0; expected a number above 0"),
        ("gemm,X,fp32,8,8,8,inf", "time_us is inf"),
    ],
)
def test_what_is_wrong_with_a_row_is_told_with_its_line(tmp_path: Path, row: str, told: str) -> None:
    path = written(tmp_path, "op,device,dtype,M,K,N,time_us", "gemm,X,fp32,8,8,8,5", row)
    with pytest.raises(UsageError, match=f"kernels.csv:3: {told}"):
        read_table(path, timed=True)


def test_all_rows_are_told_up_to_a_number(tmp_path: Path) -> None:
    path = written(tmp_path, "op,dtype,M,K,N", *["gem,fp32,8,8,8"] * (MOST_SHOWN + 5))
    with pytest.raises(UsageError) as error:
        read_table(path)
    assert len(error.value.problems) == MOST_SHOWN + 1
    assert "and 5 rows more" in str(error.value)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["op,dtype,M,K,N"], "no rows"),
        ([""], "an empty file"),
        (["name,dtype", "gemm,fp32"], "no column op"),
        (["op,dtype,M,M", "gemm,fp32,8,8"], "column M twice"),
        (["op,dtype,M,K,N", "gemm,fp32,8,8"], "kernels.csv:2: 4 cells; expected 5"),
    ],
)
def test_files_that_are_no_table_are_refused(tmp_path: Path, lines: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_table(written(tmp_path, *lines))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read it: No such file"):
        read_table(tmp_path / "nowhere.csv")


def test_a_table_of_a_tebibyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    path.touch()
    os.truncate(path, 2**40)  # a hole, which takes no room
    with pytest.raises(UsageError, match="cannot read it: more than"):
        read_table(path)


def test_some_rows_are_a_table_of_their_own(tmp_path: Path) -> None:
    path = written(tmp_path, "op,dtype,M,K,N,rows,cols", "gemm,fp32,1,2,3,,", "relu,fp32,,,,4,5", "gemm,fp32,6,7,8,,")
    table = read_table(path).only([2, 1])
    assert list(table.ops) == ["gemm", "relu"]
    assert table.groups[0].columns["M"].tolist() == [6] and table.groups[0].rows.tolist() == [0]
    assert table.groups[1].rows.tolist() == [1]


def test_every_op_has_a_family() -> None:
    assert set(FUNCTIONS) <= set(FAMILY_OF)
    assert set(FAMILY_OF.values()) == {"product", "function", "convolution", "attention", *SERVING.values()}


def test_a_call_of_a_framework_takes_no_less_than_its_host(tmp_path: Path) -> None:
    """``linear`` has more work for the host than ``bmm``; a long kernel runs while the host is done already."""
    path = written(tmp_path, "op,dtype,M,K,N", "linear,fp32,8,8,8", "bmm,fp32,8,8,8", "linear,fp32,4096,4096,4096")
    table, chip = read_table(path), load_chip("v100-pcie", ["calibration=null"])
    kernels, asked = Kernels(table, chip), with_values(chip, {"sm.dispatch": 30e-6})
    alone, called = kernels.predicted(chip).seconds, kernels.predicted(asked).seconds
    host = 30e-6 * np.array([PRODUCTS["linear"].host, PRODUCTS["bmm"].host])
    assert called[:2] == pytest.approx(host) and (alone[:2] < 0.5 * host).all()
    assert called[2] == pytest.approx(alone[2] + 0.5 * host[0])


def test_calibrations_to_calls_fit_the_host_and_to_kernels_alone_the_launch(tmp_path: Path) -> None:
    chip = load_chip("v100-pcie")
    for op, constant, other in (("linear", "sm.dispatch", "sm.launch"), ("gemm", "sm.launch", "sm.dispatch")):
        found = Kernels(read_table(written(tmp_path, "op,dtype,M,K,N", f"{op},fp32,8,8,8")), chip).constants
        assert (constant,) in found and (other,) not in found


def test_a_row_that_a_block_shares_waits_at_its_reductions(tmp_path: Path) -> None:
    """Two of them in a softmax, of 2,000 clocks each; rows of a warp, and functions of elements, have none."""
    path = written(tmp_path, "op,dtype,rows,cols", "softmax,fp16,8,2048", "softmax,fp16,16,1024", "relu,fp16,8,2048")
    table, chip = read_table(path), load_chip("a100-80-sxm", ["calibration=null"])
    long, short, elements = Kernels(table, chip).predicted(chip).seconds
    along = 1024 * FUNCTIONS["softmax"].along
    assert long - short == pytest.approx((2 * 2000 + along) / 1.41e9) and elements < short


@pytest.mark.parametrize(("form", "least", "most"), [("fp16", 5.0, 9.0), ("tf32", 2.5, 4.5), ("fp64", 1.0, 1.3)])
def test_odd_rows_slow_formats_down_by_their_rate(form: str, least: float, most: float) -> None:
    chip = load_chip("h200-sxm")
    even, odd = (
        Kernels(one("gemm", form, {"M": "4096", "K": str(k), "N": "4096"}), chip).predicted(chip).seconds[0]
        for k in (4096, 4095)
    )
    assert least < odd / even < most


def test_copies_begin_sooner_than_kernels_and_move_less_a_second(tmp_path: Path) -> None:
    lines = [f"{op},fp16,{rows},1024" for op in ("copy", "relu") for rows in (1, 65536)]
    table, chip = read_table(written(tmp_path, "op,dtype,rows,cols", *lines)), load_chip("h200-sxm")
    few, many, relu_few, relu_many = Kernels(table, chip).predicted(chip).seconds
    assert 0.7 * relu_few < few < 0.8 * relu_few and 1.4 * relu_many < many < 1.46 * relu_many
