"""Tables of GEMMs: what comes in comes out, results are those of the closed forms, bad cells all at once."""

from __future__ import annotations

import csv

import pytest

from accelsim.engines.systolic.counts import COUNTS, counts
from accelsim.engines.systolic.sweep import RESULTS, one, read_rows, table, write_rows
from accelsim.engines.systolic.timing import cycles
from accelsim.errors import ModelError, UsageError
from tests.helpers.effort import calls

HEADER = "name,dataflow,schedule,array_rows,array_cols,gemm_M,gemm_N,gemm_K\n"


def row(**changes):
    return {
        "dataflow": "ws", "schedule": "overlapped", "array_rows": 4, "array_cols": 3,
        "gemm_M": 10, "gemm_N": 5, "gemm_K": 9,
    } | changes  # fmt: skip


def test_one():
    result = one(4, 3, "ws", "overlapped", 10, 5, 9)
    assert list(result) == list(RESULTS)
    assert result["cycles"] == cycles(4, 3, "ws", "overlapped", "column", 10, 5, 9)
    assert result["folds"] == 3 * 2
    assert result["utilisation_pct"] == pytest.approx(100 * 450 / (result["cycles"] * 12))
    assert result["mapping_efficiency_pct"] == pytest.approx(100 * 45 / (6 * 12))
    expected = counts(4, 3, "ws", "overlapped", 10, 5, 9).as_dict()
    assert {name: result[name] for name in COUNTS} == expected


def test_operands_of_input_stationary_are_exchanged():
    result = one(4, 3, "is", "overlapped", 10, 5, 9)
    assert (result["a_reads"], result["b_reads"]) == (90, 4 * 45)
    other = one(4, 3, "ws", "overlapped", 10, 5, 9)
    assert (other["a_reads"], other["b_reads"]) == (2 * 90, 45)


def test_table_keeps_input_columns_and_order():
    rows = [row(name=f"layer {i}", dataflow=flow, gemm_M=i + 1) for i, flow in enumerate(["os", "ws", "is", "os"])]
    got = table(rows)
    assert [each["name"] for each in got] == [each["name"] for each in rows]
    assert list(got[0]) == [*rows[0], *RESULTS]
    for given, result in zip(rows, got, strict=True):
        assert result["cycles"] == cycles(4, 3, given["dataflow"], "overlapped", "column", given["gemm_M"], 5, 9)


def test_shadow_load_is_used_when_given():
    column, diagonal, empty = table([row(gemm_M=5, shadow_load=name) for name in ("column", "diagonal", "")])
    assert diagonal["cycles"] < column["cycles"] == empty["cycles"]


def test_file_round_trip(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(HEADER + '"a, b",ws,overlapped,4,3,10,5,9\nc,os,scalesim, 8 ,8,64,64,64\n')
    write_rows(target, table(read_rows(source)))
    with target.open(newline="") as file:
        got = list(csv.DictReader(file))
    assert [each["name"] for each in got] == ["a, b", "c"]
    assert int(got[1]["cycles"]) == 64 * (8 + 8 + 64 - 2) - 1
    assert list(got[0])[8] == "cycles"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]
    again = table(read_rows(target))
    write_rows(tmp_path / "again.csv", again)
    assert (tmp_path / "again.csv").read_bytes() == target.read_bytes()


def test_every_bad_cell_at_once(tmp_path):
    source = tmp_path / "bad.csv"
    source.write_text(HEADER + "a,wz,overlapped,4,3,10,5,9\nb,ws,overlaped,4,0,1.5,5,\nc,ws,overlapped,4\n")
    with pytest.raises(ModelError) as caught:
        read_rows(source)
    problems = caught.value.problems
    assert [problem.where.rsplit(":")[-1] for problem in problems] == ["2", "3", "3", "3", "3", "4"]
    assert problems[0].nearest == "ws"
    assert problems[1].nearest == "overlapped"
    assert "array_cols is '0'" in str(problems[2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataflow,schedule\nws,overlapped\n", "column 'array_rows' is missing"),
        (HEADER, "has no rows"),
        ("", "column 'dataflow' is missing"),
        (HEADER.replace("name", "gemm_M"), "occurs twice"),
        (HEADER + "a,ws,overlapped,4,3,1099511627775,1099511627775,9\n", "too large"),
    ],
)
def test_bad_files(tmp_path, text, message):
    source = tmp_path / "bad.csv"
    source.write_text(text)
    with pytest.raises(ModelError, match=message):
        read_rows(source)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(ModelError, match="cannot be read"):
        read_rows(tmp_path / "absent.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="cannot be read"):
        read_rows(tmp_path / "bytes.csv")
    with pytest.raises(UsageError, match="its directory does not exist"):
        write_rows(tmp_path / "no" / "folder.csv", [row()])


def test_a_row_of_many_costs_what_a_row_of_few_costs():
    rows = [row(gemm_M=1 + i % 977, dataflow=("ws", "os", "is")[i % 3]) for i in range(6000)]
    assert len(table(rows)) == 6000
    assert calls(table, rows) < 1.1 * 6 * calls(table, rows[:1000])
