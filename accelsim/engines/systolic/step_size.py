"""How many commands a step becomes, in closed form: known before the first of them is written."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from accelsim.engines.systolic.mapping.tilings import Candidates, fetches
from accelsim.program.mapping import Mapping
from accelsim.workload.limits import check_commands
from accelsim.workload.ops.base import Gemm

ADVICE = "a larger array, larger buffers, a smaller batch or model"


class Streams(NamedTuple):
    """What of a matrix step moves tile by tile: operands, ``sides`` (how many side operands), and ``writes``: commands
    that take a result tile out of the accumulators; ``arrays`` side by side."""

    a: bool
    b: bool
    sides: int
    writes: int
    arrays: int = 1


def matrix_commands(gemm: Gemm, mapping: Mapping, streams: Streams) -> int:
    """Loads, products and what takes results out, of all tiles of a mapping. Worked out once for steps that are alike,
    whatever their operands are called."""
    return _matrix_commands(replace(gemm, a="", b=""), mapping, streams)


@lru_cache(maxsize=4096)
def _matrix_commands(gemm: Gemm, mapping: Mapping, streams: Streams) -> int:
    tiles = Candidates.of(mapping, streams.arrays)
    m, n, k, groups = (
        -(-extent // tile)
        for extent, tile in (
            (gemm.M, mapping.tm),
            (gemm.N, mapping.tn),
            (gemm.K, mapping.tk),
            (gemm.groups, mapping.tg),
        )
    )
    a, b = (int(passes[0]) for passes in fetches(gemm, tiles, mapping.reuse))
    loads_a = a * m * (1 if mapping.a_whole_k else k) if streams.a else 0
    loads_b = b * n * k if streams.b else 0
    return groups * (m * n * k + loads_a + loads_b + m * n * (streams.writes + streams.sides))


def check_matrix(name: str, gemm: Gemm, mapping: Mapping, streams: Streams, before: int) -> None:
    """TooLarge when a matrix step would make the program, ``before`` commands long, longer than the limits allow."""
    tiles = "x".join(str(extent) for extent in (mapping.tg, mapping.tm, mapping.tn, mapping.tk))
    what = f"{name} in tiles of {tiles} (groups x M x N x K)"
    check_commands(what, matrix_commands(gemm, mapping, streams), before, ADVICE)
