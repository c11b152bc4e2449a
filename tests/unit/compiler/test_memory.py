"""The allocator of a buffer, and rings of slots."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.program.commands import Region
from accelsim.program.writing.allocator import Ring, Space


def take(space: Space, ident: int, size_B: int) -> Region | None:
    """Allocate and enter a region; None when there is no room."""
    offset = space.place(size_B)
    if offset is None:
        return None
    region = Region(ident, space.name, f"r{ident}", offset, size_B)
    space.add(region)
    return region


OPERATIONS = st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=40)


@given(st.booleans(), OPERATIONS)
def test_live_regions_never_share_bytes_and_stay_inside(rotate: bool, operations: list[tuple[bool, int]]) -> None:
    """Random allocations and releases; what cannot be placed has really no gap of that size."""
    space, live = Space("sram", 100, rotate), {}
    for ident, (release, size_B) in enumerate(operations):
        if release and live:
            space.release(live.pop(min(live)).id)
            continue
        region = take(space, ident, size_B)
        if region is None:
            assert space.free_B() < size_B
            continue
        assert region.offset >= 0 and region.offset + size_B <= 100
        for other in live.values():
            assert other.offset + other.size_B <= region.offset or region.offset + size_B <= other.offset
        live[ident] = region
    used = {at for region in live.values() for at in range(region.offset, region.offset + region.size_B)}
    runs, length = [0], 0
    for at in range(100):
        length = 0 if at in used else length + 1
        runs.append(length)
    assert space.free_B() == max(runs)


def answers(space: Space, operations: list[tuple[bool, int]]) -> list[object]:
    """Allocate, release and ask; everything that the space answers but for numbers of free bytes."""
    found, live = list[object](), list[Region]()
    for ident, (release, size_B) in enumerate(operations):
        if release and live:
            space.release(live.pop(0).id)
            continue
        found += [space.fits([size_B, 2 * size_B]), space.place(size_B, 3 * size_B)]
        region = take(space, ident, size_B)
        live += [region] if region else []
        found.append(region and region.offset)
    return found


@given(st.booleans(), OPERATIONS, st.integers(20, 120))
def test_capacities_that_make_no_difference_make_none(
    rotate: bool, operations: list[tuple[bool, int]], size_B: int
) -> None:
    space = Space("sram", size_B, rotate)
    expected = answers(space, operations)
    least, beyond = space.span
    assert least <= size_B < beyond
    for other in (capacity for capacity in range(1, 260) if least <= capacity < beyond):
        assert answers(Space("sram", other, rotate), operations) == expected


def test_room_makes_a_difference_from_what_is_needed_on() -> None:
    space = Space("sram", 100)
    take(space, 0, 30)
    space.needed(50, space.room_after([]) or 0)
    assert space.span == (80, inf)
    assert space.free_B() == 70 and space.span == (100, 101)


def test_a_block_lies_behind_where_it_may_and_at_the_front_where_it_must() -> None:
    space = Space("sram", 100)
    take(space, 0, 30)
    assert [space.place(20, behind) for behind in (0, 10, 50, 80, 81, 200)] == [30, 30, 50, 80, 30, 30]
    assert space.place(71, 0) is None


@given(st.booleans(), OPERATIONS)
def test_the_older_owners_of_every_byte_are_known(rotate: bool, operations: list[tuple[bool, int]]) -> None:
    """Through the regions that it overlaps, and those that they replaced, a region reaches each byte's last owner."""
    space = Space("sram", 64, rotate)
    live: list[int] = []
    owner: dict[int, int] = {}
    for ident, (release, size_B) in enumerate(operations):
        if release and live:
            space.release(live.pop(0))
            continue
        offset = space.place(size_B)
        if offset is None:
            continue
        overlaps = space.add(Region(ident, "sram", "r", offset, size_B))
        before = {owner[at] for at in range(offset, offset + size_B) if at in owner}
        assert before <= set(overlaps)
        owner |= dict.fromkeys(range(offset, offset + size_B), ident)
        live.append(ident)


@given(st.booleans(), OPERATIONS)
def test_regions_of_the_past_are_those_that_still_have_a_byte(rotate: bool, operations: list[tuple[bool, int]]) -> None:
    """However many others overwrote the rest: else blocks of a model that are alike would never leave the same state."""
    space, live, owner = Space("sram", 64, rotate), list[int](), dict[int, int]()
    for ident, (release, size_B) in enumerate(operations):
        if release and live:
            space.release(live.pop(0))
        elif (region := take(space, ident, size_B)) is not None:
            owner |= dict.fromkeys(range(region.offset, region.offset + size_B), ident)
            live.append(ident)
    _, regions = space.state()
    assert sorted(regions[len(live) :]) == sorted(set(owner.values()))


def test_first_fit_fills_the_first_gap_and_next_fit_goes_on_behind() -> None:
    for space, expected in ((Space("sram", 100), 0), (Space("sram", 100, rotate=True), 20)):
        first = take(space, 0, 10)
        take(space, 1, 10)
        assert first is not None
        space.release(first.id)
        assert space.place(10) == expected


def test_an_empty_region_replaces_nobody_and_nobody_replaces_it() -> None:
    space = Space("sram", 64)
    empty = Region(1, "sram", "empty", 32, 0)
    assert space.add(Region(0, "sram", "old", 0, 64)) == ()
    space.release(0)
    assert space.add(empty) == () and space.add(Region(2, "sram", "new", 0, 64)) == (0,)
    space.release(1)
    assert space.free_B() == 0


def test_what_fits_one_after_the_other() -> None:
    space = Space("sram", 100)
    regions = [take(space, ident, 20) for ident in range(5)]
    for region in (regions[0], regions[2], regions[3]):
        assert region is not None
        space.release(region.id)
    assert space.free_B() == 40
    assert space.fits([20, 40]) and not space.fits([40, 21])
    assert space.room_after([20]) == 40
    assert space.room_after([30]) == 20
    assert space.room_after([41]) is None


def test_a_region_can_be_released_once() -> None:
    space = Space("sram", 8)
    take(space, 0, 8)
    space.release(0)
    with pytest.raises(KeyError):
        space.release(0)


def test_a_ring_goes_round() -> None:
    ring = Ring([7, 8, 9])
    assert [ring.take() for _ in range(5)] == [7, 8, 9, 7, 8]
