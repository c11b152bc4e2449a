"""Time of fused attention, in closed form (FlashAttention 2: Dao, 2023).

A block takes 128 queries of a head and goes over all keys, or those before it (causal): per step two products, and
between them a softmax, on whose results the second one waits. Causal blocks are as long as they see keys, and the
longest one begins no later than any other: nothing is shorter than it. Several queries of heads that share keys are one
block's rows where a sequence has few of them (decode). The keys may be cut among blocks (split KV), whose parts another
kernel joins: into the number of parts that takes the least time. Of few queries (decode) that kernel runs however many
parts there are: decoding on an H200 takes 2 us longer than one kernel of its blocks. Queries, keys, values and results
are moved once.

The backward pass computes scores again: a block takes 128 keys of a head and goes over the queries that see them, five
products per step. It adds the gradients of queries up in FP32, in the memory of the device; a kernel before it sums the
products of results and their gradients, one after it rounds those sums (algorithm 2 of the paper).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.engines.simt.products import FEWEST_PIECES, ChipRates
from accelsim.engines.simt.serving_attention import pairs
from accelsim.engines.simt.spec import Simt
from accelsim.spec.multiplying import operands_B
from accelsim.types import Bools, Floats

COLUMNS = ("batch", "tokens", "kv", "heads", "kv_heads", "head_dim", "causal", "backward")
"""Sequences, queries of each, keys of each (with those of the queries), heads of queries and of keys, elements of a
head, 1 where a query sees no later key, 1 for the backward pass."""
MORE = ("window", "kv_B")
"""Columns that may lack: the newest keys that a query sees (0: all), bytes of an element of keys and values (0: those
of the format)."""
QUERIES, KEYS = 128, 64
"""Queries of a block, and keys of a step of its loop; fewer queries are rounded up to 16 rows."""
LEAST_ROWS = 16
"""Rows that a Tensor Core takes at a time."""
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of parts of the keys that are tried."""
LANE_OPERATIONS = 4
"""Operations of a lane for a score, beside its exponential: largest of a row, scale and difference, sum, rounding."""
BACKWARD_OPERATIONS = 5
"""Operations of a lane in the backward pass: scale and difference, the difference of its gradient, their product, two
roundings."""
AROUND_BACKWARD_B = 12
"""Bytes for each element of a query beside the backward pass itself: its gradient in FP32 set to zero and read again,
the result and the gradient of the result once more."""
BEFORE_AND_AFTER = 2.0
"""Kernels around the backward pass."""


class Attended(NamedTuple):
    """Attention as columns: blocks, clocks of one of them for multiplying at the peak and for its softmax, how much
    longer than the mean the longest is, parts of its keys; multiplications and bytes of all,
    elements that all blocks bring into shared memory; whether it is the backward pass; kernels beside its own."""

    blocks: Floats
    multiplying: Floats
    softmax: Floats
    longest: Floats
    parts: Floats
    macs: Floats
    bytes: Floats
    joined_B: Floats
    loaded: Floats
    backward: Bools
    others: Floats


def attended(spec: Simt, rates: ChipRates, name: str, columns: Mapping[str, Floats]) -> Attended:
    """Return the blocks of attention, its keys cut into the parts that take the least time by the spec's constants."""
    forward, backward = _cut(spec, rates, name, columns), columns["backward"] > 0
    if not backward.any():
        return forward
    both = zip(_backward(spec, name, columns), forward, strict=True)
    return Attended(*(np.where(backward, back, there) for back, there in both))


def _backward(spec: Simt, name: str, columns: Mapping[str, Floats]) -> Attended:
    """Blocks of keys, each for one head of queries."""
    batch, tokens, kv, heads, kv_heads, dim = (columns[key] for key in COLUMNS[:6])
    seen = np.where(columns["causal"] > 0, tokens - (np.minimum(tokens, kv) - 1) * tokens / kv / 2, tokens)
    steps = np.ceil(seen / KEYS)
    blocks = batch * heads * np.ceil(kv / QUERIES)
    scores = QUERIES * steps * KEYS
    element_B = max(map(float, operands_B(name)))
    queries, keys = batch * tokens * heads * dim, batch * kv * kv_heads * dim
    return Attended(
        blocks,
        scores * 5 * dim / float(spec.formats[name].rate),
        scores * (1 / spec.special + BACKWARD_OPERATIONS / spec.lanes),
        np.ceil(tokens / KEYS) / steps,
        np.ones(len(batch)),
        5 * batch * kv * heads * seen * dim,
        element_B * (4 * queries + 4 * keys),
        AROUND_BACKWARD_B * queries,
        blocks * 2 * seen * dim + 2 * keys,
        np.ones(len(batch), bool),
        np.full(len(batch), BEFORE_AND_AFTER),
    )


