"""Several runs side by side: what they are called, what is never cut, which energies are not alike, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.account.energy_basis import caveats, energy_basis
from accelsim.account.latency import layers, summary
from accelsim.errors import UsageError
from accelsim.kernels.whole import ends
from accelsim.machine.run import Run
from accelsim.report import compare, comparison, table, write
from accelsim.report.compare import common, labels
from accelsim.report.looks import CATEGORY_LOOKS
from accelsim.report.style import GREY
from accelsim.report.text import ratio, si, wrapped
from accelsim.result import run
from accelsim.spec.yaml.load import load_chip
from tests.helpers.synthetic_run import make_run

RUN = make_run(layers=5)
WIDTHS = (60, 80, 120)
LONG = "memories.dram.memory.bandwidth=34 GB/s"


def rendered(sources: Sequence[compare.Source], width: int) -> str:
    """The table of runs."""
    entries = compare.load_summaries(sources)
    rows, metrics = compare.records(entries), compare.metrics_of(entries)
    return table.render(comparison.run_table(rows, metrics, width), width)


def rendered_layers(sources: Sequence[compare.Source], width: int, most: int | None = None) -> str:
    """The table of layers."""
    found = comparison.differences(sources)
    return table.render(comparison.layer_table(found, False, most, width), width)


def simulated(**asked: object) -> Run:
    return run("cnn", "edu-4x4", values="off", **asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """The same model on the same chip, asked for in several ways."""
    return {
        "defaults": simulated(),
        f"matrix.rows=8 {LONG}": simulated(set=["matrix.rows=8", LONG]),
        "dataflow os": simulated(dataflow="os"),
    }


@pytest.fixture(scope="module")
def reports(runs: dict[str, Run], tmp_path_factory: pytest.TempPathFactory, all_unpainted: None) -> list[Path]:
    folder = tmp_path_factory.mktemp("reports")
    return [write.write_run(each, folder / str(index)) for index, each in enumerate(runs.values())]


def entry(**asked: object) -> dict[str, object]:
    return {
        "chip": "c",
        "model": "m",
        "dtype": "int8",
        "batch": 1,
        "run": {"asked": {"model": "m", "on": "c", **asked}},
    }


def test_runs_are_called_by_what_was_asked_for(runs: dict[str, Run], reports: list[Path]) -> None:
    for sources in (list(runs.values()), reports):
        entries = compare.load_summaries(sources)
        assert labels(entries) == list(runs)
        assert common(entries) == ["edu-4x4", "cnn", "int8", "batch 1", "values off"]


@pytest.mark.parametrize(
    ("asked", "label"),
    [
        ({"seed": 3}, "seed 3"), ({"set": ["clock = 1 GHz"]}, "clock=1 GHz"), ({"per_tensor": True}, "per-tensor"),
        ({"layer_dtype": {"conv1": "int4"}}, "layer-dtype conv1=int4"), ({"param": {"hidden": 9}}, "hidden=9"),
        ({"shape": {"x": [1, 3]}}, "shape x=1,3"), ({"model": "m?n=2"}, "m?n=2"), ({"on": "dir/c.yaml"}, "c m dir/c.yaml"),
        ({"array_timing": "scalesim"}, "array-timing scalesim"),
    ],
)  # fmt: skip
def test_every_kind_of_setting_has_words(asked: dict[str, object], label: str) -> None:
    plain, other = labels([entry(), entry(**asked)])
    assert other == label
    assert plain in ("defaults", "m", "c m c")


def test_what_only_a_hash_tells_apart_has_it_and_what_nothing_does_a_number() -> None:
    one, two = entry(), entry()
    one["run"] = {**one["run"], "chip_sha256": "a" * 64}  # type: ignore[dict-item]
    two["run"] = {**two["run"], "chip_sha256": "b" * 64}  # type: ignore[dict-item]
    assert labels([one, two]) == ["c m chip aaaaaaaa", "c m chip bbbbbbbb"]
    assert labels([entry() | {"label": "x"}, entry() | {"label": "y"}]) == ["x", "y"]
    assert labels([entry(), entry()]) == ["c m (1)", "c m (2)"]


def test_a_setting_of_one_field_is_the_last_that_was_asked() -> None:
    assert labels([entry(set=["a=1", "a=2"]), entry(set=["a=3"])]) == ["a=2", "a=3"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_no_cell_and_no_name_is_ever_cut(reports: list[Path], runs: dict[str, Run], width: int, count: int) -> None:
    chosen = [*reports, *reports][:count]
    shown = rendered(chosen, width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    entries = compare.load_summaries(chosen)
    first, second = (each["latency_s"] for each in entries[:2])
    for text in (si(first, "s"), si(second, "s"), ratio(second / first)):
        assert text in shown
    packed = re.sub(r"\s", "", shown)
    if count == 2:  # of more the lines of several names stand side by side
        assert all(part in packed for part in ("matrix.rows=8", "defaults"))


@given(st.text("ab.=/_- ", max_size=60), st.integers(4, 30))
def test_wrapping_leaves_nothing_out(name: str, width: int) -> None:
    lines = wrapped(name, width)
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")
    assert max(map(len, lines)) <= width


def test_ratios_have_three_digits_and_a_prefix() -> None:
    assert [ratio(value) for value in (0.60813, 1.0, 999.9, 10_812.0, 0.0, 9.2e-5)] == [
        "0.608×", "1×", "1k×", "10.8k×", "0×", "9.2e-05×",
    ]  # fmt: skip


def test_a_column_for_each_run_where_they_fit_else_a_row(reports: list[Path]) -> None:
    wide = rendered(reports, 120).splitlines()
    assert wide[-1].split()[0] == "E"
    narrow = rendered([*reports, *reports], 80)
    assert [len(re.findall(word, narrow)) for word in ("latency", "E MAC")] == [1, 0]


def test_missing_summaries_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as caught:
        comparison.compare([tmp_path / "empty", tmp_path / "missing", RUN])
    assert [Path(problem.where).name for problem in caught.value.problems] == ["empty", "missing"]
    with pytest.raises(UsageError, match="nothing to compare"):
        comparison.compare([])


# energies that are not alike


def test_idle_power_and_energy_tables_that_differ_are_told() -> None:
    stated, absent = (energy_basis(load_chip(name)) for name in ("tpu-v1", "neuroncore-v2"))
    grown = energy_basis(load_chip("tpu-v1", ["unified_buffer.capacity=48 MiB"]))
    found = list(caveats(stated, absent, ("A", "B")))
    assert [sorted(each.grounds) for each in found] == [["table"], ["idle"]]
    assert found[0].text == "the energy table of A is of 28 nm, that of B of 7 nm"
    assert (
        found[1].text
        == "A is charged 28 W of idle power; no idle power of the chip is stated for B, so none is counted"
    )
    (estimate,) = caveats(stated, grown, ("A", "B"))
    assert "(an estimate)" in estimate.text
    assert list(caveats(stated, stated, ("A", "B"))) == []
    (unknown,) = caveats(stated, None, ("A", "B"))
    assert unknown.grounds == {"table", "idle", "memory"} and "recorded for B" in unknown.text


def test_dram_that_is_charged_by_command_is_not_set_in_one_ratio_with_dram_by_the_byte() -> None:
    """Standby of the dies is in the one and not in the other: 97 uJ against 3 uJ of the same run."""
    runs = [run("cnn", "edu-4x4", values="off", memory_model=model) for model in ("bandwidth", "bank")]
    assert runs[1].energy_J > 10 * runs[0].energy_J
    assert [summary(each)["energy_basis"]["by_command"] for each in runs] == [[], ["dram"]]
    for pair, (by_command, by_byte) in ((runs, "BA"), (runs[::-1], "AB")):
        (found,) = caveats(*(summary(each)["energy_basis"] for each in pair), ("A", "B"))
        assert found.grounds == {"idle", "memory"}
        assert found.text.startswith(f"DRAM of {by_command} is charged by command")
        assert found.text.endswith(f"that of {by_byte} by the byte")
    lines = rendered(runs, 100).splitlines()
    marked = {line.split("  ")[0] for line in lines if line.rstrip().endswith(compare.STAR)}
    assert {"energy", "power", "E off-chip memory"} <= marked and "E MAC" not in marked
    assert not list(caveats(*[summary(runs[1])["energy_basis"]] * 2, ("A", "B")))


def test_a_note_of_a_table_is_no_energy() -> None:
    table_of = load_chip("edu-4x4").energy
    chip = load_chip("edu-4x4").model_copy(update={"energy": table_of.model_copy(update={"note": "else"})})
    assert energy_basis(chip) == energy_basis(load_chip("edu-4x4"))
    (found,) = caveats(energy_basis(chip), energy_basis(load_chip("edu-4x4", ["energy.mac.int8=1 pJ"])), ("A", "B"))
    assert found.text == "B has other energies per action than A, both of 45 nm"


def test_ratios_of_unlike_energies_are_marked_and_the_others_not(runs: dict[str, Run]) -> None:
    one = runs["defaults"]
    other = simulated(set=["energy.mac.int8=1 pJ"])
    lines = rendered([one, other], 80).splitlines()
    marked = [line.split("  ")[0].strip() for line in lines if "×*" in line]
    assert marked == ["energy", "power", "E MAC", "E PE registers", "E on-chip SRAM", "E vector unit"]
    assert [text[:1] for text in compare.notes(compare.load_summaries([one, other]))] == ["*", "R"]
    assert compare.notes(compare.load_summaries(list(runs.values()))) == []
    assert comparison.compare([one, other]).rows[1]["unlike"] == ["table"]


# records


def test_records_have_all_digits_and_the_ratios(runs: dict[str, Run], reports: list[Path]) -> None:
    first, second = comparison.compare(reports[:2]).rows
    one, two = list(runs.values())[:2]
    assert (first["latency_s"], second["latency_s"]) == (one.latency_s, two.latency_s)  # type: ignore[attr-defined]
    assert second["ratio_of_latency_s"] == second["latency_s"] / first["latency_s"]
    assert not any(key.startswith("ratio_of") for key in first)
    assert not any(" " in key for key in second)
    comparison.compare(reports).json()


# layer by layer


def test_layers_are_matched_by_name_the_largest_difference_first(runs: dict[str, Run], reports: list[Path]) -> None:
    pair = list(runs.values())[:2]
    found = comparison.differences(pair)
    assert comparison.differences(reports[:2]) == found
    sizes = [abs(each["difference_time_s"]) for each in found]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 0
    before, after = ({layer.name: layer for layer in layers(each)} for each in pair)
    for each in found:
        assert each["first_time_s"] == before[each["name"]].added_fs * 1e-15
        assert each["second_energy_J"] == after[each["name"]].energy_J
        assert each["second_bound_by"] == after[each["name"]].bound_key
    latency = pair[1].latency_s - pair[0].latency_s  # type: ignore[attr-defined]
    assert sum(each["difference_time_s"] for each in found) == pytest.approx(latency)


def test_a_layer_of_one_run_only_counts_whole(reports: list[Path], tmp_path: Path) -> None:
    shorter = tmp_path / "shorter"
    shorter.mkdir()
    lines = (reports[0] / "layers.csv").read_text("utf-8").splitlines(keepends=True)
    (shorter / "layers.csv").write_text("".join(lines[:-1]), "utf-8")
    (shorter / "summary.json").write_bytes((reports[0] / "summary.json").read_bytes())
    every = comparison.differences([reports[0], shorter])
    (found,) = (each for each in every if each["second_time_s"] is None)
    assert found["difference_time_s"] == -found["first_time_s"] < 0
    assert "–" in rendered_layers([reports[0], shorter], 120)
    (shorter / "layers.csv").write_text("what,ever\n1,2\n")
    with pytest.raises(UsageError, match=r"layers.csv.*cannot be read"):
        comparison.differences([reports[0], shorter])


@pytest.mark.parametrize("width", WIDTHS)
def test_no_figure_of_the_layers_is_cut(reports: list[Path], width: int) -> None:
    shown = rendered_layers(reports[:2], width, 3)
    assert max(map(len, shown.splitlines())) <= width
    assert not re.search(r"\d…", shown)
    assert len(shown.splitlines()) == 2 + 1 + 3 + 2
    assert ("energy" in shown, "bound by" in shown) == (width >= 80, width >= 120)


def test_layers_of_other_models_or_of_one_run_are_refused(reports: list[Path]) -> None:
    with pytest.raises(UsageError, match="layers have one name"):
        comparison.differences([reports[0], RUN])
    with pytest.raises(UsageError, match="two runs of one model"):
        comparison.differences(reports)


# the picture


def test_bars_are_relative_to_the_first_run_and_latency_has_a_colour_of_its_own(reports: list[Path]) -> None:
    assert GREY not in {look.color for look in CATEGORY_LOOKS.values()}
    fig = comparison.compare_figure(compare.load_summaries(reports)).figure()
    left, right = fig.axes
    entries = compare.load_summaries(reports)
    lengths = [each.get_width() for each in left.patches]
    assert lengths == [each["latency_s"] / entries[0]["latency_s"] for each in entries]
    ends = [sum(bars[place].get_width() for bars in right.containers) for place in range(len(entries))]
    wanted = [each["energy_per_inference_J"] / entries[0]["energy_per_inference_J"] for each in entries]
    assert ends == pytest.approx(wanted)
    names = [label.get_text().replace("\n", " ") for label in left.get_yticklabels()]
    assert [name.replace(" ", "") for name in names] == [name.replace(" ", "") for name in labels(entries)]
    texts = [text.get_text() for text in left.texts]
    assert texts[0] == si(entries[0]["latency_s"], "s") and texts[1].endswith("×)")


def test_a_run_of_no_time_can_be_drawn(reports: list[Path]) -> None:
    entries = compare.load_summaries(reports[:1])
    assert comparison.relative_to([0.0, 2.0]) == (2.0, "relative to the largest")
    assert comparison.relative_to([0.0]) == (1.0, "relative to the largest")
    assert entries[0]["latency_s"] > 0


def test_a_latency_with_an_interval_has_it_beside_its_bar() -> None:
    """Relative to the first run as the bars are; a chip that nobody measured has none."""
    runs: list[Run] = [run("mlp?hidden=16", on, values="off") for on in ("t4", "edu-4x4")]
    left, right = comparison.compare_figure(compare.load_summaries(runs)).figure().axes[:2]
    found, base = summary(runs[0])["latency_interval"], summary(runs[0])["latency_s"]
    (line,) = left.lines
    assert list(line.get_xdata()) == pytest.approx([found["low_s"] / base, found["high_s"] / base])
    assert left.get_title(loc="left").endswith(", with 90 % interval")
    (line,) = right.lines
    assert list(line.get_xdata()) == pytest.approx(list(ends("joules", 1.0) or ()))
    plain = comparison.compare_figure(compare.load_summaries(runs[1:])).figure().axes[0]
    assert not plain.lines and plain.get_title(loc="left") == "Latency of one run"
