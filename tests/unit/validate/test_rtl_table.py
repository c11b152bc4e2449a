"""Rows of the small machine from a file: all that is wrong at once, by line; results as the golden file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import ModelError
from accelsim.files import records, write_file
from tests.validation.golden import golden
from tests.validation.rtl_machine import PARAMETERS
from tests.validation.rtl_table import compare, joined, read, results, simulate_lines

VALUES = ["4", "4", "4", "10", "1", "2", "nmk", "1", "int32", "0", "6", "5", "7", "4", "4", "4"]
GOOD = dict(zip(PARAMETERS, VALUES, strict=True))


def table(path: Path, *rows: dict[str, str], header: tuple[str, ...] = PARAMETERS) -> Path:
    path.write_text("\n".join([",".join(header), *(",".join(row[name] for name in header) for row in rows)]) + "\n")
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(ModelError) as caught:
        read(path)
    return [str(problem) for problem in caught.value.problems]


def test_golden_rows_come_out_as_they_went_in(tmp_path: Path) -> None:
    lines = golden("rtl_machine/machine_golden.csv").read_text().splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join([lines[0], *lines[10:14]]) + "\n")
    rows = read(few)
    found = simulate_lines(rows)
    outcome = compare(rows, found)
    assert outcome is not None
    assert (outcome.rows, outcome.equal) == (4, 4)
    write_file(tmp_path / "out.csv", records(joined(rows, found)))
    assert (tmp_path / "out.csv").read_text() == few.read_text()


def test_parameters_alone_are_enough_and_other_columns_stay(tmp_path: Path) -> None:
    path = table(tmp_path / "in.csv", GOOD | {"tag": "mine", "macs": "1"}, header=("tag", "macs", *PARAMETERS))
    rows = read(path)
    found = simulate_lines(rows)
    outcome = compare(rows, found)
    assert outcome is not None
    assert outcome.details == [f"{path}:2: macs {6 * 5 * 7}, the file has 1"]
    write_file(tmp_path / "out.csv", records(joined(rows, found)))
    header, line = (text.split(",") for text in (tmp_path / "out.csv").read_text().splitlines())
    assert header == ["tag", *PARAMETERS, *results()]
    assert line[0] == "mine"
    assert compare(read(table(tmp_path / "bare.csv", GOOD)), found) is None


def test_every_bad_cell_is_told_with_its_line(tmp_path: Path) -> None:
    bad = {"M": "0", "order": "knm", "shift": "32", "L": "-1", "out": "fp32", "pipelined": "2", "Tk": "x"}
    found = problems(table(tmp_path / "in.csv", GOOD, GOOD | bad, GOOD | {"N": ""}))
    assert len(found) == len(bad) + 1
    for name, value in bad.items():
        assert any(f"in.csv:3: {name} is {value!r}; expected " in line for line in found)
    assert "in.csv:4: N is ''" in found[-1]


def test_a_bad_header_or_shape_of_the_file(tmp_path: Path) -> None:
    header = tuple("Slots" if name == "slots" else name for name in PARAMETERS)
    found = problems(table(tmp_path / "in.csv", GOOD | {"Slots": "2"}, header=header))
    assert len(found) == 1
    assert "in.csv:1: column 'slots' is missing" in found[0]
    assert "did you mean 'Slots'?" in found[0]
    assert "occurs twice" in problems(table(tmp_path / "in.csv", GOOD, header=(*PARAMETERS, "M")))[0]
    assert "has no rows" in problems(table(tmp_path / "in.csv"))[0]
    (tmp_path / "in.csv").write_text(",".join(PARAMETERS) + "\n1,2\n")
    assert "in.csv:2: has another number of cells" in problems(tmp_path / "in.csv")[0]
    assert "cannot be read" in problems(tmp_path / "none.csv")[0]


def test_a_row_that_would_deadlock_is_refused_by_its_line(tmp_path: Path) -> None:
    stuck = GOOD | {"order": "nkm", "slots": "1", "M": "16"}
    with pytest.raises(ModelError, match=r"in\.csv:3: "):
        simulate_lines(read(table(tmp_path / "in.csv", GOOD, stuck)))
