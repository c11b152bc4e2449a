"""Addresses of tiles: against the matrix views that the values are computed from, and by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.values.epilogue import result_matrix
from accelsim.program.addresses import ALIGN_B, AddressMap, Runs
from accelsim.program.commands import Command, Tile
from accelsim.program.program import Program
from accelsim.program.tile_nests import Nest, a_nests, b_nests, nest, y_nests
from accelsim.program.tiles import a_elements
from accelsim.program.work import Transfer
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.graph import Array, Graph, Node, Tensor
from accelsim.workload.matrix import a_matrix, b_matrix, rows_of, y_from_matrix
from accelsim.workload.ops.base import Conv, Gemm
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder


def elements(nests: list[Nest]) -> list[int]:
    """Every element that the nests name, in their order, one by one."""
    found: list[int] = []
    for start, length, dims in nests:
        for index in product(*(range(count) for _, count in dims)):
            at = start + sum(i * stride for i, (stride, _) in zip(index, dims, strict=True))
            found += range(at, at + length)
    return found


def indices(shape: tuple[int, ...]) -> Array:
    """A tensor whose values are the numbers of its elements, from 1 on: 0 is padding."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)


def ranges(draw: Any, *extents: int) -> list[int]:
    cut = []
    for extent in extents:
        low = draw(st.integers(0, extent - 1))
        cut += [low, draw(st.integers(low + 1, extent))]
    return cut


@st.composite
def convolutions(draw: Any) -> tuple[Gemm, Tile]:
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    stride, dilation = (draw(st.sampled_from([(1, 1), (2, 2), (2, 1)])), draw(st.sampled_from([(1, 1), (2, 1)])))
    pad = (draw(st.integers(0, 1)), draw(st.integers(0, 1)), draw(st.integers(0, 1)), draw(st.integers(0, 1)))
    height, width = draw(st.integers(5, 7)), draw(st.integers(5, 7))
    out = tuple(
        (size + pad[axis] + pad[axis + 2] - (kernel[axis] - 1) * dilation[axis] - 1) // stride[axis] + 1
        for axis, size in enumerate((height, width))
    )
    batch, groups, channels, N = (draw(st.integers(1, 3)) for _ in range(4))
    strip = draw(st.integers(0, out[1]))
    conv = Conv(batch, channels, height, width, kernel, stride, pad, dilation, (out[0], out[1]), strip)
    gemm = Gemm(groups, batch * out[0] * out[1], N, channels * kernel[0] * kernel[1], "a", "b", conv)
    return gemm, Tile(*ranges(draw, groups, gemm.M, N, gemm.K))


@settings(max_examples=150)
@given(convolutions())
def test_tiles_of_a_convolution_are_the_elements_that_it_multiplies(case: tuple[Gemm, Tile]) -> None:
    """Activations: whole input rows under the tile, each once, or the blocks of its strips. Weights and results: exactly
    those of the tile."""
    gemm, tile = case
    conv, node = gemm.conv, Node("c", "Conv", ["a", "b"], ["y"])
    assert conv is not None
    x = indices((conv.batch, gemm.groups * conv.channels, conv.height, conv.width))
    w = indices((gemm.groups * gemm.N, conv.channels, *conv.kernel))
    groups = range(tile.g0, tile.g1)
    loaded = elements(a_nests(gemm, node, Tensor("a", x.shape), tile))
    used = {int(v) - 1 for g in groups for v in a_matrix(gemm, x, g)[tile.m0 : tile.m1, tile.k0 : tile.k1].flat if v}
    assert used <= set(loaded)
    assert sorted(loaded) == sorted(blocks_read(gemm, conv, tile))
    assert len(loaded) == a_elements(gemm, tile.g1 - tile.g0, tile.m0, tile.m1, tile.k0, tile.k1)
    weights = [b_matrix(gemm, w, g)[tile.k0 : tile.k1, tile.n0 : tile.n1] for g in groups]
    loaded = elements(b_nests(gemm, node, Tensor("b", w.shape), tile))
    assert sorted(loaded) == sorted(int(v) - 1 for part in weights for v in part.flat)
    shape = (conv.batch, gemm.groups * gemm.N, *conv.out)
    assert_results(gemm, tile, gemm.M, shape)


