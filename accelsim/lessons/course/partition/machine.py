"""A host, an accelerator and a link: times of layers on both by the simulator, a partition as events."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from typing import Any, NamedTuple

import simpy

from accelsim.lessons.timing import product_s
from accelsim.network.link import transfer
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
        """Return whether the accelerator supports it."""
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
            there, here = (product_s(chip, rows, layer.K, layer.N, "int8") for chip in (ACCELERATOR, HOST))
            timed.append(Timed(layer.name, there, here, moved(rows * layer.N)))
        else:
            timed.append(Timed(layer.name, None, rows * layer.N * layer.ns * 1e-9, moved(rows * layer.N)))
    first = layers[0]
    return Chain(tuple(timed), moved(first.rows * batch * first.K))


class Step(NamedTuple):
    """Event of a timeline on 'A', 'H' or the 'link', s."""

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
