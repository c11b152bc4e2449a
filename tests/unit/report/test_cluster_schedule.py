"""The picture of pipeline schedules."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.cluster.schedules.base import Schedule
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.report.style import save
from tests.helpers.schedule_picture import Panel, schedule_plot, sentence


def played(entry: Schedule, microbatches: int = 4) -> PlayedSchedule:
    chunks = 2 if entry.chunked else 1
    return play_schedule(entry.orders(2, microbatches, chunks), 1, 2, 1)


@pytest.mark.parametrize("entry", [pytest.param(entry, id=name) for name, entry in SCHEDULES.items()])
def test_every_op_is_a_bar_with_its_microbatch(entry: Schedule) -> None:
    shown = played(entry)
    figure = schedule_plot([Panel(entry.title, shown, steps=True)])
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts if text.get_text().isdigit()] == [
        str(op.microbatch + 1) for order in shown.orders for op in order
    ]
    bars = sum(len(collection.get_paths()) for collection in axes.collections)
    assert bars == sum(map(len, shown.orders)) + len(shown.orders)
    assert axes.get_title(loc="left") == entry.title
    assert axes.get_xlabel() == "time steps"


def test_schedules_below_each_other_have_one_axis(tmp_path: Path) -> None:
    panels = [Panel(name, played(SCHEDULES[name], 40)) for name in ("gpipe", "zb-h1")]
    figure = schedule_plot(panels)
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim()
    assert second.get_xlabel() == "time (fs)"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["forward", "backward", "gradients of weights", "bubble"]
    for name in ("one.png", "two.png"):
        save(schedule_plot(panels[:1]), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_what_stands_below_the_title() -> None:
    assert sentence(played(SCHEDULES["gpipe"])) == ("bubble: 20.0 % of all devices' time; held at most: 4 activations")
    assert sentence(played(SCHEDULES["1f1b"])) == (
        "bubble: 20.0 % of all devices' time; held at most: 2 (first device) to 1 (last) activations"
    )
    assert sentence(played(SCHEDULES["interleaved"])).endswith(
        "held at most: 5 (first device) to 3 (last) activations of 1/2 stage each"
    )
