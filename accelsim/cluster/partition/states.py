"""Cuts of a model: prefixes of its graph, what lies in each, and what crosses the cut after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import fsum
from operator import or_
from typing import NamedTuple

import numpy as np

from accelsim.errors import UsageError
from accelsim.types import Bools, Floats

MOST_STATES = 4096
"""Prefixes that a graph may have; the optimiser's time grows with their square."""


class ProfiledLayer(NamedTuple):
    """A measured layer, of one minibatch: seconds of forward and backward together, bytes of output and parameters."""

    name: str
    compute_s: float
    output_B: float
    parameter_B: float


@dataclass(frozen=True)
class States:
    """Prefixes of a model (sets of layers that hold all that their layers need), in an order in which they grow.

    ``compute_s``, ``activation_B``, ``parameter_B``: sums over the layers of each prefix, shape (n,); ``output_B``:
    what crosses a cut behind it, shape (n,); ``before[k, j]``: whether prefix k is a part of prefix j. Of a chain of
    layers prefix j is its first j + 1 layers.
    """

    compute_s: Floats
    activation_B: Floats
    parameter_B: Floats
    output_B: Floats
    before: Bools

    def __len__(self) -> int:
        return len(self.compute_s)

    def between(self, sums: Floats, fill: float) -> Floats:
        """Return [i, j]: the sum over the layers in prefix j and not in prefix i - 1, by ``sums`` of the prefixes;
        ``fill`` for j < i."""
        earlier = np.concatenate([[0.0], sums[:-1]])
        found: Floats = sums[None, :] - earlier[:, None]
        found[np.tril_indices(len(sums), -1)] = fill
        return found


def chain_states(layers: Sequence[ProfiledLayer]) -> States:
    """Return the states of layers one after the other."""
    return graph_states(layers, [(index, index + 1) for index in range(len(layers) - 1)])


def graph_states(layers: Sequence[ProfiledLayer], edges: Sequence[tuple[int, int]]) -> States:
    """Return the states of a graph of layers, ``edges`` from producer to consumer. UsageError: no layers, a circle,
    too many prefixes.

    A prefix grows by a layer that one of its layers feeds, and by all that this layer needs. What crosses the cut is
    counted as PipeDream does: the outputs of its last layers, and of each layer that one of these needs and that
    feeds another branch too, even where this branch is inside.
    """
    if not layers:
        raise UsageError("no layers", "profile", "at least one")
    needs, fed = _closures(len(layers), edges)
    targets = [sum(1 << one for one in set(outs)) for outs in fed]
    open_for = _open(targets, needs)
    order = _grown(needs, fed)
    members = [_bits(prefix) for prefix in order]
    ends = [
        [index for index in inside if not targets[index] & prefix]
        for prefix, inside in zip(order, members, strict=True)
    ]
    crossing = [_bits(reduce(or_, (open_for[end] | 1 << end for end in last))) for last in ends]
    held = np.array([[prefix >> index & 1 for index in range(len(layers))] for prefix in order], np.float32)
    inside = (1 - held) @ held.T == 0
    np.fill_diagonal(inside, False)
    return States(
        _sums([layer.compute_s for layer in layers], members),
        _sums([layer.output_B for layer in layers], members),
        _sums([layer.parameter_B for layer in layers], members),
        _sums([layer.output_B for layer in layers], crossing),
        np.ascontiguousarray(inside.T),
    )


def _sums(values: Sequence[float], sets: Sequence[Sequence[int]]) -> Floats:
    return np.array([fsum(values[index] for index in each) for each in sets])


def _bits(mask: int) -> list[int]:
    return [index for index in range(mask.bit_length()) if mask >> index & 1]


def _closures(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[list[int]]]:
    """Return all that each layer needs, itself too, as bits; and whom it feeds."""
    fed: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    needs = [1 << index for index in range(count)]
    for source, target in edges:
        fed[source].append(target)
        waits[target] += 1
    ready = [index for index in range(count) if not waits[index]]
    for index in ready:
        for target in fed[index]:
            needs[target] |= needs[index]
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    if len(ready) < count:
        raise UsageError("layers need each other in a circle", "profile", "a graph without circles")
    return needs, fed


def _grown(needs: Sequence[int], fed: Sequence[Sequence[int]]) -> list[int]:
    """Return all prefixes from that of the first layer without inputs, each after its parts (depth first)."""

    def next_of(prefix: int) -> Iterator[int]:
        seen = set()
        for index in range(len(fed)):
            if prefix >> index & 1:
                for target in fed[index]:
                    if not prefix >> target & 1 and target not in seen:
                        seen.add(target)
                        yield prefix | needs[target]

    start = next(need for index, need in enumerate(needs) if need == 1 << index)
    stack, marked, order = [(start, next_of(start))], {start}, []
    while stack:
        prefix, following = stack[-1]
        grown = next((one for one in following if one not in marked), None)
        if grown is None:
            order.append(prefix)
            stack.pop()
            continue
        marked.add(grown)
        stack.append((grown, next_of(grown)))
        if len(marked) > MOST_STATES:
            expected = f"at most {MOST_STATES:,}: fewer parallel branches; merge the layers of a branch into one"
            raise UsageError("too many ways to cut the graph", "profile", expected)
    return order[::-1]


def _open(fed: Sequence[int], needs: Sequence[int]) -> list[int]:
    """Return for each layer those that it needs and that also feed others than what it needs, as bits."""
    return [
        sum(1 << one for one in range(len(fed)) if need >> one & 1 and one != layer and fed[one] & ~need)
        for layer, need in enumerate(needs)
    ]
