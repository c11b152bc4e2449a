"""Mixed precision after training: the few layers to keep in a wider format so that little accuracy is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

from accelsim.compiler.numbers.formats import resolve
from accelsim.compiler.passes import transform
from accelsim.compiler.state import Options
from accelsim.errors import Problem, UsageError, nearest
from accelsim.explore.accuracy import STEPS, range_feeds, right_share, trained, with_matrix
from accelsim.explore.training_inputs import labelled
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.chips import load_chip
from accelsim.workload.graph import Graph
from accelsim.workload.ops import base
from accelsim.workload.sources.datasets import Dataset


def keep_layers(
    model: str | Path | Graph,
    on: str | Path | Chip,
    data: str | Path | Dataset = "digits",
    *,
    dtype: str = "int4",
    keep: str = "fp16",
    budget: float = 0.005,
    batch: int = 32,
    steps: int = STEPS,
    options: Options | None = None,
    seed: int = 0,
) -> Choice:
    """The matrix layers of ``model`` to compute in ``keep`` so that at most ``budget`` of the accuracy is lost.

    All others are computed in ``dtype``. ``budget`` is a share (0.005 is half a point) of what the model gets right
    with every layer in ``keep``; the accuracy is that of the test samples of ``data``. Layers are tried alone and
    all but one, then kept greedily by gain per MAC, see ``sensitivity.choose``. Other arguments and errors as in
    ``explore.accuracy.accuracy``.
    """
    chip = with_matrix(on if isinstance(on, Chip) else load_chip(on))
    for name in (dtype, keep):
        resolve(chip, name, emulate=True)
    samples = labelled(data)
    graph = trained(model, samples, steps, seed)(batch)
    macs = layer_macs(graph)
    chosen = replace(
        options or Options(), dtype=dtype, emulate=True, seed=seed, ranges_from=range_feeds(samples, graph)
    )

    def score(narrow: Mapping[str, bool]) -> float:
        layers = {name: keep for name, is_narrow in narrow.items() if not is_narrow}
        return right_share(samples, transform(graph, chip, replace(chosen, layers=layers)))

    return choose(list(macs), score, budget, {name: float(count) for name, count in macs.items()})


def layer_macs(graph: Graph) -> dict[str, int]:
    """MACs of each node that a matrix unit could do, by name."""
    found = {}
    for node in graph.nodes:
        op = base.find(node.op)
        if op is not None and op.kind == "matrix":
            ins = [graph.tensors[name] if name else None for name in node.inputs]
            found[node.name] = op.work(node, ins, [graph.tensors[name] for name in node.outputs]).macs
    return found


Score = Callable[[Mapping[str, bool]], float]
"""Score of {layer: is it quantised}; larger is better. Called once per choice."""


@dataclass(frozen=True)
class LayerScore:
    """One layer: the score when it alone is quantised, when all but it are, and what keeping it costs."""

    layer: str
    alone: float
    without: float
    cost: float = 1.0
    kept: bool = False


@dataclass(frozen=True)
class Choice:
    """Layers kept in higher precision (in the order given), the score with them, and how it was found.

    ``loss`` is ``full`` - ``score``; ``calls`` is the number of scores that were computed.
    """

    kept: tuple[str, ...]
    score: float
    full: float
    quantised: float
    calls: int
    rows: tuple[LayerScore, ...]

    @property
    def loss(self) -> float:
        """Score that is lost against the network without any quantised layer."""
        return self.full - self.score


def choose(layers: Sequence[str], score: Score, budget: float, cost: Mapping[str, float] | None = None) -> Choice:
    """A small set of layers to keep in higher precision so that at most ``budget`` of the score is lost.

    Layers are kept one after another, by what keeping that one alone gains per cost (of equal ones the
    first), until the loss is within the budget; then each is given back, the least useful first, if the
    budget still holds without it. Where more layers kept never score less, no layer of the result can be
    left out; a smaller set of others may exist, because layers interact. With all layers kept nothing is
    lost, so that there always is a result. Raises UsageError for a negative budget, a layer that is named
    twice, a cost that is missing, unknown or negative, and a score that is NaN.
    """
    if not budget >= 0:
        raise UsageError(f"budget {budget:g}", "budget", "at least 0")
    doubled = sorted({layer for layer in layers if list(layers).count(layer) > 1})
    if doubled:
        raise UsageError([Problem(f"layer {layer!r} is named twice", "layers") for layer in doubled])
    costs, known = _costs(layers, cost), dict[frozenset[str], float]()

    def keeping(kept: frozenset[str]) -> float:
        if kept not in known:
            found = float(score({layer: layer not in kept for layer in layers}))
            if isnan(found):
                names = ", ".join(layer for layer in layers if layer in kept) or "none"
                raise UsageError("the score is NaN", f"kept: {names}", "a number")
            known[kept] = found
        return known[kept]

    def rank(layer: str) -> tuple[bool, float]:
        """Order by (score with that one kept - score with none kept) / cost, the largest first; free ones
        before."""
        gain = keeping(frozenset([layer])) - keeping(nothing)
        return costs[layer] > 0, -gain / (costs[layer] or 1.0)

    nothing, everything = frozenset[str](), frozenset(layers)
    least, kept = keeping(everything) - budget, nothing
    keeping(nothing)
    order = sorted(layers, key=rank)
    for layer in order:
        if keeping(kept) >= least:
            break
        kept |= {layer}
    for layer in reversed([layer for layer in order if layer in kept]):
        if keeping(kept - {layer}) >= least:
            kept -= {layer}
    rows = tuple(
        LayerScore(layer, keeping(everything - {layer}), keeping(frozenset([layer])), costs[layer], layer in kept)
        for layer in layers
    )
    names = tuple(layer for layer in layers if layer in kept)
    return Choice(names, keeping(kept), keeping(everything), keeping(nothing), len(known), rows)


def _costs(layers: Sequence[str], cost: Mapping[str, float] | None) -> dict[str, float]:
    if cost is None:
        return dict.fromkeys(layers, 1.0)
    expected = "one of " + ", ".join(layers)
    problems = [Problem(f"no cost of layer {layer!r}", "cost") for layer in layers if layer not in cost]
    problems += [
        Problem(f"no layer {name!r}", "cost", expected, nearest(name, layers)) for name in cost if name not in layers
    ]
    problems += [
        Problem(f"cost {value:g} of {name!r}", "cost", "at least 0") for name, value in cost.items() if not value >= 0
    ]
    UsageError.raise_for(problems)
    return {layer: float(cost[layer]) for layer in layers}
