"""Time of a mixture of experts on one device of a serving stack, in closed form.

In one graph: routing, two grouped products, activation, quantising where the format is narrow, and the sum over the
experts of a token. Weights come of those experts of the device alone that have a token; products and weights overlap.
Some libraries move the activations of all tokens and their experts, those of other devices too.

Which experts have a token says ``accelsim.workload.routing``. The device is the fullest of its group.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accelsim.engines.kernel_times import KernelCost
from accelsim.engines.simt.serving_layers import Peak, overlapped
from accelsim.spec.serving import Experts, Served
from accelsim.types import Floats
from accelsim.workload.routing import Routing, fullest

COLUMNS = ("tokens", "hidden", "inter", "topk", "experts", "tp", "ep", "skew", "gated", "library")
"""Tokens; sizes of a token and of an expert's inner layer; experts of a token and of all devices; devices that share
each expert and that share the experts; exponent of the popularity (0: equal, below 0: even loads); 1 for gated
activations, whose first product is twice as wide; the library, a row of ``LIBRARIES``."""
ALIGNED = 16
"""Elements of which a multiple is read at once."""
RESULT_B = 2


def busy(columns: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Return the experts of the device that have a token, and the rows that these compute, of each row."""
    rows = zip(*(columns[name].tolist() for name in ("tokens", "topk", "experts", "ep", "skew")), strict=True)
    found = np.array([fullest(*row, Routing(skew)) for *row, skew in rows])
    return found[:, 0], found[:, 1]


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