def _cut(spec: Simt, rates: ChipRates, name: str, columns: Mapping[str, Floats]) -> Attended:
    """Blocks of queries, with the best of ``PARTS``."""
    whole, steps = _forward(spec, name, columns)
    queries = columns["batch"] * columns["tokens"] * columns["heads"] * columns["head_dim"]
    tried, seconds = [], []
    for parts in PARTS:
        share = np.ceil(steps / parts) / steps
        found = whole._replace(
            blocks=whole.blocks * parts,
            multiplying=whole.multiplying * share,
            softmax=whole.softmax * share,
            parts=whole.parts * parts,
            joined_B=2 * parts * queries * 4 * float(parts > 1),
            others=np.where(columns["tokens"] < LEAST_ROWS, 1.0, float(parts > 1)),
        )
        fits = parts <= np.minimum(spec.multiprocessors, steps)
        tried.append(found)
        seconds.append(np.where(fits, attention_times(spec, rates, name, found).seconds, np.inf))
    best, row = np.argmin(np.stack(seconds), axis=0), np.arange(len(steps))
    return Attended(*(np.stack(column)[best, row] for column in zip(*tried, strict=True)))


def _forward(spec: Simt, name: str, columns: Mapping[str, Floats]) -> tuple[Attended, Floats]:
    """Blocks of queries that see all of their keys, and the steps of each."""
    batch, tokens, kv, heads, kv_heads, dim = (columns[key] for key in COLUMNS[:6])
    shared = np.where(tokens < LEAST_ROWS, heads / kv_heads, 1.0)
    rows = tokens * shared
    tall = np.where(rows >= QUERIES, QUERIES, np.ceil(rows / LEAST_ROWS) * LEAST_ROWS)
    whole = batch * heads / shared * np.ceil(rows / tall)
    window, kv_B = (columns.get(key, np.zeros(len(batch))) for key in MORE)
    seen = np.where(columns["causal"] > 0, kv - (np.minimum(tokens, kv) - 1) / 2, kv)
    read, span = kv, seen
    slides = (window > 0) & (window < kv)
    if slides.any():
        both = {**columns, "window": window}
        seen = np.where(slides, pairs(both) / (batch * heads * tokens), seen)
        read = np.where(slides, np.minimum(kv, window + tokens - 1), kv)
        span = np.where(slides, np.minimum(span, window + tall / shared - 1), span)
    steps = np.ceil(span / KEYS)
    longest = np.maximum(1.0, np.ceil(np.where(slides, span, kv) / KEYS) / steps)
    scores, none = tall * steps * KEYS, np.zeros(len(batch))
    element_B = max(map(float, operands_B(name)))
    queries, keys = batch * tokens * heads * dim, batch * read * kv_heads * dim
    moved = element_B * 2 * queries + np.where(kv_B > 0, kv_B, element_B) * 2 * keys
    found = Attended(
        whole, scores * 2 * dim / float(spec.formats[name].rate),
        scores * (1 / spec.special + LANE_OPERATIONS / spec.lanes), longest, none + 1,
        2 * batch * tokens * heads * seen * dim, moved, none,
        whole * 2 * seen * dim + queries, np.zeros(len(batch), bool), none,
    )  # fmt: skip
    return found, steps


class AttentionTimes(NamedTuple):
    """Seconds: of computing, of moving, of joining parts of the keys, of all together; waves of blocks."""

    computing: Floats
    moving: Floats
    joining: Floats
    seconds: Floats
    waves: Floats


def attention_times(spec: Simt, rates: ChipRates, name: str, found: Attended) -> AttentionTimes:
    """Return how long it takes."""
    share = np.where(found.backward, spec.attention_backward, spec.attention)
    multiplying = found.multiplying / spec.formats[name].sustained / share
    work = multiplying + found.softmax + spec.prologue + spec.epilogue
    waves = found.blocks / spec.multiprocessors
    last = np.where(found.longest > 1, 0.0, spec.softness) * (np.ceil(waves) - waves)
    busiest = np.where(waves > 1, waves + last, 1.0)
    computing = np.maximum(busiest, found.longest) * work / rates.clock_Hz
    moving = found.bytes / rates.dram_Bps
    fits = found.joined_B <= rates.l2_B
    joined_Bps = np.where(fits, float(rates.l2_width_B) * rates.clock_Hz, rates.dram_Bps)
    joining = found.others * spec.reduction + found.joined_B / joined_Bps
    core = np.maximum(computing, moving) + np.minimum(computing, moving) / FEWEST_PIECES
    return AttentionTimes(computing, moving, joining, spec.dispatch + spec.launch + core + joining, waves)
