"""The loop nest of a mapping, and what its tiles touch, against counting by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelsim.engines.systolic.mapping.tilings import Candidates, a_words, fetches, slots_in_use
from accelsim.engines.systolic.pace import Pace, folds, packs
from accelsim.program.mapping import ORDERS, SPLITS, Mapping
from accelsim.program.tiles import (
    a_elements,
    a_key,
    array_of,
    b_key,
    channel_visits,
    depends,
    loop,
    most_channels,
    slabs,
    whole,
)
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.ops.base import Conv, Gemm

SIZES = st.integers(1, 9)
GEMMS = st.builds(lambda g, m, n, k: Gemm(g, m, n, k, "a", "b"), st.integers(1, 3), SIZES, SIZES, SIZES)
MAPPINGS = st.builds(Mapping, st.sampled_from(ORDERS), SIZES, SIZES, SIZES, st.integers(1, 3), a_whole_k=st.booleans())


def within(mapping: Mapping, gemm: Gemm) -> Mapping:
    """No tile beyond the product."""
    return replace(mapping, tm=min(mapping.tm, gemm.M), tn=min(mapping.tn, gemm.N), tk=min(mapping.tk, gemm.K))


@given(GEMMS, MAPPINGS)
def test_the_tiles_cover_every_mac_once(gemm: Gemm, mapping: Mapping) -> None:
    seen: Counter[tuple[int, int, int, int]] = Counter()
    for tile, _, _ in loop(whole(gemm), mapping):
        ranges = (range(tile.g0, tile.g1), range(tile.m0, tile.m1), range(tile.n0, tile.n1), range(tile.k0, tile.k1))
        seen.update((g, m, n, k) for g in ranges[0] for m in ranges[1] for n in ranges[2] for k in ranges[3])
    assert len(seen) == gemm.macs and set(seen.values()) == {1}


@given(GEMMS, MAPPINGS)
def test_sums_open_once_and_close_once(gemm: Gemm, mapping: Mapping) -> None:
    """At no time are more open than ``slots_in_use`` says, and at some time as many are."""
    opened: set[tuple[int, int, int]] = set()
    most = 0
    for tile, first, last in loop(whole(gemm), mapping):
        key = (tile.g0, tile.m0, tile.n0)
        assert first == (key not in opened)
        opened.add(key)
        most = max(most, len(opened))
        if last:
            opened.remove(key)
    assert not opened
    assert most == slots_in_use(gemm, mapping, 1)[1]


@given(GEMMS, MAPPINGS, st.booleans())
def test_fetches_are_those_of_the_loop(gemm: Gemm, mapping: Mapping, reuse: bool) -> None:
    """Words that pass through the ports when a tile is kept only while the next command wants the same."""
    candidates = Candidates.from_mapping(within(mapping, gemm))
    moved = [0, 0]
    held: list[tuple[int, ...] | None] = [None, None]
    for tile, _, _ in loop(whole(gemm), mapping):
        groups, m, n, k = tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0, tile.k1 - tile.k0
        sizes = (groups * m * (gemm.K if mapping.a_whole_k else k), groups * k * n)
        for index, key in enumerate((a_key(tile, mapping), b_key(tile))):
            if key != held[index] or not reuse:
                moved[index] += sizes[index]
            held[index] = key
    a_passes, b_passes = fetches(gemm, candidates, reuse)
    assert moved[0] == int(a_passes[0]) * int(a_words(gemm, candidates)[0][0])
    assert moved[1] == int(b_passes[0]) * gemm.groups * gemm.N * gemm.K


@st.composite
def convolutions(draw: st.DrawFn) -> Conv:
    batch, channels, height, width = (draw(st.integers(1, n)) for n in (2, 4, 7, 7))
    kernel = draw(st.integers(1, min(3, height))), draw(st.integers(1, min(3, width)))
    stride = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    pad = tuple(draw(st.integers(0, 1)) for _ in range(4))
    out = (
        (height + pad[0] + pad[2] - kernel[0]) // stride[0] + 1,
        (width + pad[1] + pad[3] - kernel[1]) // stride[1] + 1,
    )
    return Conv(batch, channels, height, width, kernel, stride, pad, (1, 1), out)  # type: ignore[arg-type]


def gemm_of(conv: Conv) -> Gemm:
    kernel = conv.kernel[0] * conv.kernel[1]
    return Gemm(1, conv.batch * conv.out[0] * conv.out[1], 2, conv.channels * kernel, "a", "b", conv)


def rows_touched(conv: Conv, m0: int, m1: int) -> int:
    """Input rows from the first to the last that output pixels [m0, m1) read, image by image, by hand."""
    per_image, total = conv.out[0] * conv.out[1], 0
    for image in range(conv.batch):
        ps = [m % per_image // conv.out[1] for m in range(m0, m1) if m // per_image == image]
        rows = {p * conv.stride[0] - conv.pad[0] + r for p in ps for r in range(conv.kernel[0])}
        inside = [row for row in range(conv.height) if rows and min(rows) <= row <= max(rows)]
        total += len(inside)
    return total


@given(convolutions(), st.integers(1, 30), st.integers(1, 40))
def test_streamed_rows_and_channels_of_a_convolution(conv: Conv, tm: int, tk: int) -> None:
    """Bytes of each tile, of the largest and of all together."""
    gemm = gemm_of(conv)
    tm, tk, kernel = min(tm, gemm.M), min(tk, gemm.K), conv.kernel[0] * conv.kernel[1]
    by_rows = [rows_touched(conv, m0, min(m0 + tm, gemm.M)) * conv.width for m0 in range(0, gemm.M, tm)]
    assert slabs(conv, gemm.M, tm) == (sum(by_rows), max(by_rows), by_rows[0])
    cuts = [(k0, min(k0 + tk, gemm.K)) for k0 in range(0, gemm.K, tk)]
    touched = [len({k // kernel for k in range(*cut)}) for cut in cuts]
    assert int(channel_visits(conv, np.array(tk))) == sum(touched)
    assert max(touched) <= int(most_channels(conv, np.array(tk))) <= max(touched) + 1
    for m0, pixels in zip(range(0, gemm.M, tm), by_rows, strict=True):
        for (k0, k1), channels in zip(cuts, touched, strict=True):
            assert a_elements(gemm, 1, m0, min(m0 + tm, gemm.M), k0, k1) == channels * pixels


@given(st.sampled_from(["ws", "os", "is"]), SIZES, SIZES, SIZES, st.integers(1, 5), st.integers(1, 3))
def test_folds_of_a_tile(dataflow: str, m: int, n: int, k: int, groups: int, rate: int) -> None:
    """As many as array-sized pieces of the two spatial dimensions; groups share one where they are small enough."""
    matrix = load_chip("edu-4x4").matrix
    assert matrix is not None
    unit = matrix.model_copy(update={"dataflow": dataflow, "rows": 4, "cols": 3})
    work = folds(unit, groups, m, n, k, Pace(rate))
    down, across, streamed = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[dataflow]
    assert (work.rows, work.cycles_per_row) == (streamed, rate)
    together = max(1, min(4 // k, 3 // n)) if dataflow == "ws" else 1
    assert packs(unit, groups, n, k) == -(-groups // together)
    assert work.n == -(-groups // together) * -(-down // 4) * -(-across // 3)


SPLIT = st.builds(replace, MAPPINGS, split=st.sampled_from(SPLITS))


@given(GEMMS, SPLIT, st.integers(1, 4))
def test_arrays_cover_every_mac_once(gemm: Gemm, mapping: Mapping, arrays: int) -> None:
    """In another order than one array, and each opens and closes its own sums; no more are open than there are slots."""
    arrays = arrays if mapping.split != "none" else 1
    tiles = [step.tile for step in loop(whole(gemm), mapping, arrays)]
    assert sorted(tiles) == sorted(step.tile for step in loop(whole(gemm), mapping))
    opened: set[tuple[int, ...]] = set()
    for tile, first, last in loop(whole(gemm), mapping, arrays):
        own = array_of(tile, mapping, arrays, whole(gemm)) if mapping.split == "k" else 0
        key = (tile.g0, tile.m0, tile.n0, own)
        assert first == (key not in opened)
        opened.add(key)
        assert len(opened) <= slots_in_use(gemm, mapping, arrays)[1]
        if last:
            opened.remove(key)
    assert not opened


@given(GEMMS, SPLIT, st.integers(1, 4))
def test_what_arrays_share_is_fetched_once(gemm: Gemm, mapping: Mapping, arrays: int) -> None:
    """Words that pass through the ports when the tiles of a strip of arrays stay for the next strip."""
    arrays = arrays if mapping.split != "none" else 1
    candidates = Candidates.from_mapping(within(mapping, gemm), arrays)
    moved, now, before = [0, 0], set[tuple[int, ...]](), set[tuple[int, ...]]()
    for tile, _, _ in loop(whole(gemm), mapping, arrays):
        if not array_of(tile, mapping, arrays, whole(gemm)):
            now, before = set(), now
        groups, m, n, k = tile.g1 - tile.g0, tile.m1 - tile.m0, tile.n1 - tile.n0, tile.k1 - tile.k0
        words = (groups * m * (gemm.K if mapping.a_whole_k else k), groups * k * n)
        for operand, key in enumerate(((0, *a_key(tile, mapping)), (1, *b_key(tile)))):
            if key not in now | before:
                moved[operand] += words[operand]
            now.add(key)
    a, b = fetches(gemm, candidates)
    assert moved == [int(a[0]) * gemm.groups * gemm.M * gemm.K, int(b[0]) * gemm.groups * gemm.N * gemm.K]


def test_one_array_opens_and_closes_each_sum_once() -> None:
    """Unless it is said how many arrays there are, also where a mapping splits the reduction."""
    mapping = Mapping("mnk", 2, 2, 2, split="k")
    tiles = list(loop(whole(Gemm(1, 2, 2, 6, "a", "b")), mapping))
    assert [(each.tile.k0, each.first, each.last) for each in tiles] == [
        (0, True, False),
        (2, False, False),
        (4, False, True),
    ]
    two = [(each.first, each.last) for each in loop(whole(Gemm(1, 2, 2, 6, "a", "b")), mapping, 2)]
    assert two == [(True, False), (True, True), (False, True)]


def test_what_a_mapping_does_not_say() -> None:
    """Operands and results stay on the chip, two slots each, one array."""
    plain = Mapping("mnk", 2, 2, 2)
    assert (plain.tg, plain.reuse, plain.a_whole_k, plain.split) == (1, True, False, "none")
    assert (plain.a_resident, plain.b_resident, plain.y_resident) == (True, True, True)
    assert (plain.a_slots, plain.w_slots, plain.y_slots) == (2, 2, 2)


def test_no_more_arrays_work_than_there_are_tiles() -> None:
    gemm, mapping = Gemm(1, 9, 5, 4, "a", "b"), Mapping("mnk", 4, 4, 4)
    found = {split: slots_in_use(gemm, replace(mapping, split=split), 8)[0] for split in SPLITS}
    assert found == {"none": 1, "m": 3, "n": 2, "k": 1}
    assert slots_in_use(gemm, replace(mapping, split="m"), 2)[0] == 2


def test_which_operands_arrays_side_by_side_have_of_their_own() -> None:
    """Rows split A, columns B, the reduction both, but for tiles of A that hold all of it."""
    found = {split: (depends(split, False), depends(split, True)) for split in SPLITS}
    assert found == {
        "none": ((False, False), (False, False)),
        "m": ((True, False), (True, False)),
        "n": ((False, True), (False, True)),
        "k": ((True, True), (False, True)),
    }
