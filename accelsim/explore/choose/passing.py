"""Least time and energy of a pass over a model: of its products on the engine of a chip, and of what it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import NamedTuple

from accelsim.account.energy import engine_prices, left_W, price_list
from accelsim.cluster.serving.devices import serving_library
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import Comm, Fleet, fleet_of
from accelsim.compiler.numbers.formats import is_integer
from accelsim.engines.base import Beside, Least
from accelsim.engines.registry import ENGINES
from accelsim.errors import AccelsimError
from accelsim.explore.choose.candidates import BATCHES, Candidate, peak, spec_of
from accelsim.explore.choose.question import Question, kept
from accelsim.explore.choose.work import NOTHING, Multiplied, Pass, beside_of, passes_of, sizes_of, work_of
from accelsim.formats import table
from accelsim.program.actions import READ, WRITE
from accelsim.program.roles import Roles, function_units, multiplier
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.clusters import load_devices
from accelsim.time import FS
from accelsim.workload.ops.base import Gemm
from accelsim.workload.sources.load import generation_of


def element_B(dtype: str) -> float:
    """Return the bytes of an element of the weights in a format."""
    return table.get(dtype.rpartition("x")[2] or dtype).bits / 8


def bandwidth_Bps(chip: Chip) -> float:
    """Return the highest rate of a memory of the chip that holds weights."""
    return max((float(chip.memories[name].rate_Bps) for name in _near(chip)), default=float("inf"))


@kept
def multiplying_J(chip: str, dtype: str, foreign: bool) -> float:
    """Return the energy of a multiply-accumulate in a format, with what a GPU draws around it; without that in integers
    for ``foreign`` models, files whose operands may be unsigned."""
    prices: dict[str, list[float]] = {}
    for (_, action), price in engine_prices(spec_of(chip)).items():
        prices.setdefault(str(action), []).append(price.energy_J)
    around = 0.0 if foreign and is_integer(dtype) else min(prices.get(f"around.{dtype}", [0.0]))
    return min(prices.get(f"mac.{dtype}", [0.0])) + around


class Drawn(NamedTuple):
    """Joules of a multiply-accumulate, and of a byte that a memory off the chip reads or writes at least."""

    mac_J: float
    read_J: float
    moved_J: float


@kept
def unlimited(name: str, dtype: str, foreign: bool = False) -> Drawn:
    """Return what a chip draws in a format, of ``foreign`` models or others, whatever its design power."""
    near, prices = _near(spec_of(name)), _prices(name)
    read_J = min((prices[each, READ] for each in near), default=0.0)
    moved_J = min((prices[each, way] for each in near for way in (READ, WRITE)), default=0.0)
    return Drawn(multiplying_J(name, dtype, foreign), read_J, moved_J)


@kept
def drawn(name: str, dtype: str, foreign: bool = False) -> Drawn:
    """Return what a chip draws in a format, on a board with a design power so little that what its products and its
    memory draw at their peaks stays below that."""
    chip, each, macs = spec_of(name), unlimited(name, dtype, foreign), peak(name, dtype) / 2
    most_W, memory_W = left_W(chip), each.read_J * bandwidth_Bps(chip) if each.read_J else 0.0
    macs_W = min(each.mac_J * macs, most_W)
    share = 1.0 if macs_W + memory_W <= most_W else (most_W - macs_W) / memory_W
    return Drawn(macs_W / macs if macs else 0.0, each.read_J * share, each.moved_J * share)


def least_of_pass(question: Question, candidate: Candidate, done: Pass) -> Least:
    """Return what a pass takes at least: of arithmetic, memory and link the slowest, and the energy of all."""
    name, dtype, count = candidate.chip, candidate.dtype, candidate.count
    chip, read_B = spec_of(name), done.read * element_B(dtype)
    of = unlimited(name, dtype, Path(question.model).is_file())
    seconds = max(done.flops / (peak(name, dtype) * count), read_B / (count * bandwidth_Bps(chip)))
    macs, joules, links_J = done.flops / 2, 0.0, 0.0
    known = _by_product(question.model, name, dtype, candidate.batch if question.batch else None, count)
    if known and done.products:
        entering, each = _entering(chip, done.enters * element_B(dtype)), [known[_key(own)] for own in done.products]
        longest_s = _longest(done.products, each, chip, dtype, entering.seconds) / count
        if chip.kind == "gpu":  # all beside linear layers is done by kernels of their own
            functions_s, attention_s = _beside_s(question.model, name, dtype, candidate.batch, done.tokens, count)
            read_s = done.cached * element_B(dtype) / bandwidth_Bps(chip) / count
            longest_s += functions_s + max(attention_s, read_s)
        seconds = max(seconds, longest_s)
        macs -= sum(own.left_out for own in each)
        joules = sum(own.joules for own in each)
        each_B = element_B(dtype) / count
        if chip.kind == "gpu":  # its kernels read from memory what others have written there, but scores of attention
            beside_J = sum(own.between for own in done.products if own.gemm.b) * each_B * 2 * of.moved_J
        else:
            beside_J = entering.joules + _buffers_J(name, done.products, each_B, (done.read + done.enters) * each_B)
        joules = max(macs * of.mac_J, joules) + count * beside_J
    if count > 1:
        size_B = int(done.added * element_B(dtype))
        each_s, each_J = collective(str(candidate.point.on), dtype, count, "all_reduce", size_B, True)
        seconds, links_J = seconds + done.often * each_s, done.often * each_J
    joules = max(macs * of.mac_J, joules) + read_B * of.read_J
    most_J = left_W(chip) * count * seconds
    if most_J < inf and (chip.kind == "gpu" or count > 1):  # a board lowers its clock until it draws no more than that
        joules = min(joules, most_J) * done.even
    return Least(seconds, joules + links_J)


def collective(on: str, dtype: str, count: int, kind: str, size_B: int, serves: bool = False) -> tuple[float, float]:
    """Return seconds and joules of a collective of the first devices of a cluster; 0 for one that cannot be."""
    fleet = _fleet(on, dtype, serves)
    found = Comm() if fleet is None else fleet.collective(kind, size_B, [tuple(range(count))])
    return found.time_fs * FS, found.energy_J


@kept
def _fleet(on: str, dtype: str, serves: bool) -> Fleet | None:
    try:
        spec, setting = load_devices(on), Setting(dtype=dtype)
    except AccelsimError:  # that is the outcome of its run
        return None
    return fleet_of(spec, setting, serving_library(spec, "", setting) if serves else "")


def _key(product: Multiplied) -> tuple[Gemm, float]:
    return product.gemm, product.beside


def least_of_products(chip: Chip, dtype: str, every: Sequence[Sequence[Multiplied]]) -> list[Least]:
    """Return what each of several series of products takes at least whose inputs are in a memory of the chip."""
    known = _least_of(chip, dtype, dict.fromkeys(_key(own) for row in every for own in row))
    if not known:
        return [Least(0.0, 0.0)] * len(every)
    rows = [(row, [known[_key(own)] for own in row]) for row in every]
    return [
        Least(_longest(row, each, chip, dtype), sum(own.joules for own in each)) if row else Least(0.0, 0.0)
        for row, each in rows
    ]


def _least_of(chip: Chip, dtype: str, asked: Iterable[tuple[Gemm, float]]) -> dict[tuple[Gemm, float], Least]:
    """Products with what each takes at least; none where several engines do them."""
    unit = multiplier(chip) if chip.core_count == 1 else None
    if unit is None or dtype not in unit.spec.formats:
        return {}
    products = [each for each in asked if each[0] != NOTHING]
    found = ENGINES[unit.type].least(chip, unit, dtype, products, price_list(chip))
    return {} if found is None else {(NOTHING, 0.0): Least(0.0, 0.0)} | dict(zip(products, found, strict=True))


def _longest(
    products: Sequence[Multiplied], each: Sequence[Least], chip: Chip, dtype: str, entering_s: float = 0.0
) -> float:
    """Return the least seconds of products, each of which waits for whole results of others. All wait for the inputs,
    which take ``entering_s``, but the first one on other chips than GPUs. One engine does them one after the other."""
    starts, every, gpu = list[float](), sum(own.seconds for own in each), chip.kind == "gpu"
    passed, unit = float("inf") if is_integer(dtype) else _functions_per_s(chip), multiplier(chip)
    one = unit is not None and getattr(unit.spec, "count", 1) == 1
    first = sum(own.after.keys() == {0} for own in products) == 1
    entering_s = entering_s if first else 0.0

    def ready(place: int, numbers: float) -> float:
        own = max(each[place].seconds, each[place].lasting, numbers / passed)
        return max(starts[place] + own, entering_s if place == 1 else 0.0)

    for place, own in enumerate(products):
        turn = starts[-1] + each[place - 1].seconds if one and place else entering_s if gpu else 0.0
        starts.append(max([turn, *(ready(before, numbers) for before, numbers in own.after.items())]))
    last = max(ready(place, 0.0) for place in range(len(products)))
    return max(last, every, entering_s + every - each[1].seconds if len(products) > 2 else 0.0)


def _functions_per_s(chip: Chip) -> float:
    """Return how many numbers a second the fastest vector unit of a chip makes; infinite without one, and where several
    functions follow each other within a clock."""
    every = [unit.spec for unit in function_units(chip) if hasattr(unit.spec, "chained")]
    rates = [float("inf") if each.chained else each.lanes * float(each.clock or chip.clock) for each in every]
    return max(rates, default=float("inf"))


def _buffers_J(name: str, products: Sequence[Multiplied], each_B: float, loaded_B: float) -> float:
    """Return the joules of a chip with arrays beside those of its products: what comes from memories and intermediate
    results, numbers of ``each_B``, are written into a buffer. Results that do not fit go through a memory besides."""
    chip, prices = spec_of(name), _prices(name)
    roles = Roles(chip)
    buffer = roles.activations
    if buffer not in chip.buffers or roles.weights not in chip.buffers:
        return 0.0
    sizes, room_B = [own.between * each_B for own in products], chip.buffers[buffer].capacity
    away_B = sum(size_B for size_B in sizes if size_B > room_B)
    write_J, read_J = prices[buffer, WRITE], prices[buffer, READ]
    away_J = min((prices[each, READ] + prices[each, WRITE] for each in _near(chip)), default=0.0)
    away_B += _apart_B(products, each_B, room_B)
    sides = [numbers * each_B for own in products for numbers in own.sides.values()]
    fetch_J = write_J + min((prices[each, READ] for each in _near(chip)), default=0.0)
    sides_J = sum(sides) * read_J + sum(size_B for size_B in sides if size_B > room_B) * fetch_J
    loaded_J = loaded_B * min(write_J, prices[roles.weights, WRITE])
    return sum(sizes) * write_J + away_B * (write_J + read_J + away_J) + sides_J + loaded_J


def _apart_B(products: Sequence[Multiplied], each_B: float, room_B: float) -> float:
    """Return the least bytes of results that leave the chip although each of them fits: a result, and the one that is
    added to it, are there at one time. Each result counts once, those of the whole pass do not."""
    seen, found = set(products[-1].after), 0.0
    for place, own in enumerate(products):
        for other, numbers in own.sides.items():
            added_B, result_B = numbers * each_B, own.gemm.groups * own.gemm.M * own.gemm.N * each_B
            apart = added_B == result_B <= room_B < added_B + result_B
            if apart and not seen & {place, other}:
                seen |= {place, other}
                found += added_B
    return found


@kept
def _by_product(model: str, name: str, dtype: str, batch: int | None, count: int) -> Mapping[tuple[Gemm, float], Least]:
    """Return what each product of a model takes at least on one of several chips, of one batch or of all."""
    chip = spec_of(name)
    passes = [each for size in ([batch] if batch else BATCHES) for each in passes_of(model, size)]
    asked = dict.fromkeys(_key(own) for each in passes for own in each.products)
    if generation_of(model) is None or chip.kind != "gpu":
        return _least_of(chip, dtype, asked)
    unit, products = multiplier(chip), [each for each in asked if each[0] != NOTHING]
    parts = [(_part(gemm, count), beside) for gemm, beside in products]
    found = None if unit is None else ENGINES[unit.type].served(chip, unit, dtype, parts, _prices(name))
    if found is None:
        return {}
    every = (Least(*(count * own for own in each)) for each in found)  # of all chips together
    return {(NOTHING, 0.0): Least(0.0, 0.0)} | dict(zip(products, every, strict=True))


PLACES = 4
"""Tokens of a generation whose attention is bounded, each for as many that follow it."""


@kept
def _beside_s(model: str, name: str, dtype: str, batch: int, tokens: int, count: int) -> tuple[float, float]:
    """Return the least seconds of kernels of functions and of attention in a pass on one of several GPUs, of further
    tokens in the mean of them; 0 of models other than plain decoders."""
    sizes, chip, work = sizes_of(model), spec_of(name), work_of(model, False)
    unit = multiplier(chip)
    if sizes is None or unit is None or not tokens or not sizes.plain:
        return 0.0, 0.0
    functions = beside_of(sizes, batch, tokens, count)
    further = [work.prompt + 1 + (work.new - 1) * place // PLACES for place in range(PLACES)]
    heads = (sizes.heads // count, max(1, sizes.kv_heads // count), sizes.head_dim)
    every = further if tokens == 1 else [work.prompt]
    attention = [[Beside((), 0, 0, 0, batch, tokens, keys, *heads)] for keys in every]
    seconds, at = ENGINES[unit.type].beside(chip, unit, dtype, [*functions, *attention]), len(functions)
    return sizes.layers * sum(seconds[:at]), sizes.layers * sum(seconds[at:]) / len(every)


def _part(gemm: Gemm, count: int) -> Gemm:
    """Part of a layer that one of several devices computes: of its results if these are more than its inputs, else of
    the sums."""
    if gemm.N > gemm.K:
        return replace(gemm, N=gemm.N // count)
    return replace(gemm, K=gemm.K // count)


def _entering(chip: Chip, size_B: float) -> Least:
    """Return what inputs take that come over a link; nothing without one."""
    home = Roles(chip).host_home
    if home not in chip.memories or chip.memories[home].link is None:
        return Least(0.0, 0.0)
    link = chip.memories[home].link
    return Least(size_B / chip.memories[home].rate_Bps, size_B * float(link.energy if link else 0.0))


@kept
def _prices(chip: str) -> Mapping[tuple[str, str], float]:
    return price_list(spec_of(chip))


def _near(chip: Chip) -> list[str]:
    """Memories that no link leads to: one of them holds the weights."""
    return [name for name, each in chip.memories.items() if each.link is None]
