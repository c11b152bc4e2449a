"""Binary values: sign, packing, and XNOR with a count of bits against ordinary products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats import binary, codec
from accelsim.types import Array

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics" / "binary_xnor.npz"


@pytest.fixture(scope="module")
def golden() -> dict[str, Array]:
    return dict(np.load(GOLDEN))


def test_golden(golden: dict[str, Array]) -> None:
    np.testing.assert_array_equal(binary.sign(golden["x"]), golden["sign_ge0"])
    for name in "ab":
        np.testing.assert_array_equal(binary.pack(golden[name]), golden[f"{name}_packed"])
        np.testing.assert_array_equal(binary.unpack(golden[f"{name}_packed"], 256), golden[name])
    dot = binary.xnor_dot(golden["a_packed"], golden["b_packed"], 256)
    np.testing.assert_array_equal(dot, golden["dot"])
    assert dot.dtype == np.int32


def test_zero_is_plus_one_unlike_in_pytorch(golden: dict[str, Array]) -> None:
    zeros = golden["x"] == 0
    assert zeros.any()
    assert np.all(golden["torch_sign"][zeros] == 0)
    assert binary.sign([0.0, -0.0, np.nan, -1e-40]).tolist() == [1, 1, -1, -1]
    np.testing.assert_array_equal(codec.cast(golden["x"], "int1"), golden["sign_ge0"])


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_any_length(m: int, n: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (binary.sign(rng.standard_normal((rows, k))) for rows in (m, n))
    packed_a, packed_b = binary.pack(a), binary.pack(b)
    want = a.astype(int) @ b.T.astype(int)
    np.testing.assert_array_equal(binary.xnor_dot(packed_a, packed_b, k), want)
    ones_behind = packed_b | np.packbits(np.arange(8 * packed_b.shape[1]) >= k)
    np.testing.assert_array_equal(binary.xnor_dot(packed_a, ones_behind, k), want)
    np.testing.assert_array_equal(binary.unpack(packed_a, k), a)


def test_packing_along_any_axis() -> None:
    a = binary.sign(np.random.default_rng(0).standard_normal((20, 3)))
    np.testing.assert_array_equal(binary.pack(a, axis=0), binary.pack(a.T).T)
    np.testing.assert_array_equal(binary.unpack(binary.pack(a, axis=0), 20, axis=0), a)


def test_mean_scale_is_the_best_factor() -> None:
    x = np.random.default_rng(0).standard_normal((4, 100)).astype(np.float32)
    scale = binary.mean_scale(x, axis=0)
    assert scale.shape == (4,)
    best = float(binary.mean_scale(x))

    def error(factor: float) -> float:
        return float(np.mean((x - factor * binary.sign(x)) ** 2))

    assert error(best) < min(error(best * 1.01), error(best * 0.99))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: binary.unpack(np.zeros(2, np.uint8), 17), "17 bits of 2 bytes"),
        (
            lambda: binary.xnor_dot(np.zeros((1, 2), np.uint8), np.zeros((1, 3), np.uint8), 16),
            "2 bytes for 16",
        ),
    ],
)
def test_errors(call: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call()
