"""Texts of every picture of a report lie in the picture and cover no other text, for real chips and models."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import accelsim
from accelsim.account.critical_path import KEYS, by_blame
from accelsim.explore.batching import batching
from accelsim.machine.run import Run
from accelsim.report.compare import load_summaries
from accelsim.report.comparison import compare_figure
from accelsim.report.generation_report import time_per_token
from accelsim.report.layer_plots import access_note, key_labels
from accelsim.report.machine_plots import RESOLUTION
from accelsim.report.plot import PLOTS, draw
from accelsim.report.studies import time_per_sample
from tests.helpers.synthetic_run import make_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CASES: dict[str, dict[str, Any]] = {
    "tpu-v1 resnet50": {},
    "neuroncore-v2 gpt-decode": {},
    "edu-4x4 cnn": {},
    "eyeriss-hierarchy cnn": {},
    "dae-edu gemm?M=8,N=8,K=8": {"edges": "outside"},
    "haswell-e5-2699v3 mlp": {"batch": 3},
    "edu-4x4 mlp?hidden=8": {"edges": "outside"},
}
"""Chip and model -> further options of the run."""


class Told(NamedTuple):
    """A text as it was drawn, and where: pixels."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float


@cache
def run_of(case: str) -> Run:
    chip, model = case.split()
    return accelsim.run(model, on=chip, values="off", **CASES[case])


def texts(figure: Figure) -> list[Told]:
    """Every text that is drawn, the labels of ticks too."""
    from matplotlib.text import Text

    found: list[Told] = []
    with pytest.MonkeyPatch.context() as patch:
        drawing = Text.draw

        def draw_and_note(self: Text, renderer: Any) -> None:
            drawing(self, renderer)
            if self.get_visible() and self.get_text().strip():
                box = Text.get_window_extent(self, renderer)
                found.append(Told(self.get_text(), box.x0, box.y0, box.x1, box.y1))

        patch.setattr(Text, "draw", draw_and_note)
        figure.draw_without_rendering()
    return found


def check(figure: Figure) -> list[Told]:
    found = texts(figure)
    width, height = figure.bbox.width, figure.bbox.height
    outside = [t for t in found if t.x0 < -0.5 or t.y0 < -0.5 or t.x1 > width + 0.5 or t.y1 > height + 0.5]
    assert not outside, outside
    covered = [(a.text, b.text) for a, b in combinations(found, 2) if _overlap(a, b)]
    assert not covered, covered
    return found


def _overlap(a: Told, b: Told) -> bool:
    return min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1


@pytest.mark.parametrize("case", CASES)
def test_every_text_is_in_the_picture_and_covers_no_other(case: str) -> None:
    run = run_of(case)
    for name in [name for name, plot in PLOTS.items() if plot.function(run)]:
        found = check(draw(name, run))
        assert len(found) > 3, name


@pytest.mark.parametrize("layers", [1, 41])
def test_so_are_those_of_any_number_of_layers(layers: int) -> None:
    run = make_run(layers=layers)
    for name in PLOTS:
        check(draw(name, run))


@pytest.mark.parametrize("name", ["whole", "latency"])
@pytest.mark.parametrize("case", ["tpu-v1 resnet50", "neuroncore-v2 gpt-decode"])
def test_a_legend_leaves_nothing_out(name: str, case: str) -> None:
    run = run_of(case)
    legend = " ".join(" ".join(told.text.split()) for told in texts(draw(name, run)))
    used = {blame.key for blame in by_blame(run)}
    for key in used & set(KEYS):
        assert key_labels(run)[key] in legend
    assert any(len(label) > 48 for key, label in key_labels(run).items() if key in used)


@pytest.mark.parametrize(
    "cases", [["tpu-v1 resnet50", "neuroncore-v2 gpt-decode", "edu-4x4 cnn"], list(CASES)], ids=["three", "all"]
)
def test_texts_of_a_comparison(cases: list[str]) -> None:
    check(compare_figure(load_summaries([run_of(case) for case in cases])).figure())


def test_texts_of_a_generation() -> None:
    model = "llama?layers=1,hidden=32,heads=4,kv_heads=2,ffn=24,vocab=64,prompt=4"
    for new in (2, 9):
        check(time_per_token(accelsim.generate(f"{model},new={new}", "neuroncore-v2", values="off")).figure())


def test_texts_of_batch_sizes() -> None:
    check(time_per_sample(batching("mlp", "neuroncore-v2", [1, 8, 64])).figure())


def test_the_memory_has_the_name_that_the_tables_use() -> None:
    run = run_of("edu-4x4 cnn")
    assert "operand from dram costs" in access_note(run)
    assert any(told.text.startswith("dram 400 MB/s") for told in texts(draw("roofline", run)))


@pytest.mark.parametrize("case", CASES)
def test_what_the_timeline_paints_is_what_it_calls_busy(case: str) -> None:
    """Bars of a transfer engine, pale ones too, cover its busy time; neighbours in the top row differ in colour."""
    run = run_of(case)
    (axes,) = draw("timeline", run).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    limit = axes.get_xlim()[1]
    painted: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for bars in axes.collections:
        for path in bars.get_paths():
            box = path.get_extents()
            painted[names[round((box.y0 + box.y1) / 2)]].append((box.x0, box.x1))
    for entry in run.engines:
        if run.program.engines[entry.engine] == "dma" and painted.get(entry.engine):
            covered, end = 0.0, 0.0
            for x0, x1 in sorted(painted[entry.engine]):
                covered, end = covered + max(0.0, x1 - max(x0, end)), max(end, x1)
            gaps = sum(p.engine == entry.engine for p in run.slices) / RESOLUTION  # that count as painted
            assert -0.005 <= covered / limit - entry.busy / run.time_fs <= gaps + 0.005
    top = [bars.get_facecolor().tolist() for bars in axes.collections if _row(bars) == 0]
    assert all(one != two for one, two in pairwise(top))


def _row(bars: Any) -> int:
    box = bars.get_paths()[0].get_extents() if bars.get_paths() else None
    return round((box.y0 + box.y1) / 2) if box is not None else -1
