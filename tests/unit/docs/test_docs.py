"""The documentation is true: links lead somewhere, commands run, outputs are those of today, tables are the code's."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from matplotlib.image import imread

import accelsim
from accelsim.account.critical_path import HIDDEN, KEYS
from accelsim.account.latency import layers, summary
from accelsim.cli import main
from accelsim.compiler.passes import PASSES
from accelsim.engines.registry import ENGINES
from accelsim.engines.systolic.timing import SCHEDULES, fold_timing
from accelsim.errors import Infeasible
from accelsim.formats.table import FORMATS
from accelsim.lessons.registry import lessons
from accelsim.machine.run import Slice
from accelsim.program.mapping import ORDERS
from accelsim.program.mapping import Mapping as Tiling
from accelsim.report.accuracy import FILES as ACCURACY_FILES
from accelsim.report.accuracy import FORMATS as ACCURACY_FIELDS
from accelsim.report.page.data import packed, page_data
from accelsim.report.page.document import Entry, html
from accelsim.report.plot import PLOTS
from accelsim.report.table import LAYER_COLUMNS
from accelsim.report.write import FILES, facts_of, layer_records, ledger_records
from accelsim.spec.yaml.where import names
from accelsim.time import Clock
from accelsim.workload.sources.topology_csv import CONV_COLUMNS, GEMM_COLUMNS, STRIDES_COLUMNS
from tests.helpers.doc_blocks import (
    PAGES,
    PICTURES,
    ROOT,
    SCRIPTS,
    arguments,
    blocks,
    checked,
    page_name,
    picture,
    script,
    shown,
)
from tests.helpers.doc_cache import read
from tests.helpers.fold_edges import folds_of
from tests.validation.command import all_checks
from tests.validation.rtl_check import golden_rows, roofline, simpler_errors
from tests.validation.rtl_machine import run_row

ROOTS = ("accelsim/", "hwspecs/", "docs/", "tests/", "reports/", "examples/", ".ci/")
NOT_MADE_YET = re.compile(r"reports/(resnet50-tpu-v1|cnn|count|one-port)")
pages = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
LONG = ("README.md", "dram.md", "dram-models.md", "dram_energy.py")
"""Pages and pictures with a DRAM behind a whole network, or long traces of one."""


def runs(paths: Sequence[Path]) -> list[Any]:
    """Pages or programs that are run, each wherever is room; the long ones where the loops over DRAM bursts are
    compiled."""
    return [
        pytest.param(
            path, id=path.name, marks=pytest.mark.xdist_group("compiled" if path.name in LONG else f"shows {path.name}")
        )
        for path in paths
    ]


def prose(path: Path) -> str:
    """The text outside of fenced blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def table(text: str, header: str) -> list[list[str]]:
    """Cells of the Markdown table whose header row begins so."""
    lines = text[text.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def codes(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


@pytest.fixture(scope="module")
def run() -> accelsim.Run:
    return accelsim.run("gemm?M=8,N=8,K=8", on="edu-4x4", values="off")


@pytest.mark.gate  # a page that did not change since it was right is not run
@pytest.mark.parametrize("path", runs(PAGES))
def test_outputs_are_those_of_today(path: Path, full: bool) -> None:
    """Run a page whose blocks changed; in the evidence also one whose sources did."""
    old, was = path.read_text(encoding="utf-8"), read().get(page_name(path))
    if was is not None and was.is_of(shown(old)) and not (full and was.stale):
        return
    new = checked(path).text
    difference = "\n".join(
        unified_diff(old.splitlines(), new.splitlines(), "as written", "as printed now", lineterm="")
    )
    assert new == old, f"python -m tests.helpers.doc_blocks {page_name(path)} writes it again\n{difference}"


def test_everything_that_pages_import_exists() -> None:
    """A page runs in its shard alone; that a name is gone shows at once."""
    texts = [block.text for path in PAGES for block in blocks(path.read_text(encoding="utf-8"))
             if block.language == "python"]  # fmt: skip
    imports = [
        ast.unparse(node)
        for text in [*texts, *(path.read_text(encoding="utf-8") for path in SCRIPTS)]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("accelsim")
    ]
    assert len(imports) > 80
    for each in imports:
        exec(each, {})  # raises ImportError


def commands() -> Iterator[tuple[str, str]]:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        found = [command for block in blocks(text) for command in block.commands]
        found += [code for code in sorted(codes(prose(path))) if re.match(r"accelsim [a-z]+ .", code)]
        yield from ((path.name, command) for command in dict.fromkeys(found))


@pytest.mark.parametrize(("where", "command"), list(commands()))
def test_commands_parse(where: str, command: str) -> None:
    words = arguments(command)
    words = words[: words.index(">")] if ">" in words else words
    if words[-1] == "--help":
        return
    current: click.Command = main
    context = click.Context(main)
    while isinstance(current, click.Group) and words and not words[0].startswith("-"):
        found = current.get_command(context, words[0])
        assert found is not None, f"{where}: no command {words[0]!r}"
        current, words = found, words[1:]
    current.make_context(current.name, list(words), parent=context)


def test_named_checks_exist() -> None:
    found = [arguments(command) for _, command in commands() if command.startswith("accelsim validate ")]
    named = {word for words in found for word in words[1:] if not word.startswith("-") and word.islower()}
    assert named
    assert named <= set(all_checks())


@pages
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(path)):
        if not target.startswith("https://"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pages
def test_mentioned_files_exist(path: Path) -> None:
    for code in codes(prose(path)):
        if code.startswith(ROOTS) and not NOT_MADE_YET.match(code) and "*" not in code:
            assert (ROOT / code).exists(), f"{path.name} mentions {code}"
        if re.fullmatch(r"make \w+", code):
            assert f"\n{code[5:]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pages
def test_named_symbols_exist(path: Path) -> None:
    """What a line calls `NAME` of a file that it also names is defined there."""
    sources = {code: (ROOT / code).read_text(encoding="utf-8") for code in codes(prose(path))
               if code.startswith("accelsim/") and code.endswith(".py") and (ROOT / code).exists()}  # fmt: skip
    everything = "\n".join(sources.values())
    for name in codes(prose(path)):
        if path.name == "spec-reference.md":  # made from the models; in capitals are fields there, tRCD's neighbours
            return
        if sources and re.fullmatch(r"_?[A-Z]{2,}(_[A-Z]+)*", name) and not name.startswith("ACCELSIM_"):
            assert name in everything, f"{path.name} mentions {name}"


def test_pictures_are_small() -> None:
    for image in (ROOT / "docs" / "img").iterdir():
        assert image.stat().st_size < 150_000, image.name
        assert any(image.name in path.read_text(encoding="utf-8") for path in PAGES), image.name


def test_every_picture_has_a_program() -> None:
    made = {picture(script(path), path).name for path in SCRIPTS}
    made |= {f"resnet50-tpu-v1-{name}.png" for name in PICTURES}
    assert made == {path.name for path in (ROOT / "docs" / "img").iterdir()}


SHORTER: dict[str, dict[str, Any]] = {"qat": {"SEEDS": (0,), "STEPS": 5, "TUNING": 5}, "training": {"STEPS": 20}}
"""Programs that train for long: what they are told here instead. Their pictures then look different."""


@pytest.mark.parametrize("path", runs(SCRIPTS))
def test_pictures_are_drawn_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script(path)
    for name, value in SHORTER.get(path.stem, {}).items():
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, value)
    module.draw(tmp_path / "new.png")
    old, new = imread(picture(module, path)), imread(tmp_path / "new.png")
    assert old.shape == new.shape
    assert new.std() > 0.05, "a picture with nothing on it"
    if path.stem not in SHORTER:
        assert np.abs(old - new).mean() < 0.02, f"{path.name} draws something else than docs/img shows"


def test_index_names_every_page() -> None:
    index = page("README.md")
    assert all(path.name in index for path in PAGES if path.parent == ROOT / "docs" and path.name != "README.md")


def test_passes_are_listed_in_order() -> None:
    listed = re.findall(r"^\d+\. `(\w+)`", page("architecture.md"), flags=re.M)
    assert listed == [*(entry.name for entry in PASSES), "lower", "verify"]


def test_fold_timing_is_that_of_the_table() -> None:
    rng, p = np.random.default_rng(1), 3
    rows = table(page("timing.md"), "| schedule | dataflow | shadow load")
    assert {row[0].strip("`") for row in rows} == set(SCHEDULES)
    for schedule, dataflows, shadow, *formulas in rows:
        for dataflow in codes(dataflows):
            for R, C, T, q in rng.integers(1, 40, (20, 4)).tolist():
                how = (dataflow, schedule.strip("`"), shadow.strip("`") or "column")
                fold = fold_timing(R, C, *how, T, p, leave=q)
                scope = {"R": R, "C": C, "T": T, "p": p, "q": q, "ceil": lambda x: int(np.ceil(x))}
                expected = [eval(formula.strip("`"), scope) for formula in formulas]
                assert [fold.load, fold.reload, fold.interval, fold.drain] == expected


def test_every_file_and_column_of_a_report_is_explained(run: accelsim.Run) -> None:
    text = codes(page("reading-the-output.md"))
    assert {name + "/" if name == "plots" else name for name in FILES} <= text
    assert {column.title for column in LAYER_COLUMNS} <= text
    assert set(summary(run)) <= text
    assert set(ledger_records(run)[0]) <= text
    assert set(PLOTS) <= text
    families = {
        "compute_fs": "_fs",
        "MEMORY_read_B": "_read_B",
        "MEMORY_write_B": "_write_B",
        "energy_CATEGORY_J": "_J",
    }
    for column in layer_records(run)[0]:
        family = [name for name, suffix in families.items() if column.endswith(suffix)]
        assert column in text or (family and set(family) <= text), column


def test_every_key_of_the_record_of_a_run_is_explained(run: accelsim.Run) -> None:
    assert set(run.asked) <= codes(page("reading-the-output.md"))


def test_every_section_of_the_page_is_explained(run: accelsim.Run) -> None:
    data = page_data(run, layers(run), facts_of(run, []))
    written = html([Entry(data, packed(data))])
    rows = {cell for row in table(page("reading-the-output.md"), "| section | holds") for cell in row[0].split(", ")}
    assert set(re.findall(r"<h2>(.*?)</h2>", written)) <= rows


def test_every_argument_of_run_and_every_public_name_is_on_the_python_page() -> None:
    text = page("python.md")
    listed = {name for row in table(text, "| arguments | about") for name in codes(row[0])}
    assert listed == set(inspect.signature(accelsim.run).parameters)
    assert all(f"`accelsim.{name}" in text for name in accelsim.__all__)
    members = {name for name in vars(accelsim.Result) if not name.startswith("_")}
    assert members <= set(re.findall(r"`run\.(\w+)", text))


def test_errors_are_those_of_the_python_page() -> None:
    listed = {row[0].strip("`") for row in table(page("python.md"), "| error | when")}
    kinds = {kind.__name__ for kind in accelsim.errors.AccelsimError.__subclasses__()}
    assert listed == {name for name in kinds if hasattr(accelsim.errors, name)}


def test_columns_of_a_topology_are_those_of_the_page() -> None:
    text = page("topology-csv.md")
    heads = [line.split("#")[0].split(", ")[1:] for line in text.splitlines() if line.startswith("Layer")]
    found = [tuple(re.sub(r"[^a-z]", "", name.casefold()) for name in names) for names in heads]
    assert set(found) == {CONV_COLUMNS, GEMM_COLUMNS}
    rows = {name for row in table(text, "| column | means") for name in codes(row[0])}
    named = {re.sub(r"[^a-z]", "", name.casefold()) for name in rows | codes(text)}
    assert {*CONV_COLUMNS, *STRIDES_COLUMNS} <= named


def test_the_table_of_formats_is_explained() -> None:
    text = page("reading-the-output.md")
    heads = [each.title for each in ACCURACY_FIELDS]
    assert set(heads) <= codes(text)
    (head,) = (line for line in text.splitlines() if line.startswith("chip       format"))
    assert re.split(r"  +", head) == heads
    assert set(ACCURACY_FILES) <= codes(text)


def test_every_reason_is_explained() -> None:
    """Those of all chips on one page, in order; those that an engine type brings on its own page."""
    head = "| key | in words"
    texts = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    found = {
        name: [(row[0].strip("`"), row[1]) for row in table(text, head)] for name, text in texts.items() if head in text
    }
    assert dict(entry for entries in found.values() for entry in entries) == {**KEYS, HIDDEN: HIDDEN}
    common = found["reading-the-output.md"]
    assert common == [entry for entry in (*KEYS.items(), (HIDDEN, HIDDEN)) if entry in common]


def test_every_field_of_a_mapping_is_explained() -> None:
    assert set(Tiling.types()) <= codes(page("mapping.md"))


@pytest.mark.parametrize("order", ORDERS)
def test_fetches_are_those_of_the_table(order: str) -> None:
    rows = {row[0].strip("`"): row[1:] for row in table(page("mapping.md"), "| order | A (depends")}
    a, b, sums = rows[order]
    pinned = {"order": order, "tm": 4, "tn": 4, "tk": 4, "a_resident": False, "a_whole_k": False}
    for slots in range(int(sums[0]), 0, -1):
        mapping = {"y": pinned | {"y_slots": slots}}
        if slots < int(sums[0]):
            with pytest.raises(Infeasible):
                accelsim.run("gemm?M=16,N=16,K=16", on="edu-4x4", dtype="fp32", values="off", mapping=mapping)
            continue
        run = accelsim.run("gemm?M=16,N=16,K=16", on="edu-4x4", dtype="fp32", values="off", mapping=mapping)
        read = {row.tensor: row.count for row in run.ledger if (row.component, row.action) == ("dram", "read")}
        times = {"4 times": 4, "once": 1}
        assert read == {"a": times[a] * 16 * 16 * 4, "b": times[b] * 16 * 16 * 4}


def test_example_by_hand_is_the_first_golden_row() -> None:
    row = golden_rows()[0]
    run = run_row(row)
    edge, record = Clock(run.chip.clock).edge, folds_of(run)[0]
    load_w, load_a, product, store = run.slices

    def transfer(piece: Slice) -> str:
        return f"accepted {edge(piece.start)}, data {edge(piece.data) + 1} to {edge(piece.end)}"

    text = [cells[1] for cells in table(page("machine.md"), "| what | edges | why")]
    assert text == [
        transfer(load_w),
        transfer(load_a),
        f"{record.load_first} to {record.load_first + record.stream.load - 1}",
        f"{record.stream_first} to {record.stream_first + record.stream.rows - 1}",
        str(edge(product.end)),
        transfer(store),
    ]
    assert (
        f"{edge(run.time_fs)} clocks for {record.stream.rows} of streaming. A roofline says {roofline(row):.0f}."
        in page("machine.md")
    )


def test_simpler_models_are_as_far_off_as_the_page_says() -> None:
    rows = {row[0]: row[1:] for row in table(page("validation.md"), "| model of the time")}
    for name, errors in simpler_errors(golden_rows()).items():
        sizes = 100 * np.abs(errors)
        assert rows[name] == [f"{np.median(sizes):.0f} %", f"{np.quantile(sizes, 0.9):.0f} %"]


COUNTED: dict[str, Callable[[], int]] = {
    r"(\d+) lessons, from": lambda: len(lessons()),
    r"# (\d+) chips:": lambda: len(names("chips")),
    r"\| (\d+) GPUs from": lambda: len(_gpus()),
    r"from K80 to B300, (\d+) of them calibrated": lambda: sum(chip.calibration is not None for chip in _gpus()),
    r"one of (\d+) number formats": lambda: len(FORMATS),
    r"there are (\d+) engine types": lambda: len(ENGINES),
    r"is one of (\w+) that the command makes": lambda: len(PLOTS),
}
"""A number that README states -> what it counts. Seven is written out."""


def _gpus() -> list[accelsim.Chip]:
    chips = [accelsim.load_chip(name) for name in names("chips")]
    return [chip for chip in chips if any(unit.type == "simt" for unit in chip.engines.values())]


@pytest.mark.parametrize("pattern", COUNTED)
def test_readme_counts_what_there_is(pattern: str) -> None:
    found = re.search(pattern, (ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    assert {"seven": "7"}.get(found[1], found[1]) == str(COUNTED[pattern]())


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 200


def test_changelog_has_this_version() -> None:
    assert f"## [{accelsim.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
