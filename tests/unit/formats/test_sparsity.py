"""N:M sparsity against PyTorch's and NVIDIA's masks, and by its laws."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats import sparsity
from accelsim.types import Array

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics" / "sparsity_2_4.npz"
nm = st.sampled_from([(1, 2), (2, 4), (1, 4), (3, 4), (2, 8), (4, 8), (5, 16), (4, 4)])


@pytest.fixture(scope="module")
def golden() -> dict[str, Array]:
    return dict(np.load(GOLDEN))


@pytest.mark.parametrize("rule", sparsity.MASKS)
def test_masks_are_those_of_pytorch(golden: dict[str, Array], rule: str) -> None:
    chosen = sparsity.mask(golden["w"], rule=rule)
    assert np.array_equal(chosen, golden["mask_torch_weight_norm"])
    sums = np.sum(np.abs(golden["w"]) * golden["mask_nvidia_asp_rule"], axis=1)
    assert np.array_equal(np.sum(np.abs(golden["w"]) * chosen, axis=1), sums)


def test_compressed_form_is_that_of_the_golden_file(golden: dict[str, Array]) -> None:
    """The file lists the values that the mask drops, with their positions: a 2:4 mask as well."""
    dropped = sparsity.compress(golden["w"], ~sparsity.mask(golden["w"]))
    assert np.array_equal(dropped.values.reshape(-1, 2), golden["values"])
    assert np.array_equal(dropped.positions, golden["index2"])


def test_ties_keep_the_first_pattern() -> None:
    for kept in combinations(range(4), 2):
        w = np.zeros(4, np.float32)
        w[list(kept)] = -1.0
        assert sparsity.mask(w).nonzero()[0].tolist() == list(kept)
    assert sparsity.mask(np.ones(4)).tolist() == [True, True, False, False]
    assert sparsity.mask(np.array([1, 2, 1, 1])).tolist() == [True, True, False, False]
    assert sparsity.mask(np.array([1, -128, 127, 3], np.int8)).tolist() == [False, True, True, False]


@given(
    pattern=nm,
    rule=st.sampled_from(list(sparsity.MASKS)),
    seed=st.integers(0, 2**32),
    axis=st.sampled_from([1, 2, -1, -2]),
)
def test_laws_of_a_mask(pattern: tuple[int, int], rule: str, seed: int, axis: int) -> None:
    w = np.random.default_rng(seed).integers(-9, 10, (3, 16, 16)).astype(np.float32)
    n, m = pattern
    chosen = sparsity.mask(w, n, m, axis, rule)
    groups = np.moveaxis(chosen, axis, -1).reshape(-1, m)
    assert (groups.sum(1) == n).all()
    sizes = np.abs(np.moveaxis(w, axis, -1).reshape(-1, m))
    best = -np.sort(-sizes, axis=1)[:, :n].sum(1)
    assert np.array_equal((sizes * groups).sum(1), best)
    compressed = sparsity.compress(w, chosen, n, m, axis)
    assert np.array_equal(sparsity.decompress(compressed), w * chosen)
    assert compressed.values.nbytes + compressed.indices.nbytes == sparsity.bytes_of(w.shape, 4, n, m, axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_compressed_values_keep_their_type(dtype: type[np.generic]) -> None:
    w = np.arange(-8, 8).reshape(2, 8).astype(dtype)
    compressed = sparsity.compress(w, sparsity.mask(w))
    assert compressed.values.dtype == sparsity.decompress(compressed).dtype == dtype
    assert compressed.values.shape == (2, 4)


def test_positions_are_packed_from_the_low_bit() -> None:
    w = np.array([0, 5, 0, 7, 3, 0, 1, 0], np.float32)
    compressed = sparsity.compress(w, w != 0)
    assert compressed.indices.tolist() == [1 | 3 << 2 | 0 << 4 | 2 << 6]
    assert compressed.values.tolist() == [5, 7, 3, 1]


@pytest.mark.parametrize(("value_B", "share"), [(2, 9 / 16), (1, 5 / 8), (4, 17 / 32), (0.5, 3 / 4)])
def test_bytes_of_2_4(value_B: float, share: float) -> None:
    assert sparsity.bytes_of((64, 32, 3, 3), value_B, axis=1) == share * 64 * 32 * 9 * value_B


@pytest.mark.parametrize(
    ("shape", "n", "m", "axis", "words"),
    [
        ((4, 6), 2, 4, 1, "6 does not split into groups of 4"),
        ((4, 6), 5, 4, 0, "no sparsity"),
        ((4, 6), 0, 4, 0, "no sparsity"),
        ((4, 6), 2, 4, 2, "no axis 2"),
    ],
)
def test_what_cannot_be_sparse_is_said(shape: tuple[int, ...], n: int, m: int, axis: int, words: str) -> None:
    for call in (lambda: sparsity.mask(np.ones(shape), n, m, axis), lambda: sparsity.bytes_of(shape, 2, n, m, axis)):
        with pytest.raises(UsageError, match=words):
            call()


def test_wrong_masks_and_rules_are_said() -> None:
    w = np.ones((2, 8))
    with pytest.raises(UsageError, match="1 group keeps more or fewer"):
        sparsity.compress(w, sparsity.mask(w) | (np.arange(16).reshape(2, 8) == 2))
    with pytest.raises(UsageError, match=r"mask \(4, 4\)"):
        sparsity.compress(w, sparsity.mask(np.ones((4, 4))))
    with pytest.raises(UsageError, match="did you mean 'magnitude'"):
        sparsity.mask(w, rule="magnitud")
    with pytest.raises(UsageError, match="patterns"):
        sparsity.mask(np.ones((1, 32)), 16, 32, rule="patterns")


def test_kept_mass_of_normal_weights() -> None:
    """On N(0, 1): 2:4 keeps 74.4 % of the sum of |w|, the largest half wherever it is 79.7 %."""
    w = np.random.default_rng(0).standard_normal((512, 1024)).astype(np.float32)
    assert sparsity.kept_mass(w, sparsity.mask(w)) == pytest.approx(0.744, abs=0.001)
    assert sparsity.kept_mass(w, sparsity.unstructured(w)) == pytest.approx(0.797, abs=0.002)


def test_permuted_channels_keep_more() -> None:
    w = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    order = sparsity.permutation(w)
    assert sorted(order) == list(range(32))
    gain = sparsity.kept_mass(w[:, order], sparsity.mask(w[:, order])) - sparsity.kept_mass(w, sparsity.mask(w))
    assert gain > 0.02
    assert np.array_equal(sparsity.permutation(w[:, :4]), np.arange(4))


def test_permutation_spreads_large_channels() -> None:
    """Four large channels in one group lose half of them; one per pair of groups loses none."""
    w = np.ones((8, 8), np.float32)
    w[:, :4] = 100.0
    order = sparsity.permutation(w)
    assert sparsity.kept_mass(w, sparsity.mask(w)) < 0.51
    assert sparsity.kept_mass(w[:, order], sparsity.mask(w[:, order])) == pytest.approx(3200 / 3232)
