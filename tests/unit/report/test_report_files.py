"""The report directory: complete, deterministic, never half written; the trace, the page, the comparison."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import accelsim
from accelsim.account.energy import energy_table, total_J
from accelsim.errors import UsageError
from accelsim.machine.critical_path import critical_path
from accelsim.machine.run import PATH_LINKS
from accelsim.report import trace, write
from accelsim.report.page.data import packed, page_data, provenance
from accelsim.report.page.document import SCRIPTS, Entry, html
from accelsim.report.plot import PLOTS, also_png
from accelsim.result import run
from accelsim.workload.zoo.build import Builder
from tests.helpers.synthetic_run import altered, make_run

RUN = make_run(layers=5)
VOID = {"meta", "br", "hr", "img", "link", "input"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write.write_run(RUN, tmp_path_factory.mktemp("report") / "deep" / "run")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_report_is_complete_and_leaves_nothing_beside_it(report: Path) -> None:
    plots = {f"plots/{name}.svg" for name in PLOTS}
    files = {"summary.json", "layers.csv", "ledger.csv", "timeline.json.gz", "page.json.gz", "report.html"}
    assert set(contents(report)) == plots | files
    assert [path.name for path in report.parent.iterdir()] == ["run"]


def test_pictures_come_as_png_too_where_they_are_wanted(tmp_path: Path) -> None:
    with also_png():
        write.write_run(RUN, tmp_path)
    for name in PLOTS:
        assert (tmp_path / f"plots/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"plots/{name}.svg").read_bytes().startswith(b"<?xml")


def test_writing_again_gives_the_same_bytes_and_keeps_other_files(report: Path) -> None:
    before = contents(report)
    (report / "my notes.txt").write_text("mine")
    (report / "plots" / "latency.png").write_text("stale")
    write.write_run(make_run(layers=5), report)
    assert (report / "my notes.txt").read_text() == "mine"
    (report / "my notes.txt").unlink()
    assert contents(report) == before


def test_csv_files_hold_the_run_with_all_digits(report: Path) -> None:
    with (report / "layers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["added_fs"]) for row in rows) == RUN.time_fs
    assert sum(float(row["energy_J"]) for row in rows) == pytest.approx(total_J(energy_table(RUN)), rel=1e-14, abs=0)
    with (report / "ledger.csv").open(newline="") as file:
        ledger = list(csv.DictReader(file))
    assert [float(row["energy_J"]) for row in ledger] == [row.energy_J for row in energy_table(RUN)]
    assert [int(row["count"]) for row in ledger[: len(RUN.ledger)]] == [row.count for row in RUN.ledger]


def test_a_foreign_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("three years")
    with pytest.raises(UsageError, match="holds no report"):
        write.write_run(RUN, tmp_path)
    assert contents(tmp_path) == {"thesis.tex": b"three years"}


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        write.write_run(RUN, target)
    with pytest.raises(UsageError, match="Not a directory"):
        write.write_run(RUN, target / "below")


def test_a_failure_half_way_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "summary.json").write_text('{"tool": "accelsim"}')

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace, "write", full)
    with pytest.raises(UsageError, match="No space left"):
        write.write_run(RUN, target)
    assert contents(tmp_path) == {"out/summary.json": b'{"tool": "accelsim"}'}


# the trace


def rows_of(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Name of the row -> its slices; fails where two of them overlap."""
    track = itemgetter("pid", "tid")
    names = {track(event): event["args"]["name"] for event in found if event["name"] == "thread_name"}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for event in found:
        if event["ph"] == "X":
            rows[names[track(event)]].append(event)
    for events in rows.values():
        for first, second in pairwise(events):
            assert first["ts"] + first["dur"] <= second["ts"] + 1e-9
    return rows


