"""Lesson 12: a network with operators that the accelerator lacks; partitions, transfers, the cheapest, a batch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import simpy

from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, number, same
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
    """Return the times of all layers of a network for a batch."""
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

    def take(where: str, name: str, time: float) -> Generator[simpy.Event, object, None]:
        with units[where].request() as turn:
            yield turn
            start = env.now
            yield env.timeout(time)
            steps.append(Step(where, name, start, env.now))

    def network() -> Generator[simpy.Event, object, None]:
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


EXACT = 1e-9
"""Latencies are sums of the same numbers."""


class Numbers(NamedTuple):
    """The network; the limit of latency, ms."""

    layers: tuple[Layer, ...]
    limit_ms: float


def legal(work: Chain, partition: object) -> bool:
    """A letter for each layer, and none on the accelerator that it lacks."""
    return (
        isinstance(partition, str)
        and len(partition) == len(work.layers)
        and all(
            letter == "H" or (letter == "A" and layer.accelerator is not None)
            for letter, layer in zip(partition, work.layers, strict=True)
        )
    )


def latency(work: Chain, partition: str) -> float:
    """Return the seconds until the result has reached the host."""
    return execute(work, partition)[-1].end


@cache
def cheapest(work: Chain) -> tuple[float, str]:
    """The least latency, and a partition that has it."""
    every = ("".join(letters) for letters in product("AH", repeat=len(work.layers)))
    return min((latency(work, partition), partition) for partition in every if legal(work, partition))


def eager(work: Chain) -> str:
    """Return the partition with every supported layer on the accelerator."""
    return "".join("H" if layer.accelerator is None else "A" for layer in work.layers)


class Partition(Lesson):
    """Lesson 12: unsupported operator."""

    number, title, file, minutes = 12, "Unsupported operator", "partition.py", 40
    idea = "One operator that the accelerator lacks sends data over the link and back: where to cut?"
    steps = (
        "legal partitions",
        "latency with transfers",
        "the cheapest partition",
        "a batch within the limit",
        "the question",
    )

    def draw(self, rng: np.random.Generator) -> Numbers:
        wide = 64 * int(rng.integers(1, 3))
        layers = (
            Layer("conv 3x3", 784, 576, 128),
            Layer("conv 3x3", 784, 1152, 128),
            Layer("suppress", 784, 0, 128, float(rng.integers(8, 25)) / 10),
            Layer("mix 1x1", 784, 128, 8),
            Layer("rank", 784, 0, 8, float(rng.integers(20, 50)) / 10),
            Layer("mix 1x1", 784, 8, wide),
            Layer("dense", 1, 1024, 1024),
            Layer("sort", 1, 0, 1024, float(rng.integers(10, 30))),
            Layer("classes", 1, 1024, 10),
        )
        return Numbers(layers, float(rng.integers(5, 17)) / 2)

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        work = chain(numbers.layers, 1)
        rows = [_row(place, layer) for place, layer in enumerate(work.layers)]
        steps = execute(work, eager(work))
        share = sum(step.end - step.start for step in steps if step.where == "link") / steps[-1].end
        return {
            "layers": "\n".join(rows),
            "move": f"{1e6 * work.move:.2f}",
            "limit": f"{numbers.limit_ms:g}",
            "eager": eager(work),
            "share": f"{100 * share:.9g}",
        }

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        work = chain(numbers.layers, 1)
        count, table = len(work.layers), _table(work)
        good = eager(work)
        others = (good[:-1], good.replace("A", "B"), good + "H", good[:2] + "A" + good[3:])
        for partition in ("H" * count, good, "A" * count, *others):
            rule = "a letter A or H for each layer, and H where the accelerator cannot (its time is None)"
            same(f"legal({partition!r})", legal(work, partition), ask("legal", partition, *table), rule)
        yield
        for batch in (1, 16):
            work = chain(numbers.layers, batch)
            for partition in (good, "H" * count, "AAHHHAAHH", "HAHHHHHHA", "AHHHHAHHH", cheapest(work)[1]):
                rule = "a transfer wherever the data are not where the layer is; input and result are with the host"
                where = f"latency({partition!r}), batch {batch}"
                number(where, latency(work, partition), ask("latency", partition, *_table(work)), rule, EXACT)
        yield
        sheet["chosen"] = {}
        for batch in BATCHES:
            work = chain(numbers.layers, batch)
            got, where = ask("best", *_table(work)), f"best, batch {batch}"
            if not legal(work, got):
                raise Wrong(where, "a legal partition", got, "one for which 'legal' is true")
            sheet["chosen"][batch] = got
            took, (least, _) = latency(work, got), cheapest(work)
            if took > least * (1 + EXACT):
                rule = "there are 2 to the power of 9 partitions: try all, keep the legal one with the least latency"
                raise Wrong(where, f"{1e6 * least:.2f} us", f"{got}: {1e6 * took:.2f} us", rule)
        yield
        works = {batch: chain(numbers.layers, batch) for batch in BATCHES}
        for limit in (numbers.limit_ms / 1000, 1.0, cheapest(works[4])[0], cheapest(works[1])[0] / 2):
            fits = [batch for batch in BATCHES if cheapest(works[batch])[0] <= limit]
            right = max(fits, key=lambda batch: batch / cheapest(works[batch])[0]) if fits else 0
            tables = [[batch, *_table(work)] for batch, work in works.items()]
            rule = "of the batches whose least latency is within the limit the most samples per second; 0 for none"
            same(f"best_batch within {1e3 * limit:.4g} ms", right, ask("best_batch", tables, limit), rule)
        yield
        steps = execute(chain(numbers.layers, 1), good)
        share = sum(step.end - step.start for step in steps if step.where == "link") / steps[-1].end
        answer(ask, 100 * share, f"time of all transfers of {good} divided by its latency, in percent; batch 1")
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Partitions of a batch of 1 in time: all on the host, all that can be on the accelerator, the student's."""
        from accelsim.report.style import BLUE, GREEN, ORANGE

        work, axes = chain(numbers.layers, 1), figure.subplots()
        shown = {"all on the host": "H" * len(work.layers), "all that can be\non the accelerator": eager(work)}
        if 1 in sheet.get("chosen", {}):
            shown["yours"] = sheet["chosen"][1]
        looks = {"A": (BLUE, "accelerator"), "H": (ORANGE, "host"), "link": (GREEN, "PCIe")}
        for place, partition in enumerate(shown.values()):
            steps = execute(work, partition)
            for step in steps:
                axes.barh(place, 1e6 * (step.end - step.start), 0.6, left=1e6 * step.start, color=looks[step.where][0],
                          edgecolor="white", lw=0.4)  # fmt: skip
            end = 1e6 * steps[-1].end
            axes.annotate(f"{end:.1f} us", (end, place), xytext=(4, -3), textcoords="offset points")
        axes.set_yticks(range(len(shown)), [f"{name}\n{partition}" for name, partition in shown.items()])
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlabel("us, a batch of 1")
        axes.set_title("Where the time goes")
        for colour, label in looks.values():
            axes.barh([0], [0], color=colour, label=label)
        figure.legend(loc="outside lower center", ncols=3)


def _row(place: int, layer: Timed) -> str:
    there = "cannot" if layer.accelerator is None else f"{1e6 * layer.accelerator:.2f} us"
    return f"| {place} | {layer.name} | {there} | {1e6 * layer.host:.2f} us | {1e6 * layer.move:.2f} us |"


def _table(work: Chain) -> tuple[list[list[object]], float]:
    """Return what a student's functions get: (name, accelerator s or None, host s, move s) of each layer; the input's
    move."""
    return [list(layer) for layer in work.layers], work.move


LESSON = Partition()
