"""What the texts of lessons say is so, for whatever student."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accelsim.lessons.course.banks import lesson as banks
from accelsim.lessons.course.batches import lesson as batches
from accelsim.lessons.course.continuous import lesson as continuous
from accelsim.lessons.course.dataflows import lesson as dataflows
from accelsim.lessons.course.front import lesson as front
from accelsim.lessons.course.partition import lesson as partition
from accelsim.lessons.course.queue import lesson as queue
from accelsim.lessons.course.renting import lesson as renting
from accelsim.lessons.course.roofline import lesson as roofline
from accelsim.lessons.course.tiling import lesson as tiling
from accelsim.serving.blocks import Pool
from accelsim.serving.measures import mean
from accelsim.serving.schedulers.vllm import Vllm

pytestmark = pytest.mark.xdist_group("lessons")  # one process measures the chips that lessons are about

STUDENTS = pytest.mark.parametrize("student", ["", "ada", "grace", "alan"])


@STUDENTS
def test_no_chip_is_above_its_roof(student: str) -> None:
    numbers = roofline.LESSON.numbers(student)
    for chip in roofline.CHIPS:
        for layer in numbers.layers:
            assert roofline.achieved(layer, chip) <= roofline._best(layer, chip) * 1.0001


@STUDENTS
def test_each_dataflow_is_best_for_two_products(student: str) -> None:
    products = dataflows.LESSON.numbers(student).products
    found = [min(dataflows.DATAFLOWS, key=lambda name: sum(dataflows.words(name, each))) for each in products]
    assert sorted(found) == sorted([*dataflows.DATAFLOWS] * 2)


@STUDENTS
def test_four_times_the_buffer_halves_the_traffic_about(student: str) -> None:
    numbers = tiling.LESSON.numbers(student)
    first = numbers.products[0]
    ratio = tiling.optimum(first, numbers.buffer)[0] / tiling.optimum(first, 4 * numbers.buffer)[0]
    assert 1.4 < ratio < 2.6


@STUDENTS
def test_mappings_differ_by_eight_times_or_more(student: str) -> None:
    numbers = banks.LESSON.numbers(student)
    for stride in (banks.BURST_B, numbers.stride):
        rates = [banks.bandwidth(numbers, stride, mapping) for mapping in banks.MAPPINGS]
        assert 7.5 < max(rates) / min(rates) < 23


@STUDENTS
def test_to_serve_at_once_costs_more_than_five_percent(student: str) -> None:
    numbers = batches.LESSON.numbers(student)
    at_once = list(batches.serve(numbers, lambda waiting, slack, latency: waiting))
    assert batches.joules(at_once) > batches.NEAR * batches.best(numbers)


@STUDENTS
def test_all_that_can_be_on_the_accelerator_is_better_than_nothing_and_not_best(student: str) -> None:
    layers = partition.LESSON.numbers(student).layers
    work = partition.chain(layers, 1)
    eager, host = partition.eager(work), "H" * len(layers)
    assert partition.cheapest(work)[0] < partition.latency(work, eager) < 0.7 * partition.latency(work, host)


@STUDENTS
def test_capital_is_most_of_a_year_and_the_load_decides(student: str) -> None:
    numbers = renting.LESSON.numbers(student)
    own = renting.owned(numbers)
    parts = own.yearly
    assert parts.capital > 0.5 * parts.total and 0.07 < parts.power / parts.total < 0.13
    small = numbers.offers[1]
    even = own.break_even_load(small.hour)
    assert 0.3 < even < 0.95
    assert renting.cheapest(own, numbers.offers, 0.05) == small.name
    assert renting.cheapest(own, numbers.offers, 1.0) != small.name
    million = 1e6 * own.yearly.total / (8 * 8760 * numbers.load * 3600 * renting.rate())
    assert 0.01 < million < 1


@STUDENTS
def test_half_of_the_designs_are_on_the_front_and_the_largest_array_seldom_is(student: str) -> None:
    found = front.designs(front.LESSON.numbers(student))
    own, limit = front.front(found), front.limit_us(found)
    slow = range(len(found) - len(front.BANDWIDTHS), len(found) - 1)  # the largest array, but with the fastest memory
    assert 6 <= len(own) <= 12 and not set(own) & set(slow)
    fast, small = found[own[0]], found[own[-1]]
    assert small.latency_us > 5 * fast.latency_us and fast.area_mm2 > 2 * small.area_mm2
    assert found[front.cheapest(found, limit / 2)].area_mm2 > 1.2 * found[front.cheapest(found, limit)].area_mm2


@STUDENTS
def test_requests_wait_as_the_formula_says_and_the_slowest_much_longer(student: str) -> None:
    numbers = queue.LESSON.numbers(student)
    for busy in (0.3, 0.6):
        arrivals = np.cumsum(queue.gaps(numbers.seed, 20_000)) * numbers.seconds / busy
        found = mean(queue.waits(arrivals, numbers.seconds))
        assert found.low is not None and found.high is not None
        slack = found.high - found.low  # 90 % intervals of four students at two loads: twice as wide holds all
        assert found.low - slack <= queue.by_hand(busy / numbers.seconds, numbers.seconds) <= found.high + slack
    assert queue.p99(numbers, 0.95) > 3 * queue.p99(numbers, 0.5) > 0


def test_schedules_of_the_lesson_are_the_golden_ones() -> None:
    path = Path(__file__).parents[2] / "golden" / "serving" / "schedules.json"
    golden = json.loads(path.read_text(encoding="utf-8"))
    known = {name[0]: steps for name, steps in golden.items()}
    expected = [known["A"], known["B"], known["D"]["reserve"]]
    for found, (lengths, budget, blocks, size) in zip(expected, [continuous.PIECES, *continuous.SHORT], strict=True):
        steps = [{"AB".index(name): tokens for name, tokens in each["scheduled"].items()} for each in found]
        assert continuous.planned(Vllm(Pool(blocks, size), budget=budget), lengths) == steps


@STUDENTS
def test_batches_that_wait_leave_most_places_empty(student: str) -> None:
    outputs = continuous.LESSON.numbers(student).outputs
    batches = continuous.steps(outputs, continuous.PLACES, True)
    assert sum(outputs) < 0.55 * batches * continuous.PLACES and sorted(outputs)[32] < 30
    assert continuous.steps(outputs, continuous.PLACES, False) < 0.8 * batches