def test_the_trace_has_a_named_row_per_engine_and_no_overlap() -> None:
    rows = rows_of(trace.events(RUN))
    path = rows.pop("what the run waited for")
    assert path[0]["ts"] == 0 and sum(event["dur"] for event in path) == pytest.approx(RUN.time_fs * 1e-9)
    assert all(a["ts"] + a["dur"] == pytest.approx(b["ts"]) for a, b in pairwise(path))
    assert path[-1]["name"] == "host" and path[-1]["args"]["layer"] == "/head/Softmax"
    assert list(rows) == list(RUN.program.engines)
    assert sum(map(len, rows.values())) == len(RUN.slices)
    last = max(event["ts"] + event["dur"] for events in rows.values() for event in events)
    assert last == pytest.approx(RUN.time_fs * 1e-9)


@pytest.mark.parametrize(
    ("chip", "model"),
    [("tpu-v1", "mlp?hidden=64"), ("neuroncore-v2", "gpt-decode"), ("edu-4x4", "cnn"), ("systolic-generic", "cnn")],
)
def test_arrows_lead_along_the_critical_path(chip: str, model: str) -> None:
    """From each command to the one that it let begin, out of and into the slices of these; two events a step at most."""
    told = accelsim.run(model, chip, values="off")
    found = trace.events(told)
    path = [command for command, _ in groupby(critical_path(told), key=lambda piece: piece.command)]
    starts = {event["id"]: event for event in found if event["ph"] == "s"}
    ends = {event["id"]: event for event in found if event["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) > 5
    assert list(starts) == sorted(starts) and max(starts) < len(path)
    assert len(starts) >= 0.95 * (len(path) - 1)
    slices = {
        event["args"]["command"]: event for event in found if event["ph"] == "X" and event["cat"] != "critical path"
    }
    for ident, start in starts.items():
        end = ends[ident]
        assert (start["name"], start["cat"]) == (end["name"], end["cat"]) and end["bp"] == "e"
        assert start["ts"] <= end["ts"]
        for event, command in ((start, path[ident - 1]), (end, path[ident])):
            bound = slices[command]
            assert (event["pid"], event["tid"]) == (bound["pid"], bound["tid"])
            inside = bound["ts"] + max(0.0, bound["dur"] - 0.999e-3)  # an arrow leaves before its slice ends
            assert bound["ts"] <= event["ts"] <= inside + 1e-9 * told.time_fs * 1e-9
    said = {start["name"].removeprefix("waited for ") for start in starts.values()}
    assert said <= {*PATH_LINKS.values(), "a token"} and said & set(PATH_LINKS.values())


def test_overlapping_transfers_get_further_rows_and_overlapping_matmuls_are_cut() -> None:
    longer = {"dma_w", "matrix"}
    slices = [p._replace(end=p.end + 10**9) if p.engine in longer else p for p in RUN.slices]
    rows = rows_of(trace.events(altered(RUN, slices=slices)))
    del rows["what the run waited for"]
    assert rows["dma_w +1"]
    assert not [name for name in rows if name.startswith("matrix +")]
    assert sum(map(len, rows.values())) == len(RUN.slices)


def test_bandwidth_counters_carry_the_bytes_of_the_ledger() -> None:
    points = [(e["ts"], e["args"]["GB/s"]) for e in trace.events(RUN) if e["name"] == "weight_memory read GB/s"]
    moved = sum(rate * 1e9 * (end - start) * 1e-6 for (start, rate), (end, _) in pairwise(points))
    ledger = sum(row.count for row in RUN.ledger if (row.component, row.action) == ("weight_memory", "read"))
    assert moved == pytest.approx(ledger, rel=1e-6)
    assert points[-1][1] == 0


def test_the_trace_file_is_json_and_has_no_time_stamp(report: Path) -> None:
    packed = (report / "timeline.json.gz").read_bytes()
    assert packed[4:8] == b"\0\0\0\0"
    assert json.loads(gzip.decompress(packed)) == trace.document(RUN)


# the page


class Outline(HTMLParser):
    """Open elements, ids and references of a page; elements must nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: Counter[str] = Counter()
        self.references: set[str] = set()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids[str(value)] += 1
            elif name in ("href", "xlink:href") and str(value).startswith("#"):
                self.references.add(str(value)[1:])
            elif name in ("src", "href", "xlink:href"):
                self.outside.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_self_contained_and_has_unique_ids(report: Path) -> None:
    text = (report / "report.html").read_text()
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert max(outline.ids.values()) == 1
    assert outline.references <= set(outline.ids)
    assert all((report / name).is_file() for name in outline.outside), "links lead to its own files only"
    assert text.count("<script>") == len(SCRIPTS) and text.count('<script type="application/gzip"') == 2
    assert "default-src 'none'" in text and "<svg" not in text and "<img" not in text
    assert 'name="viewport"' in text
    assert "Apache License 2.0" in text


def test_every_script_of_the_page_is_one_that_its_policy_names(report: Path) -> None:
    text = (report / "report.html").read_text()
    named = set(re.findall(r"'(sha256-[^']+)'", text))
    found = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    library = re.search(r'id="library">([^<]+)<', text)
    assert library is not None
    found.append(gzip.decompress(base64.b64decode(library[1])).decode())
    assert {f"sha256-{base64.b64encode(sha256(each.encode()).digest()).decode()}" for each in found} == named


def test_the_page_says_where_figures_come_from_and_how_to_read_it(report: Path) -> None:
    text = (report / "report.html").read_text()
    assert "made up for tests" in text
    assert "memories.weight_memory.memory" in text
    assert "How to read the table" in text
    assert "Softmax runs on the host" in text


def test_provenance_finds_nested_blocks() -> None:
    rows = list(provenance(RUN.chip))
    assert ("chip", "made up for tests", "", "") in rows
    assert ("memories.weight_memory.memory", "made up", "2024", "") in rows


def test_names_are_escaped() -> None:
    run = make_run(layers=1)
    run.program.steps[0].name = "<b>&"
    data = page_data(run, write.layers(run), write.summary(run))
    text = html([Entry(data, packed(data))])
    assert "<b>&" not in text
    assert "&lt;b&gt;&amp;" in text


@pytest.mark.parametrize("op", ["Relu", "Flatten"])
def test_a_run_without_work_for_the_matrix_unit_has_a_report(op: str, tmp_path: Path) -> None:
    """Its row of the timeline is empty."""
    builder = Builder("plain")
    attrs = {"axis": 1} if op == "Flatten" else {}
    graph = builder.finish(builder.op(op, [builder.input("x", (2, 3))], "y", **attrs))
    folder = write.write_run(run(graph, "edu-4x4", dtype="fp32", values="off"), tmp_path / "report")
    events = json.loads(gzip.decompress((folder / "timeline.json.gz").read_bytes()))["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "matrix" in rows.values()
    assert not [event for event in events if event["ph"] == "X" and rows.get(event["tid"]) == "matrix"]


def test_the_page_says_how_it_was_run_and_links_its_files(tmp_path: Path) -> None:
    result = accelsim.run("mlp?hidden=16", "edu-4x4", values="off", set=["clock=50 MHz"])
    page = result.report(tmp_path / "r")
    text = page.read_text()
    assert "accelsim run &#x27;mlp?hidden=16&#x27; --on edu-4x4 --values off --set &#x27;clock=50 MHz&#x27;" in text
    assert result.asked["model_sha256"] in text
    for name in re.findall(r'href="([^"#]+)"', text):
        assert (page.parent / name).is_file(), name


def test_every_number_of_the_layer_table_sorts_by_its_own_value(tmp_path: Path) -> None:
    result = accelsim.run("mlp?hidden=16", "edu-4x4", values="off")
    text = result.report(tmp_path / "r").read_text()
    table_text = text[text.index('<table class="layers">') :]
    table_text = table_text[: table_text.index("</table>")]
    for layer in result.layers():
        assert f'data-v="{layer.added_fs:.6g}"' in table_text
    heads, rows = (re.findall(r"<th\b", table_text), re.findall(r"<tr data-layer=.*?>(<td.*?)</tr>", table_text))
    assert len(rows) == len(result.layers())
    assert all(row.count("<td") == len(heads) for row in rows)