def blocks_read(gemm: Gemm, conv: Conv, tile: Tile) -> list[int]:
    """Elements of the input under a tile, counted by hand: of each strip of an image (or of the image) all between the
    first and the last row and column that an output pixel reads."""
    kernel, width = conv.kernel[0] * conv.kernel[1], conv.strip or conv.out[1]
    pixels: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in rows_of(conv)[tile.m0 : tile.m1].tolist():
        image, p, q = (int(at) for at in np.unravel_index(row, (conv.batch, *conv.out)))
        pixels.setdefault((image, q // width), []).append((p, q - q % width))
    found = []
    for (image, _), inside in pixels.items():
        lines, left = [p for p, _ in inside], inside[0][1]
        across = range(left, min(left + width, conv.out[1])) if conv.strip else ()
        down = span(conv, 0, lines)
        columns = span(conv, 1, across) if conv.strip else range(conv.width)
        for g, c in product(range(tile.g0, tile.g1), range(tile.k0 // kernel, (tile.k1 - 1) // kernel + 1)):
            plane = (image * gemm.groups + g) * conv.channels + c
            found += [(plane * conv.height + y) * conv.width + x for y, x in product(down, columns)]
    return found


def span(conv: Conv, axis: int, outputs: Sequence[int]) -> range:
    """Input rows or columns from the first to the last one that these of the output read."""
    taps = range(0, conv.kernel[axis] * conv.dilation[axis], conv.dilation[axis])
    read = [at * conv.stride[axis] - conv.pad[axis] + tap for at in outputs for tap in taps]
    return range(max(min(read), 0), min(max(read) + 1, (conv.height, conv.width)[axis]))


@given(convolutions())
def test_rows_come_strip_by_strip(case: tuple[Gemm, Tile]) -> None:
    """Every pixel once; by image, strip, row and column; and side operands as the sums that they are added to."""
    conv = case[0].conv
    assert conv is not None
    rows, width = rows_of(conv), conv.strip or conv.out[1]
    places = np.stack(np.unravel_index(rows, (conv.batch, *conv.out)), axis=1).tolist()
    keys = [(image, q // width, p, q) for image, p, q in places]
    assert keys == sorted(set(keys)) and len(keys) == case[0].M
    shape = (conv.batch, case[0].groups * case[0].N, *conv.out)
    side = indices(shape)
    assert (y_from_matrix(case[0], result_matrix(case[0], side, shape), shape) == side).all()


def assert_results(gemm: Gemm, tile: Tile, rows: int, shape: tuple[int, ...]) -> None:
    """The result tile is where ``y_from_matrix`` puts its rows and columns."""
    mark = np.zeros((gemm.groups, rows, gemm.N), np.int64)
    first, last = tile.m0 * rows // gemm.M, tile.m1 * rows // gemm.M
    mark[tile.g0 : tile.g1, first:last, tile.n0 : tile.n1] = 1
    written = np.flatnonzero(y_from_matrix(gemm, mark, shape))
    assert sorted(elements(y_nests(gemm, rows, tile))) == written.tolist()


@st.composite
def matmuls(draw: Any) -> tuple[Gemm, Tile, Node, tuple[int, ...], tuple[int, ...]]:
    M, N, K = (draw(st.integers(1, 5)) for _ in range(3))
    if draw(st.booleans()):
        flags = {"transA": draw(st.integers(0, 1)), "transB": draw(st.integers(0, 1))}
        gemm = Gemm(1, M, N, K, "a", "b")
        shapes = ((K, M) if flags["transA"] else (M, K)), ((N, K) if flags["transB"] else (K, N))
        return gemm, Tile(*ranges(draw, 1, M, N, K)), Node("g", "Gemm", ["a", "b"], ["y"], flags), *shapes
    batch = tuple(draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 3))))
    cut = [draw(st.integers(0, len(batch))), 0]
    a, b = (tuple(1 if draw(st.booleans()) else extent for extent in batch[start:]) for start in cut)
    gemm = Gemm(int(np.prod(batch)), M, N, K, "a", "b", batch=batch)
    return (
        gemm,
        Tile(*ranges(draw, gemm.groups, M, N, K)),
        Node("m", "MatMul", ["a", "b"], ["y"]),
        (*a, M, K),
        (*b, K, N),
    )


def transposed(a: int, b: int, M: int = 3, N: int = 4, K: int = 5) -> Any:
    """A tile that is cut on all sides, of a product whose operands may be transposed."""
    shapes = ((K, M) if a else (M, K)), ((N, K) if b else (K, N))
    node = Node("g", "Gemm", ["a", "b"], ["y"], {"transA": a, "transB": b})
    return Gemm(1, M, N, K, "a", "b"), Tile(0, 1, 1, 3, 1, 3, 1, 4), node, *shapes


@settings(max_examples=150)
@given(matmuls())
@example(transposed(0, 0))
@example(transposed(0, 1))
@example(transposed(1, 0))
@example(transposed(1, 1))
def test_tiles_of_a_product_are_the_elements_that_it_multiplies(case: Any) -> None:
    """Whatever is transposed, and whatever broadcasts: that is named again for each group, in the order of groups."""
    gemm, tile, node, a_shape, b_shape = case
    groups = range(tile.g0, tile.g1)
    for shape, nests, view, rows, columns in (
        (a_shape, a_nests, a_matrix, (tile.m0, tile.m1), (tile.k0, tile.k1)),
        (b_shape, b_nests, b_matrix, (tile.k0, tile.k1), (tile.n0, tile.n1)),
    ):
        parts = [view(gemm, indices(shape), g, node)[slice(*rows), slice(*columns)] for g in groups]
        named = elements(nests(gemm, node, Tensor("t", shape), tile))
        assert sorted(named) == sorted(int(v) - 1 for part in parts for v in part.flat)
    assert_results(gemm, tile, gemm.M, (gemm.groups, gemm.M, gemm.N))


def test_behind_a_fused_pooling_a_tile_of_whole_images_writes_fewer_rows() -> None:
    conv = Conv(3, 1, 4, 4, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), (4, 4))
    gemm = Gemm(2, 48, 5, 1, "a", "b", conv)
    assert_results(gemm, Tile(0, 2, 16, 48, 1, 4, 0, 1), 12, (3, 10, 2, 2))


def test_what_is_contiguous_is_one_piece() -> None:
    assert nest(7, 4, ((40, 2), (8, 5), (4, 2))) == Nest(7, 80)
    assert nest(0, 4, ((100, 3), (8, 1), (4, 2))) == Nest(0, 8, ((100, 3),))
    assert nest(0, 3, ((40, 2), (8, 5))) == Nest(0, 3, ((8, 10),))
    assert Nest(0, 3, ((8, 10), (0, 2))).elements == 60
    assert Runs(100, 3, ((8, 10),)).end == 100 + 9 * 8 + 3


def compiled(model: str | Graph, chip: Any, **options: Any) -> Program:
    graph = model if isinstance(model, Graph) else load_model(model)
    return compile(graph, load_chip(chip) if isinstance(chip, str) else chip, Options(values="off", **options))


def transfers(program: Program, what: str = "") -> list[Command]:
    moves = [command for command in program.commands if isinstance(command.work, Transfer)]
    return [command for command in moves if not what or command.effect.what == what]


def covered(runs: list[Runs]) -> list[int]:
    return elements([Nest(*run) for run in runs])


def test_tensors_begin_at_pages_and_do_not_overlap() -> None:
    program = compiled("squeezenet", "edu-mixed")
    found = AddressMap(program)
    homes = [region.id for region in program.regions if region.memory in program.chip.memories]
    spans = sorted(found.span(region) for region in homes)
    assert all(base % ALIGN_B == 0 for base, _ in spans)
    assert all(one + size <= other for (one, size), (other, _) in pairwise(spans))
    assert found.extent_B["hbm"] == max(base + size for base, size in spans)
    assert [found.span(region)[0] for region in homes] == sorted(found.span(region)[0] for region in homes)
    on_chip = next(region.id for region in program.regions if region.offset >= 0)
    with pytest.raises(KeyError):
        found.span(on_chip)


def test_padded_tiles_lie_one_after_the_other() -> None:
    """600 x 600 weights of tpu-v1 are 9 tiles of 64 KiB, in the order in which they are loaded."""
    program = compiled("gemm?M=32,N=600,K=600", "tpu-v1")
    found, loads = AddressMap(program), transfers(program, "load_b")
    base, size = found.span(found.home(loads[0])[0])
    runs = [found.runs(command) for command in loads]
    assert all(len(each) == 1 and not each[0].dims for each in runs)
    assert sorted(covered([run for each in runs for run in each])) == list(range(base, base + size))
    assert size == 9 * 65536 and [each[0].base for each in runs] == sorted(each[0].base for each in runs)


def test_a_tile_that_is_loaded_again_is_at_the_same_place() -> None:
    pins = {"y": {"tm": 16, "tn": 256, "tk": 256, "order": "mnk", "a_resident": True}}
    program = compiled("gemm?M=64,N=600,K=600", "tpu-v1", pinned=pins)
    found, seen = AddressMap(program), {}
    for command in transfers(program, "load_b"):
        assert seen.setdefault(command.effect.tile[4:], found.runs(command)) == found.runs(command)
    assert len(seen) == 9 and len(transfers(program, "load_b")) > 9


def test_rows_of_a_row_major_tile_are_runs() -> None:
    """fp32 weights [K, N] = [96, 40] on a chip that does not pad: a tile of 32 x 16 is 32 runs of 64 B, 160 B apart."""
    pins = {"y": {"tm": 64, "tn": 16, "tk": 32, "order": "nmk"}}
    program = compiled("gemm?M=64,N=40,K=96", "systolic-generic", pinned=pins)
    found = AddressMap(program)
    load = transfers(program, "load_b")[0]
    base, _ = found.span(found.home(load)[0])
    assert found.runs(load) == (Runs(base, 64, ((160, 32),)),)


def test_codes_below_8_bits_are_packed() -> None:
    """Tiles of 4-bit weights of odd size: whole bytes, one tile after the other; nothing is loaded from elsewhere."""
    pins = {"y": {"tm": 8, "tn": 5, "tk": 7}}
    program = compiled("gemm?M=9,N=15,K=21", "edu-mixed", dtype="int4", pinned=pins)
    found = AddressMap(program)
    loads = {command.effect.tile[4:]: command for command in transfers(program, "load_b")}
    taken = covered([run for command in loads.values() for run in found.runs(command)])
    base, size = found.span(found.home(next(iter(loads.values())))[0])
    assert sorted(taken) == list(range(base, base + size)) and size >= 9 * 18


def test_cores_share_their_weights_and_nothing_else() -> None:
    chip = load_chip("systolic-generic").with_cores(2)
    program = compiled("gemm?M=64,N=40,K=96", chip, cores=2)
    found = AddressMap(program)
    first, second = (
        {command.effect.what: found.runs(command) for command in transfers(program) if command.core == core}
        for core in (0, 1)
    )
    assert first["load_b"] == second["load_b"]
    assert first["load_a"] != second["load_a"] and first["store"] != second["store"]


def test_a_gathered_table_is_read_in_rows_spread_over_it() -> None:
    """10 rows of 64 words out of 1000: nobody knows which."""
    builder = Builder("look up")
    ids, table = builder.input("ids", (10,), "int64"), builder.weight("table", (1000, 64))
    program = compiled(builder.finish(builder.op("Gather", [table, ids], "rows", axis=0)), "systolic-generic")
    found = AddressMap(program)
    (load,) = transfers(program, "none")
    base, size = found.span(found.home(load)[0])
    assert size == 256000 and found.runs(load) == (Runs(base, 256, ((100 * 256, 10),)),)


def test_chunks_of_a_node_that_does_not_fit_are_the_whole_tensor() -> None:
    chip = load_chip("systolic-generic")
    small = chip.buffers["act_sram"].model_copy(update={"capacity": 1 << 19})
    program = compiled("bert?layers=1", chip.with_core(memories={**chip.buffers, "act_sram": small}))
    found, pieces = AddressMap(program), {}
    for command in transfers(program):
        if command.effect.what in ("none", "copy") and command.label != "load parameters":
            pieces.setdefault((command.op, found.home(command)[0]), []).extend(found.runs(command))
    assert max(map(len, pieces.values())) > 2
    for (_, region), runs in pieces.items():
        base, size = found.span(region)
        assert [run.base for run in runs] == [base, *(run.end for run in runs[:-1])] and runs[-1].end == base + size


def test_a_transfer_of_nothing_has_no_addresses() -> None:
    program = compiled("gemm?M=8,N=8,K=8", "edu-4x4")
    load = transfers(program)[0]
    assert AddressMap(program).runs(replace(load, work=load.work._replace(nbytes=0))) == ()


def test_rows_of_experts_are_as_many_as_the_tile_has_and_all_tokens_in_turn() -> None:
    """Three experts of 4 rows of 2 each, which 5 tokens share: a tile is read over and over, then in part."""
    gemm, tokens = Gemm(3, 4, 6, 2, "a", "b"), Tensor("x", (5, 2), "fp32")
    node = Node("y", "ExpertMatMul", ("x", "w"), ("y",), {})
    for tile in (Tile(0, 3, 0, 4, 0, 6, 0, 2), Tile(1, 2, 2, 4, 0, 6, 1, 2), Tile(0, 2, 0, 4, 0, 6, 0, 2)):
        count = (tile.g1 - tile.g0) * (tile.m1 - tile.m0) * (tile.k1 - tile.k0)
        found = elements(a_nests(gemm, node, tokens, tile))
        assert len(found) == count and set(found) <= set(range(10))
        assert found[: count - count % 10] == list(range(10)) * (count // 10)
    own = Tensor("x", (12, 2), "fp32")  # as many tokens as rows: the second expert has those from 8 on
    assert elements(a_nests(gemm, node, own, Tile(1, 2, 2, 4, 0, 6, 0, 2))) == list(range(12, 16))


def test_weights_that_several_loops_load_are_there_once() -> None:
    """Each block of rows loads all tiles of the weights, which are padded to whole tiles of the array."""
    sizes = ["matrix.rows=16", "matrix.cols=16", "weight_fifo.slot_capacity=256 B", "weight_fifo.capacity=1 KiB"]
    pinned = {"y": {"order": "mnk", "tm": 8, "tn": 16, "tk": 16}}
    chip = load_chip("tpu-v1", [*sizes, "peak={}"])
    program = compile(load_model("gemm?M=24,N=632,K=60"), chip, Options(values="off", pinned=pinned))
    assert program.needs["ddr3"].weights_B == 40 * 4 * 256
