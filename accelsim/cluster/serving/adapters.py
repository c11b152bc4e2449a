"""Low-rank adapters (LoRA: Hu et al., arXiv 2106.09685) beside the products of a decoder: y = x W + (x A) B.

Tokens of several adapters share a step. Two kernels a module, one for x A and one for its product with B, read the
weights of each adapter in the step once and take each token to its own (Punica: Chen et al., MLSys 2024; vLLM's
``lora_shrink`` and ``lora_expand``). Projections that share an input are one module, as in vLLM: q, k and v; gate and
up. The kernels are timed as grouped products, like those of experts.

With tensor parallelism a device has what vLLM gives it by default (``fully_sharded_loras`` off), which needs no further
collective: of projections that are split by outputs the whole of A and its part of B, of those that are split by
inputs its part of A and the whole of B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.pieces import Call, Piece, feed_forward, projections, resident
from accelsim.cluster.step.transformer import Transformer
from accelsim.compiler.numbers.formats import memory_format, short_float
from accelsim.formats.table import FORMATS
from accelsim.workload.graph import FORMAT_BYTES
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.style import Layer

TARGETS = {"q": "q", "k": "k", "v": "v", "o": "out", "g": "gate", "u": "up", "d": "down"}
"""Projections that may have adapters, by letter, with the names of their weights."""
PLAIN = {"up": "ff1", "down": "ff2"}
"""Names of weights in a feed-forward part without a gate."""
MODULES = ("qkv", "o", "gu", "d")
"""Targets that share an input, and so their kernels."""
WIDE = 16
"""Bits of a number from which on adapters have the format of the model; beside narrower weights they have 16."""


class LowRank(NamedTuple):
    """Adapters of one ``rank`` at the ``targets``, letters of ``TARGETS``."""

    rank: int
    targets: str


def sizes(call: Call, layer: Layer) -> dict[str, tuple[int, int]]:
    """Return the inputs and outputs, on one device, of the targets that a layer has. Experts have none."""
    found = {}
    for graph in (projections(call, layer).graph, feed_forward(call, layer).graph):
        shapes = {name: each.shape for name, each in graph.tensors.items() if each.is_constant}
        for letter, name in TARGETS.items():
            for stem in (name, PLAIN.get(name, name)):
                if len(shape := shapes.get(f"own.{stem}.weight", ())) == 2:
                    found[letter] = (shape[0], shape[1])
    return found


def _targets(call: Call, low: LowRank, layer: Layer) -> dict[str, tuple[int, int]]:
    return {letter: each for letter, each in sizes(call, layer).items() if letter in low.targets}


def lacking(model: Transformer, targets: str) -> tuple[str, str]:
    """Return the targets that no layer of a model has, and those that some have."""
    call = Call(model, 1, 1, 0)
    there = {letter for layer in set(model.kinds) for letter in sizes(call, layer)}
    return "".join(each for each in targets if each not in there), "".join(each for each in TARGETS if each in there)


def elements(model: Transformer, tp: int, low: LowRank) -> int:
    """Return the weights of one adapter on one device: rank x (inputs + outputs) of each target of each layer."""
    call = Call(model, 1, 1, 0, tp)
    return sum(
        times * low.rank * sum(map(sum, _targets(call, low, layer).values()))
        for layer, times in Counter(model.kinds).items()
    )


def pieces(call: Call, low: LowRank, distinct: int, layer: Layer) -> Iterator[Piece]:
    """Yield the products of the adapters of a layer: all tokens of a call, of so many ``distinct`` adapters."""
    there = _targets(call, low, layer)
    for module in MODULES:
        if own := {letter: there[letter] for letter in module if letter in there}:
            inputs, outputs = max(each for each, _ in own.values()), sum(each for _, each in own.values())
            yield _module(call.rows, inputs, outputs, len(own), low.rank, distinct)


def _module(tokens: int, inputs: int, outputs: int, parts: int, rank: int, distinct: int) -> Piece:
    """Both products of a module with so many ``parts``, the second added to what its weights made."""
    b = Builder("adapters")
    chosen = b.input("chosen", (tokens, 1), "int32")

    def product(x: str, name: str, width: int) -> str:
        weight = b.weight(f"{name}.weight", (distinct, b.shape(x)[1], width))
        zero = {"a_zero_point": 0, "b_zero_point": 0}
        return b.op("ExpertMatMul", [x, weight, chosen], name, **zero, reached=distinct)

    shrunk = product(b.input("x", (tokens, inputs)), "shrink", parts * rank)
    own = b.input("own", (b.shape(shrunk)[0], rank))  # rows of one part; each reads its own
    grown = product(own, "expand", outputs)
    added = b.op("Add", [grown, b.input("made", b.shape(grown))], "added")
    return Piece(f"adapters {parts}", resident(b.finish(added, shrunk)))


def beside(devices: Devices) -> Devices:
    """Return the devices as they compute adapters: in the model's format, or in 16 bits beside narrower weights."""
    dtype, chip = devices.dtype, devices.fleet.chips[0]
    own = FORMATS.get(memory_format(dtype))
    if own is None or own.bits < WIDE:
        dtype = short_float(chip) or dtype
    return Devices(devices.fleet, replace(devices.setting, dtype=dtype))


def adapter_B(devices: Devices, model: Transformer, tp: int, low: LowRank) -> int:
    """Return the bytes of one adapter on one device."""
    return ceil(elements(model, tp, low) * FORMAT_BYTES[memory_format(beside(devices).dtype)])
