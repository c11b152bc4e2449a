"""How long fused attention takes, in closed form (FlashAttention 2: Dao, 2023).

A block takes 128 queries of a head and goes over all keys, or those before it (causal): two products per key and one
exponential. Several queries of heads that share keys are one block's rows where there are few of them, and where blocks
are fewer than multiprocessors the keys are cut among them (split KV), whose parts another kernel joins. Queries, keys,
values and results are moved once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.engines.simt.products import FEWEST_PIECES, Around
from accelsim.engines.simt.spec import Simt, operands_B
from accelsim.types import Floats

COLUMNS = ("batch", "tokens", "kv", "heads", "kv_heads", "head_dim", "causal")
"""Sequences, queries of each, keys of each (with those of the queries), heads of queries and of keys, elements of a
head, 1 where a query sees no later key."""
QUERIES, KEYS = 128, 64
"""Queries of a block, and keys of a step of its loop; fewer queries are rounded up to 16 rows."""
LEAST_ROWS = 16
"""Rows that a Tensor Core takes at a time."""
OF_PRODUCTS = 0.75
"""Share of the rate of products that the loop reaches: its softmax waits for them and they for it."""


class Attended(NamedTuple):
    """Attention as columns: blocks, clocks of one of them for multiplying at the peak and for exponentials, parts of
    its keys; multiplications and bytes of all, elements that all blocks bring into shared memory."""

    blocks: Floats
    multiplying: Floats
    exponentials: Floats
    parts: Floats
    macs: Floats
    bytes: Floats
    joined_B: Floats
    loaded: Floats


def attended(spec: Simt, name: str, columns: Mapping[str, Floats]) -> Attended:
    """The blocks of attention, whatever the constants."""
    batch, tokens, kv, heads, kv_heads, dim = (columns[key] for key in COLUMNS[:6])
    shared = np.where(tokens < LEAST_ROWS, heads / kv_heads, 1.0)
    rows = tokens * shared
    tall = np.where(rows >= QUERIES, QUERIES, np.ceil(rows / LEAST_ROWS) * LEAST_ROWS)
    whole = batch * heads / shared * np.ceil(rows / tall)
    seen = np.where(columns["causal"] > 0, kv - (np.minimum(tokens, kv) - 1) / 2, kv)
    steps = np.ceil(seen / KEYS)
    parts = np.clip(np.floor(2 * spec.multiprocessors / whole), 1, np.maximum(1, np.floor(steps / 2)))
    parts = np.where(whole < spec.multiprocessors, parts, 1.0)
    scores = tall * np.ceil(steps / parts) * KEYS
    element_B = max(map(float, operands_B(name)))
    queries, keys = batch * tokens * heads * dim, batch * kv * kv_heads * dim
    joined = np.where(parts > 1, 2 * parts * queries * 4, 0.0)
    return Attended(
        whole * parts, scores * 2 * dim / float(spec.formats[name].rate), scores / spec.special, parts,
        2 * batch * tokens * heads * seen * dim, element_B * 2 * (queries + keys), joined,
        whole * 2 * seen * dim + queries,
    )  # fmt: skip


class AttentionTimes(NamedTuple):
    """Seconds: of computing, of moving, of joining parts of the keys, of all together; waves of blocks."""

    computing: Floats
    moving: Floats
    joining: Floats
    seconds: Floats
    waves: Floats


def attention_times(spec: Simt, around: Around, name: str, found: Attended) -> AttentionTimes:
    """How long it takes."""
    multiplying = found.multiplying / spec.formats[name].sustained / OF_PRODUCTS
    work = np.maximum(multiplying, found.exponentials) + spec.prologue + spec.epilogue
    waves = found.blocks / spec.multiprocessors
    busiest = np.where(waves > 1, waves + spec.softness * (np.ceil(waves) - waves), 1.0)
    computing = busiest * work / around.clock_Hz
    moving = found.bytes / around.dram_Bps
    joining = np.where(found.parts > 1, spec.reduction + found.joined_B / around.dram_Bps, 0.0)
    core = np.maximum(computing, moving) + np.minimum(computing, moving) / FEWEST_PIECES
    return AttentionTimes(computing, moving, joining, spec.dispatch + spec.launch + core + joining, waves)
