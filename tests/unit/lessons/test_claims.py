"""What the texts of lessons say is so, for whatever student."""

from __future__ import annotations

import pytest

from accelsim.lessons.course.banks import lesson as banks
from accelsim.lessons.course.batches import lesson as batches
from accelsim.lessons.course.dataflows import lesson as dataflows
from accelsim.lessons.course.front import lesson as front
from accelsim.lessons.course.partition import lesson as partition
from accelsim.lessons.course.renting import lesson as renting
from accelsim.lessons.course.roofline import lesson as roofline
from accelsim.lessons.course.tiling import lesson as tiling

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
