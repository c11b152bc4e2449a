"""The animation of an array in a browser: every register at every edge, the controls, the keyboard, small screens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from accelsim.engines.systolic.following import IDLE, PADS, WORKS
from accelsim.explore.array_frames import array_frames
from tests.helpers import chromium as system
from tests.helpers.array_clips import registers, setup_of, small_run

FLOWS = ("ws", "os", "is")
LINES = ("moving", "down", "held", "sum", "waiting")
"""Registers of a PE from top to bottom."""
BASE, SCRIPT, STYLE = (
    files("accelsim.report").joinpath("assets", name).read_text(encoding="utf-8")
    for name in ("base.js", "array.js", "page.css")
)
READ = """() => [...document.querySelectorAll('.pe')].map((pe) => ({
  row: Number(pe.dataset.row), column: Number(pe.dataset.column), lit: pe.getAttribute('class'),
  texts: [...pe.querySelectorAll('g')].map((g) => g.style.display === 'none' ? null : g.querySelector('text').textContent)}))"""
LIT = {IDLE: "", PADS: "pads", WORKS: "works"}

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with system.chromium() as started:
        yield started


@pytest.fixture
def page(chromium: Any) -> Iterator[Open]:
    """Opens the animation of some data; at the end nothing may have been logged or asked of a network."""
    said: list[str] = []
    opened = []

    def show(data: Any, width: int = 1000, **system: Any) -> Any:
        made = chromium.new_page(viewport={"width": width, "height": 900}, **system)
        opened.append(made)
        made.on("console", lambda message: said.append(message.text))
        made.on("pageerror", lambda error: said.append(str(error)))
        made.on("request", lambda request: said.append(request.url))
        made.set_content(
            '<!DOCTYPE html><html lang="en"><meta name="viewport" content="width=device-width"><title>array</title>'
            f'<style>{STYLE}</style><div id="place"></div><script>{BASE}</script><script>{SCRIPT}</script>'
            f"<script>const data = {json.dumps(data)};"
            f'globalThis.player = new Player(document.getElementById("place"), data);</script></html>'
        )
        return made

    yield show
    for each in opened:
        each.close()
    assert said == []


def data_of(flow: str = "ws", **asked: Any) -> dict[str, Any]:
    found = array_frames(small_run(sets=(f"dataflow={flow}",), **asked))
    assert found is not None
    return found


def edge(page: Any) -> int:
    return int(page.evaluate("player.root.dataset.edge"))


def shown(value: Any) -> str:
    return str(int(value)).replace("-", "\u2212")


@pytest.mark.parametrize("flow", FLOWS)
def test_every_pe_shows_what_the_model_holds_at_every_edge(page: Open, flow: str) -> None:
    data = data_of(flow)
    (clip,) = data["clips"]
    here, lines = page(data), [name for name in LINES if name in clip["registers"]]
    model = registers(np.array(clip["a"]), np.array(clip["b"]), setup_of(clip))
    real = every = np.zeros(clip["array"], np.int64)
    for number, (known, products, multiplied) in enumerate(model, 1):
        assert here.locator(".now").inner_text().startswith(f"Edge {number} of {len(clip['frames'])}")
        for pe in here.evaluate(READ):
            at = pe["row"], pe["column"]
            assert pe["texts"] == [shown(known[name][0][at]) if known[name][1][at] else None for name in lines]
            work = WORKS if products[at] > real[at] else PADS if multiplied[at] > every[at] else IDLE
            assert [each for each in pe["lit"].split() if each not in ("pe", "chosen")] == LIT[work].split()
        real, every = products, multiplied
        here.evaluate("player.show(player.edge + 1)")


def test_names_instead_of_numbers(page: Open) -> None:
    here = page(data_of())
    here.evaluate("player.show(6)")
    numbers = here.locator(".pe text").all_text_contents()
    here.get_by_role("button", name="Names").click()
    names = here.locator(".pe text").all_text_contents()
    assert "A[0,0]" not in numbers
    assert {"A[1,0]", "B[0,0]", "Y[1,0]"} <= set(names)
    nameless = page(data_of(values="off"))
    assert nameless.locator("button", has_text="Names").is_hidden()
    nameless.evaluate("player.show(6)")
    assert nameless.locator(".pe text").all_text_contents() == names


def test_buttons_and_slider_go_to_edges(page: Open) -> None:
    here = page(data_of())
    here.get_by_role("button", name="One edge on").click()
    here.get_by_role("button", name="One edge on").click()
    assert edge(here) == 3
    here.get_by_role("button", name="One edge back").click()
    assert edge(here) == 2
    here.get_by_role("slider", name="Clock edge").fill("7")
    assert edge(here) == 7
    here.locator('.pe[data-row="1"][data-column="1"]').click()
    assert here.locator(".asked").inner_text().startswith("PE in row 1, column 1: A[")


def test_keys_step_jump_and_play(page: Open) -> None:
    data = data_of()
    last = len(data["clips"][0]["frames"])
    here = page(data)
    here.locator(".sysarr").focus()
    here.keyboard.press("ArrowRight")
    here.keyboard.press("ArrowRight")
    here.keyboard.press("ArrowLeft")
    assert edge(here) == 2
    here.keyboard.press("End")
    assert edge(here) == last
    here.keyboard.press("ArrowRight")
    assert edge(here) == last
    here.keyboard.press("Home")
    assert edge(here) == 1
    here.get_by_label("Speed").select_option("15")
    here.locator(".sysarr").focus()
    here.keyboard.press(" ")
    assert here.get_by_role("button", name="Pause").is_visible()
    here.wait_for_function(f"player.edge === {last} && player.timer === 0")
    assert here.get_by_role("button", name="Play").is_visible()


def test_it_waits_to_be_played_and_can_be_paused(page: Open) -> None:
    data = data_of()
    here = page(data)
    here.wait_for_timeout(300)
    assert edge(here) == 1
    here.get_by_label("Speed").select_option("5")
    here.get_by_role("button", name="Play").click()
    here.wait_for_function("player.edge > 2")
    here.get_by_role("button", name="Pause").click()
    here.wait_for_function("player.timer === 0")
    stopped = edge(here)
    assert 2 < stopped < len(data["clips"][0]["frames"])
    here.wait_for_timeout(500)
    assert edge(here) == stopped


def test_another_layer_is_another_clip(page: Open) -> None:
    data = array_frames(small_run("mlp?hidden=12,layers=2,inputs=9"))
    assert data is not None
    here = page(data | {"left_out": 2})
    here.evaluate("player.show(5)")
    here.get_by_label("Layer").select_option("1")
    assert edge(here) == 1
    assert data["clips"][1]["head"] in here.locator(".sysarr").inner_text()
    assert "2 more shapes of products are not shown." in here.locator(".sysarr").inner_text()


@pytest.mark.parametrize("width", [420, 1400])
def test_it_fits_the_screen(page: Open, width: int) -> None:
    here = page(data_of(), width)
    assert here.evaluate("document.documentElement.scrollWidth") == width


def test_colours_follow_the_system(page: Open) -> None:
    paper = "getComputedStyle(player.root).backgroundColor"
    light, dark = (page(data_of(), color_scheme=name).evaluate(paper) for name in ("light", "dark"))
    assert light != dark
    here = page(data_of(), color_scheme="light")
    here.emulate_media(color_scheme="dark")
    here.wait_for_function(f"{paper} === {dark!r}")


def test_paper_shows_the_busiest_edge_and_no_controls(page: Open) -> None:
    data = data_of()
    busy = data["clips"][0]["busy"]
    here = page(data)
    here.evaluate("player.show(2)")
    here.emulate_media(media="print")
    here.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert edge(here) == busy.index(max(busy)) + 1
    assert here.get_by_role("button").first.is_hidden()
    here.evaluate("dispatchEvent(new Event('afterprint'))")
    assert edge(here) == 2


def test_nothing_slides_where_motion_is_not_wanted(page: Open) -> None:
    moving = "document.getAnimations().length"
    here = page(data_of())
    here.evaluate("player.show(6)")
    here.get_by_role("button", name="One edge on").click()
    assert here.evaluate(moving) > 0
    calm = page(data_of(), reduced_motion="reduce")
    calm.evaluate("player.show(6)")
    calm.get_by_role("button", name="One edge on").click()
    assert calm.evaluate(moving) == 0


def test_names_are_text_and_never_markup(page: Open) -> None:
    data = data_of()
    evil = "<img src=x onerror=alert(1)>"
    (clip,) = data["clips"]
    here = page(data | {"clips": [clip | {"title": evil, "head": evil, "flow": evil, "notes": [evil]}]})
    assert here.locator("img").count() == 0
    assert evil in here.locator(".sysarr").inner_text()
