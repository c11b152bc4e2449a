"""Two studies of chips side by side: number formats across generations, and from which batch a GPU beats a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.account.latency import summary
from accelsim.errors import Gather, UsageError, count_of
from accelsim.explore.batching import BATCHES, Batching, batching
from accelsim.formats import table
from accelsim.program.roles import units
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.chips import load_chip
from accelsim.types import Floats

FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8_e4m3fn", "int8", "int4")
"""The ladder, from wide to narrow."""
PRODUCT = "gemm?M=64,N=64,K=1024"
"""Model that measures the error of a format: a product of Gaussian operands, by the chip's own rule of sums."""
EXACT = ("haswell-e5-2699v3", "fp32")
"""Chip and format of what stands for exact: FP32, whose error is a thousandth of that of the next format."""


ROUNDING = 1e-6
"""Errors below are those of FP32 sums, which depend on the order in which the library of this machine adds."""


class Rung(NamedTuple):
    """A model on a chip in a format: seconds and joules of an inference, 90 % interval of the time (0, 0: none), and
    the root mean square error of ``PRODUCT`` there, relative to that of its values."""

    chip: str
    title: str
    dtype: str
    seconds: float
    low: float
    high: float
    joules: float
    error: float


class Ladder(NamedTuple):
    """All rungs, chip by chip; ``formats`` as they were asked for, from wide to narrow; ``lacking``: formats that a
    chip does not multiply."""

    model: str
    batch: int
    formats: tuple[str, ...]
    rungs: tuple[Rung, ...]
    lacking: dict[str, list[str]]

    def rungs_of(self, chip: str) -> list[Rung]:
        """Return the results of a chip, from the widest format to the narrowest."""
        return [rung for rung in self.rungs if rung.chip == chip]

    @property
    def chips(self) -> list[str]:
        """Names of the chips, in the order asked for."""
        return list(dict.fromkeys(rung.chip for rung in self.rungs))


def precision(
    model: str,
    chips: Sequence[str],
    formats: Sequence[str] = FORMATS,
    batch: int = 1,
    told: Callable[[float], None] | None = None,
) -> Ladder:
    """The model on each chip in every format that the chip multiplies, without values, inputs and outputs converted
    outside the run. Raises UsageError for unknown names, and where no chip has any of the formats.
    """
    loaded = _loaded(chips, formats)
    wanted = [(chip, name) for chip in loaded for name in formats if name in multiplied(chip)]
    if not wanted:
        known = sorted({name for chip in loaded for name in multiplied(chip)})
        raise UsageError("no chip has any of these formats", "--dtypes", ", ".join(known))
    exact = _product(*EXACT)
    rungs = []
    for index, (chip, name) in enumerate(wanted):
        if told is not None:
            told(index / len(wanted))
        request = Request(model, chip, dtype=name, batch=batch, values="off", edges="outside")
        facts = summary(execute(prepare(request)))
        low, high = _interval(facts, batch)
        error = float(np.sqrt(np.mean((_product(chip.name, name) - exact) ** 2) / np.mean(exact**2)))
        rungs.append(
            Rung(
                chip.name,
                chip.title,
                name,
                facts["latency_s"] / batch,
                low,
                high,
                facts["energy_per_inference_J"],
                error,
            )
        )
    lacking = {chip.name: [name for name in formats if name not in multiplied(chip)] for chip in loaded}
    return Ladder(model, batch, tuple(formats), tuple(rungs), {name: each for name, each in lacking.items() if each})


def _loaded(chips: Sequence[str], formats: Sequence[str] = (), least: int = 1) -> list[Chip]:
    """Return chips by name. Raises UsageError and SpecError with all that is wrong with them and the formats."""
    gather, found = Gather(), []
    few = f"{count_of(least, 'chip')} or more"
    gather.refuse(len(chips) < least, f"{count_of(len(chips), 'chip')}", "--on", few)
    for name in dict.fromkeys(chips):
        gather.refuse(chips.count(name) > 1, f"{name!r} is there twice", "--on", "each chip once")
        with gather.also():
            found.append(load_chip(name))
    for name in formats:
        gather.check(name, table.get)
    gather.done()
    return found


def multiplied(chip: Chip) -> list[str]:
    """Formats that some engine of a chip multiplies."""
    found = [
        name for view in chip.views() for unit in units(view).values() for name in getattr(unit.spec, "formats", ())
    ]
    return list(dict.fromkeys(found))


