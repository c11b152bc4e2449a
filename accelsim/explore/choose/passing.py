"""Least time and energy of a pass over a model: of its products on the engine of a chip, and of what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from accelsim.account.energy import engine_prices, price_list
from accelsim.compiler.numbers.formats import is_integer
from accelsim.engines.base import Least
from accelsim.engines.registry import ENGINES
from accelsim.explore.choose.candidates import BATCHES, Candidate, peak, spec_of
from accelsim.explore.choose.question import Question
from accelsim.explore.choose.work import Multiplied, Pass, passes_of
from accelsim.formats import table
from accelsim.program.actions import READ, WRITE
from accelsim.program.roles import Roles, function_units, multiplier
from accelsim.spec.chip import Chip
from accelsim.workload.ops.base import Gemm
from accelsim.workload.sources.load import generation_of


def forget_passes() -> None:
    """Forget chips and models, whose files may change between questions."""
    for each in (_by_product, _functions_per_s, _prices, multiplying_J):
        each.cache_clear()


def element_B(dtype: str) -> float:
    """Return the bytes of an element of the weights in a format."""
    return table.get(dtype.rpartition("x")[2] or dtype).bits / 8


def bandwidth_Bps(chip: Chip) -> float:
    """Return the highest rate of a memory of the chip that holds weights."""
    return max((float(chip.memories[name].rate_Bps) for name in _near(chip)), default=float("inf"))


@cache
def multiplying_J(chip: str, dtype: str, foreign: bool) -> float:
    """Return the energy of a multiply-accumulate in a format, with what a GPU draws around it; without that in integers
    for ``foreign`` models, files whose operands may be unsigned."""
    prices: dict[str, list[float]] = {}
    for (_, action), price in engine_prices(spec_of(chip)).items():
        prices.setdefault(str(action), []).append(price.energy_J)
    around = 0.0 if foreign and is_integer(dtype) else min(prices.get(f"around.{dtype}", [0.0]))
    return min(prices.get(f"mac.{dtype}", [0.0])) + around


def least_of_pass(question: Question, candidate: Candidate, done: Pass) -> Least:
    """Return what a pass takes at least: of arithmetic, memory and link the slowest, and the energy of all."""
    name, dtype, count = candidate.chip, candidate.dtype, candidate.count
    chip, prices, read_B = spec_of(name), _prices(name), done.read * element_B(dtype)
    seconds = max(done.flops / (peak(name, dtype) * count), read_B / (count * bandwidth_Bps(chip)))
    joules = done.flops / 2 * multiplying_J(name, dtype, Path(question.model).is_file())
    known = _by_product(question.model, name, dtype, candidate.batch if question.batch else None)
    if known and done.products:
        entering, each = _entering(chip, done.enters * element_B(dtype)), [known[_key(own)] for own in done.products]
        passed = float("inf") if is_integer(dtype) else _functions_per_s(name)
        seconds = max(seconds, _longest(done.products, each, passed, entering.seconds, chip) / count)
        joules *= 1 - 2 * sum(own.left_out for own in each) / done.flops
        joules = max(joules, sum(own.joules for own in each)) + entering.joules
        joules += count * _between_J(name, [own.between * element_B(dtype) / count for own in done.products])
    byte_J = min((prices[each, READ] for each in _near(chip)), default=0.0)
    return Least(seconds, joules + read_B * byte_J)


def _key(product: Multiplied) -> tuple[Gemm, float]:
    return product.gemm, product.beside


def _longest(
    products: Sequence[Multiplied], each: Sequence[Least], passed: float, entering_s: float, chip: Chip
) -> float:
    """Return the least seconds of products, each of which waits for whole results of others. All wait for the inputs,
    which take ``entering_s``, but the first one on other chips than GPUs. One engine does them one after the other.

    ``passed``: numbers per second of functions.
    """
    starts, every, gpu = list[float](), sum(own.seconds for own in each), chip.kind == "gpu"
    unit = multiplier(chip)
    one = unit is not None and getattr(unit.spec, "count", 1) == 1
    entering_s = entering_s if sum(not own.after for own in products) == 1 else 0.0

    def ready(place: int, numbers: float) -> float:
        own = max(each[place].seconds, each[place].lasting, numbers / passed)
        return max(starts[place] + own, 0.0 if place else entering_s)

    for place, own in enumerate(products):
        first = entering_s if gpu else 0.0
        turn = starts[-1] + each[place - 1].seconds if one and place else first
        starts.append(max([turn, *(ready(before, numbers) for before, numbers in own.after.items())]))
    last = max(ready(place, 0.0) for place in range(len(products)))
    return max(last, every, entering_s + every - each[0].seconds)


@cache
def _functions_per_s(name: str) -> float:
    """Return how many numbers a second the fastest vector unit of a chip makes; infinite without one, and where several
    functions follow each other within a clock."""
    chip = spec_of(name)
    every = [unit.spec for unit in function_units(chip) if unit.type == "simd"]
    rates = [float("inf") if each.chained else each.lanes * float(each.clock or chip.clock) for each in every]
    return max(rates, default=float("inf"))


def _between_J(name: str, every_B: Sequence[float]) -> float:
    """Return what intermediate results take at least that products on arrays read: each is written into the buffer that
    products read. One that is larger goes through a memory off the chip besides."""
    chip, prices = spec_of(name), _prices(name)
    buffer = Roles(chip).activations
    if buffer not in chip.buffers:
        return 0.0
    write_J, room_B = prices[buffer, WRITE], chip.buffers[buffer].capacity
    away_J = min((prices[each, READ] + prices[each, WRITE] for each in _near(chip)), default=0.0) + prices[buffer, READ]
    return sum(size_B * (write_J + (size_B > room_B) * (write_J + away_J)) for size_B in every_B)


@cache
def _by_product(model: str, name: str, dtype: str, batch: int | None) -> Mapping[tuple[Gemm, float], Least]:
    """Return what each product of a model takes at least on a chip, of one batch or of all."""
    chip = spec_of(name)
    served = generation_of(model) is not None and chip.kind == "gpu"  # by kernels with times of their own
    unit = None if served or chip.core_count > 1 else multiplier(chip)
    if unit is None or dtype not in unit.spec.formats:
        return {}
    passes = [each for size in ([batch] if batch else BATCHES) for each in passes_of(model, size)]
    products = list(dict.fromkeys(_key(own) for each in passes for own in each.products))
    found = ENGINES[unit.type].least(chip, unit, dtype, products, _prices(name)) if products else None
    return dict(zip(products, found, strict=True)) if found is not None else {}


def _entering(chip: Chip, size_B: float) -> Least:
    """Return what inputs take that come over a link; nothing without one."""
    home = Roles(chip).host_home
    if home not in chip.memories or chip.memories[home].link is None:
        return Least(0.0, 0.0)
    link = chip.memories[home].link
    return Least(size_B / chip.memories[home].rate_Bps, size_B * float(link.energy if link else 0.0))


@cache
def _prices(chip: str) -> Mapping[tuple[str, str], float]:
    return price_list(spec_of(chip))


def _near(chip: Chip) -> list[str]:
    """Memories that no link leads to: one of them holds the weights."""
    return [name for name, each in chip.memories.items() if each.link is None]
