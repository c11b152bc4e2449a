"""History of a service of items: what each request did when, and what cores, links and chips did."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accelsim.serving.history import TINY_S, Span
from accelsim.serving.items.flow import Flow
from accelsim.serving.items.line import Item
from accelsim.types import Array

WAITS, BEFORE, TRANSFER, CHIP, AFTER = range(5)
"""Kinds of spans: a request waits, is on the host before the chip, in transfers, on the chip, on the host after it."""


def spans(flow: Flow) -> list[list[Span]]:
    """Return the spans of each request, that of its items that left last; in order of time, from its arrival until it
    left. Transfers from the chip count as those to it."""
    return [[*_spans(each)] for each in flow.requests]


def _spans(item: Item) -> Iterator[Span]:
    begun_s = item.arrival.arrival_s
    joined_s = item.joined_s if item.joined_s >= 0 else item.end_s
    work = [(BEFORE, item.before_s, joined_s)]
    if item.done_s >= 0:
        work += [(TRANSFER, item.transfer_s, item.done_s - item.chip_s), (CHIP, item.chip_s, item.done_s)]
        work += [(AFTER, item.after_s, item.end_s)]
    for kind, seconds, end_s in work:
        if end_s - seconds - begun_s > TINY_S:
            yield Span(WAITS, begun_s, end_s - seconds)
        if seconds:
            yield Span(kind, end_s - seconds, end_s)
        begun_s = max(begun_s, end_s)
    if item.end_s - begun_s > TINY_S:
        yield Span(WAITS, begun_s, item.end_s)


def means(starts: Array, ends: Array, edges: Array, weights: Array | float = 1.0) -> Array:
    """Return how many of some times go on, on average, in each part between ``edges``, s; each counts ``weights``."""
    own = np.broadcast_to(weights, starts.shape)
    return np.diff(_until(starts, own, edges) - _until(ends, own, edges)) / np.diff(edges)


def _until(times: Array, weights: Array, edges: Array) -> Array:
    """Return for each edge the weighted sum of how long before it the times are, of those that are."""
    order = np.argsort(times)
    number = np.searchsorted(times[order], edges)
    heavy, moment = (np.concatenate([[0.0], np.cumsum(w[order])]) for w in (weights, weights * times))
    found: Array = heavy[number] * edges - moment[number]
    return found
