"""Tables fit the terminal, names stay distinct, words say numbers that the summary holds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from accelsim.account.latency import layers, summary
from accelsim.report import table, text, words
from tests.helpers.synthetic_run import make_run

RUN = make_run(layers=12)
LAYERS, SUMMARY = layers(RUN), summary(RUN)
TEXTS = st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=60)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 160, 250])
def test_the_layer_table_fits_and_no_row_wraps(width: int) -> None:
    lines = table.render(table.layer_table(LAYERS, width), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert sum(bool(re.match(r" *\d+ ", line)) for line in lines) == len(LAYERS)


def test_eighty_columns_keep_what_matters_most() -> None:
    header = table.render(table.layer_table(LAYERS, 80), 80).splitlines()[0]
    for title in ("#", "layer", "time", "of run", "bound by", "energy"):
        assert title in header
    assert "cycles" not in header and "operator" not in header


def test_a_wide_terminal_shows_every_column_in_full() -> None:
    shown = table.render(table.layer_table(LAYERS, 250), 250)
    for column in table.LAYER_COLUMNS:
        assert column.title in shown
    assert all(layer.title in shown for layer in LAYERS)
    assert text.ELLIPSIS not in shown


@given(st.lists(st.lists(TEXTS, min_size=3, max_size=3), max_size=5), st.integers(12, 120))
def test_any_table_fits(rows: list[list[str]], width: int) -> None:
    shown = table.render(table.text_table(["name", "title", "note"], rows, width), width)
    assert all(cell_len(line) <= width for line in shown.splitlines())


def test_lists_wrap_and_lose_no_word() -> None:
    row = ["ring", "1.2 ms", "recursive halving, then doubling; some fold in before"]
    shown = table.render(table.text_table(["algorithm", "most on a wire", "how"], [row], 50), 50)
    assert max(map(len, shown.splitlines())) <= 50
    assert sorted(shown.rpartition("─")[2].split()) == sorted(" ".join(row).split())


def test_a_list_names_the_columns_that_have_no_room() -> None:
    row = ["homework/ada", "Ada", "expected", "a_word_of_forty_signs".replace("_", "x") * 2, "got"]
    heads = ["folder", "student", "where", "expected", "got"]
    shown = " ".join(table.render(table.text_table(heads, [row], 40), 40).split())
    assert "No room for expected, got; COLUMNS=" in shown
    needed = int(shown.partition("COLUMNS=")[2].split()[0])
    full = table.render(table.text_table(heads, [row], needed), needed)
    assert all(cell in full for cell in row) and "No room" not in full


def test_markup_in_names_is_shown_not_interpreted() -> None:
    shown = table.render(table.text_table(["name"], [["[bold]x[/bold]"]], 40), 40)
    assert "[bold]x[/bold]" in shown


def test_summary_and_energy_blocks_hold_the_totals() -> None:
    shown = table.render(table.summary_table(SUMMARY))
    assert text.si(SUMMARY["latency_s"], "s", 4) in shown
    energies = SUMMARY["energy_by_category_J"]
    assert [row[:2] for row in table.energy_rows(SUMMARY)] == [
        (name, text.si(energy, "J")) for name, energy in energies.items()
    ]


@given(TEXTS, st.integers(1, 70))
def test_shortened_names_keep_both_ends(name: str, width: int) -> None:
    short = text.shorten(name, width)
    assert len(short) <= width
    if len(name) <= width:
        assert short == name
    elif width > 4:
        assert name.startswith(short[0])
        assert name.endswith(short[-1])


def test_short_names_drop_what_all_share_unless_they_would_collide() -> None:
    names = ["/net/a/MatMul", "/net/b/MatMul", "/net/b/Add"]
    assert text.short_names(names[:2], ["MatMul", "MatMul"]) == ["a", "b"]
    assert text.short_names(names, ["MatMul", "MatMul", "Add"]) == ["a/MatMul", "b/MatMul", "b/Add"]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1.2345e-3, "s", "1.23 ms"),
        (0, "J", "0 J"),
        (None, "s", "–"),
        (float("inf"), "", "∞"),
        (3.4e10, "B/s", "34 GB/s"),
    ],
)
def test_engineering_units(value: float | None, unit: str, shown: str) -> None:
    assert text.si(value, unit) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "100%"), (0.1234, "12.3%"), (1e-5, "<0.1%"), (0, "0.0%"), (None, "–")]
)
def test_percent(value: float | None, shown: str) -> None:
    assert text.percent(value) == shown


def test_a_bound_in_words() -> None:
    """Never 'at most <0.1%' or 'at most 0.0%'."""
    assert (text.at_most(0.123), text.at_most(0.0001), text.at_most(0.0)) == (
        "at most 12.3%", "less than 0.1%", "less than 0.1%",
    )  # fmt: skip


def test_equal_times_are_as_fast_as_each_other() -> None:
    assert (text.times_as(7.93), text.times_as(1.0004)) == ("7.93 times as", "as")


def test_words_quote_the_summary() -> None:
    told = words.sentences(RUN, LAYERS, SUMMARY)
    assert 3 <= len(told) <= 5
    assert text.si(SUMMARY["latency_s"], "s") in told[0]
    assert text.percent(SUMMARY["utilisation"]) in told[0]
    assert text.si(SUMMARY["energy_J"], "J") in told[2]


def test_a_number_without_a_unit_has_no_milli() -> None:
    """100m reads like 100 million."""
    assert [text.si(value) for value in (0.1, 0.8674, 2.4e-4, 3.0, 2e6)] == ["0.1", "0.867", "0.00024", "3", "2M"]
    assert text.si(0.1, "s") == "100 ms"


def test_the_costliest_layers_come_first_and_the_total_is_that_of_all() -> None:
    shown = table.render(table.layer_table(LAYERS, 120, 3), 120).splitlines()
    top = sorted(LAYERS, key=lambda layer: -layer.added_fs)[:3]
    assert [int(line.split()[0]) for line in shown[2:5]] == [layer.index + 1 for layer in top]
    assert text.seconds(sum(layer.added_fs for layer in LAYERS)) in shown[-1]
