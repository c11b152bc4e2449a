"""Time of the attention of a serving stack in a graph of kernels, in closed form: of prompts, of single queries.

Writing the new keys and values to their cache is a kernel before it, and part of its time unless ``cache_write`` is 0.

**Prompts.** A block takes 64 or 128 rows of queries, of one head or of all heads that share keys, and goes over the
keys that one of its rows sees (causal, sliding window), rounded up to 64. Each costs two products, the exponentials
between them, and a fixed time; blocks run in waves, the last one soft.

**Single queries.** A block takes a sequence and a head of keys; while there are fewer blocks than multiprocessors the
keys are cut among them. It takes a fixed time, and more for each query head and each 128 keys beyond the first. Many
short sequences are bound by this and not by bytes. FlashAttention 2 does not cut and does not pack where a window is
given or where each head has keys of its own (``lone``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accelsim.engines.kernel_times import KernelCost
from accelsim.engines.simt.serving_layers import Peak, found_in_cache, overlapped, soft_waves
from accelsim.spec.serving import Decode, Prefill, Served
from accelsim.types import Floats

COLUMNS = (
    "batch", "tokens", "kv", "heads", "kv_heads", "head_dim", "causal", "window", "kv_B", "cache_write", "layers",
    "library",
)  # fmt: skip
"""Sequences; new tokens of each; keys of each, with those of the new tokens; heads of queries and of keys, elements of
a head; 1 where a query sees no later key; newest keys that a query sees (0: all); bytes of an element of keys and
values; 1 where the new ones are written to the cache; layers whose keys are used before the same come again (0: many);
the library, a row of ``LIBRARIES``."""
KEYS, STEP = 64, 128
"""Keys of a step of prompts and of single queries."""
QUERY_B, DIM = 2, 128
"""Bytes of an element of queries and results; elements of a usual head."""


def seen(columns: Mapping[str, Floats]) -> Floats:
    """Return the keys that the last query of a sequence sees."""
    window, kv = columns["window"], columns["kv"]
    return np.where(window > 0, np.minimum(window, kv), kv)


def pairs(columns: Mapping[str, Floats]) -> Floats:
    """Return the pairs of a query and a key that it sees, of all sequences and heads."""
    tokens, kv, last = columns["tokens"], columns["kv"], seen(columns)
    short = np.maximum(0.0, last - (kv - tokens + 1))
    rising = np.minimum(tokens, short)
    causal = tokens * last - rising * short + rising * (rising - 1) / 2
    every = tokens * last
    found: Floats = columns["batch"] * columns["heads"] * np.where(columns["causal"] > 0, causal, every)
    return found


def moved_B(columns: Mapping[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """Return the bytes of queries and results, of keys and values that are read, and of those that are written."""
    batch, tokens, dim = columns["batch"], columns["tokens"], columns["head_dim"]
    one = batch * columns["kv_heads"] * dim * 2
    queries = batch * tokens * columns["heads"] * dim * 2 * QUERY_B
    read = np.minimum(columns["kv"], seen(columns) + tokens - 1)
    written = tokens * (QUERY_B + columns["kv_B"]) * columns["cache_write"]
    return queries, one * read * columns["kv_B"], one * written


def least_work(form: Served, columns: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Return the multiply-accumulates and the bytes that no kernel does without."""
    moved: Floats = np.sum(moved_B(columns), axis=0)
    return 2 * columns["head_dim"] * pairs(columns), moved


