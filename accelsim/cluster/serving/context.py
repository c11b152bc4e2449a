"""Tokens of sequences on several devices: rings of keys and values in prompts, all devices at once in decoding.

A prompt is cut into 2 cp chunks; device i has chunks i and 2 cp - 1 - i, so that all have equally many earlier tokens
(Megatron-LM). Keys and values go round a ring of devices while each attends to those that it has (ring attention: Liu
et al., arXiv 2310.01889). First come its own, under a causal mask. Those of a device with a smaller number come before
all its tokens, but for their second half, which comes after; of a larger number, only its second chunk sees any, and
all. So every step takes half as many products as its own tokens without a mask. Partial results are merged by the
logarithms of their sums of exponentials (online softmax).

A token that is decoded: a device computes all products for its share of the sequences, whose keys and values stay with
it; shares change from step to step. Queries go to all devices, each attends to the tokens that it keeps, and partial
results go back (Yang et al., arXiv 2411.01783).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, prod

from accelsim.cluster.serving.exchange import EXCHANGE, RING, TOKENS, Sent
from accelsim.cluster.serving.pieces import Call, Piece, builder, resident
from accelsim.workload.graph import Graph
from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.style import Layer

BLOCK, MERGE, KEPT = "ring", "merge", "kept"
Shapes = list[tuple[int, ...]]


def attending(call: Call, layers: Sequence[Layer]) -> Iterator[tuple[Piece, int]]:
    """Yield the pieces of attention of ``layers`` beside their projections, each with its count."""
    for layer, times in Counter(layers).items():
        for piece in _ring(call, layer) if call.seq > 1 else _at_once(call, layer):
            yield piece, times


def _shapes(call: Call, layer: Layer) -> tuple[Shapes, Shapes]:
    """Shapes of queries, and of what is kept of them, as a device projects them."""
    b, decoder = builder(call, "shapes")
    decoder.attention.constants()
    made = decoder.attention.projected(b.input("x", (call.batch, call.seq, call.model.hidden)), "own", layer.window)
    shapes, parts = [b.shape(name) for name in made], decoder.attention.parts
    return shapes[:parts], shapes[parts:]


def _ring(call: Call, layer: Layer) -> Iterator[Piece]:
    """Steps of the ring, with the message of each, and what merges their results."""
    half, shapes = call.seq // 2, _shapes(call, layer)
    block = sum(map(prod, shapes[1]))
    for turn in range(call.cp):
        on = turn < call.cp - 1
        sent, received = (Sent("send_recv", block, among=RING),) * on, block * on
        if not turn:
            yield Piece(BLOCK, _block(call, shapes, call.seq, call.seq, True), sent, received=received)
            continue
        earlier, later = _block(call, shapes, call.seq, half, False), _block(call, shapes, half, call.seq, False)
        yield Piece(BLOCK, earlier, sent, later, turn, received)
        yield Piece(MERGE, _merge(call, call.seq), (), _merge(call, half), turn)


def _block(call: Call, shapes: tuple[Shapes, Shapes], tokens: int, keys: int, masked: bool) -> Graph:
    """Attention of so many tokens to a block of keys, their own or one that was received, which lies there in a row."""
    b = Builder(BLOCK)
    attention = call.model.decoder(b, call.batch, tokens, 0, call.tp).attention
    attention.masked = masked
    if masked:
        attention.constants()
    queries = [b.input(f"q{at}", (batch, tokens, *rest)) for at, (batch, _, *rest) in enumerate(shapes[0])]
    kept = []
    for name, (batch, heads, _, depth) in zip("kv", shapes[1], strict=False):
        row = b.input(name, (batch, heads, keys, depth) if masked else (batch * heads * keys * depth,))
        kept.append(b.reshaped(row, (batch, heads, keys, depth), f"{name}.block"))
    return resident(b.finish(attention.attended(queries, kept, "own", 0)))


def _at_once(call: Call, layer: Layer) -> Iterator[Piece]:
    """Attention of all sequences to the tokens of one device, the messages before and after it, and the merge."""
    whole = replace(call, batch=call.sequences)
    queries, new = _shapes(whole, layer)
    b = Builder(KEPT)
    attention = call.model.decoder(b, call.sequences, 1, ceil(call.past / call.cp), call.tp).attention
    asked = [b.input(f"q{at}", shape) for at, shape in enumerate(queries)]
    caches = attention.kept([b.input(name, shape) for name, shape in zip("kv", new, strict=False)], "own", 0)
    made = attention.attended(asked, caches, "own", 0)
    there = Sent("all_gather", sum(map(prod, queries)), among=TOKENS)
    back = Sent(EXCHANGE, call.sequences * (attention.width + call.heads), among=TOKENS)
    yield Piece(KEPT, resident(b.finish(made, *caches)), (there, back))
    yield Piece(MERGE, _merge(call, 1, call.cp))


def _merge(call: Call, tokens: int, parts: int = 2) -> Graph:
    """Partial results added up by their weights, from the logarithms of sums of exponentials."""
    b = Builder(MERGE)
    depth = call.model.decoder(b, call.batch, tokens, 0, call.tp).attention.width // call.heads
    shape = (call.batch, tokens, call.heads, depth)
    made, log = b.input("part0", shape), b.input("log0", (*shape[:3], 1))
    for at in range(1, parts):
        part, other = b.input(f"part{at}", shape), b.input(f"log{at}", (*shape[:3], 1))
        share = b.op("Sigmoid", [b.op("Sub", [log, other], f"apart{at}")], f"share{at}")
        away = b.op("Mul", [share, b.op("Sub", [made, part], f"away{at}")], f"kept{at}")
        made = b.op("Add", [part, away], f"merged{at}")
        log = b.op("Sub", [log, b.op("Log", [share], f"log{at}.share")], f"log{at}.merged")
    return resident(b.finish(made, log))
