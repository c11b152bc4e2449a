"""How good the chosen mappings are: against all mappings by the machine's time, and against many random ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelsim.engines.systolic.mapping.decide import product_program, rehearsed
from accelsim.engines.systolic.mapping.rehearsal import tape_of
from accelsim.engines.systolic.mapping.search import ProductSearch, choose
from accelsim.engines.systolic.mapping.space import ESTIMATE, TILES, Tilings
from accelsim.request.tuning import Tuning
from accelsim.spec.yaml.load import load_chip
from accelsim.types import Floats, Ints
from accelsim.workload.sources.load import load_model
from tests.helpers.all_mappings import Product

pytestmark = pytest.mark.shipped_search

SMALL = [
    *(("edu-4x4", "int8", 1, *sizes) for sizes in (
        (24, 20, 16), (33, 20, 15), (5, 30, 24), (64, 8, 8), (7, 7, 50), (1, 40, 40))),
    *(("edu-mixed", "fp16", 1, *sizes) for sizes in ((24, 20, 16), (17, 9, 33))),
    *(("edu-tensor-core", "int8", 1, *sizes) for sizes in ((20, 16, 18), (32, 9, 10))),
    *(("edu-4x4", "int8", 4, *sizes) for sizes in ((12, 8, 8), (6, 6, 20))),
]  # fmt: skip
"""Chip, format, arrays side by side, and M, N, K of small products."""
LARGE = [
    (3025, 64, 64), (3025, 64, 576), (3025, 256, 64), (784, 128, 1152), (784, 512, 128), (196, 256, 2304),
    (196, 1024, 256), (49, 512, 4608), (49, 2048, 512), (1, 1000, 2048),
    (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (128, 128, 64), (128, 64, 128), (1, 768, 768),
    (512, 768, 768), (512, 3072, 768), (384, 1024, 1024), (384, 4096, 1024),
]  # fmt: skip
"""M, N, K of 10 layers of ResNet-50 (He et al. 2016, table 1) and 10 of BERT base and large (Devlin et al. 2018)."""

MOST_TILES, MOST_REHEARSED = 500, 100
"""Random candidates that are rehearsed: of so many tiles at the most, and how many of them."""


def product(chip: str, dtype: str, arrays: int, M: int, N: int, K: int, **options: Any) -> Product:
    sets = [f"cores.core.engines.matrix.count={arrays}"] if arrays > 1 else []
    return Product(load_model(f"gemm?M={M},N={N},K={K}"), load_chip(chip, sets), dtype, **options)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_no_mapping_at_all_is_faster_by_more_than_two_percent(case: Any) -> None:
    """As it is searched by default, against everything that it could be."""
    default = product(*case)
    chosen = default.clocks(choose(default.step, default.gemm).mapping)
    assert all(default.clocks(mapping) >= chosen / 1.02 for mapping in default.below(chosen / 1.02))


def test_the_tuner_finds_no_worse_ones(tmp_path: Path) -> None:
    """Thoroughly searched and decided by the machine."""
    tuned = product(*SMALL[0], search="best", tuner=Tuning(128, "bandwidth", tmp_path / "tuned.json"))
    chosen = tuned.clocks(choose(tuned.step, tuned.gemm).mapping)
    assert all(tuned.clocks(mapping) >= chosen / 1.02 for mapping in tuned.below(chosen / 1.02))


class Random(Tilings):
    """Tilings that can be drawn."""

    def drawn(self, count: int) -> tuple[Ints, Floats]:
        """Of so many random candidates those that fit, and their costs, the lowest estimates first."""
        rng = np.random.default_rng(1)
        choices = rng.integers(0, np.array(self.sizes), (count, len(self.sizes)))
        costs, _ = self.costs(choices, np.inf)
        rows = np.flatnonzero(np.isfinite(costs[:, 0]))
        rows = rows[np.argsort(costs[rows, ESTIMATE], kind="stable")]
        return choices[rows], costs[rows]


@pytest.mark.parametrize("chip", ["tpu-v1", "neuroncore-v2"])
@pytest.mark.parametrize("sizes", LARGE, ids=str)
def test_none_of_many_random_mappings_is_faster_by_more_than_two_percent(
    chip: str, sizes: tuple[int, int, int]
) -> None:
    """Tiles of any even cut, not only those that the search has by default; by what the machine takes, but for
    candidates of so many tiles that the closed form must do."""
    dtype = {"tpu-v1": "int8", "neuroncore-v2": "bf16"}[chip]
    case = product(chip, dtype, 1, *sizes)
    search = ProductSearch(case.step, case.gemm)
    everything = search.tilings(Random, True)
    allowed = case.clocks(choose(case.step, case.gemm).mapping) / 1.02
    choices, costs = everything.drawn(10_000)
    assert len(choices) > 100
    near = np.flatnonzero((costs[:, ESTIMATE] < allowed) & (costs[:, TILES] <= MOST_TILES))
    for row in near[:MOST_REHEARSED].tolist():
        program = product_program(
            case.step, case.gemm, everything.mappings([tuple(choices[row].tolist())], search.kept)(0)
        )
        tape = tape_of(program, case.step.layout.roles)
        clocks = tape and rehearsed(tape, case.step.layout.roles, search.step)
        assert clocks is not None and clocks >= allowed
