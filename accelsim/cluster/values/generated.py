"""A generation under a plan, with values: every device runs its graph, call by call, beside one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from accelsim.cluster.plan.context import chunks, own_constants, share_tokens
from accelsim.cluster.plan.experts import share_call
from accelsim.cluster.plan.objective import DOUBLE, double
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.plan.shard import Sharded, shard_call
from accelsim.cluster.step.transformer import Transformer
from accelsim.cluster.values.lockstep import Lockstep, Values
from accelsim.errors import Problem
from accelsim.seeds import generator, of_inputs
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.limits import check_memory
from accelsim.workload.sources.load import load_model
from accelsim.workload.training.forward import trainable
from accelsim.workload.zoo import ZOO
from accelsim.workload.zoo.style import PLAIN

TOKENS = "tokens"
BYTES = 12
"""Bytes of a weight in fp32: on one device, as a constant of the graph, on its rank."""


@dataclass(frozen=True)
class Call:
    """A call as ranks run it: the ``graph`` of each, what each is given of ``inputs``, results put together."""

    graph: Graph
    given: Callable[[Values], list[Values]]
    whole: Callable[[list[Values]], Values]


@dataclass(frozen=True)
class Generated:
    """Most likely tokens [sequences, new] under a plan, and those of one device; the largest difference of a logit, and
    the largest logit."""

    tokens: Array
    alone: Array
    difference: float
    largest: float

    @property
    def same(self) -> int:
        """Tokens that are those of one device."""
        return int((self.tokens == self.alone).sum())


def problems(plan: Plan, new: int) -> Iterator[Problem]:
    """Yield what is wrong with a plan whose values are asked for. Replicas and stages change no value."""
    kinds = [f"{name}={size}" for name, size in (("tp", plan.tp), ("ep", plan.ep), ("cp", plan.cp)) if size > 1]
    if len(kinds) > 1:
        yield Problem(f"values of {' with '.join(kinds)}", "--values", "off, or one of these, beside dp and pp")
    if plan.cp > 1 and new > 1:
        yield Problem(f"values of new={new} tokens with cp={plan.cp}", "--values", "off, or new=1: the prompt's")


def generated(
    model: Transformer, plan: Plan, prompt: int, new: int, sequences: int, precision: str = "fp32", seed: int = 0
) -> Generated:
    """Return what ``plan`` computes for drawn prompts and weights, and what one device does. ``precision``: 'fp32' or
    'fp64'. Both get the tokens that one device finds most likely. TooLarge for a model whose values take too much."""
    name, params = model.name, {key: size for key, size in model.params if key not in ("seq", "past")}
    check_memory(f"{name} with values", BYTES * model.parameters, advice="--values off, or a smaller model")
    fed = generator(of_inputs(seed)).integers(0, model.vocab, (sequences, prompt))
    mine, others, found = dict[str, Array](), dict[str, Array](), list[tuple[Array, Array]]()
    for past in (0, *range(prompt, prompt + new - 1)):
        sizes = {**params, "seq": fed.shape[1], "past": past}
        alone, mine = _next(name, sizes, Plan(), {TOKENS: fed, **mine}, precision)
        shared, others = _next(name, sizes, plan, {TOKENS: fed, **others}, precision)
        found.append((shared, alone))
        fed = alone.argmax(axis=2)
    shared, alone = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    apart = float(np.abs(shared - alone).max())
    return Generated(shared.argmax(axis=2), alone.argmax(axis=2), apart, float(np.abs(alone).max()))


def _next(name: str, sizes: Mapping[str, int], plan: Plan, feeds: Values, precision: str) -> tuple[Array, Values]:
    """Logits of a call, and the caches that the next one reads."""
    replicas = [{key: np.split(value, plan.dp)[d] for key, value in feeds.items()} for d in range(plan.dp)]
    call = call_of(name, sizes, plan, len(replicas[0][TOKENS]))
    wide = np.float64 if precision == DOUBLE else np.float32
    lockstep, found = Lockstep(double(call.graph) if precision == DOUBLE else call.graph), list[Values]()
    for own in replicas:
        ranks = [{key: _in(wide, value) for key, value in each.items()} for each in call.given(own)]
        found.append(call.whole(lockstep.run(ranks)))
    logits, *caches = ({key: np.concatenate([each[key] for each in found]) for key in found[0]}).values()
    later = load_model(name, batch=1, params={**sizes, "past": sizes["past"] + sizes["seq"], "seq": 1})
    states = [key for key in later.inputs if key != TOKENS]
    rows = [later.tensors[key].shape[2] for key in states]
    return logits, {key: cache[:, :, -many:] for key, cache, many in zip(states, caches, rows, strict=True)}


def _in(wide: type[np.floating], value: Array) -> Array:
    return value.astype(wide) if value.dtype.kind == "f" else value


def call_of(name: str, sizes: Mapping[str, int], plan: Plan, sequences: int) -> Call:
    """Return a call of a decoder of the zoo on so many sequences as one replica of a plan runs it. ``sizes``: all
    parameters."""
    graph = load_model(name, batch=sequences // plan.ep, params=sizes, weights="random:0")
    if plan.ep > 1:
        return _apart(graph, share_call(graph, plan.ep, trainable(graph), {}, {}))
    if plan.cp > 1:
        return _in_chunks(
            graph, share_tokens(ZOO[name].sizes(sizes), ZOO[name].style or PLAIN, sequences, plan.cp), plan.cp
        )
    if plan.tp > 1:
        return _in_parts(graph, shard_call(graph, plan.tp, trainable(graph)))
    return Call(graph, lambda feeds: [feeds], lambda found: found[0])


def _own(graph: Graph, sharded: Sharded) -> list[Values]:
    """The parts of weights of each rank."""
    split = [name for name in sharded.split if graph.tensors[name].is_constant]
    ranks = range(sharded.ranks)
    return [{name: sharded.part(name, graph.tensors[name].value(), rank) for name in split} for rank in ranks]


def _in_parts(graph: Graph, sharded: Sharded) -> Call:
    """Ranks share tensors."""
    own = _own(graph, sharded)
    return Call(
        sharded.graph,
        lambda feeds: [
            {**own[rank], **{name: sharded.part(name, value, rank) for name, value in feeds.items()}}
            for rank in range(sharded.ranks)
        ],
        lambda found: {name: sharded.whole(name, [each[name] for each in found]) for name in found[0]},
    )


def _apart(graph: Graph, sharded: Sharded) -> Call:
    """Ranks have sequences of their own."""
    own = _own(graph, sharded)
    return Call(
        sharded.graph,
        lambda feeds: [
            {**own[rank], **{name: np.split(value, sharded.ranks)[rank] for name, value in feeds.items()}}
            for rank in range(sharded.ranks)
        ],
        lambda found: {name: np.concatenate([each[name] for each in found]) for name in found[0]},
    )


def _in_chunks(graph: Graph, own: Graph, ranks: int) -> Call:
    """Ranks have tokens of their own."""
    seq = graph.tensors[TOKENS].shape[1]
    places = [chunks(seq, ranks, rank) for rank in range(ranks)]
    order = np.argsort(np.concatenate(places))
    constants = [own_constants(own, graph, each) for each in places]

    def whole(found: list[Values]) -> Values:
        logits, *caches = own.outputs
        joined = {name: np.concatenate([each[name] for each in found], axis=2)[:, :, order] for name in caches}
        return {logits: found[0][logits], **joined}

    pairs = list(zip(constants, places, strict=True))
    return Call(own, lambda feeds: [{**given, TOKENS: feeds[TOKENS][:, each]} for given, each in pairs], whole)
