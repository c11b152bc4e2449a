"""The pictures of the page: one row each, in the order in which they stand there."""

from __future__ import annotations

from typing import NamedTuple


class Chart(NamedTuple):
    """A picture: its ``name`` among the parts of the script, the ``key`` of the data that it shows (None there: the
    run has none), a title, and how to read it."""

    name: str
    key: str
    title: str
    caption: str


CHARTS = (
    Chart(
        "bars",
        "layers",
        "Time and energy by layer",
        "One bar a layer, in the order of the run. The first picture is what the layer adds to the latency, by what "
        "the run waited for; the second its energy, by what costs it. The bars of each add up to the run.",
    ),
    Chart(
        "rooflines",
        "rooflines",
        "Rooflines",
        "A mark is a layer with its number in the table, its area the layer's share of the time. No layer can lie "
        "above the line: left of the knee the memory is the limit, right of it the arithmetic.",
    ),
    Chart(
        "timeline",
        "timeline",
        "Timeline",
        "One row per engine; what overlaps runs at the same time. The top row is the critical path: what the run "
        "waited for, instant by instant. Dark and light alternate from layer to layer; pale: a command holds the "
        "engine, its data do not move yet. Of each slice the page says what came last of all that it waited for.",
    ),
    Chart(
        "buffers",
        "buffers",
        "What lay in each buffer",
        "Time to the right, addresses upwards. A rectangle is a tensor, or the part of one that has a place there, "
        "from the first byte written to the last one used. The pointer names all that lies there at its time.",
    ),
    Chart(
        "array",
        "array",
        "The array at work",
        "The first tile of each shape of product, as the register-level model moves it through the array; play it, or "
        "step from edge to edge.",
    ),
    Chart(
        "joules",
        "joules",
        "Where every joule comes from",
        "Each row has the energy of the whole run, parted further from row to row: by component, by what the component "
        "did, by layer, by tensor; what no tensor causes has nothing in the last row. Hatched: the figure behind it is "
        "not verified. Choose a part to see it over the whole width.",
    ),
)
"""Every picture, in the order of the page."""
