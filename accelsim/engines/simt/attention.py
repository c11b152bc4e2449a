"""How long fused attention takes, in closed form (FlashAttention 2: Dao, 2023).

A block takes 128 queries of a head and goes over all keys, or those before it (causal): per step two products, and
between them a softmax, on whose results the second one waits. Causal blocks are as long as they see keys, and the
longest one begins no later than any other: nothing is shorter than it. Several queries of heads that share keys are one
block's rows where a sequence has few of them (decode), and where such blocks are fewer than multiprocessors the keys
are cut among them (split KV), whose parts another kernel joins. Queries, keys, values and results are moved once.

The backward pass computes scores again: a block takes 128 keys of a head and goes over the queries that see them, five
products per step. It adds the gradients of queries up in FP32, in the memory of the device; a kernel before it sums the
products of results and their gradients, one after it rounds those sums (algorithm 2 of the paper).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.engines.simt.products import FEWEST_PIECES, Around
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
MOST_PARTS, ENOUGH, NEARLY = 128, 0.8, 0.85
"""Most parts of the keys; share of the multiprocessors from which blocks are not cut; how much of the best filling of
waves is good enough."""
LANE_OPERATIONS = 4
"""Operations of a lane for a score, beside its exponential: largest of a row, scale and difference, sum, rounding."""
BACKWARD_OPERATIONS = 5
"""In the backward pass: scale and difference, the difference of its gradient, their product, two roundings."""
AROUND_BACKWARD_B = 12
"""Bytes for each element of a query beside the backward pass itself: its gradient in FP32 set to zero and read again,
the result and the gradient of the result once more."""
BEFORE_AND_AFTER = 2
"""Kernels around the backward pass."""


class Attended(NamedTuple):
    """Attention as columns: blocks, clocks of one of them for multiplying at the peak and for its softmax, how much
    longer than the mean the longest is, parts of its keys; multiplications and bytes of all,
    elements that all blocks bring into shared memory; whether it is the backward pass."""

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


def attended(spec: Simt, name: str, columns: Mapping[str, Floats]) -> Attended:
    """The blocks of attention, whatever the constants."""
    forward, backward = _forward(spec, name, columns), columns["backward"] > 0
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
        blocks, scores * 5 * dim / float(spec.formats[name].rate),
        scores * (1 / spec.special + BACKWARD_OPERATIONS / spec.lanes), np.ceil(tokens / KEYS) / steps,
        np.ones(len(batch)), 5 * batch * kv * heads * seen * dim, element_B * (4 * queries + 4 * keys),
        AROUND_BACKWARD_B * queries, blocks * 2 * seen * dim + 2 * keys, np.ones(len(batch), bool),
    )  # fmt: skip


def _forward(spec: Simt, name: str, columns: Mapping[str, Floats]) -> Attended:
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
    parts = _parts(whole, steps, spec.multiprocessors)
    longest = np.maximum(1.0, np.ceil(np.where(slides, span, kv) / KEYS) / steps)
    scores = tall * np.ceil(steps / parts) * KEYS
    element_B = max(map(float, operands_B(name)))
    queries, keys = batch * tokens * heads * dim, batch * read * kv_heads * dim
    moved = element_B * 2 * queries + np.where(kv_B > 0, kv_B, element_B) * 2 * keys
    joined = np.where(parts > 1, 2 * parts * queries * 4, 0.0)
    return Attended(
        whole * parts, scores * 2 * dim / float(spec.formats[name].rate),
        scores * (1 / spec.special + LANE_OPERATIONS / spec.lanes), longest, parts,
        2 * batch * tokens * heads * seen * dim, moved, joined,
        whole * 2 * seen * dim + queries, np.zeros(len(batch), bool),
    )  # fmt: skip


def _parts(whole: Floats, steps: Floats, multiprocessors: int) -> Floats:
    """Into how many parts libraries cut the keys of so many blocks: the fewest that fill waves nearly as well as any
    do; into none where blocks are most of a wave already (FlashAttention 2, its heuristic for splits)."""
    tried = np.arange(1, MOST_PARTS + 1.0)
    fits = tried <= np.minimum(multiprocessors, steps)[..., None]
    waves = whole[..., None] * tried / multiprocessors
    filled = np.where(fits, waves / np.ceil(waves), 0.0)
    fewest = tried[np.argmax(filled >= NEARLY * filled.max(axis=-1, keepdims=True), axis=-1)]
    return np.where(whole >= ENOUGH * multiprocessors, 1.0, fewest)


class AttentionTimes(NamedTuple):
    """Seconds: of computing, of moving, of joining parts of the keys, of all together; waves of blocks."""

    computing: Floats
    moving: Floats
    joining: Floats
    seconds: Floats
    waves: Floats


def attention_times(spec: Simt, around: Around, name: str, found: Attended) -> AttentionTimes:
    """Return how long it takes."""
    share = np.where(found.backward, spec.attention_backward, spec.attention)
    multiplying = found.multiplying / spec.formats[name].sustained / share
    work = multiplying + found.softmax + spec.prologue + spec.epilogue
    waves = found.blocks / spec.multiprocessors
    last = np.where(found.longest > 1, 0.0, spec.softness) * (np.ceil(waves) - waves)
    busiest = np.where(waves > 1, waves + last, 1.0)
    computing = np.maximum(busiest, found.longest) * work / around.clock_Hz
    moving = found.bytes / around.dram_Bps
    fits = found.joined_B <= around.l2_B
    joined_Bps = np.where(fits, float(around.l2_width_B) * around.clock_Hz, around.dram_Bps)
    others = np.where(found.backward, BEFORE_AND_AFTER, found.parts > 1)
    joining = np.where(others > 0, others * spec.reduction + found.joined_B / joined_Bps, 0.0)
    core = np.maximum(computing, moving) + np.minimum(computing, moving) / FEWEST_PIECES
    return AttentionTimes(computing, moving, joining, spec.dispatch + spec.launch + core + joining, waves)
