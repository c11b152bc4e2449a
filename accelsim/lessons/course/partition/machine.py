"""A host, an accelerator and a link: times of layers on both by the simulator, a partition as events."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from typing import Any, NamedTuple

import simpy

from accelsim.network.link import transfer
from accelsim.result import run
from accelsim.spec.yaml.load import load_chip
from accelsim.time import FS_PER_S

ACCELERATOR, HOST = "tpu-v1", "haswell-e5-2699v3"
BATCHES = (1, 4, 16, 64)


class Layer(NamedTuple):
    """A product of ``rows`` x K and K x N for each sample, or, with K = 0, a function of rows x N numbers that the
    accelerator lacks, which takes the host so many ns for each."""

    name: str
    rows: int
    K: int
    N: int
    ns: float = 0.0

    @property
    def supported(self) -> bool:
        """By the accelerator."""
        return self.K > 0


class Timed(NamedTuple):
    """Seconds of a layer for a batch: on the accelerator (None where it cannot), on the host, to move what it makes
    over the link."""

    name: str
    accelerator: float | None
    host: float
    move: float


class Chain(NamedTuple):
    """All layers of a network for a batch, and the time to move its input."""

    layers: tuple[Timed, ...]
    move: float


@cache
def seconds(chip: str, rows: int, K: int, N: int) -> float:
    """Of a product on a chip, in INT8, from its first load to its last result: without the link to the host."""
    done = run(f"gemm?M={rows},N={N},K={K}", chip, dtype="int8", values="off", edges="outside")
    links = ("host_in", "host_out")
    own = [piece for piece in done.slices if piece.engine not in links and "quantize" not in piece.label]
    begun = min(piece.start for piece in own if not piece.label.startswith("store"))
    return float(max(piece.end for piece in own if not piece.label.startswith("load")) - begun) / FS_PER_S


@cache
def moved(nbytes: int) -> float:
    """Seconds of so many bytes over the PCIe link of the accelerator, packets and latency included."""
    attached = [memory for memory in load_chip(ACCELERATOR).memories.values() if memory.link is not None]
    link = attached[0].link
    assert link is not None
    return transfer(link, nbytes, True).total_fs / FS_PER_S


def chain(layers: tuple[Layer, ...], batch: int) -> Chain:
    """Times of a network for a batch."""
    timed = []
    for layer in layers:
        rows = layer.rows * batch
        if layer.supported:
            both = (seconds(ACCELERATOR, rows, layer.K, layer.N), seconds(HOST, rows, layer.K, layer.N))
            timed.append(Timed(layer.name, *both, moved(rows * layer.N)))
        else:
            timed.append(Timed(layer.name, None, rows * layer.N * layer.ns * 1e-9, moved(rows * layer.N)))
    first = layers[0]
    return Chain(tuple(timed), moved(first.rows * batch * first.K))


class Step(NamedTuple):
    """What happened: on 'A', 'H' or the 'link', s."""

    where: str
    name: str
    start: float
    end: float


def execute(work: Chain, partition: str) -> list[Step]:
    """A partition, a letter for each layer: 'A' or 'H'. The input lies with the host, and so must the result."""
    env, steps = simpy.Environment(), list[Step]()
    units = {name: simpy.Resource(env) for name in ("A", "H", "link")}

    def take(where: str, name: str, time: float) -> Generator[Any, Any, None]:
        with units[where].request() as turn:
            yield turn
            start = env.now
            yield env.timeout(time)
            steps.append(Step(where, name, start, env.now))

    def network() -> Generator[Any, Any, None]:
        place, move = "H", work.move
        for layer, letter in zip(work.layers, partition, strict=True):
            if letter != place:
                yield env.process(take("link", f"to {letter}", move))
            time = layer.host if letter == "H" else layer.accelerator
            assert time is not None
            yield env.process(take(letter, layer.name, time))
            place, move = letter, layer.move
        if place != "H":
            yield env.process(take("link", "to H", move))

    env.process(network())
    env.run()
    return steps