def prefill_cost(constants: Prefill, form: Served, peak: Peak, columns: Mapping[str, Floats]) -> KernelCost:
    """Return how long attention of prompts takes, one row each, writing to the cache included where it is asked for:
    launch + writing of tokens + the norm of computing and moving."""
    batch, tokens, heads, dim = (columns[name] for name in ("batch", "tokens", "heads", "head_dim"))
    packs = constants.packs | ((tokens == 1) & (columns["window"] == 0))
    shared = np.where(packs, heads / columns["kv_heads"], 1.0)
    tiles = np.ceil(tokens * shared / constants.queries)
    mean, longest = _keys(constants, columns, shared, tiles)
    products = 2 * dim / (peak.macs * constants.sustained) + constants.exponential / peak.special
    fixed = constants.block * (1 - constants.wide + constants.wide * dim / DIM)
    of_mean, of_longest = (constants.queries * keys * products + fixed for keys in (mean, longest))
    blocks = batch * heads / shared * tiles
    waves = soft_waves(blocks, peak.multiprocessors, constants.softness)
    computing = np.maximum(waves * of_mean, constants.first * of_longest) / peak.clock_Hz
    queries, read, written = moved_B(columns)
    moving = (queries + read + written) / (constants.memory * peak.dram_Bps)
    launch, m, n, parts = (np.full(len(tokens), float(x)) for x in (constants.launch, constants.queries, KEYS, 1))
    token = constants.token * batch * tokens * columns["cache_write"]
    seconds = launch + token + overlapped(computing, moving)
    return KernelCost(seconds, launch, computing + token, moving, blocks / peak.multiprocessors, m, n, parts)


def _keys(constants: Prefill, columns: Mapping[str, Floats], shared: Floats, tiles: Floats) -> tuple[Floats, Floats]:
    """Keys that blocks go over, rounded up: the mean of all blocks of a head, and of the longest block."""
    kv, last = columns["kv"], seen(columns)
    own = np.maximum(1.0, constants.queries / shared)
    most = np.minimum(last + own - 1, kv)
    before = kv - columns["tokens"]
    rising = np.clip(np.floor((most - before) / own), 0, tiles)
    causal = (rising * before + own * rising * (rising + 1) / 2 + (tiles - rising) * most) / tiles
    slid = np.where(last < kv, KEYS, 0)
    mean, longest = (
        np.minimum(np.ceil(keys / KEYS) * KEYS + slid, np.ceil(kv / KEYS) * KEYS) for keys in (causal, most)
    )
    return np.where(columns["causal"] > 0, mean, longest), longest


def decode_cost(constants: Decode, form: Served, peak: Peak, columns: Mapping[str, Floats]) -> KernelCost:
    """Return how long attention of single queries takes, one row each: launches + the norm of computing and moving."""
    batch, kv, heads, kv_heads = (columns[name] for name in ("batch", "kv", "heads", "kv_heads"))
    last, group, wide = seen(columns), heads / kv_heads, columns["head_dim"] / DIM
    lone = ((columns["window"] > 0) | (group == 1)) & constants.lone
    blocks, own = np.where(lone, batch * heads, batch * kv_heads), np.where(lone, 1.0, group)
    steps = np.where(last < kv, last / STEP + 1, np.ceil(last / STEP))
    parts = np.where(lone, 1.0, np.clip(peak.multiprocessors / blocks, 1.0, steps))
    further = np.maximum(0.0, steps / parts - 1) * np.where(lone, constants.walk, constants.step) * wide
    each = constants.block * (1 - constants.wide + constants.wide * wide) + constants.query * own + further
    waves = blocks * parts / peak.multiprocessors
    multiplying = 2 * batch * heads * last * columns["head_dim"] / peak.macs_per_s
    computing = np.maximum(np.maximum(1.0, blocks / peak.multiprocessors) * each, multiplying)
    queries, read, written = moved_B(columns)
    hit = found_in_cache(columns["layers"] * read, constants.room * peak.l2_B)
    moved = queries + read * (1 - hit * (1 - 1 / constants.cached)) + written
    moving = moved / (constants.memory * peak.dram_Bps)
    copies = (kv_heads > 1) & (batch > 1)
    packed = np.where(copies, constants.packing + constants.copying, constants.packing)
    launch = constants.launch + np.where(lone | (not constants.lone), 0.0, packed)
    launch = launch + np.where((kv > STEP) & ~lone, constants.join, 0.0)
    if constants.stream:
        parts, launch = np.ones(len(batch)), np.full(len(batch), float(constants.launch))
        waves = batch * heads / peak.multiprocessors
        own_B = 2 * last * columns["head_dim"] * columns["kv_B"]
        computing = np.maximum(1.0, waves) * own_B / (constants.stream * peak.clock_Hz)
    none = np.zeros(len(batch))
    return KernelCost(launch + overlapped(computing, moving), launch, computing, moving, waves, none, none, parts)
