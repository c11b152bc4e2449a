"""Pieces of a decoder call: the work of one device of a tensor-parallel group between two collectives.

The layers of the zoo by Megatron's splits (Shoeybi et al., arXiv 1909.08053), the sum with what goes past a block after
its collective. Keys and values are kept by head, each device those of its heads. One device alone has whole layers.
Devices that share experts route their own tokens, then compute those that any device sent to their experts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil

from accelsim.cluster.serving.exchange import EXCHANGE, Sent
from accelsim.cluster.step.transformer import Transformer
from accelsim.workload.graph import Graph
from accelsim.workload.routing import UNIFORM, Loads, Routing, reached, shared
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.decoder import Decoder
from accelsim.workload.zoo.feed import Feed
from accelsim.workload.zoo.style import ALIKE, Experts, Layer

ATTENTION, FEED_FORWARD, BLOCK = "attention", "feed-forward", "block"
EMBEDDING, HEAD, PROJECTIONS = "embedding", "head", "projections"
ROUTER, EXPERTS = "router", "experts"


@dataclass(frozen=True)
class Call:
    """One call on ``tp`` devices: ``seq`` new tokens of each of ``batch`` sequences, after ``past`` earlier ones.
    ``ep`` such groups, each with sequences of its own, share the experts, which get their tokens by ``routing``. ``cp``
    such groups share the tokens of ``sequences`` in all, see ``accelsim.cluster.serving.context``."""

    model: Transformer
    batch: int
    seq: int
    past: int
    tp: int = 1
    ep: int = 1
    routing: Routing = UNIFORM
    cp: int = 1
    sequences: int = 1

    @property
    def rows(self) -> int:
        """Tokens that the call computes."""
        return self.batch * self.seq

    @property
    def experts(self) -> tuple[int, int]:
        """Experts of a layer, and those that a token chooses."""
        params = dict(self.model.params)
        return params.get("experts", 1), params.get("top_k", 1)

    @cached_property
    def loads(self) -> tuple[Loads, Loads]:
        """Experts with a token and rows: of the fullest of the devices that share experts, and the mean of the others
        (of the same device, where it has all)."""
        experts, top_k = self.experts
        return shared(self.ep * self.rows, top_k, experts, self.ep, self.routing)

    @property
    def fuller(self) -> float:
        """Load of the fullest of the devices that share experts, in means of all."""
        first, rest = self.loads
        return first.rows * self.ep / (first.rows + (self.ep - 1) * rest.rows)

    def copies(self, parts: int) -> float:
        """Return how many of so many equal parts of the experts a token goes to."""
        made = self.model.style.experts or Experts()
        return reached(parts, *self.experts, made.groups, made.top_groups)

    @property
    def heads(self) -> int:
        """Heads of one device."""
        return self.model.heads // self.tp

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values of one device: at least one, where there are more devices than heads."""
        return max(1, self.model.kv_heads // self.tp)


@dataclass(frozen=True)
class Piece:
    """A graph of one result, and the messages after it. ``other``: graph of the devices that share experts with the
    fullest one, where it is not the same; in step ``turn`` of a ring, of the devices whose part of the tokens has a
    smaller number. ``received``: elements of a message that comes meanwhile."""

    name: str
    graph: Graph = field(compare=False)
    sent: tuple[Sent, ...] = ()
    other: Graph | None = field(default=None, compare=False)
    turn: int = 0
    received: int = 0

    @property
    def learnt(self) -> int:
        """Elements of its weights: constants except masks, rotations and factors. Steps of a ring read those of the
        first one."""
        return (
            0
            if self.turn
            else sum(tensor.elements for tensor in self.graph.constants() if not tensor.fixed and tensor.shape)
        )


def resident(graph: Graph) -> Graph:
    """Return a graph whose inputs are in the memory of the device, and whose results stay there."""
    graph.states = {name: name for name in graph.inputs} | graph.states
    graph.kept = [name for name in graph.outputs if name not in graph.states.values()]
    return graph


def builder(call: Call, name: str) -> tuple[Builder, Decoder]:
    """Return what writes the share of one device."""
    b = Builder(name)
    decoder = call.model.decoder(b, call.batch, call.seq, call.past, call.tp)
    if call.routing != UNIFORM and call.ep == 1:
        decoder.feed = Feed(b, replace(decoder.sizes, reached=_whole(call.loads[0].active)), decoder.style)
    return b, decoder


def _whole(number: float) -> int:
    return max(1, round(number))


def _entry(call: Call, b: Builder) -> str:
    """Return the input; after a collective its sum with the residual."""
    shape = (call.batch, call.seq, call.model.hidden)
    if call.tp * call.ep == 1:
        return b.input("x", shape)
    return b.op("Add", [b.input("sum", shape), b.input("past_by", shape)], "entry")


def embedding(call: Call) -> Piece:
    """Build the embedding for one device's part of the vocabulary, with learnt positions where the model has them."""
    b, model = Builder(EMBEDDING), call.model
    table = b.weight("table", (ceil(model.vocab / call.tp), model.hidden))
    x = b.op("Gather", [table, b.input("tokens", (call.batch, call.seq), "int64")], "embedded", axis=0)
    if model.positions:
        x = b.op("Add", [x, b.weight("positions", (call.seq, model.hidden))], "placed")
    return Piece(EMBEDDING, resident(b.finish(x)), _sum(call))


def attention(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build attention for one device's heads, from the norm to the output projection."""
    b, decoder = builder(call, ATTENTION)
    decoder.attention.constants()
    made, caches = decoder.attention.whole(decoder.norm(_entry(call, b), "norm"), "own", layer.window)
    made = decoder.posted(made, "post")
    return Piece(ATTENTION, resident(b.finish(made, *caches)), _sum(call))


def projections(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build attention without scores and mixing: the products with weights before and behind them."""
    b, decoder = builder(call, PROJECTIONS)
    decoder.attention.constants()
    shape = (call.batch, call.seq, decoder.attention.width)
    entry = _entry(call, b)
    normed, attended = decoder.norm(entry, "norm"), b.input("attended", shape)
    made = decoder.attention.out(attended, "own")
    others = decoder.attention.projected(normed, "own", layer.window)
    if block not in makers(call, layer):
        made = decoder.posted(made, "post")
        return Piece(PROJECTIONS, resident(b.finish(made, *others)), _sum(call))
    return Piece(PROJECTIONS, resident(b.finish(decoder.after(made, entry, "own", layer), *others)))


def feed_forward(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build the feed-forward part, from the norm to the down projection, for one device's part of the inner width."""
    b, decoder = builder(call, FEED_FORWARD)
    y = decoder.posted(decoder.fed(decoder.norm(_entry(call, b), "norm"), "own", layer), "post")
    return Piece(FEED_FORWARD, resident(b.finish(y)), _sum(call))


def router(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build the norm, the choice of experts for each token of one device, and the experts that take all of them; tokens
    go out after it, and results come back."""
    b, decoder = builder(call, ROUTER)
    entry = _entry(call, b)
    normed = decoder.norm(entry, "norm")
    made = list(decoder.feed.routed(normed, "own"))
    if decoder.style.experts and decoder.style.experts.shared:
        made.append(b.op("Add", [entry, decoder.feed.shared(normed, "own")], "past"))
    elements = ceil(call.rows * call.model.hidden * call.fuller)
    there, back = (Sent(EXCHANGE, elements, call.copies, narrow) for narrow in (True, False))
    return Piece(ROUTER, resident(b.finish(*made)), (there, back, *_sum(call)))


def experts(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build what the experts of one device make of all rows that it gets: the fullest, and one of the others."""

    def graph(load: Loads) -> Graph:
        b = Builder(EXPERTS)
        own, rows = call.experts[0] // call.ep, _whole(load.rows)
        decoder = call.model.decoder(b, 1, 1, 0, call.tp)
        feed = Feed(b, decoder.sizes.received(rows, own, min(own, rows, _whole(load.active))), decoder.style)
        x, gates = b.input("received", (rows, call.model.hidden)), b.input("shares", (rows, 1))
        return resident(b.finish(feed.experts(x, gates, b.input("chosen", (rows, 1), "int32"), "own")))

    first, rest = call.loads
    return Piece(EXPERTS, graph(first), other=None if rest == first else graph(rest))


def block(call: Call, layer: Layer = ALIKE) -> Piece:
    """Build a whole layer for one device alone; it has no collective."""
    b, decoder = builder(call, BLOCK)
    decoder.attention.constants()
    x, caches = decoder.block(_entry(call, b), "own", layer)
    return Piece(BLOCK, resident(b.finish(x, *caches)))


def head(call: Call) -> Piece:
    """Build the logits of the last token for one device's part of the vocabulary, gathered on all devices."""
    (b, decoder), model = builder(call, HEAD), call.model
    x = _entry(call, b)
    if call.seq > 1:
        x = b.op("Slice", [x], "last", starts=[call.seq - 1], ends=[call.seq], axes=[1], steps=[1])
    y = decoder.logits(decoder.norm(x, "norm"), ceil(model.vocab / call.tp))
    elements = call.batch * ceil(model.vocab / call.tp) * call.tp
    return Piece(HEAD, resident(b.finish(y)), (Sent("all_gather", elements),))


def _sum(call: Call) -> tuple[Sent, ...]:
    """The sum of what the devices of a tensor-parallel group made of all tokens."""
    return (Sent("all_reduce", call.rows * call.model.hidden),)


Maker = Callable[[Call, Layer], Piece]
MAKERS: tuple[Maker, ...] = (block, attention, feed_forward, router, experts)
"""Writers of the parts of a layer, in their order."""
WITH_ATTENTION = (block, attention)


def makers(call: Call, layer: Layer) -> tuple[Maker, ...]:
    """Return the writers of the parts between the collectives of a layer."""
    if call.ep > 1 and layer.sparse:
        return attention, router, experts
    return (block,) if call.tp == 1 else (attention, feed_forward)


def pieces(call: Call, layers: Sequence[Layer], first: bool, last: bool) -> Iterator[tuple[Piece, int]]:
    """Yield each piece of a pipeline stage of ``layers``, with its count. The ``first`` stage has the embedding, the
    ``last`` the head."""
    if first:
        yield embedding(call), 1
    for make in MAKERS:
        for layer, times in Counter(layers).items():
            if make in makers(call, layer):
                yield (projections if make in WITH_ATTENTION and call.cp > 1 else make)(call, layer), times
    if last:
        yield head(call), 1
