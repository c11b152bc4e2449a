"""Time of a mixture of experts on one device of a serving stack, in closed form.

In one graph: routing, two grouped products, activation, quantising where the format is narrow, and the sum over the
experts of a token. Weights come of those experts of the device alone that have a token; products and weights overlap.
Some libraries move the activations of all tokens and their experts, those of other devices too.

Which experts have a token: each token chooses ``topk`` of them. All are as popular (``skew`` 0), or their popularity is
drawn from a power law of that exponent over a range of 1 to ``RANGE``, and each has its share of the choices, if that
is a token at least. The device is the fullest of its group. A negative ``skew`` spreads tokens as evenly as can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from accelsim.engines.kernel_times import KernelCost
from accelsim.engines.simt.serving_layers import Peak, overlapped
from accelsim.seeds import generator
from accelsim.spec.serving import Experts, Served
from accelsim.types import Floats

COLUMNS = ("tokens", "hidden", "inter", "topk", "experts", "tp", "ep", "skew", "gated", "library")
"""Tokens; sizes of a token and of an expert's inner layer; experts of a token and of all devices; devices that share
each expert and that share the experts; exponent of the popularity (0: equal, below 0: even loads); 1 for gated
activations, whose first product is twice as wide; the library, a row of ``LIBRARIES``."""
RANGE, DRAWS, SEED = 100.0, 5, 1
"""Ratio of the most to the least popular expert that may be drawn; loads of which the mean is taken; their seed."""
KEPT = 4096
"""Loads that are kept."""
ALIGNED = 16
"""Elements of which a multiple is read at once."""
RESULT_B = 2


def busy(columns: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Return the experts of the device that have a token, and the rows that these compute, of each row."""
    rows = zip(*(columns[name].tolist() for name in ("tokens", "topk", "experts", "ep", "skew")), strict=True)
    found = np.array([_busy(*row) for row in rows])
    return found[:, 0], found[:, 1]


@lru_cache(KEPT)
def _busy(tokens: float, topk: float, experts: float, ep: float, skew: float) -> tuple[float, float]:
    """Experts with a token, and rows, of the fullest of ``ep`` devices."""
    own, mean = experts / ep, tokens * topk / ep
    if skew < 0:
        rows = max(1.0, mean)
        return min(own, rows), rows
    chosen = _chosen(int(experts), topk, skew).reshape(-1, int(ep), int(own))
    fullest = chosen[np.arange(len(chosen)), chosen.sum(axis=2).argmax(axis=1)]
    each = np.minimum(1, fullest * tokens) if skew else 1 - (1 - fullest) ** tokens
    active = float(each.sum(axis=1).mean())
    rows = float(fullest.sum(axis=1).mean()) * tokens
    if ep == 1:
        return active, rows
    fuller = max(rows, min(tokens * topk, mean + float(np.sqrt(2 * mean * np.log(ep)))))
    return min(own, fuller, active + (1 - active / own) * (fuller - rows)), fuller


@lru_cache(KEPT)
def _chosen(experts: int, topk: float, skew: float) -> Floats:
    """Share of the tokens that choose each expert, one draw a row: ``topk`` together, each 1 at the most."""
    if skew == 0:
        return np.full((1, experts), topk / experts)
    drawn = generator(SEED).random((DRAWS, experts))
    weight = RANGE**drawn if skew == 1 else ((RANGE ** (1 - skew) - 1) * drawn + 1) ** (1 / (1 - skew))
    share = np.minimum(1.0, topk * weight / weight.sum(axis=1, keepdims=True))
    room = 1 - share
    left = topk - share.sum(axis=1, keepdims=True)
    found: Floats = share + left * room / np.maximum(room.sum(axis=1, keepdims=True), 1e-12)
    return found


def with_loads(columns: Mapping[str, Floats]) -> Mapping[str, Floats]:
    """Return the columns with the experts that have a token (``active``) and the rows that these compute."""
    active, rows = busy(columns)
    return {**columns, "active": active, "rows": rows}


def _weights(columns: Mapping[str, Floats]) -> Floats:
    """Elements of the weights of one expert on the device."""
    return (2 + columns["gated"]) * columns["hidden"] * columns["inter"] / columns["tp"]


def least_work(form: Served, columns: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Return the multiply-accumulates and the bytes that no kernel does without."""
    weights = _weights(columns)
    return columns["rows"] * weights, columns["active"] * weights * form.weight_B


def experts_cost(constants: Experts, form: Served, peak: Peak, columns: Mapping[str, Floats]) -> KernelCost:
    """Return how long mixtures of experts take, one row each, with the columns of ``with_loads``: launches + the norm
    of products and weights + moving activations + what each token and expert takes."""
    active, rows, weights = columns["active"], columns["rows"], _weights(columns)
    tokens, hidden, inner = columns["tokens"], columns["hidden"], columns["inter"] / columns["tp"]
    slow = np.where(inner % ALIGNED == 0, 1.0, constants.ragged)
    filled = rows + constants.padding * active
    computing = filled * weights * slow / (peak.macs_per_s * constants.sustained)
    loading = active * weights * form.weight_B * slow / (constants.memory * peak.dram_Bps)
    widths = hidden * (form.activation_B + RESULT_B)
    widths = widths + inner * (form.activation_B + RESULT_B * (1 + columns["gated"]))
    moved = np.where(constants.everywhere, tokens * columns["topk"], rows) * widths
    moved = moved + tokens * hidden * (2 * RESULT_B + form.activation_B)
    moving = moved / (constants.moved * peak.dram_Bps)
    each = constants.token * tokens + constants.local * columns["experts"] / columns["ep"] + constants.active * active
    launch, none = np.full(len(tokens), float(constants.launch)), np.zeros(len(tokens))
    seconds = launch + overlapped(computing, loading) + moving + each
    return KernelCost(seconds, launch, computing + each, loading + moving, none, none, none, none + 1)
