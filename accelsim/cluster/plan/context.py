"""Context parallelism as a graph: each rank computes two chunks of the tokens, and attends to those of all in a ring.

See ``accelsim.cluster.serving.context`` for the chunks, the ring and their costs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accelsim.cluster.plan.spmd import add
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.attention import Attention
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.decoder import Decoder
from accelsim.workload.zoo.latent import LatentAttention
from accelsim.workload.zoo.style import Style

GROUP, RING = "cp", "RingAttention"


def chunks(tokens: int, ranks: int, rank: int) -> Array:
    """Return the places of the tokens of a rank: chunks ``rank`` and 2 ``ranks`` - 1 - ``rank`` of 2 ``ranks``."""
    cut = np.split(np.arange(tokens), 2 * ranks)
    return np.concatenate([cut[rank], cut[2 * ranks - 1 - rank]])


def _mixed(self: Attention, q: str, k: str, v: str, name: str, window: int) -> str:
    """Write a node for scores, softmax and weighted sum over the tokens of all ranks."""
    graph, cap = self.b.graph, self.style.score_cap
    attrs = {"seq": self.sizes.seq, "scale": self.scale / (cap or 1), "cap": cap}
    return add(graph, graph.nodes, RING, [q, k, v], f"{name}.mixed", 1, group=GROUP, **attrs)


class _Ring(Attention):
    mixed = _mixed


class _LatentRing(LatentAttention):
    mixed = _mixed


def share_tokens(params: Mapping[str, int], style: Style, batch: int, ranks: int) -> Graph:
    """Return one rank's graph of a decoder's call on a prompt. Rotations, and learnt positions, are those of its first
    tokens: each rank needs its own, see ``own_constants``."""
    b, given = Builder(RING), {**params, "seq": params["seq"] // ranks}
    decoder = Decoder(b, batch, given, style)
    decoder.attention = (_LatentRing if style.latent else _Ring)(b, decoder.sizes, style)
    return decoder.build()


def own_constants(graph: Graph, whole: Graph, places: Array) -> dict[str, Array]:
    """Return the constants of a rank's ``graph``: those of the ``whole`` one, of its tokens where they have a row for
    each."""
    found = {}
    for tensor in graph.constants():
        value = whole.tensors[tensor.name].value()
        found[tensor.name] = value if value.shape == tensor.shape else value[places]
    return {name: value for name, value in found.items() if value.shape == graph.tensors[name].shape}