def _product(chip: str, dtype: str) -> Floats:
    run = execute(prepare(Request(PRODUCT, chip, dtype=dtype)))
    return np.asarray(next(iter(run.outputs.values())), dtype=np.float64)


def _interval(facts: dict[str, Any], batch: int) -> tuple[float, float]:
    """Return both ends of the interval of an inference's time in s; 0, 0 for a run without one."""
    found = facts["latency_interval"]
    return (0.0, 0.0) if found is None else (found["low_s"] / batch, found["high_s"] / batch)


def error_text(error: float) -> str:
    """Two digits; below ``ROUNDING`` nothing but that."""
    return f"{error:.2g}" if error >= ROUNDING else f"below {ROUNDING:.0e}"


def ladder_sentences(found: Ladder) -> list[str]:
    """Return what narrow formats gain on each chip, what they cost in accuracy, and what the last chip gains on the
    first."""
    texts = []
    for chip in found.chips:
        rungs = found.rungs_of(chip)
        wide, best = rungs[0], min(rungs, key=lambda rung: rung.seconds)
        if best is wide:
            texts.append(f"{wide.title}: {wide.dtype} is the fastest of its formats here.")
            continue
        least = min(rungs, key=lambda rung: rung.joules)
        texts.append(
            f"{wide.title}: {best.dtype} is {wide.seconds / best.seconds:.2g} times as fast as {wide.dtype} at "
            f"{best.joules / wide.joules:.0%} of its energy, for an error of {error_text(best.error)} of a product "
            f"({wide.dtype}: {error_text(wide.error)})"
            + (f"; {least.dtype} needs the least energy." if least is not best else ".")
        )
    if len(found.chips) > 1:
        first, last = (
            min(found.rungs_of(chip), key=lambda rung: rung.seconds) for chip in (found.chips[0], found.chips[-1])
        )
        texts.append(
            f"From {first.title} in {first.dtype} to {last.title} in {last.dtype}: "
            f"{first.seconds / last.seconds:.2g} times as fast, {last.joules / first.joules:.0%} of the energy."
        )
    return texts + [
        f"{load_chip(chip).title} does not multiply {', '.join(names)}." for chip, names in found.lacking.items()
    ]


class Crossover(NamedTuple):
    """A model by batch size on several chips, of which the first is the reference."""

    model: str
    series: tuple[Batching, ...]


def crossover(
    model: str,
    chips: Sequence[str],
    batches: Sequence[int] = BATCHES,
    dtype: str = "",
    told: Callable[[float], None] | None = None,
) -> Crossover:
    """Time per sample by batch, transfers to and from the host included, chip by chip. Raises UsageError."""
    _loaded(chips, least=2)
    found = []
    for index, chip in enumerate(chips):
        if told is not None:
            told(index / len(chips))
        found.append(batching(model, chip, batches, dtype=dtype))
    return Crossover(model, tuple(found))


def crossover_sentences(found: Crossover) -> list[str]:
    """Say from which batch each chip is faster than the first, and what its transfers cost there."""
    base, *others = found.series
    texts = []
    for other in others:
        wins = [
            mine.batch
            for mine, theirs in zip(other.points, base.points, strict=True)
            if mine.seconds_per_sample < theirs.seconds_per_sample
        ]
        largest, first = other.points[-1], base.points[-1]
        ratio = first.seconds_per_sample / largest.seconds_per_sample
        name, than = other.chip.title, base.chip.title
        if not wins:
            texts.append(f"{name} is slower than {than} at every batch tried.")
        elif len(wins) == len(other.points):
            texts.append(f"{name} is faster than {than} at every batch tried, {ratio:.3g} times at {largest.batch}.")
        elif wins == [point.batch for point in other.points[-len(wins) :]]:
            texts.append(f"{name} is faster than {than} from batch {wins[0]} on, {ratio:.3g} times at {largest.batch}.")
        else:
            texts.append(f"{name} is faster than {than} at batch {', '.join(map(str, wins))}, not at the others.")
        if other.links:
            ends = other.points[0], largest
            shares = [point.parts_fs["link"] / point.time_fs for point in ends]
            texts.append(
                f"Waiting for transfers is {shares[0]:.0%} of its time at batch {ends[0].batch}, {shares[1]:.0%} at "
                f"{ends[1].batch}."
            )
    return texts
